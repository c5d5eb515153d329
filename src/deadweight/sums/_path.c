/* Running products at every level of a path of nested drops, and what is summed of them, in one pass.

   The drop sets of a path are nested: a state is dropped from one level on, its entry, and kept at all levels
   before it. So a step multiplies the running weights of the levels before its entry by its ratio and leaves
   the others alone, and one reading of the log serves all levels.

   A group of episodes is walked side by side, step by step, so that the sums of a step stay in the nearest
   cache while they are added to. As in _kernel.c, what cannot be done in plain doubles is not done: the answer
   is False, and numpy takes the block. No operation mixes levels and none is contracted, so that wider
   vectors give the same bits. */

#include "_buffers.h"
#include "_path.h"
#include <math.h>

#define SIDE 32 /* episodes that are walked side by side */

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

typedef struct {
    /* The log. */
    const int64_t *states, *actions, *offsets, *rows;
    const double *rewards;
    Py_ssize_t steps, episodes, chosen, horizon;
    /* The full ratios: of a table by (s, a), or a quotient whose halves come from a table or a column each. */
    const double *table, *top_table, *bottom_table, *top_column, *bottom_column;
    const double *entry; /* from which level on a state is dropped; doubles, as vectors compare them */
    uint64_t n_states, n_actions;
    int64_t stride; /* steps that a product in range can go without overflow; then it is looked at */
    /* Values of step t in state s, (folds, values_horizon, S[, A]). delta is always there; q and v, or neither. */
    const double *q, *v, *delta;
    const int64_t *fold_of; /* of each episode of the log; NULL: one fold. delta has one fold only */
    int64_t values_horizon, folds;
    /* Levels, a multiple of 4; level[l] = l. */
    Py_ssize_t width;
    const double *level;
    /* First pass: sums of each step, (horizon, width) each; `ended` has one step more. */
    double *weight, *weighted, *before, *lost, *ended;
    double *returns;         /* (chosen,) */
    const double *discount;  /* of the returns; NULL: 1 */
    /* Second pass: factors of each step, (horizon, width), and sums of the pulls from each step on. */
    const double *slope, *pull, *slope_before, *pull_before, *pull_lost, *after, *after_lost;
    double *influence, *influence_lost; /* (chosen, width) */
    /* Either pass: whole weights, (chosen, width). */
    double *final;
    double *scratch; /* (SIDE + 5) * width */
} Path;

/* The values of one step of one episode. */
typedef struct {
    double rho, entry, value, v, delta;
} Step;

INLINE double ratio(const Path *in, int64_t k, uint64_t cell)
{
    double top, bottom;
    if (in->table != NULL)
        return in->table[cell];
    top = in->top_column != NULL ? in->top_column[k] : in->top_table[cell];
    bottom = in->bottom_column != NULL ? in->bottom_column[k] : in->bottom_table[cell];
    return bottom > 0.0 ? top / bottom : (double)NAN;
}

/* `robust`: doubly robust terms, (w, r - q) and (w before, v); else per-decision terms, (w, r). */
INLINE int read_step(const Path *in, int64_t k, int64_t t, int64_t fold, const int robust, Step *found)
{
    uint64_t state = (uint64_t)in->states[k], action = (uint64_t)in->actions[k], at;
    if (state >= in->n_states || action >= in->n_actions)
        return 0;
    found->rho = ratio(in, k, state * in->n_actions + action);
    found->entry = in->entry[state];
    at = (uint64_t)t * in->n_states + state;
    found->delta = in->delta[at];
    found->value = in->rewards[k];
    if (robust) {
        at += (uint64_t)(fold * in->values_horizon) * in->n_states;
        found->v = in->v[at];
        found->value -= in->q[at * in->n_actions + action];
    }
    return in->table != NULL || !out_of_range(found->rho);
}

