/* How the values of models that have not seen an episode go with the rewards that were still to come in it.

   Episodes are walked from their end, so that a reward to go is one addition a step. x is the value of the
   action that was taken, y the reward to go. */

#include "_buffers.h"
#include "_unseen.h"

#define SUMS 5 /* steps, x, y, x^2 and x y */

typedef struct {
    Log log;
    Py_ssize_t horizon;
    const double *q; /* (folds, values_horizon, S * A); a single step stands for all of them */
    const int64_t *fold_of; /* of each chosen episode; NULL: one fold */
    uint64_t n_states, n_actions, folds, values_horizon;
    double gamma;
    double *sums;               /* first walk: (horizon, SUMS) */
    const double *means;        /* second walk: (horizon, 2) of x and of y at each step */
    double slope, *residuals;   /* and (chosen,) sums of x (y - slope x), each less its mean */
} Unseen;

/* One episode from its end; 0 where a step is in no table. `plain`: without a discount, which each step would wait for. */
INLINE int walk_back(const Unseen *in, Py_ssize_t i, const int second, const int plain)
{
    const int64_t first = in->log.offsets[in->log.rows[i]], length = in->log.offsets[in->log.rows[i] + 1] - first;
    const uint64_t pairs = in->n_states * in->n_actions, fold = in->fold_of == NULL ? 0 : (uint64_t)in->fold_of[i];
    const uint64_t later = in->values_horizon > 1 ? pairs : 0;
    const double *const q = in->q + fold * in->values_horizon * pairs;
    double y = 0.0, residual = 0.0;
    for (int64_t t = length - 1; t >= 0; t--) {
        const uint64_t state = (uint64_t)in->log.states[first + t], action = (uint64_t)in->log.actions[first + t];
        double x;
        if (state >= in->n_states || action >= in->n_actions)
            return 0;
        x = q[(uint64_t)t * later + state * in->n_actions + action];
        y = in->log.rewards[first + t] + (plain ? y : in->gamma * y);
        if (second) {
            const double own = x - in->means[2 * t];
            residual += own * (y - in->means[2 * t + 1] - in->slope * own);
        } else {
            double *const sums = in->sums + SUMS * t;
            sums[0] += 1.0, sums[1] += x, sums[2] += y, sums[3] += x * x, sums[4] += x * y;
        }
    }
    if (second)
        in->residuals[i] = residual;
    return 1;
}

static int walk_all(const Unseen *in, const int second)
{
    const int plain = in->gamma == 1.0;
    int done = 1;
    for (Py_ssize_t i = 0; done && i < in->log.chosen; i++)
        if (second)
            done = plain ? walk_back(in, i, 1, 1) : walk_back(in, i, 1, 0);
        else
            done = plain ? walk_back(in, i, 0, 1) : walk_back(in, i, 0, 0);
    return done;
}

static int read_values(Held *held, Unseen *in, PyObject *columns, PyObject *values)
{
    PyObject *q, *fold_of;
    Py_ssize_t n_q, n_fold_of, folds, horizon, n_states, n_actions;
    if (!read_log(held, &in->log, columns) || !PyArg_ParseTuple(values, "OOnnnn", &q, &fold_of, &folds, &horizon,
                                                               &n_states, &n_actions))
        return 0;
    in->q = data_of(held, q, 'd', 0, &n_q);
    in->fold_of = data_of(held, fold_of, 'i', 0, &n_fold_of);
    if (PyErr_Occurred() || in->q == NULL || folds < 1 || n_states < 1 || n_actions < 1 ||
        (horizon < in->horizon && horizon != 1) || n_q != folds * horizon * n_states * n_actions)
        return wrong("the values");
    if (in->fold_of == NULL ? folds != 1 : n_fold_of != in->log.chosen)
        return wrong("the folds");
    for (Py_ssize_t i = 0; i < n_fold_of; i++)
        if (in->fold_of[i] < 0 || in->fold_of[i] >= folds)
            return wrong("the folds");
    in->folds = (uint64_t)folds, in->values_horizon = (uint64_t)horizon;
    in->n_states = (uint64_t)n_states, in->n_actions = (uint64_t)n_actions;
    return sound(&in->log, in->horizon);
}

PyObject *unseen_sums(PyObject *self, PyObject *args)
{
    PyObject *columns, *values, *sums, *result = NULL;
    Py_ssize_t n_sums;
    Held held = {.count = 0};
    Unseen in = {0};
    int done;
    (void)self;
    if (!PyArg_ParseTuple(args, "nO!O!dO", &in.horizon, &PyTuple_Type, &columns, &PyTuple_Type, &values, &in.gamma,
                          &sums))
        return NULL;
    if (!read_values(&held, &in, columns, values))
        goto end;
    in.sums = data_of(&held, sums, 'd', 1, &n_sums);
    if (in.sums == NULL || n_sums != SUMS * in.horizon) {
        wrong("the results");
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    done = walk_all(&in, 0);
    Py_END_ALLOW_THREADS
    result = PyBool_FromLong(done);
end:
    let_go(&held);
    return result;
}

PyObject *unseen_residuals(PyObject *self, PyObject *args)
{
    PyObject *columns, *values, *means, *residuals, *result = NULL;
    Py_ssize_t n_means, n_residuals;
    Held held = {.count = 0};
    Unseen in = {0};
    int done;
    (void)self;
    if (!PyArg_ParseTuple(args, "nO!O!dOdO", &in.horizon, &PyTuple_Type, &columns, &PyTuple_Type, &values, &in.gamma,
                          &means, &in.slope, &residuals))
        return NULL;
    if (!read_values(&held, &in, columns, values))
        goto end;
    in.means = data_of(&held, means, 'd', 0, &n_means);
    in.residuals = data_of(&held, residuals, 'd', 1, &n_residuals);
    if (in.means == NULL || in.residuals == NULL || n_means != 2 * in.horizon || n_residuals != in.log.chosen) {
        wrong("the results");
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    done = walk_all(&in, 1);
    Py_END_ALLOW_THREADS
    result = PyBool_FromLong(done);
end:
    let_go(&held);
    return result;
}
