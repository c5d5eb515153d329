/* Windowed weights: the model's error at each step, weighed by the latest few ratios, in one pass.

   For window k the weight of step t is mu_b(s_b) rho_b ... rho_t with b = max(0, t - k + 1); see
   estimators/windowed.py, which has the same in numpy. Steps that lead nobody knows where are left out. */

#include "_ends.h"
#include "_windows.h"

#define SHORTEST 2 /* the window with number 0; the others follow */
#define MOST_WINDOWS 4

typedef struct {
    Log log;
    Ends ends;
    Ratios ratios;
    uint64_t n_states;
    Py_ssize_t horizon, windows;
    const double *q, *v, *mu, *alive; /* (T, S, A), (T + 1, S + 1), (T, S), (T,) */
    double gamma;
    int nothing_after; /* after the last step of all nothing counts, wherever it leads */
    /* Sums of each window and step, (windows, T); of each step; of each state. */
    double *weight, *weighted, *squares, *counted, *surprise, *visits;
    double *by_pair, *by_next; /* (T, S * A, windows), (T, S, windows) */
    /* Factors of each window, (windows, T), and the influences of each episode, (windows, chosen). */
    const double *slope, *pull;
    double *influence;
} Windows;

/* Some steps of one episode that lead somebody knows where, side by side: most of what is done with them is done on
   vectors. Long episodes are walked chunk by chunk, and the first steps of a chunk have been in the one before. */
#define CHUNK 128
#define MOST_STEPS (CHUNK + MOST_WINDOWS)
typedef struct {
    int64_t first, skip, count; /* the first of these steps, how many have been there before, how many there are */
    uint64_t state[MOST_STEPS], pair[MOST_STEPS], next[MOST_STEPS];
    double rho[MOST_STEPS], mu[MOST_STEPS];
    double error[MOST_STEPS], delta[MOST_STEPS];    /* of the action value, and of the state value */
    double product[MOST_STEPS], weight[MOST_STEPS]; /* of the latest ratios; of these and the state ratio before */
} Steps;

/* Finds what an episode looks up from step t on; 0 where a step is in no table. */
INLINE int read_steps(const Windows *in, int64_t row, int64_t t, Steps *out)
{
    const uint64_t states = in->n_states, actions = in->ratios.n_actions, cells = states * actions;
    const int64_t length = in->log.offsets[row + 1] - in->log.offsets[row], back = in->windows + SHORTEST - 2;
    const int64_t first = t < back ? 0 : t - back, end = t + CHUNK < length ? t + CHUNK : length;
    const int64_t k = in->log.offsets[row] + first;
    const int64_t *const from = in->log.states + k, *const taken = in->log.actions + k;
    const double *const rewards = in->log.rewards + k, gamma = in->gamma;
    const double *q = in->q + (uint64_t)first * cells, *v = in->v + (uint64_t)first * (states + 1);
    const double *mu = in->mu + (uint64_t)first * states;
    int64_t count = end - first, going_on = count - (end == length);
    uint64_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        out->state[i] = (uint64_t)from[i], out->pair[i] = out->state[i] * actions + (uint64_t)taken[i];
        bad |= (uint64_t)(out->state[i] >= states) | (uint64_t)((uint64_t)taken[i] >= actions);
    }
    for (int64_t i = 0; i < going_on; i++) {
        out->next[i] = (uint64_t)from[i + 1];
        bad |= (uint64_t)(out->next[i] >= states);
    }
    if (end == length) {
        const uint64_t last = successor(&in->log, &in->ends, row, k + going_on, k + count, states);
        bad |= (uint64_t)(last > states + 1);
        out->next[going_on] = last;
        if (last > states && !(in->nothing_after && length == in->horizon))
            count = going_on; /* it leads nobody knows where, and more might come */
    }
    if (bad)
        return 0;
    out->first = first, out->skip = t - first, out->count = count;
    for (int64_t i = 0; i < count; i++, q += cells, v += states + 1, mu += states) {
        const double value = q[out->pair[i]], after = out->next[i] <= states ? v[states + 1 + out->next[i]] : 0.0;
        out->mu[i] = mu[out->state[i]];
        out->error[i] = rewards[i] + gamma * after - value;
        out->delta[i] = out->error[i] + value - v[out->state[i]];
        out->rho[i] = ratio_of(&in->ratios, k + i, out->pair[i]);
    }
    return 1;
}