/* One step in the first pass: sums over the group at this step, (4, width). */
INLINE void add_step(const Path *in, const Step *step, double *restrict w, double *restrict sums, const int robust)
{
    const Py_ssize_t width = in->width;
    const double *restrict level = in->level;
    const double rho = step->rho, entry = step->entry, value = step->value, v = step->v, delta = step->delta;
    double *restrict weight = sums, *restrict weighted = sums + width;
    double *restrict before = sums + 2 * width, *restrict lost = sums + 3 * width;
    for (Py_ssize_t l = 0; l < width; l++) {
        double old = w[l], new = old * (level[l] < entry ? rho : 1.0);
        lost[l] += old * (level[l] < entry ? 0.0 : delta);
        if (robust)
            before[l] += old * v;
        w[l] = new;
        weight[l] += new;
        weighted[l] += new * value;
    }
}

/* The same in the second pass: the influence of the episode so far. */
INLINE void pull_step(const Path *in, const Step *step, int64_t t, double *restrict w, double *restrict influence,
                      double *restrict influence_lost, const int robust)
{
    const Py_ssize_t width = in->width;
    const double *restrict level = in->level;
    const double rho = step->rho, entry = step->entry, value = step->value, v = step->v, delta = step->delta;
    const double *restrict slope = in->slope + t * width, *restrict pull = in->pull + t * width;
    const double *restrict slope_before = in->slope_before + t * width;
    const double *restrict pull_before = robust ? in->pull_before + t * width : NULL;
    const double *restrict pull_lost = robust ? NULL : in->pull_lost + t * width;
    for (Py_ssize_t l = 0; l < width; l++) {
        double old = w[l], new = old * (level[l] < entry ? rho : 1.0), here = new * (value * slope[l] - pull[l]);
        if (robust)
            here += old * (v * slope_before[l] - pull_before[l]);
        else
            influence_lost[l] += old * ((level[l] < entry ? 0.0 : delta) * slope_before[l] - pull_lost[l]);
        influence[l] += here;
        w[l] = new;
    }
}

INLINE int in_range(const double *w, Py_ssize_t width)
{
    int bad = 0;
    for (Py_ssize_t l = 0; l < width; l++)
        bad |= out_of_range(w[l]);
    return !bad;
}

/* What is left to do when an episode of `length` steps has ended; `i` is its place among the chosen. */
INLINE void end_episode(const Path *in, Py_ssize_t i, int64_t length, const double *w, double *gone,
                        const int second)
{
    const Py_ssize_t width = in->width;
    for (Py_ssize_t l = 0; l < width; l++) {
        in->final[i * width + l] = w[l];
        if (!second) {
            gone[l] += w[l];
            continue;
        }
        in->influence[i * width + l] -= w[l] * in->after[length * width + l];
        if (in->influence_lost != NULL)
            in->influence_lost[i * width + l] -= w[l] * in->after_lost[length * width + l];
    }
}

