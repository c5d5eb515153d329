/* Copies of episodes in resamples; see _copies.c. */

#ifndef DEADWEIGHT_COPIES_H
#define DEADWEIGHT_COPIES_H

#include <Python.h>

PyObject *resample_copies(PyObject *self, PyObject *args);

#endif
