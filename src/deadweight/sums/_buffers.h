/* What the files of the kernel share: the range of products, and arrays of Python as plain memory. */

#ifndef DEADWEIGHT_BUFFERS_H
#define DEADWEIGHT_BUFFERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#if defined(_MSC_VER)
#define INLINE static __forceinline
#define FETCH(address) ((void)(address))
#else
#define INLINE static inline __attribute__((always_inline))
#define FETCH(address) __builtin_prefetch(address)
#endif

/* Products within exp(+-300) have squares, and squares times returns, that are doubles: running.SAFE_LOG. */
#define HIGHEST 1.9424263952412558e130
#define LOWEST 5.148199736183158e-131

/* NaN and zero are no matter of range: they stay what they are. */
INLINE int out_of_range(double w) { return w > HIGHEST || (w > 0.0 && w < LOWEST); }

#define MOST_VIEWS 32

typedef struct {
    Py_buffer views[MOST_VIEWS];
    int count;
} Held;

static inline void let_go(Held *held)
{
    while (held->count > 0)
        PyBuffer_Release(&held->views[--held->count]);
}

/* The data of a contiguous array of one type: 'i' int64, 'd' double, 'b' bool. NULL for None, and on error. */
static inline void *data_of(Held *held, PyObject *array, char type, int writable, Py_ssize_t *length)
{
    Py_buffer *view = &held->views[held->count];
    const char *format;
    int fits;
    *length = 0;
    if (array == Py_None)
        return NULL;
    if (PyObject_GetBuffer(array, view, PyBUF_ND | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) < 0)
        return NULL;
    held->count++;
    format = view->format == NULL ? "B" : view->format;
    fits = format[0] != '\0' && format[1] == '\0' && view->ndim == 1;
    if (type == 'i')
        fits = fits && view->itemsize == 8 && (format[0] == 'l' || format[0] == 'q');
    else
        fits = fits && format[0] == (type == 'd' ? 'd' : '?');
    if (!fits) {
        PyErr_Format(PyExc_TypeError, "expected a flat array of type '%c', found format '%s'", type, format);
        return NULL;
    }
    *length = view->len / view->itemsize;
    return view->buf;
}

static inline int wrong(const char *what)
{
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "the lengths of %s do not fit", what);
    return 0;
}

#endif