/* Episodes lo to hi of the chosen ones, side by side; 0 where a product leaves the range, or a step a table. */
INLINE int walk_group(const Path *in, Py_ssize_t lo, Py_ssize_t hi, const int robust, const int second)
{
    const Py_ssize_t width = in->width;
    double *sums = in->scratch, *gone = sums + 4 * width, *weights = gone + width;
    int64_t begin[SIDE], length[SIDE], fold[SIDE];
    Py_ssize_t place[SIDE], alive = hi - lo;
    for (Py_ssize_t j = 0; j < alive; j++) {
        int64_t row = in->rows[lo + j];
        place[j] = j;
        begin[j] = in->offsets[row], length[j] = in->offsets[row + 1] - begin[j];
        fold[j] = in->fold_of == NULL ? 0 : in->fold_of[row];
        for (Py_ssize_t l = 0; l < width; l++)
            weights[j * width + l] = 1.0;
        if (second)
            continue;
        in->returns[lo + j] = 0.0;
    }
    for (Py_ssize_t l = 0; l < width; l++)
        gone[l] = 0.0;
    for (int64_t t = 0;; t++) {
        Py_ssize_t still = 0;
        for (Py_ssize_t l = 0; l < 4 * width; l++)
            sums[l] = 0.0;
        for (Py_ssize_t a = 0; a < alive; a++) {
            Py_ssize_t j = place[a], i = lo + j;
            double *w = weights + j * width;
            Step step = {0};
            if (!read_step(in, begin[j] + t, t, fold[j], robust, &step))
                return 0;
            if (second) {
                double *lost = in->influence_lost == NULL ? NULL : in->influence_lost + i * width;
                pull_step(in, &step, t, w, in->influence + i * width, lost, robust);
            } else {
                double reward = in->rewards[begin[j] + t];
                in->returns[i] += in->discount == NULL ? reward : reward * in->discount[t];
                add_step(in, &step, w, sums, robust);
            }
            if (((t + 1) % in->stride == 0 || t + 1 == length[j]) && !in_range(w, width))
                return 0;
            if (t + 1 < length[j])
                place[still++] = j;
        }
        if (!second)
            for (Py_ssize_t l = 0; l < width; l++) { /* ended episodes keep their last weight */
                in->weight[t * width + l] += sums[l] + gone[l];
                in->weighted[t * width + l] += sums[width + l];
                if (robust)
                    in->before[t * width + l] += sums[2 * width + l];
                in->lost[t * width + l] += sums[3 * width + l];
            }
        if (still < alive) /* those that made their last step just now */
            for (Py_ssize_t j = 0; j < hi - lo; j++)
                if (length[j] == t + 1)
                    end_episode(in, lo + j, length[j], weights + j * width, gone, second);
        alive = still;
        if (alive == 0) {
            if (!second)
                for (Py_ssize_t l = 0; l < width; l++)
                    in->ended[(t + 1) * width + l] += gone[l];
            return 1;
        }
    }
}

INLINE int walk_all(const Path *in, const int robust, const int second)
{
    for (Py_ssize_t lo = 0; lo < in->chosen; lo += SIDE)
        if (!walk_group(in, lo, lo + SIDE < in->chosen ? lo + SIDE : in->chosen, robust, second))
            return 0;
    if (second)
        return 1;
    for (Py_ssize_t l = 0; l < in->width; l++) { /* groups that ended earlier than others */
        double gone = 0.0;
        for (Py_ssize_t t = 0; t < in->horizon; t++) {
            gone += in->ended[t * in->width + l];
            in->weight[t * in->width + l] += gone;
        }
    }
    return 1;
}

WIDE static int walk_steps(const Path *in) { return walk_all(in, 0, 0); }
WIDE static int walk_robust(const Path *in) { return walk_all(in, 1, 0); }
WIDE static int pull_steps(const Path *in) { return walk_all(in, 0, 1); }
WIDE static int pull_robust(const Path *in) { return walk_all(in, 1, 1); }

/* --- from Python and back ------------------------------------------------------------------------------ */

static int read_log(Held *held, Path *in, PyObject *log)
{
    PyObject *states, *actions, *rewards, *offsets, *rows;
    Py_ssize_t n_states, n_actions, n_offsets;
    if (!PyArg_ParseTuple(log, "OOOOO", &states, &actions, &rewards, &offsets, &rows))
        return 0;
    in->states = data_of(held, states, 'i', 0, &n_states);
    in->actions = data_of(held, actions, 'i', 0, &n_actions);
    in->rewards = data_of(held, rewards, 'd', 0, &in->steps);
    in->offsets = data_of(held, offsets, 'i', 0, &n_offsets);
    in->rows = data_of(held, rows, 'i', 0, &in->chosen);
    in->episodes = n_offsets - 1;
    if (PyErr_Occurred() || n_offsets < 2 || n_states != in->steps || n_actions != in->steps)
        return wrong("the columns");
    return 1;
}

