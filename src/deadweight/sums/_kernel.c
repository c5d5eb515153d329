/* Running products along the episodes of a block, and what is summed of them, in one pass over flat columns.

   The numpy path (weighting.py, summaries.py) makes an (episodes, steps) matrix of each quantity;
   here every step is read once and nothing is made but the sums. Episodes are taken one after the other, in
   the order of memory: where it was timed, four or eight of them side by side were slower, and two no faster.

   Whatever this file cannot do in plain doubles it does not do: it answers False, and numpy takes the block.
   Buffers instead of numpy's headers, and (see setup.py) the limited API: one build serves every numpy and
   every CPython from 3.11 on. */

#include "_buffers.h"
#include "_copies.h"
#include "_lanes.h"
#include "_model.h"
#include "_windows.h"

#define SOME 256   /* episodes, or steps of one, that are summed before they are added to the rest */
#define LINE 8     /* numbers in a line of cache */
#define AHEAD 64   /* steps of the next episode that are fetched ahead */
#define FAR 400    /* how many steps ahead columns are fetched: more than the processor does by itself */
/* Quotients of two columns are made so many at a time. Where all of them are within TAME and 1 / TAME, or zero, a
   product in range goes that far without overflow, and is looked at afterwards. */
#define QUOTIENTS 64
#define TAME 100.0
#define REVISION 13 /* of these signatures; deadweight/sums/kernel.py takes no other */

typedef struct {
    Log log;
    Ratios ratios;
    const uint8_t *dropped_steps, *dropped_states; /* one flag a step, or a state; NULL drops nothing */
    uint64_t n_states;                             /* flags in the second */
    /* Factors of step t: the discount (NULL: 1), or the slope and pull of an influence function. */
    const double *discount, *slope, *pull, *pull_after;
    Py_ssize_t horizon;
    /* What comes out, and sums on the way to it. */
    double *final, *returns, *plain, *weight, *weighted, *influence;
    double *ended, *some_ended, *some_w, *some_wr; /* (horizon + 1,) each; zero at first */
} Walk;

/* What differs between the loops below is known when they are compiled, and costs nothing inside them. */
typedef enum { SUMS, DISCOUNTED_SUMS, INFLUENCE, RETURNS, DISCOUNTED_RETURNS } Wanted;
typedef enum { FROM_TABLE, FROM_COLUMNS, FROM_QUOTIENTS } Source;

/* Ratio of step k by its table, or 0 with *bad set where the table has no such cell. */
INLINE double from_table(const Walk *in, int64_t k, int *bad)
{
    uint64_t cell = (uint64_t)in->log.states[k] * in->ratios.n_actions + (uint64_t)in->log.actions[k];
    if (cell >= in->ratios.cells) {
        *bad = 1;
        return 0.0;
    }
    return in->ratios.table[cell];
}

/* The same from probabilities, with drops; a ratio that could leave the range at once is bad as well. */
INLINE double from_columns(const Walk *in, int64_t k, int *bad)
{
    double ratio;
    uint64_t cell = 0;
    if (in->ratios.cells) {
        cell = (uint64_t)in->log.states[k] * in->ratios.n_actions + (uint64_t)in->log.actions[k];
        if (cell >= in->ratios.cells) {
            *bad = 1;
            return 0.0;
        }
    }
    ratio = ratio_of(&in->ratios, k, cell);
    if (ratio == ratio) { /* NaN, a step that pi_b rules out, is not hidden by a drop */
        if (in->dropped_steps != NULL && in->dropped_steps[k])
            return 1.0;
        if (in->dropped_states != NULL) {
            if ((uint64_t)in->log.states[k] >= in->n_states)
                *bad = 1;
            else if (in->dropped_states[in->log.states[k]])
                return 1.0;
        }
    }
    *bad |= out_of_range(ratio);
    return ratio;
}

/* Quotients of two columns, NaN where pi_b rules a step out; whether all are tame. Numbers of 64 bits throughout,
   and no `&&`: so the compiler makes vectors of it. */
