/* Counts of transitions, and what an episode does to an estimate by being in a model's counts.

   Both look up one row of a table for each step. Rows have a number for each of some estimates. */

#include "_ends.h"
#include "_model.h"

typedef struct {
    Log log;
    Ends ends;
    uint64_t n_states, n_actions, n_folds;
    const int64_t *fold_of; /* of each chosen episode; NULL: one fold */
} Steps;

/* The pair of step k; with a single action all actions count as one. 0 where there is no such pair. */
INLINE int pair_of(const Steps *in, int64_t k, uint64_t *pair)
{
    uint64_t state = (uint64_t)in->log.states[k], action = in->n_actions > 1 ? (uint64_t)in->log.actions[k] : 0;
    *pair = state * in->n_actions + action;
    return state < in->n_states && action < in->n_actions;
}

static int read_steps(Held *held, Steps *in, PyObject *columns, PyObject *ends, PyObject *fold_of)
{
    Py_ssize_t n_fold_of;
    if (!read_log(held, &in->log, columns) || !read_ends(held, &in->log, &in->ends, ends))
        return 0;
    in->fold_of = data_of(held, fold_of, 'i', 0, &n_fold_of);
    if (PyErr_Occurred() || (in->fold_of != NULL && n_fold_of != in->log.chosen) || in->n_states < 1 ||
        in->n_actions < 1 || in->n_folds < 1)
        return wrong("the folds");
    for (Py_ssize_t i = 0; i < n_fold_of; i++)
        if (in->fold_of[i] < 0 || (uint64_t)in->fold_of[i] >= in->n_folds)
            return wrong("the folds");
    return sound(&in->log, in->log.steps);
}

/* --- counts ------------------------------------------------------------------------------------------- */

typedef struct {
    double *transitions; /* (folds, S * A, S + 2): the last column is for steps that lead nobody knows where */
    double *rewards;     /* (folds, S * A) */
    double *starts;      /* (folds, S) */
} Counts;

static int count_all(const Steps *in, const Counts *out)
{
    const Log *log = &in->log;
    const uint64_t pairs = in->n_states * in->n_actions, width = in->n_states + 2;
    for (Py_ssize_t i = 0; i < log->chosen; i++) {
        int64_t row = log->rows[i], first = log->offsets[row], end = log->offsets[row + 1];
        uint64_t fold = in->fold_of == NULL ? 0 : (uint64_t)in->fold_of[i], pair, next;
        double *transitions = out->transitions + fold * pairs * width, *rewards = out->rewards + fold * pairs;
        for (int64_t k = first; k < end; k++) {
            next = successor(log, &in->ends, row, k, end, in->n_states);
            if (!pair_of(in, k, &pair) || next >= width)
                return 0;
            transitions[pair * width + next] += 1.0;
            rewards[pair] += log->rewards[k];
        }
        out->starts[fold * in->n_states + (uint64_t)log->states[first]] += 1.0;
    }
    return 1;
}

PyObject *count_steps(PyObject *self, PyObject *args)
{
    PyObject *columns, *ends, *fold_of, *array[3], *result = NULL;
    Py_ssize_t n_states, n_actions, n_folds, size[3], pairs;
    double *out[3];
    int done;
    Held held = {.count = 0};
    Steps in = {0};
    Counts counts;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!Onnn(OOO)", &PyTuple_Type, &columns, &PyTuple_Type, &ends, &fold_of, &n_folds,
                          &n_states, &n_actions, &array[0], &array[1], &array[2]))
        return NULL;
    if (n_states < 1 || n_actions < 1 || n_folds < 1) {
        wrong("the tables");
        return NULL;
    }
    in.n_states = (uint64_t)n_states, in.n_actions = (uint64_t)n_actions, in.n_folds = (uint64_t)n_folds;
    if (!read_steps(&held, &in, columns, ends, fold_of))
        goto end;
    for (int i = 0; i < 3; i++)
        out[i] = data_of(&held, array[i], 'd', 1, &size[i]);
    pairs = n_states * n_actions;
    if (PyErr_Occurred() || size[0] != n_folds * pairs * (n_states + 2) || size[1] != n_folds * pairs ||
        size[2] != n_folds * n_states) {
        wrong("the tables");
        goto end;
    }
    counts.transitions = out[0], counts.rewards = out[1], counts.starts = out[2];
    Py_BEGIN_ALLOW_THREADS
    done = count_all(&in, &counts);
    Py_END_ALLOW_THREADS
    result = PyBool_FromLong(done);