/* The weights of window number w; those of the windows before it have been made. */
INLINE void weigh(Steps *of, Py_ssize_t w)
{
    const int64_t count = of->count, before = w + SHORTEST - 1;
    for (int64_t i = 0; w == 0 && i < count; i++)
        of->product[i] = of->rho[i];
    for (int64_t back = w == 0 ? 1 : before; back <= before; back++)
        for (int64_t i = back; i < count; i++)
            of->product[i] *= of->rho[i - back];
    for (int64_t i = 0; i < before && i < count; i++)
        of->weight[i] = of->product[i] * of->mu[0];
    for (int64_t i = before; i < count; i++)
        of->weight[i] = of->product[i] * of->mu[i - before];
}

/* Adds the weights of window number w to the sums of each step. */
INLINE void add_weights(const Windows *in, const Steps *of, Py_ssize_t w)
{
    const uint64_t windows = (uint64_t)in->windows, states = in->n_states, pairs = states * in->ratios.n_actions;
    const int64_t count = of->count, at = w * in->horizon + of->first, t = of->first + of->skip;
    const double *const alive = in->alive + of->first;
    double *const weight = in->weight + at, *const weighted = in->weighted + at, *const squares = in->squares + at;
    double *by_pair = in->by_pair + (uint64_t)t * pairs * windows + w;
    double *by_next = in->by_next + (uint64_t)t * states * windows + w;
    for (int64_t i = of->skip; i < count; i++) {
        weight[i] += of->weight[i];
        weighted[i] += of->weight[i] * (of->error[i] * alive[i]);
        squares[i] += of->weight[i] * of->weight[i];
    }
    for (int64_t i = of->skip; i < count; i++, by_pair += pairs * windows, by_next += states * windows) {
        by_pair[of->pair[i] * windows] += of->weight[i] * alive[i];
        if (of->next[i] < states)
            by_next[of->next[i] * windows] += of->weight[i] * alive[i];
    }
}

/* What an episode does to the estimate of window number w: sums of every fourth step, which do not wait for each
   other. */