WIDE static int divide(const double *restrict top, const double *restrict bottom, double *restrict ratio, int64_t n)
{
    int64_t wild = 0;
    for (int64_t k = 0; k < n; k++) {
        double x = bottom[k] > 0.0 ? top[k] / bottom[k] : (double)NAN;
        int64_t high = x <= TAME ? 0 : 1, low = x >= 1.0 / TAME ? 0 : 1, some = x == 0.0 ? 0 : 1;
        ratio[k] = x;
        wild |= high | (low & some);
    }
    return !wild;
}

/* The kept ratios of steps k to k + n of two columns. A running product w that may leave the range on the way is
   followed here, step by step; 0 if it does. */
static int quotients(const Walk *in, int64_t k, int64_t n, double w, double *ratio)
{
    int bad = 0, tame = divide(in->ratios.top_column + k, in->ratios.bottom_column + k, ratio, n);
    for (int64_t j = 0; in->dropped_steps != NULL && j < n; j++)
        if (in->dropped_steps[k + j] && ratio[j] == ratio[j])
            ratio[j] = 1.0;
    for (int64_t j = 0; in->dropped_states != NULL && j < n; j++)
        if ((uint64_t)in->log.states[k + j] >= in->n_states)
            bad = 1;
        else if (in->dropped_states[in->log.states[k + j]] && ratio[j] == ratio[j])
            ratio[j] = 1.0;
    for (int64_t j = 0; !tame && j < n; j++) {
        w *= ratio[j];
        bad |= out_of_range(ratio[j]) | out_of_range(w);
    }
    return !bad;
}

/* Ratio of step k by whatever it comes from; quotients have been made before, this is the next of them. */
INLINE double next_ratio(const Walk *in, int64_t k, const double *made, int *bad, const Source source)
{
    if (source == FROM_QUOTIENTS)
        return *made;
    return source == FROM_TABLE ? from_table(in, k, bad) : from_columns(in, k, bad);
}

/* The end of a stretch from step lo on: the stride, the next multiple of SOME, or the end of the episode. */
INLINE int64_t stretch_end(int64_t lo, int64_t stride, int64_t length)
{
    int64_t hi = (lo / SOME + 1) * SOME;
    hi = hi - lo > stride ? lo + stride : hi;
    return hi > length ? length : hi;
}

/* Asks for the columns of step k that a walk reads. */
INLINE void fetch_step(const Walk *in, int64_t k, const Wanted wanted, const Source source)
{
    FETCH(in->log.rewards + k);
    if (wanted == RETURNS || wanted == DISCOUNTED_RETURNS)
        return;
    FETCH(source == FROM_QUOTIENTS ? (const void *)(in->ratios.top_column + k) : in->log.states + k);
    FETCH(source == FROM_QUOTIENTS ? (const void *)(in->ratios.bottom_column + k) : in->log.actions + k);
}

/* Asks for the first steps of an episode, LINE at a time, while the one before it is walked along: where
   episodes of a block do not follow one another in memory, the processor does not guess where the next is. */
INLINE void fetch_ahead(const Walk *in, Py_ssize_t i, const Wanted wanted, const Source source)
{
    const int64_t first = in->log.offsets[in->log.rows[i]];
    for (int64_t k = first; k < first + AHEAD && k < in->log.steps; k += LINE)
        fetch_step(in, k, wanted, source);
}