end:
    let_go(&held);
    return result;
}

/* --- influences of models ------------------------------------------------------------------------------ */

/* Columns lie in packs, one table after the other: together they would not fit in the second level of cache, where
   each step looks up a row that lies anywhere. */
typedef struct {
    const int64_t *cells; /* (S * A * (S + 2),) the place of each pair and successor; NULL: each has its own */
    const double *slope;  /* of each pack (folds, S * A, its columns) */
    const double *level;  /* of each pack (folds, places, its columns) */
    uint64_t places;
    Py_ssize_t width;
    uint32_t *slope_at, *level_at; /* of all steps that are walked, the rows that they look up */
    double *found;                 /* (chosen, width) */
} Tables;

#define MOST_COLUMNS 8
#define AHEAD 16 /* rows of `level` are fetched so many steps ahead */

/* The pairs of `count` steps, and the cells of each pair and successor, which are less than 2^32, in an episode that
   goes on. Whether all are in the tables is found at the end: loops without a way out are made on vectors. */
INLINE int find_pairs(const int64_t *states, const int64_t *actions, int64_t count, const uint32_t n_states,
                      const uint32_t n_actions, uint32_t *pair, uint32_t *cell)
{
    uint64_t bad = 0;
    for (int64_t k = 0; k < count; k++) {
        const uint64_t state = (uint64_t)states[k], next = (uint64_t)states[k + 1];
        const uint64_t action = n_actions > 1 ? (uint64_t)actions[k] : 0;
        bad |= (uint64_t)(state >= n_states) | (uint64_t)(action >= n_actions) | (uint64_t)(next >= n_states);
        pair[k] = (uint32_t)state * n_actions + (uint32_t)action;
        cell[k] = pair[k] * (n_states + 2) + (uint32_t)next;
    }
    return bad == 0;
}

/* Which rows each step looks up; 0 where one leads to no place. */
INLINE int find_all_rows(const Steps *in, const Tables *on)
{
    const Log *log = &in->log;
    const uint64_t pairs = in->n_states * in->n_actions, width = in->n_states + 2;
    uint32_t *slope_at = on->slope_at, *level_at = on->level_at;
    for (Py_ssize_t i = 0; i < log->chosen; i++) {
        const int64_t row = log->rows[i], first = log->offsets[row], last = log->offsets[row + 1] - 1;
        const uint64_t fold = in->fold_of == NULL ? 0 : (uint64_t)in->fold_of[i];
        const uint32_t slopes = (uint32_t)(fold * pairs), levels = (uint32_t)(fold * on->places);
        const uint64_t next = successor(log, &in->ends, row, last, last + 1, in->n_states);
        const int64_t count = last - first;
        uint64_t pair;
        if (!find_pairs(log->states + first, log->actions + first, count, (uint32_t)in->n_states,
                        (uint32_t)in->n_actions, slope_at, level_at) ||
            !pair_of(in, last, &pair) || next >= width)
            return 0;
        slope_at[count] = (uint32_t)pair, level_at[count] = (uint32_t)(pair * width + next);
        for (int64_t k = 0; on->cells != NULL && k <= count; k++) {
            const uint64_t place = (uint64_t)on->cells[level_at[k]];
            if (place >= on->places)
                return 0;
            level_at[k] = (uint32_t)place;
        }
        for (int64_t k = 0; fold > 0 && k <= count; k++)
            slope_at[k] += slopes, level_at[k] += levels;
        slope_at += count + 1, level_at += count + 1;
    }
    return 1;
}

