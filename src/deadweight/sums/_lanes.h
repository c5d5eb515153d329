/* Walks under many drops at once; see _lanes.c. */

#ifndef DEADWEIGHT_LANES_H
#define DEADWEIGHT_LANES_H

#include <Python.h>

PyObject *lane_sums(PyObject *self, PyObject *args);
PyObject *lane_influences(PyObject *self, PyObject *args);

#endif