/* Episode rows[i] from its first step to its last; 0 if a product leaves the range, or a step the table. */
INLINE int one_episode(const Walk *in, Py_ssize_t i, const Wanted wanted, const Source source)
{
    const int64_t first = in->log.offsets[in->log.rows[i]], length = in->log.offsets[in->log.rows[i] + 1] - first;
    double w = 1.0, g = 0.0, p = 0.0, whole_g = 0.0, whole_p = 0.0;
    /* Steps that lie FAR ahead are asked for where the next episode is the next in memory as well. */
    const int64_t far_end = i + 1 < in->log.chosen && in->log.rows[i + 1] == in->log.rows[i] + 1 ? in->log.steps : 0;
    double ratio[QUOTIENTS];
    int bad = 0;
    for (int64_t lo = 0, hi; lo < length && !bad; lo = hi) {
        hi = stretch_end(lo, source == FROM_QUOTIENTS ? QUOTIENTS : in->ratios.stride, length);
        if (source == FROM_QUOTIENTS) {
            for (int64_t k = first + lo + FAR; k < first + hi + FAR && k < far_end; k += LINE)
                fetch_step(in, k, wanted, source);
            if (!quotients(in, first + lo, hi - lo, w, ratio))
                return 0;
        }
        for (int64_t t = lo; t < hi; t++) {
            double r = in->log.rewards[first + t], wr;
            if (source != FROM_QUOTIENTS && t % LINE == 0 && first + t + FAR < far_end)
                fetch_step(in, first + t + FAR, wanted, source);
            if (wanted == RETURNS || wanted == DISCOUNTED_RETURNS) {
                g += wanted == DISCOUNTED_RETURNS ? r * in->discount[t] : r;
                continue;
            }
            w *= next_ratio(in, first + t, ratio + (t - lo), &bad, source);
            if (wanted == INFLUENCE) {
                p += w * (r * in->slope[t] - in->pull[t]);
                continue;
            }
            wr = w * r;
            g += wanted == DISCOUNTED_SUMS ? r * in->discount[t] : r;
            p += wanted == DISCOUNTED_SUMS ? wr * in->discount[t] : wr;
            in->some_w[t] += w;
            in->some_wr[t] += wr;
        }
        if (hi % SOME == 0 || hi == length) {
            whole_g += g, whole_p += p;
            g = p = 0.0;
        }
        bad |= out_of_range(w);
    }
    if (wanted == INFLUENCE) {
        in->influence[i] = whole_p - w * in->pull_after[length];
    } else if (wanted == RETURNS || wanted == DISCOUNTED_RETURNS) {
        in->returns[i] = whole_g;
    } else {
        in->final[i] = w, in->returns[i] = whole_g, in->plain[i] = whole_p;
        in->some_ended[length] += w;
    }
    return !bad;
}

/* Adds the sums over some episodes, of at most `longest` steps, to those over all, and clears them. */
static void collect(const Walk *in, int64_t longest)
{
    double gone = 0.0; /* ended episodes stay in the normaliser with their last weight */
    for (int64_t t = 0; t <= longest; t++) {
        gone += in->some_ended[t];
        in->some_ended[t] = 0.0;
        if (t < longest) {
            in->weight[t] += in->some_w[t] + gone;
            in->weighted[t] += in->some_wr[t];
            in->some_w[t] = in->some_wr[t] = 0.0;
        }
    }
    in->ended[longest] += gone;
}

/* Sums of sums: one long row of additions would lose digits on a block of very many short episodes. */
INLINE int every_episode(const Walk *in, const Wanted wanted, const Source source)
{
    int64_t longest = 0;
    double gone = 0.0;
    for (Py_ssize_t i = 0; i < in->log.chosen; i++) {
        int64_t length = in->log.offsets[in->log.rows[i] + 1] - in->log.offsets[in->log.rows[i]];
        if (i + 1 < in->log.chosen && in->log.rows[i + 1] != in->log.rows[i] + 1)
            fetch_ahead(in, i + 1, wanted, source);
        if (!one_episode(in, i, wanted, source))
            return 0;
        if (wanted != SUMS && wanted != DISCOUNTED_SUMS)
            continue;
        longest = length > longest ? length : longest;
        if ((i + 1) % SOME == 0 || i + 1 == in->log.chosen) {
            collect(in, longest);
            longest = 0;
        }
    }
    if (wanted == SUMS || wanted == DISCOUNTED_SUMS)
        for (int64_t t = 0; t < in->horizon; t++) {
            gone += in->ended[t];
            in->weight[t] += gone;
        }
    return 1;
}

/* Where the ratios of a walk come from. */
static Source source_of(const Walk *in)
{
    if (in->ratios.table != NULL && in->dropped_steps == NULL && in->dropped_states == NULL)
        return FROM_TABLE;
    return in->ratios.top_column != NULL && in->ratios.bottom_column != NULL ? FROM_QUOTIENTS : FROM_COLUMNS;
}