INLINE double influence_of(const Windows *in, const Steps *of, Py_ssize_t w)
{
    const int64_t at = w * in->horizon + of->first, count = of->count;
    const double *const alive = in->alive + of->first, *const slope = in->slope + at, *const pull = in->pull + at;
    double sums[4] = {0.0};
    int64_t i = of->skip;
    for (; i + 4 <= count; i += 4)
        for (int u = 0; u < 4; u++)
            sums[u] += of->weight[i + u] * (of->error[i + u] * alive[i + u] * slope[i + u] - pull[i + u]);
    for (; i < count; i++)
        sums[0] += of->weight[i] * (of->error[i] * alive[i] * slope[i] - pull[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Steps and errors by state. */
INLINE void add_surprise(const Windows *in, const Steps *of)
{
    double *const visits = in->visits, *const surprise = in->surprise, *const counted = in->counted + of->first;
    for (int64_t i = of->skip; i < of->count; i++) {
        counted[i] += 1.0;
        visits[of->state[i]] += 1.0;
        surprise[of->state[i]] += of->delta[i] * of->delta[i];
    }
}

INLINE int walk_windows(const Windows *in, const int second)
{
    Steps of;
    for (int64_t t = 0; t < in->horizon; t += CHUNK)
        for (Py_ssize_t i = 0; i < in->log.chosen; i++) {
            const int64_t row = in->log.rows[i];
            if (in->log.offsets[row + 1] - in->log.offsets[row] <= t)
                continue;
            if (!read_steps(in, row, t, &of))
                return 0;
            if (!second)
                add_surprise(in, &of);
            for (Py_ssize_t w = 0; w < in->windows; w++) {
                weigh(&of, w);
                if (second)
                    in->influence[w * in->log.chosen + i] += influence_of(in, &of, w);
                else
                    add_weights(in, &of, w);
            }
        }
    return 1;
}

WIDE static int walk_sums(const Windows *in) { return walk_windows(in, 0); }
WIDE static int walk_influences(const Windows *in) { return walk_windows(in, 1); }

/* --- from Python and back ------------------------------------------------------------------------------ */

static int read_windows(Held *held, Windows *in, PyObject *columns, PyObject *ends, PyObject *ratios,
                        PyObject *values)
{
    PyObject *tables[3], *halves[2], *q, *v, *mu, *alive;
    Py_ssize_t n_q, n_v, n_mu, n_alive, n_actions, n_states;
    if (!read_log(held, &in->log, columns) || !read_ends(held, &in->log, &in->ends, ends))
        return 0;
    if (!PyArg_ParseTuple(ratios, "OOOOOnn", &tables[0], &tables[1], &tables[2], &halves[0], &halves[1], &n_actions,
                          &n_states) ||
        !PyArg_ParseTuple(values, "OOOOdp", &q, &v, &mu, &alive, &in->gamma, &in->nothing_after))
        return 0;
    if (n_actions < 1 || n_states < 1)
        return wrong("the tables");
    in->n_states = (uint64_t)n_states, in->ratios.n_actions = (uint64_t)n_actions, in->ratios.stride = 1;
    if (!read_ratios(held, &in->ratios, &in->log, tables, halves))
        return 0;
    if (in->ratios.cells != 0 && in->ratios.cells != in->n_states * in->ratios.n_actions)
        return wrong("the tables");
    in->q = data_of(held, q, 'd', 0, &n_q);
    in->v = data_of(held, v, 'd', 0, &n_v);
    in->mu = data_of(held, mu, 'd', 0, &n_mu);
    in->alive = data_of(held, alive, 'd', 0, &n_alive);
    in->horizon = n_alive;
    if (PyErr_Occurred() || n_alive < 1 || n_mu != n_alive * n_states || n_q != n_mu * n_actions ||
        n_v != (n_alive + 1) * (n_states + 1))
        return wrong("the values");
    return sound(&in->log, in->horizon);
}

static PyObject *answer(const Windows *in, int (*walk)(const Windows *))
{
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = walk(in);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(done);
}

PyObject *window_sums(PyObject *self, PyObject *args)
{
    PyObject *columns, *ends, *ratios, *values, *array[8], *result = NULL;
    Py_ssize_t size[8], cells, states, pairs;
    double *out[8];
    Held held = {.count = 0};
    Windows in = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!O!O!n(OOOOOOOO)", &PyTuple_Type, &columns, &PyTuple_Type, &ends, &PyTuple_Type,
                          &ratios, &PyTuple_Type, &values, &in.windows, &array[0], &array[1], &array[2], &array[3],
                          &array[4], &array[5], &array[6], &array[7]))
        return NULL;
    if (!read_windows(&held, &in, columns, ends, ratios, values))
        goto end;
    for (int i = 0; i < 8; i++)
        out[i] = data_of(&held, array[i], 'd', 1, &size[i]);
    cells = in.windows * in.horizon, states = (Py_ssize_t)in.n_states;
    pairs = states * (Py_ssize_t)in.ratios.n_actions;
    if (PyErr_Occurred() || in.windows < 1 || in.windows > MOST_WINDOWS - SHORTEST + 1 || size[0] != cells || size[1] != cells ||
        size[2] != cells || size[3] != in.horizon || size[4] != states || size[5] != states ||
        size[6] != cells * pairs || size[7] != cells * states) {
        wrong("the results");
        goto end;
    }
    in.weight = out[0], in.weighted = out[1], in.squares = out[2], in.counted = out[3];
    in.surprise = out[4], in.visits = out[5], in.by_pair = out[6], in.by_next = out[7];
    result = answer(&in, walk_sums);
end:
    let_go(&held);
    return result;
}

PyObject *window_influences(PyObject *self, PyObject *args)
{
    PyObject *columns, *ends, *ratios, *values, *slope, *pull, *influence, *result = NULL;
    Py_ssize_t n_slope, n_pull, n_influence;
    Held held = {.count = 0};
    Windows in = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!O!O!n(OO)O", &PyTuple_Type, &columns, &PyTuple_Type, &ends, &PyTuple_Type,
                          &ratios, &PyTuple_Type, &values, &in.windows, &slope, &pull, &influence))
        return NULL;
    if (!read_windows(&held, &in, columns, ends, ratios, values))
        goto end;
    in.slope = data_of(&held, slope, 'd', 0, &n_slope);
    in.pull = data_of(&held, pull, 'd', 0, &n_pull);
    in.influence = data_of(&held, influence, 'd', 1, &n_influence);
    if (PyErr_Occurred() || in.windows < 1 || in.windows > MOST_WINDOWS - SHORTEST + 1 || 
        n_slope != in.windows * in.horizon || n_pull != n_slope || n_influence != in.windows * in.log.chosen) {
        wrong("the results");
        goto end;
    }
    result = answer(&in, walk_influences);
end:
    let_go(&held);
    return result;
}
