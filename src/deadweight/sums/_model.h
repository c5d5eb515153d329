/* Counts, and influences of models; see _model.c. */

#ifndef DEADWEIGHT_MODEL_H
#define DEADWEIGHT_MODEL_H

#include <Python.h>

PyObject *count_steps(PyObject *self, PyObject *args);
PyObject *model_influences(PyObject *self, PyObject *args);

#endif