INLINE int walk_as(const Walk *in, const Wanted wanted)
{
    switch (source_of(in)) {
    case FROM_TABLE:
        return every_episode(in, wanted, FROM_TABLE);
    case FROM_QUOTIENTS:
        return every_episode(in, wanted, FROM_QUOTIENTS);
    default:
        return every_episode(in, wanted, FROM_COLUMNS);
    }
}

static int walk_episodes(const Walk *in, const Wanted wanted)
{
    switch (wanted) {
    case SUMS:
        return walk_as(in, SUMS);
    case DISCOUNTED_SUMS:
        return walk_as(in, DISCOUNTED_SUMS);
    case INFLUENCE:
        return walk_as(in, INFLUENCE);
    case RETURNS:
        return every_episode(in, RETURNS, FROM_TABLE);
    default:
        return every_episode(in, DISCOUNTED_RETURNS, FROM_TABLE);
    }
}

/* Sums over the episodes of W_t and of its square; ended episodes keep their last weight. */
INLINE int sizes_of(const Walk *in, double *squares, double *ended_squares, const Source source)
{
    double gone = 0.0, gone_squares = 0.0;
    for (Py_ssize_t i = 0; i < in->log.chosen; i++) {
        const int64_t first = in->log.offsets[in->log.rows[i]];
        const int64_t length = in->log.offsets[in->log.rows[i] + 1] - first;
        double w = 1.0, ratio[QUOTIENTS];
        int bad = 0;
        for (int64_t lo = 0, hi; lo < length; lo = hi) {
            hi = stretch_end(lo, source == FROM_QUOTIENTS ? QUOTIENTS : in->ratios.stride, length);
            if (source == FROM_QUOTIENTS && !quotients(in, first + lo, hi - lo, w, ratio))
                return 0;
            for (int64_t t = lo; t < hi; t++) {
                w *= next_ratio(in, first + t, ratio + (t - lo), &bad, source);
                in->weight[t] += w;
                squares[t] += w * w;
            }
            if (bad || out_of_range(w))
                return 0;
        }
        in->ended[length] += w;
        ended_squares[length] += w * w;
    }
    for (int64_t t = 0; t < in->horizon; t++) {
        gone += in->ended[t], gone_squares += ended_squares[t];
        in->weight[t] += gone, squares[t] += gone_squares;
    }
    return 1;
}

/* --- from Python and back ------------------------------------------------------------------------------ */

/* Ratios and drops: one flag a step, or a state. */
static int read_weighting(Held *held, Walk *in, PyObject *weighting)
{
    PyObject *tables[3], *columns[2], *dropped_steps, *dropped_states;
    Py_ssize_t n_actions, stride, n_steps, n_states;
    if (!PyArg_ParseTuple(weighting, "OOOOOOOnn", &tables[0], &tables[1], &tables[2], &columns[0], &columns[1],
                          &dropped_steps, &dropped_states, &n_actions, &stride))
        return 0;
    if (n_actions < 1)
        return wrong("the ratios");
    in->ratios.n_actions = (uint64_t)n_actions;
    in->ratios.stride = stride < SOME ? stride : SOME;
    if (!read_ratios(held, &in->ratios, &in->log, tables, columns))
        return 0;
    in->dropped_steps = data_of(held, dropped_steps, 'b', 0, &n_steps);
    in->dropped_states = data_of(held, dropped_states, 'b', 0, &n_states);
    if (PyErr_Occurred() || (in->dropped_steps != NULL && n_steps != in->log.steps))
        return wrong("the columns");
    in->n_states = (uint64_t)n_states;
    return 1;
}

static PyObject *answer(const Walk *in, Wanted wanted)
{
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = walk_episodes(in, wanted);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(done);
}

