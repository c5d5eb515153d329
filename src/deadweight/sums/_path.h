/* Walks at every level of a path; see _path.c. */

#ifndef DEADWEIGHT_PATH_H
#define DEADWEIGHT_PATH_H

#include <Python.h>

PyObject *path_sums(PyObject *self, PyObject *args);
PyObject *path_influences(PyObject *self, PyObject *args);

#endif
