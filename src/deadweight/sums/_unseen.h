/* Values of models that have not seen an episode, beside what it earned; see _unseen.c. */

#ifndef DEADWEIGHT_UNSEEN_H
#define DEADWEIGHT_UNSEEN_H

#include <Python.h>

PyObject *unseen_sums(PyObject *self, PyObject *args);
PyObject *unseen_residuals(PyObject *self, PyObject *args);

#endif