static PyObject *sums(PyObject *self, PyObject *args)
{
    PyObject *log, *ratios, *discount, *array[6], *result = NULL;
    Py_ssize_t n_discount, size[6];
    Held held = {.count = 0};
    Walk in = {0};
    double *out[6];
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!O(OOOOO)O", &PyTuple_Type, &log, &PyTuple_Type, &ratios, &discount,
                          &array[0], &array[1], &array[2], &array[3], &array[4], &array[5]))
        return NULL;
    if (!read_log(&held, &in.log, log) || !read_weighting(&held, &in, ratios))
        goto end;
    for (int i = 0; i < 6; i++)
        out[i] = data_of(&held, array[i], 'd', 1, &size[i]);
    in.discount = data_of(&held, discount, 'd', 0, &n_discount);
    in.horizon = size[3];
    if (PyErr_Occurred() || size[0] != in.log.chosen || size[1] != in.log.chosen || size[2] != in.log.chosen ||
        size[4] != in.horizon || size[5] != 4 * (in.horizon + 1) ||
        (in.discount != NULL && n_discount != in.horizon)) {
        wrong("the results");
        goto end;
    }
    in.final = out[0], in.returns = out[1], in.plain = out[2];
    in.weight = out[3], in.weighted = out[4];
    in.ended = out[5], in.some_ended = in.ended + in.horizon + 1;
    in.some_w = in.some_ended + in.horizon + 1, in.some_wr = in.some_w + in.horizon + 1;
    if (sound(&in.log, in.horizon))
        result = answer(&in, in.discount == NULL ? SUMS : DISCOUNTED_SUMS);
end:
    let_go(&held);
    return result;
}

static PyObject *influences(PyObject *self, PyObject *args)
{
    PyObject *log, *ratios, *slope, *pull, *pull_after, *influence, *result = NULL;
    Py_ssize_t size[4];
    Held held = {.count = 0};
    Walk in = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!(OOO)O", &PyTuple_Type, &log, &PyTuple_Type, &ratios, &slope, &pull,
                          &pull_after, &influence))
        return NULL;
    if (!read_log(&held, &in.log, log) || !read_weighting(&held, &in, ratios))
        goto end;
    in.slope = data_of(&held, slope, 'd', 0, &size[0]);
    in.pull = data_of(&held, pull, 'd', 0, &size[1]);
    in.pull_after = data_of(&held, pull_after, 'd', 0, &size[2]);
    in.influence = data_of(&held, influence, 'd', 1, &size[3]);
    in.horizon = size[0];
    if (PyErr_Occurred() || size[1] != in.horizon || size[2] != in.horizon + 1 || size[3] != in.log.chosen) {
        wrong("the results");
        goto end;
    }
    if (sound(&in.log, in.horizon))
        result = answer(&in, INFLUENCE);
end:
    let_go(&held);
    return result;
}

static PyObject *step_sizes(PyObject *self, PyObject *args)
{
    PyObject *log, *ratios, *array[4], *result = NULL;
    Py_ssize_t size[4];
    double *out[4];
    int done;
    Held held = {.count = 0};
    Walk in = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!(OOOO)", &PyTuple_Type, &log, &PyTuple_Type, &ratios, &array[0], &array[1],
                          &array[2], &array[3]))
        return NULL;
    if (!read_log(&held, &in.log, log) || !read_weighting(&held, &in, ratios))
        goto end;
    for (int i = 0; i < 4; i++)
        out[i] = data_of(&held, array[i], 'd', 1, &size[i]);
    in.horizon = size[0];
    if (PyErr_Occurred() || size[1] != in.horizon || size[2] != in.horizon + 1 || size[3] != in.horizon + 1) {
        wrong("the results");
        goto end;
    }
    if (!sound(&in.log, in.horizon))
        goto end;
    in.weight = out[0], in.ended = out[2];
    Py_BEGIN_ALLOW_THREADS
    switch (source_of(&in)) {
    case FROM_TABLE:
        done = sizes_of(&in, out[1], out[3], FROM_TABLE);
        break;
    case FROM_QUOTIENTS:
        done = sizes_of(&in, out[1], out[3], FROM_QUOTIENTS);
        break;
    default:
        done = sizes_of(&in, out[1], out[3], FROM_COLUMNS);
    }
    Py_END_ALLOW_THREADS
    result = PyBool_FromLong(done);
end:
    let_go(&held);
    return result;
}