static int read_levels(Held *held, Path *in, PyObject *levels)
{
    PyObject *tables[3], *columns[2], *entry, *level;
    Py_ssize_t n_tables[3], n_columns[2], n_entry, n_actions, stride;
    if (!PyArg_ParseTuple(levels, "OOOOOOOnn", &tables[0], &tables[1], &tables[2], &columns[0], &columns[1], &entry,
                          &level, &n_actions, &stride))
        return 0;
    in->table = data_of(held, tables[0], 'd', 0, &n_tables[0]);
    in->top_table = data_of(held, tables[1], 'd', 0, &n_tables[1]);
    in->bottom_table = data_of(held, tables[2], 'd', 0, &n_tables[2]);
    in->top_column = data_of(held, columns[0], 'd', 0, &n_columns[0]);
    in->bottom_column = data_of(held, columns[1], 'd', 0, &n_columns[1]);
    in->entry = data_of(held, entry, 'd', 0, &n_entry);
    in->level = data_of(held, level, 'd', 0, &in->width);
    if (PyErr_Occurred() || n_entry < 1 || n_actions < 1 || stride < 1 || in->width < 1)
        return wrong("the levels");
    in->n_states = (uint64_t)n_entry, in->n_actions = (uint64_t)n_actions;
    in->stride = stride;
    for (int i = 0; i < 3; i++)
        if (tables[i] != Py_None && n_tables[i] != n_entry * n_actions)
            return wrong("the tables");
    for (int i = 0; i < 2; i++)
        if (columns[i] != Py_None && n_columns[i] != in->steps)
            return wrong("the columns");
    if (in->table == NULL && ((in->top_table == NULL) == (in->top_column == NULL) ||
                              (in->bottom_table == NULL) == (in->bottom_column == NULL)))
        return wrong("the ratios");
    return 1;
}

static int read_values(Held *held, Path *in, PyObject *values)
{
    PyObject *q, *v, *delta, *fold_of;
    Py_ssize_t n_q, n_v, n_delta, n_fold_of, states = (Py_ssize_t)in->n_states;
    if (!PyArg_ParseTuple(values, "OOOO", &q, &v, &delta, &fold_of))
        return 0;
    in->q = data_of(held, q, 'd', 0, &n_q);
    in->v = data_of(held, v, 'd', 0, &n_v);
    in->delta = data_of(held, delta, 'd', 0, &n_delta);
    in->fold_of = data_of(held, fold_of, 'i', 0, &n_fold_of);
    if (PyErr_Occurred() || in->delta == NULL || n_delta % states || (in->q == NULL) != (in->v == NULL))
        return wrong("the values");
    in->values_horizon = n_delta / states, in->folds = 1;
    if (in->values_horizon < in->horizon || in->values_horizon < 1)
        return wrong("the values");
    if (in->q != NULL) {
        in->folds = n_v / n_delta;
        if (n_v != in->folds * n_delta || in->folds < 1 || n_q != n_v * (Py_ssize_t)in->n_actions)
            return wrong("the values");
    }
    if (in->fold_of == NULL)
        return in->folds == 1 ? 1 : wrong("the folds");
    if (n_fold_of != in->episodes)
        return wrong("the folds");
    for (Py_ssize_t i = 0; i < n_fold_of; i++)
        if (in->fold_of[i] < 0 || in->fold_of[i] >= in->folds)
            return wrong("the folds");
    return 1;
}

/* Episodes that are there, none empty, none longer than the horizon. */
static int sound(const Path *in)
{
    for (Py_ssize_t i = 0; i < in->chosen; i++) {
        int64_t row = in->rows[i];
        if (row < 0 || row >= in->episodes || in->offsets[row] < 0 ||
            in->offsets[row + 1] <= in->offsets[row] || in->offsets[row + 1] > in->steps ||
            in->offsets[row + 1] - in->offsets[row] > in->horizon)
            return wrong("the episodes");
    }
    return 1;
}

