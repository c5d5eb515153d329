/* Windowed weights; see _windows.c. */

#ifndef DEADWEIGHT_WINDOWS_H
#define DEADWEIGHT_WINDOWS_H

#include <Python.h>

PyObject *window_sums(PyObject *self, PyObject *args);
PyObject *window_influences(PyObject *self, PyObject *args);

#endif