WIDE static int find_rows(const Steps *in, const Tables *on) { return find_all_rows(in, on); }

/* One pack of columns, from column l on, of all episodes: sums stay in registers, those of every other step apart
   since each addition waits for the one before. */
#if defined(__GNUC__)
#if !defined(__clang__) /* packs are passed to nobody */
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
#define ROW(table, at, PACK) ((table) + (uint64_t)(at) * PACK)
#define LOOK_UP(name, k, PACK)                                                                                 \
    (*(const name##_pack *)ROW(slope, slope_at[k], PACK) * rewards[k] +                                        \
     *(const name##_pack *)ROW(level, level_at[k], PACK))
#define ADD_COLUMNS(name, PACK, NONE)                                                                                \
    typedef double name##_pack TOGETHER(PACK);                                                                 \
    INLINE void name(const Log *log, const Tables *on, Py_ssize_t l, const double *slope, const double *level) \
    {                                                                                                          \
        const uint32_t *slope_at = on->slope_at, *level_at = on->level_at;                                     \
        for (Py_ssize_t i = 0; i < log->chosen; i++) {                                                         \
            const int64_t first = log->offsets[log->rows[i]], count = log->offsets[log->rows[i] + 1] - first;  \
            const double *const rewards = log->rewards + first;                                                \
            name##_pack even = NONE, odd = NONE;                                                               \
            int64_t k = 0;                                                                                     \
            for (; k + 2 <= count; k += 2) {                                                                   \
                FETCH(ROW(level, level_at[k + AHEAD], PACK));                                                  \
                FETCH(ROW(level, level_at[k + AHEAD + 1], PACK));                                              \
                even += LOOK_UP(name, k, PACK);                                                                \
                odd += LOOK_UP(name, k + 1, PACK);                                                             \
            }                                                                                                  \
            if (k < count)                                                                                     \
                even += LOOK_UP(name, k, PACK);                                                                \
            *(name##_pack *)(on->found + i * on->width + l) = even + odd;                                      \
            slope_at += count, level_at += count;                                                              \
        }                                                                                                      \
    }
#define TOGETHER(PACK) __attribute__((vector_size(8 * PACK), aligned(8), may_alias))
#define NONE {0.0}
ADD_COLUMNS(add_eight, 8, NONE)
ADD_COLUMNS(add_four, 4, NONE)
ADD_COLUMNS(add_two, 2, NONE)
#undef TOGETHER
#define TOGETHER(PACK) /* a vector of one number would be kept in memory */
ADD_COLUMNS(add_one, 1, 0.0)
#else
INLINE void add_any(const Log *log, const Tables *on, Py_ssize_t l, Py_ssize_t pack, const double *slope,
                    const double *level)
{
    const uint32_t *slope_at = on->slope_at, *level_at = on->level_at;
    for (Py_ssize_t i = 0; i < log->chosen; i++) {
        const int64_t first = log->offsets[log->rows[i]], count = log->offsets[log->rows[i] + 1] - first;
        for (Py_ssize_t c = 0; c < pack; c++) {
            double sum[2] = {0.0, 0.0};
            for (int64_t k = 0; k < count; k++)
                sum[k % 2] += slope[slope_at[k] * (uint64_t)pack + c] * log->rewards[first + k] +
                              level[level_at[k] * (uint64_t)pack + c];
            on->found[i * on->width + l + c] = sum[0] + sum[1];
        }
        slope_at += count, level_at += count;
    }
}
#endif

/* The columns of the next pack: as many as fit, a power of two. */
static Py_ssize_t next_pack(Py_ssize_t left)
{
    Py_ssize_t pack = MOST_COLUMNS;
    while (pack > left)
        pack /= 2;
    return pack;
}

INLINE void look_up_all(const Log *log, const Tables *on, uint64_t slopes, uint64_t levels)
{
    const double *slope = on->slope, *level = on->level;
    for (Py_ssize_t l = 0; l < on->width;) {
        const Py_ssize_t pack = next_pack(on->width - l);
#if defined(__GNUC__)
        if (pack == 8)
            add_eight(log, on, l, slope, level);
        else if (pack == 4)
            add_four(log, on, l, slope, level);
        else if (pack == 2)
            add_two(log, on, l, slope, level);
        else
            add_one(log, on, l, slope, level);
#else
        add_any(log, on, l, pack, slope, level);
#endif
        l += pack, slope += slopes * (uint64_t)pack, level += levels * (uint64_t)pack;
    }
}

WIDE static void look_up(const Log *log, const Tables *on, uint64_t slopes, uint64_t levels)
{
    look_up_all(log, on, slopes, levels);
}

PyObject *model_influences(PyObject *self, PyObject *args)
{
    PyObject *columns, *ends, *fold_of, *cells, *slope, *level, *found, *result = NULL;
    Py_ssize_t n_states, n_actions, n_folds, n_cells, n_slope, n_level, n_found, pairs, steps = 0;
    uint32_t *rows;
    int done;
    Held held = {.count = 0};
    Steps in = {0};
    Tables on = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!Onnnn(OOO)O", &PyTuple_Type, &columns, &PyTuple_Type, &ends, &fold_of, &n_folds,
                          &n_states, &n_actions, &on.width, &cells, &slope, &level, &found))
        return NULL;
    if (n_states < 1 || n_actions < 1 || n_folds < 1 || on.width < 1) {
        wrong("the tables");
        return NULL;
    }
    in.n_states = (uint64_t)n_states, in.n_actions = (uint64_t)n_actions, in.n_folds = (uint64_t)n_folds;
    if (!read_steps(&held, &in, columns, ends, fold_of))
        goto end;
    on.cells = data_of(&held, cells, 'i', 0, &n_cells);
    on.slope = data_of(&held, slope, 'd', 0, &n_slope);
    on.level = data_of(&held, level, 'd', 0, &n_level);
    on.found = data_of(&held, found, 'd', 1, &n_found);
    pairs = n_states * n_actions;
    if (PyErr_Occurred() || (on.cells != NULL && n_cells != pairs * (n_states + 2)) ||
        (on.cells == NULL && n_level < n_folds * pairs * (n_states + 2) * on.width) || n_slope != n_folds * pairs * on.width ||
        n_level < 1 || n_level % (n_folds * on.width) || n_found != in.log.chosen * on.width) {
        wrong("the tables");
        goto end;
    }
    on.places = (uint64_t)(n_level / (n_folds * on.width));
    for (Py_ssize_t i = 0; i < in.log.chosen; i++)
        steps += in.log.offsets[in.log.rows[i] + 1] - in.log.offsets[in.log.rows[i]];
    if ((uint64_t)n_folds * on.places > UINT32_MAX || (uint64_t)pairs > UINT32_MAX / (in.n_states + 2) / (uint64_t)n_folds) {
        result = PyBool_FromLong(0);
        goto end;
    }
    /* Rows are fetched some steps ahead: after the last one as well. */
    rows = PyMem_Calloc(2 * (size_t)steps + AHEAD, sizeof(uint32_t));
    if (rows == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    on.slope_at = rows, on.level_at = rows + steps;
    Py_BEGIN_ALLOW_THREADS
    done = find_rows(&in, &on);
    if (done)
        look_up(&in.log, &on, (uint64_t)(n_folds * pairs), (uint64_t)n_folds * on.places);
    Py_END_ALLOW_THREADS
    PyMem_Free(rows);
    result = PyBool_FromLong(done);
end:
    let_go(&held);
    return result;
}