static PyObject *answer(Path *in, int (*walk)(const Path *))
{
    int done;
    in->scratch = PyMem_Malloc((size_t)(SIDE + 5) * (size_t)in->width * sizeof(double));
    if (in->scratch == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    done = walk(in);
    Py_END_ALLOW_THREADS
    PyMem_Free(in->scratch);
    return PyBool_FromLong(done);
}

PyObject *path_sums(PyObject *self, PyObject *args)
{
    PyObject *log, *levels, *values, *discount, *array[7], *result = NULL;
    Py_ssize_t n_discount, size[7], cells;
    double *out[7];
    Held held = {.count = 0};
    Path in = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!O!O(OOOOOOO)", &PyTuple_Type, &log, &PyTuple_Type, &levels, &PyTuple_Type,
                          &values, &discount, &array[0], &array[1], &array[2], &array[3], &array[4], &array[5],
                          &array[6]))
        return NULL;
    if (!read_log(&held, &in, log) || !read_levels(&held, &in, levels))
        goto end;
    for (int i = 0; i < 7; i++)
        out[i] = data_of(&held, array[i], 'd', 1, &size[i]);
    in.discount = data_of(&held, discount, 'd', 0, &n_discount);
    if (PyErr_Occurred())
        goto end;
    cells = size[0], in.horizon = cells / in.width;
    if (!read_values(&held, &in, values))
        goto end;
    if (cells != in.horizon * in.width || size[1] != cells || (in.q != NULL && size[2] != cells) ||
        size[3] != cells || size[4] != cells + in.width || size[5] != in.chosen * in.width ||
        size[6] != in.chosen ||
        (in.discount != NULL && n_discount != in.horizon)) {
        wrong("the results");
        goto end;
    }
    in.weight = out[0], in.weighted = out[1], in.before = out[2], in.lost = out[3], in.ended = out[4];
    in.final = out[5], in.returns = out[6];
    if (sound(&in))
        result = answer(&in, in.q == NULL ? walk_steps : walk_robust);
end:
    let_go(&held);
    return result;
}

PyObject *path_influences(PyObject *self, PyObject *args)
{
    PyObject *log, *levels, *values, *array[7], *influence, *influence_lost, *final, *result = NULL;
    Py_ssize_t size[7], n_influence, n_lost, n_final, cells;
    const double *factor[7];
    int robust;
    Held held = {.count = 0};
    Path in = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!O!(OOOOOOO)(OOO)", &PyTuple_Type, &log, &PyTuple_Type, &levels, &PyTuple_Type,
                          &values, &array[0], &array[1], &array[2], &array[3], &array[4], &array[5], &array[6],
                          &influence, &influence_lost, &final))
        return NULL;
    if (!read_log(&held, &in, log) || !read_levels(&held, &in, levels))
        goto end;
    for (int i = 0; i < 7; i++)
        factor[i] = data_of(&held, array[i], 'd', 0, &size[i]);
    in.influence = data_of(&held, influence, 'd', 1, &n_influence);
    in.influence_lost = data_of(&held, influence_lost, 'd', 1, &n_lost);
    in.final = data_of(&held, final, 'd', 1, &n_final);
    if (PyErr_Occurred())
        goto end;
    cells = size[0], in.horizon = cells / in.width;
    if (!read_values(&held, &in, values))
        goto end;
    robust = in.q != NULL;
    if (cells != in.horizon * in.width || size[1] != cells || size[2] != cells || (robust && size[3] != cells) ||
        (!robust && size[4] != cells) || size[5] != cells + in.width || (!robust && size[6] != cells + in.width) ||
        n_influence != in.chosen * in.width || n_lost != (robust ? 0 : n_influence) ||
        n_final != n_influence) {
        wrong("the results");
        goto end;
    }
    in.slope = factor[0], in.pull = factor[1], in.slope_before = factor[2], in.pull_before = factor[3];
    in.pull_lost = factor[4], in.after = factor[5], in.after_lost = factor[6];
    if (sound(&in))
        result = answer(&in, robust ? pull_robust : pull_steps);
end:
    let_go(&held);
    return result;
}
