/* Where the steps of a log lead. */

#ifndef DEADWEIGHT_ENDS_H
#define DEADWEIGHT_ENDS_H

#include "_buffers.h"

/* How episodes end: their last successor, -1 where nobody knows, and whether they terminated. */
typedef struct {
    const int64_t *last;
    const uint8_t *terminated;
} Ends;

static inline int read_ends(Held *held, const Log *log, Ends *ends, PyObject *pair)
{
    PyObject *last, *terminated;
    Py_ssize_t n_last, n_terminated;
    if (!PyArg_ParseTuple(pair, "OO", &last, &terminated))
        return 0;
    ends->last = data_of(held, last, 'i', 0, &n_last);
    ends->terminated = data_of(held, terminated, 'b', 0, &n_terminated);
    if (PyErr_Occurred() || n_last != log->episodes || n_terminated != log->episodes)
        return wrong("the ends");
    return 1;
}

/* Where step k of an episode that ends before step `end` leads: a state, n_states for the end, n_states + 1
   where nobody knows. */
INLINE uint64_t successor(const Log *log, const Ends *ends, int64_t row, int64_t k, int64_t end, uint64_t n_states)
{
    int64_t last;
    if (k + 1 < end)
        return (uint64_t)log->states[k + 1];
    if (ends->terminated[row])
        return n_states;
    last = ends->last[row];
    return last < 0 ? n_states + 1 : (uint64_t)last;
}

#endif
