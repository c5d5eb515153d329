/* What the files of the kernel share: the range of products, arrays of Python as plain memory, and the log and
   the ratios that are walked along. */

#ifndef DEADWEIGHT_BUFFERS_H
#define DEADWEIGHT_BUFFERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>

#if defined(_MSC_VER)
#define INLINE static __forceinline
#define APART static __declspec(noinline)
#define FETCH(address) ((void)(address))
#else
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))
#define FETCH(address) __builtin_prefetch(address)
#endif

/* Loops that are worth wider vectors where the processor has them. Under sanitisers one form is enough: three of them
   take many minutes to compile. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
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

/* The data of a contiguous array of one type: 'i' int64, 'd' double, 'b' bool, 'B' byte. NULL for None, and on error. */
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
        fits = fits && format[0] == (type == 'b' ? '?' : type);
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

/* --- the log and the ratios ---------------------------------------------------------------------------- */

/* The columns of a log, and which of its episodes are walked. */
typedef struct {
    const int64_t *states, *actions, *offsets, *rows;
    const double *rewards;
    Py_ssize_t steps, episodes, chosen;
} Log;

/* The ratios: of a table by (s, a), or a quotient whose halves come from a table or a column each. */
typedef struct {
    const double *table, *top_table, *bottom_table, *top_column, *bottom_column;
    uint64_t cells, n_actions; /* cells of each table; 0 where there is none */
    int64_t stride; /* steps that a product in range can go without overflow; then it is looked at */
} Ratios;

/* The full ratio of step k; NaN where pi_b rules it out and there is no table that says so. */
INLINE double ratio_of(const Ratios *in, int64_t k, uint64_t cell)
{
    double top, bottom;
    if (in->table != NULL)
        return in->table[cell];
    top = in->top_column != NULL ? in->top_column[k] : in->top_table[cell];
    bottom = in->bottom_column != NULL ? in->bottom_column[k] : in->bottom_table[cell];
    return bottom > 0.0 ? top / bottom : (double)NAN;
}

/* Episodes of a log: the rewards, first rows, and which of them; 0 on error. */
static inline int read_episodes(Held *held, Log *log, PyObject *rewards, PyObject *offsets, PyObject *rows)
{
    Py_ssize_t n_offsets;
    log->rewards = data_of(held, rewards, 'd', 0, &log->steps);
    log->offsets = data_of(held, offsets, 'i', 0, &n_offsets);
    log->rows = data_of(held, rows, 'i', 0, &log->chosen);
    log->episodes = n_offsets - 1;
    return PyErr_Occurred() || n_offsets < 2 ? wrong("the columns") : 1;
}

static inline int read_log(Held *held, Log *log, PyObject *tuple)
{
    PyObject *states, *actions, *rewards, *offsets, *rows;
    Py_ssize_t n_states, n_actions;
    if (!PyArg_ParseTuple(tuple, "OOOOO", &states, &actions, &rewards, &offsets, &rows))
        return 0;
    if (!read_episodes(held, log, rewards, offsets, rows))
        return 0;
    log->states = data_of(held, states, 'i', 0, &n_states);
    log->actions = data_of(held, actions, 'i', 0, &n_actions);
    return PyErr_Occurred() || n_states != log->steps || n_actions != log->steps ? wrong("the columns") : 1;
}

/* Tables of (s, a): ratios, pi_e, pi_b; columns: pi_e, pi_b. `n_actions` and `stride` are set before. */
static inline int read_ratios(Held *held, Ratios *in, const Log *log, PyObject *tables[3], PyObject *columns[2])
{
    Py_ssize_t n_tables[3], n_columns[2];
    in->table = data_of(held, tables[0], 'd', 0, &n_tables[0]);
    in->top_table = data_of(held, tables[1], 'd', 0, &n_tables[1]);
    in->bottom_table = data_of(held, tables[2], 'd', 0, &n_tables[2]);
    in->top_column = data_of(held, columns[0], 'd', 0, &n_columns[0]);
    in->bottom_column = data_of(held, columns[1], 'd', 0, &n_columns[1]);
    if (PyErr_Occurred())
        return 0;
    for (int i = 0; i < 2; i++)
        if (columns[i] != Py_None && n_columns[i] != log->steps)
            return wrong("the columns");
    for (int i = 0; i < 3; i++) {
        if (tables[i] == Py_None)
            continue;
        if (n_tables[i] == 0 || (in->cells != 0 && (uint64_t)n_tables[i] != in->cells))
            return wrong("the tables");
        in->cells = (uint64_t)n_tables[i];
    }
    if (in->table == NULL && ((in->top_table == NULL) == (in->top_column == NULL) ||
                              (in->bottom_table == NULL) == (in->bottom_column == NULL)))
        return wrong("the ratios");
    return in->n_actions < 1 || in->stride < 1 ? wrong("the ratios") : 1;
}

/* Episodes that are there, none empty, none longer than the horizon. */
static inline int sound(const Log *log, Py_ssize_t horizon)
{
    for (Py_ssize_t i = 0; i < log->chosen; i++) {
        int64_t row = log->rows[i];
        if (row < 0 || row >= log->episodes || log->offsets[row] < 0 ||
            log->offsets[row + 1] <= log->offsets[row] || log->offsets[row + 1] > log->steps ||
            log->offsets[row + 1] - log->offsets[row] > horizon)
            return wrong("the episodes");
    }
    return 1;
}

#endif