static PyObject *returns(PyObject *self, PyObject *args)
{
    PyObject *rewards, *offsets, *rows, *discount, *found, *result = NULL;
    Py_ssize_t n_discount, n_found;
    Held held = {.count = 0};
    Walk in = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOnOO", &rewards, &offsets, &rows, &in.horizon, &discount, &found))
        return NULL;
    if (!read_episodes(&held, &in.log, rewards, offsets, rows))
        goto end;
    in.discount = data_of(&held, discount, 'd', 0, &n_discount);
    in.returns = data_of(&held, found, 'd', 1, &n_found);
    in.ratios.stride = SOME;
    if (PyErr_Occurred() || n_found != in.log.chosen || (in.discount != NULL && n_discount != in.horizon)) {
        wrong("the results");
        goto end;
    }
    if (sound(&in.log, in.horizon))
        result = answer(&in, in.discount == NULL ? RETURNS : DISCOUNTED_RETURNS);
end:
    let_go(&held);
    return result;
}

/* First rows of runs of equal episodes into found[0], ...; their number, or -1 where rows are not in order. */
static Py_ssize_t find_borders(const int64_t *episode, const int64_t *step, Py_ssize_t n, int64_t *found)
{
    Py_ssize_t count = 1;
    int disorder = 0;
    found[0] = 0;
    for (Py_ssize_t k = 1; k < n; k++) {
        int another = episode[k] != episode[k - 1];
        found[count] = k;
        count += another;
        disorder |= another ? episode[k] < episode[k - 1] : step[k] <= step[k - 1];
    }
    return disorder ? -1 : count;
}

static PyObject *borders(PyObject *self, PyObject *args)
{
    PyObject *episode, *step, *found, *result = NULL;
    Py_ssize_t n, n_step, n_found, count;
    const int64_t *episodes, *steps;
    int64_t *out;
    Held held = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &episode, &step, &found))
        return NULL;
    episodes = data_of(&held, episode, 'i', 0, &n);
    steps = data_of(&held, step, 'i', 0, &n_step);
    out = data_of(&held, found, 'i', 1, &n_found);
    if (PyErr_Occurred() || n == 0 || n_step != n || n_found != n) {
        wrong("the columns");
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    count = find_borders(episodes, steps, n, out);
    Py_END_ALLOW_THREADS
    result = PyLong_FromSsize_t(count);
end:
    let_go(&held);
    return result;
}

/* Moments of one window at one step over n episodes. With X = b r: means of X and a, sums of squares of X and
   of products with a about the mean of X, and the sum of b. Four sums side by side, since an addition waits for
   the one before it. */
static void moments_of_window(const double *a, const double *b, const double *r, Py_ssize_t n, double *found)
{
    double x[4] = {0}, y[4] = {0}, z[4] = {0}, mean;
    Py_ssize_t i, whole = n - n % 4;
    for (i = 0; i < whole; i += 4)
        for (int j = 0; j < 4; j++) {
            x[j] += b[i + j] * r[i + j];
            y[j] += a[i + j];
            z[j] += b[i + j];
        }
    for (; i < n; i++)
        x[0] += b[i] * r[i], y[0] += a[i], z[0] += b[i];
    mean = ((x[0] + x[1]) + (x[2] + x[3])) / (double)n;
    found[0] = mean;
    found[1] = ((y[0] + y[1]) + (y[2] + y[3])) / (double)n;
    found[4] = (z[0] + z[1]) + (z[2] + z[3]);
    for (int j = 0; j < 4; j++)
        x[j] = y[j] = 0.0;
    for (i = 0; i < whole; i += 4)
        for (int j = 0; j < 4; j++) {
            double d = b[i + j] * r[i + j] - mean;
            x[j] += d * d;
            y[j] += a[i + j] * d;
        }
    for (; i < n; i++) {
        double d = b[i] * r[i] - mean;
        x[0] += d * d, y[0] += a[i] * d;
    }
    found[2] = (x[0] + x[1]) + (x[2] + x[3]);
    found[3] = (y[0] + y[1]) + (y[2] + y[3]);
}

static PyObject *windows(PyObject *self, PyObject *args)
{
    PyObject *array[4], *result = NULL;
    Py_ssize_t n, size[4], steps;
    const double *a, *b, *r;
    double *out;
    Held held = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOnO", &array[0], &array[1], &array[2], &n, &array[3]))
        return NULL;
    a = data_of(&held, array[0], 'd', 0, &size[0]);
    b = data_of(&held, array[1], 'd', 0, &size[1]);
    r = data_of(&held, array[2], 'd', 0, &size[2]);
    out = data_of(&held, array[3], 'd', 1, &size[3]);
    steps = n < 1 ? 0 : size[0] / n;
    if (PyErr_Occurred() || n < 1 || size[0] != steps * n || size[1] != size[0] || size[2] != size[0] ||
        size[3] != 5 * steps) {
        wrong("the windows");
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t t = 0; t < steps; t++)
        moments_of_window(a + t * n, b + t * n, r + t * n, n, out + 5 * t);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
end:
    let_go(&held);
    return result;
}

/* Whether all codes are in range and all rewards numbers of at most some size. */
static int all_plausible(const int64_t *states, const int64_t *actions, const double *rewards, Py_ssize_t n,
                         uint64_t n_states, uint64_t n_actions, double largest)
{
    int bad = 0;
    for (Py_ssize_t k = 0; k < n; k++) /* as unsigned numbers negative ones are very large */
        bad |= ((uint64_t)states[k] >= n_states) | ((uint64_t)actions[k] >= n_actions) |
               !(fabs(rewards[k]) <= largest);
    return !bad;
}

static PyObject *plausible(PyObject *self, PyObject *args)
{
    PyObject *states, *actions, *rewards, *result = NULL;
    Py_ssize_t n_states, n_actions, size[3];
    const int64_t *state, *action;
    const double *reward;
    double largest;
    int found;
    Held held = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOnnd", &states, &actions, &rewards, &n_states, &n_actions, &largest))
        return NULL;
    state = data_of(&held, states, 'i', 0, &size[0]);
    action = data_of(&held, actions, 'i', 0, &size[1]);
    reward = data_of(&held, rewards, 'd', 0, &size[2]);
    if (PyErr_Occurred() || size[0] != size[1] || size[0] != size[2] || n_states < 0 || n_actions < 0) {
        wrong("the columns");
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    found = all_plausible(state, action, reward, size[0], (uint64_t)n_states, (uint64_t)n_actions, largest);
    Py_END_ALLOW_THREADS
    result = PyBool_FromLong(found);
end:
    let_go(&held);
    return result;
}

static PyMethodDef methods[] = {
    {"sums", sums, METH_VARARGS, "Sums of a block; see deadweight/sums/weighting.py."},
    {"influences", influences, METH_VARARGS, "Influence of each episode; see deadweight/sums/weighting.py."},
    {"step_sizes", step_sizes, METH_VARARGS, "Sums of weights and squares; see deadweight/sums/weighting.py."},
    {"returns", returns, METH_VARARGS, "Return of each episode; see deadweight/sums/blocks.py."},
    {"windows", windows, METH_VARARGS, "Moments of windows; see deadweight/estimators/incremental.py."},
    {"plausible", plausible, METH_VARARGS, "Codes and rewards in range; see deadweight/io/part_log.py."},
    {"lane_sums", lane_sums, METH_VARARGS, "Sums under many drops; see deadweight/sums/lanes.py."},
    {"lane_influences", lane_influences, METH_VARARGS, "Influences under many drops; see deadweight/sums/lanes.py."},
    {"count_steps", count_steps, METH_VARARGS, "Counts of transitions; see deadweight/values/model.py."},
    {"model_influences", model_influences, METH_VARARGS, "See deadweight/values/model_influence.py."},
    {"window_sums", window_sums, METH_VARARGS, "Sums of windowed weights; see deadweight/estimators/windowed.py."},
    {"window_influences", window_influences, METH_VARARGS, "See deadweight/estimators/windowed.py."},
    {"resample_copies", resample_copies, METH_VARARGS, "Copies of episodes; see deadweight/answers/bootstrap.py."},
    {"borders", borders, METH_VARARGS, "First rows of episodes; see deadweight/io/part_log.py."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "REVISION", REVISION); }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "deadweight.sums._kernel",
    .m_doc = "Running products in one pass; optional.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module); }
