/* Running products under many drops at once, and what is summed of them, in one pass.

   A lane is one set of dropped states: its running weight is multiplied by the ratio of every step whose state it
   keeps. All lanes lie side by side in memory, so that a step is read once and serves all of them.

   A group of episodes is walked tile by tile, some steps of a few episodes at a time: what belongs to these steps
   stays in the nearest cache, and running weights stay in registers. An episode that ends within a tile goes on to
   its end with ratio 1 and values 0, as ended episodes do by the default convention anyway.

   As in _kernel.c, what cannot be done in plain doubles is not done: the answer is False, and numpy takes the
   block. No operation mixes lanes and none is contracted, so that wider vectors give the same bits. */

#include "_lanes.h"
#include "_buffers.h"
#include <string.h>

#define GROUP 256 /* episodes whose tiles are walked one after the other */
#define FEW 4     /* episodes that are walked side by side */
#define TILE 8    /* steps of each that are read at once: a line of cache */

/* What is summed, or what the influence is of; each array is NULL where nobody wants it. */
typedef struct {
    Log log;
    Py_ssize_t horizon, width, lanes; /* a row of `width` numbers has so many that are walked along */
    int kinds; /* which of them are wanted */
    Ratios ratios;
    Py_ssize_t patterns;
    const int64_t *pattern; /* (S,) the row of `keep` that a state has; many states are dropped by the same lanes */
    const int64_t *keep;    /* (patterns, width) all bits where the ratio is kept, none where it is dropped */
    uint64_t n_states, n_actions;
    /* Values of step t in state s, (folds, values_horizon, S[, A]); delta has one fold only. A single step stands
       for all of them. */
    const double *q, *v, *delta;
    const int64_t *fold_of; /* of each chosen episode; NULL: one fold */
    int64_t values_horizon, folds;
    /* First pass: sums of each step, (horizon, width) each; `ended` has one step more. */
    double *weight, *weighted, *robust, *before, *lost, *ended;
    double *by_state, *by_pair; /* (folds, horizon, S[ * A], places) weights before, and after, a step */
    Py_ssize_t places;          /* the lanes, where there are one or two: tables are large */
    double *returns;            /* (chosen,) */
    const double *discount;     /* of the returns; NULL: 1 */
    /* Second pass: factors of each step, (horizon, width), and sums of the pulls from each step on. */
    const double *slope, *slope_before, *pull, *pull_robust, *pull_before, *pull_lost;
    const double *after, *after_robust, *after_lost;
    double *of_steps, *of_robust, *of_lost; /* (chosen, width) */
    /* Either pass: whole weights, (chosen, width). */
    double *final;
    double *weights; /* (GROUP, width) */
    const int64_t **keep_of; /* (S,) the row of `keep` of each state */
    int64_t *all;    /* (width,) all bits: the lanes that keep a step that is none */
    double *nobody;  /* (width,) what belongs to no episode */
    Py_ssize_t *order, *by_length; /* (chosen,) one fold after the other, whose tables stay in cache; longest first */
    Py_ssize_t *lengths;           /* (horizon + 2,) how many have each length */
} Lanes;

/* The values of one step of a few episodes; those that are chosen by lane as bits. */
typedef struct {
    const int64_t *keep[FEW];
    double *by_state[FEW], *by_pair[FEW];   /* (places,) each */
    double reward[FEW], error[FEW], v[FEW]; /* error = r - q */
    int64_t turned[FEW], delta[FEW];        /* the bits in which the ratio differs from 1; an advantage */
} Steps;

/* Episodes that are walked side by side. */
typedef struct {
    double *weights[FEW], *of_steps[FEW], *of_robust[FEW], *of_lost[FEW]; /* (width,) each */
    Steps steps[TILE];
} Few;

/* Episodes of one fold, the longest first. */
typedef struct {
    const Py_ssize_t *number; /* of each of them among the chosen */
    Py_ssize_t size, alive;   /* the first so many go on */
    int64_t fold;
    int64_t begin[GROUP], length[GROUP];
} Group;

/* Kinds of sums; PLACES are `by_state` and `by_pair`. */
enum { STEPS = 1, ROBUST = 2, LOST = 4, PLACES = 8 };

INLINE int64_t bits_of(double number)
{
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

INLINE double number_of(int64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

#define ONE 0x3FF0000000000000 /* 1.0 as bits */

#if defined(__GNUC__)
#if !defined(__clang__) /* all functions of packs are inlined: how one is passed does not matter */
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
#define PACK 8
#define OF(name) name##_of_8
#include "_lane_packs.h"
#undef PACK
#undef OF
#define PACK 4
#define OF(name) name##_of_4
#include "_lane_packs.h"
#undef PACK
#undef OF
#else
#define OF(name) name##_of_1
#include "_lane_packs.h"
#undef OF
#endif

INLINE void fetch_row(const Log *log, int64_t k)
{
    FETCH(log->states + k);
    FETCH(log->actions + k);
    FETCH(log->rewards + k);
}

/* The steps of episode e of a few that are none, from step u on. */
APART void read_nothing(const Lanes *in, Few *of, int e, int64_t u, int64_t count)
{
    for (; u < count; u++) {
        Steps *step = &of->steps[u];
        step->keep[e] = in->all, step->turned[e] = 0;
        step->reward[e] = step->error[e] = step->v[e] = 0.0, step->delta[e] = 0;
        step->by_state[e] = step->by_pair[e] = in->nobody;
    }
}

/* Steps t to t + count of a few episodes, from number j of a group on; 0 where one is in no table, or out of range.
   Which of their values are wanted the compiler knows. */
INLINE int read_few(const Lanes *in, const Group *group, Few *of, Py_ssize_t j, int64_t t, int64_t count,
                    const int kinds, const int from_table)
{
    const uint64_t n_states = in->n_states, n_actions = in->n_actions, places = (uint64_t)in->places;
    const uint64_t later = in->values_horizon > 1 ? n_states : 0; /* from the values of a step to the next ones */
    const uint64_t first = (uint64_t)t * later;
    const uint64_t in_fold = (uint64_t)(group->fold * in->values_horizon) * n_states + first;
    const uint64_t place = (uint64_t)(group->fold * in->horizon + t) * n_states;
    const int64_t *const *const keep_of = in->keep_of;
    const double *const ratios = in->ratios.table;
    const int by_state = kinds & PLACES && in->by_state != NULL, by_pair = kinds & PLACES && in->by_pair != NULL;
    for (int e = 0; e < FEW; e++) {
        const int there = j + e < group->alive;
        const int64_t k = there ? group->begin[j + e] + t : 0, left = there ? group->length[j + e] - t : 0;
        const int64_t steps = left < count ? left : count;
        const int64_t *const states = in->log.states + k, *const actions = in->log.actions + k;
        const double *const rewards = in->log.rewards + k;
        const double *delta = kinds & LOST ? in->delta + first : NULL, *v = kinds & ROBUST ? in->v + in_fold : NULL;
        const double *q = kinds & ROBUST ? in->q + in_fold * n_actions : NULL;
        double *state_at = by_state ? in->by_state + place * places : NULL;
        double *pair_at = by_pair ? in->by_pair + place * n_actions * places : NULL;
        if (left >= 2 * TILE) /* the end of the next tile: its beginning shares a line with the end of this one */
            fetch_row(&in->log, k + 2 * TILE - 1);
        for (int64_t u = 0; u < steps; u++) {
            const uint64_t state = (uint64_t)states[u], action = (uint64_t)actions[u];
            const uint64_t pair = state * n_actions + action;
            const double reward = rewards[u];
            Steps *const step = &of->steps[u];
            if (state >= n_states || action >= n_actions)
                return 0;
            if (from_table)
                step->turned[e] = bits_of(ratios[pair]) ^ ONE;
            else {
                const double rho = ratio_of(&in->ratios, k + u, pair);
                if (out_of_range(rho))
                    return 0;
                step->turned[e] = bits_of(rho) ^ ONE;
            }
            step->keep[e] = keep_of[state];
            step->reward[e] = reward;
            if (kinds & LOST)
                step->delta[e] = bits_of(delta[state]), delta += later;
            if (kinds & ROBUST) {
                step->v[e] = v[state], step->error[e] = reward - q[pair];
                v += later, q += later * n_actions;
            }
            if (by_state)
                step->by_state[e] = state_at + state * places, state_at += n_states * places;
            if (by_pair)
                step->by_pair[e] = pair_at + pair * places, pair_at += n_states * n_actions * places;
        }
        if (steps < count)
            read_nothing(in, of, e, steps, count);
    }
    return 1;
}

/* The same with kinds that the compiler knows: nothing is asked for once more at each step. Not part of its
   callers: in each of their many forms it would be compiled anew, for half a minute and no gain. */
APART int read_steps(const Lanes *in, const Group *group, Few *of, Py_ssize_t j, int64_t t, int64_t count)
{
#define CASE(kinds)                                                                                            \
    case kinds:                                                                                                \
        return read_few(in, group, of, j, t, count, kinds, 1)
    if (in->ratios.table == NULL)
        return read_few(in, group, of, j, t, count, in->kinds, 0);
    switch (in->kinds & ~STEPS) {
        CASE(0);
        CASE(ROBUST);
        CASE(LOST);
        CASE(ROBUST | LOST);
        CASE(PLACES);
        CASE(PLACES | ROBUST);
        CASE(PLACES | LOST);
    default:
        return read_few(in, group, of, j, t, count, PLACES | ROBUST | LOST, 1);
    }
#undef CASE
}

/* All lanes of some steps of a few episodes. */
INLINE void step_along(const Lanes *in, Few *of, int64_t t, int64_t count, const int kinds, const int second)
{
    Py_ssize_t l = 0;
#if defined(__GNUC__)
    for (; l + 8 <= in->lanes; l += 8)
        if (second)
            pull_pack_of_8(in, l, of, kinds, t, count);
        else
            add_pack_of_8(in, l, of, kinds, t, count);
    if (l < in->lanes) {
        if (second)
            pull_pack_of_4(in, l, of, kinds, t, count);
        else
            add_pack_of_4(in, l, of, kinds, t, count);
    }
#else
    for (; l < in->lanes; l++)
        if (second)
            pull_pack_of_1(in, l, of, kinds, t, count);
        else
            add_pack_of_1(in, l, of, kinds, t, count);
#endif
}

/* The same with kinds that the compiler knows: none of them is asked for once more at each step. */
INLINE void step_by_kinds(const Lanes *in, Few *of, int64_t t, int64_t count, const int second)
{
#define CASE(kinds)                                                                                            \
    case kinds:                                                                                                \
        step_along(in, of, t, count, kinds, second);                                                           \
        break
    switch (in->kinds & ~PLACES) {
        CASE(0);
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
        CASE(7);
    }
#undef CASE
}

APART int in_range(const double *w, Py_ssize_t width)
{
    int bad = 0;
    for (Py_ssize_t l = 0; l < width; l++)
        bad |= out_of_range(w[l]);
    return !bad;
}

/* What an ended episode still pulls while it stays in the normalisers. */
INLINE void let_pull(double *influence, const double *after, const double *w, Py_ssize_t width)
{
    for (Py_ssize_t l = 0; l < width; l++)
        influence[l] -= w[l] * after[l];
}

/* What is left to do when an episode has been walked up to step t and has ended; `i` is its place among the chosen.
   From now on its weights are those of nobody. */
APART void end_episode(const Lanes *in, Py_ssize_t i, int64_t t, double *w, const int second)
{
    const Py_ssize_t width = in->width;
    if (!second)
        for (Py_ssize_t l = 0; l < width; l++)
            in->ended[t * width + l] += w[l];
    if (second && in->of_steps != NULL)
        let_pull(in->of_steps + i * width, in->after + t * width, w, width);
    if (second && in->of_robust != NULL)
        let_pull(in->of_robust + i * width, in->after_robust + t * width, w, width);
    if (second && in->of_lost != NULL)
        let_pull(in->of_lost + i * width, in->after_lost + t * width, w, width);
    for (Py_ssize_t l = 0; l < width; l++)
        in->final[i * width + l] = w[l], w[l] = 0.0;
}

/* Lets go the episodes that ended before step t. Weights are looked at then, and where it is time to; 0 where one
   has left the range. */
INLINE int end_tile(const Lanes *in, Group *group, int64_t t, const int second)
{
    if (t % in->ratios.stride == 0)
        for (Py_ssize_t j = 0; j < group->alive; j++)
            if (!in_range(in->weights + j * in->width, in->width))
                return 0;
    for (; group->alive > 0 && group->length[group->alive - 1] <= t; group->alive--) {
        double *w = in->weights + (group->alive - 1) * in->width;
        if (!in_range(w, in->width))
            return 0;
        end_episode(in, group->number[group->alive - 1], t, w, second);
    }
    return 1;
}

/* The returns of a group's episodes so far. */
APART void add_returns(const Lanes *in, const Group *group, int64_t t, int64_t count)
{
    for (Py_ssize_t j = 0; j < group->alive; j++) {
        const int64_t k = group->begin[j] + t, left = group->length[j] - t, steps = left < count ? left : count;
        double sum = in->returns[group->number[j]];
        for (int64_t u = 0; u < steps; u++)
            sum += in->log.rewards[k + u] * (in->discount == NULL ? 1.0 : in->discount[t + u]);
        in->returns[group->number[j]] = sum;
    }
}

/* `size` numbers from the beginning of an array on. */
INLINE void fetch_numbers(const double *array, uint64_t size)
{
    for (uint64_t i = 0; i < size; i += 64 / sizeof(double))
        FETCH(array + i);
}

/* The rows of tables that the tile after this one looks up: they lie anywhere, and all of them are needed where a
   group has more steps than they have numbers. */
INLINE void fetch_tables(const Lanes *in, const Group *group, int64_t t, int64_t count)
{
    const uint64_t rows = (uint64_t)count * in->n_states, pairs = rows * in->n_actions;
    const uint64_t in_fold = (uint64_t)(group->fold * in->values_horizon + t) * in->n_states;
    const uint64_t place = (uint64_t)(group->fold * in->horizon + t) * in->n_states * (uint64_t)in->places;
    if (t + count > in->horizon || pairs > (uint64_t)(group->alive * count))
        return;
    if (in->kinds & ROBUST && in->values_horizon > 1) {
        fetch_numbers(in->v + in_fold, rows);
        fetch_numbers(in->q + in_fold * in->n_actions, pairs);
    }
    if (in->by_state != NULL)
        fetch_numbers(in->by_state + place, rows * (uint64_t)in->places);
    if (in->by_pair != NULL)
        fetch_numbers(in->by_pair + place * in->n_actions, pairs * (uint64_t)in->places);
}

/* The episodes of a group tile by tile; 0 where a product leaves the range, or a step a table. */
INLINE int walk_group(const Lanes *in, Group *group, const int second)
{
    const int64_t look = in->ratios.stride;
    int64_t t = 0, next;
    Few of;
    for (Py_ssize_t l = 0; l < (group->size + FEW - 1) / FEW * FEW * in->width; l++)
        in->weights[l] = l < group->size * in->width ? 1.0 : 0.0;
    for (; group->alive > 0; t = next) {
        next = t + TILE < group->length[0] ? t + TILE : group->length[0];
        if (next > (t / look + 1) * look) /* weights are looked at between tiles */
            next = (t / look + 1) * look;
        fetch_tables(in, group, next, next - t);
        for (Py_ssize_t j = 0; j < group->alive; j += FEW) {
            for (int e = 0; e < FEW; e++) {
                const Py_ssize_t at = j + e < group->alive ? group->number[j + e] * in->width : -1;
                of.weights[e] = in->weights + (j + e) * in->width;
                of.of_steps[e] = at >= 0 && in->of_steps != NULL ? in->of_steps + at : in->nobody;
                of.of_robust[e] = at >= 0 && in->of_robust != NULL ? in->of_robust + at : in->nobody;
                of.of_lost[e] = at >= 0 && in->of_lost != NULL ? in->of_lost + at : in->nobody;
            }
            if (!read_steps(in, group, &of, j, t, next - t))
                return 0;
            step_by_kinds(in, &of, t, next - t, second);
        }
        if (in->returns != NULL)
            add_returns(in, group, t, next - t);
        if (!end_tile(in, group, next, second))
            return 0;
    }
    return 1;
}

INLINE int walk_all(const Lanes *in, const int second)
{
    Group group;
    const Py_ssize_t *const end = in->order + in->log.chosen;
    for (group.number = in->order; group.number < end; group.number += group.size) {
        group.fold = in->fold_of == NULL ? 0 : in->fold_of[*group.number];
        for (group.size = 0; group.size < GROUP && group.number + group.size < end; group.size++) {
            const Py_ssize_t i = group.number[group.size];
            const int64_t row = in->log.rows[i];
            if (in->fold_of != NULL && in->fold_of[i] != group.fold)
                break;
            group.begin[group.size] = in->log.offsets[row];
            group.length[group.size] = in->log.offsets[row + 1] - in->log.offsets[row];
            if (in->returns != NULL)
                in->returns[i] = 0.0;
        }
        for (Py_ssize_t j = 0; j < group.size; j++) {
            fetch_row(&in->log, group.begin[j]);
            fetch_row(&in->log, group.begin[j] + (group.length[j] < TILE ? group.length[j] : TILE) - 1);
        }
        group.alive = group.size;
        if (!walk_group(in, &group, second))
            return 0;
    }
    if (second)
        return 1;
    for (Py_ssize_t l = 0; l < in->width; l++) { /* ended episodes keep their last weight */
        double gone = 0.0;
        for (Py_ssize_t t = 0; t < in->horizon; t++) {
            gone += in->ended[t * in->width + l];
            in->weight[t * in->width + l] += gone;
        }
    }
    return 1;
}

WIDE static int walk_sums(const Lanes *in) { return walk_all(in, 0); }
WIDE static int walk_influences(const Lanes *in) { return walk_all(in, 1); }

/* --- from Python and back ------------------------------------------------------------------------------ */

static int read_lanes(Held *held, Lanes *in, PyObject *lanes)
{
    PyObject *tables[3], *columns[2], *keep, *pattern;
    Py_ssize_t n_keep, n_actions, n_states, stride;
    if (!PyArg_ParseTuple(lanes, "OOOOOOOnnnn", &tables[0], &tables[1], &tables[2], &columns[0], &columns[1], &pattern,
                          &keep, &n_actions, &in->width, &in->lanes, &stride))
        return 0;
    in->pattern = data_of(held, pattern, 'i', 0, &n_states);
    in->keep = data_of(held, keep, 'i', 0, &n_keep);
    if (PyErr_Occurred() || n_states < 1 || n_actions < 1 || in->width < 4 || in->width % 4 || n_keep % in->width ||
        in->lanes < 1 || in->lanes % 4 || in->lanes > in->width)
        return wrong("the lanes");
    in->patterns = n_keep / in->width;
    for (Py_ssize_t s = 0; s < n_states; s++)
        if (in->pattern[s] < 0 || in->pattern[s] >= in->patterns)
            return wrong("the lanes");
    in->n_states = (uint64_t)n_states, in->n_actions = in->ratios.n_actions = (uint64_t)n_actions;
    in->ratios.stride = stride;
    if (!read_ratios(held, &in->ratios, &in->log, tables, columns))
        return 0;
    return in->ratios.cells == 0 || in->ratios.cells == in->n_states * in->n_actions ? 1 : wrong("the tables");
}

static int read_values(Held *held, Lanes *in, PyObject *values)
{
    PyObject *q, *v, *delta, *fold_of;
    Py_ssize_t n_q, n_v, n_delta, n_fold_of, horizon, folds, one;
    if (!PyArg_ParseTuple(values, "OOOOnn", &q, &v, &delta, &fold_of, &horizon, &folds))
        return 0;
    in->q = data_of(held, q, 'd', 0, &n_q);
    in->v = data_of(held, v, 'd', 0, &n_v);
    in->delta = data_of(held, delta, 'd', 0, &n_delta);
    in->fold_of = data_of(held, fold_of, 'i', 0, &n_fold_of);
    one = horizon * (Py_ssize_t)in->n_states;
    if (PyErr_Occurred() || (horizon < in->horizon && horizon != 1) || folds < 1 || (in->delta != NULL && n_delta != one) ||
        (in->q == NULL) != (in->v == NULL) ||
        (in->v != NULL && (n_v != folds * one || n_q != n_v * (Py_ssize_t)in->n_actions)))
        return wrong("the values");
    in->values_horizon = horizon, in->folds = folds;
    if (in->fold_of == NULL)
        return folds == 1 ? 1 : wrong("the folds");
    if (n_fold_of != in->log.chosen)
        return wrong("the folds");
    for (Py_ssize_t i = 0; i < n_fold_of; i++)
        if (in->fold_of[i] < 0 || in->fold_of[i] >= folds)
            return wrong("the folds");
    return 1;
}

/* Episodes in the order of their folds, the longest first in each. */
static void put_in_order(const Lanes *in)
{
    const int64_t *const offsets = in->log.offsets, *const rows = in->log.rows;
    Py_ssize_t place = 0;
    for (Py_ssize_t i = 0; i < in->log.chosen; i++)
        in->lengths[offsets[rows[i] + 1] - offsets[rows[i]]]++;
    for (Py_ssize_t length = in->horizon; length >= 0; length--) { /* how many are longer */
        const Py_ssize_t count = in->lengths[length];
        in->lengths[length] = place, place += count;
    }
    for (Py_ssize_t i = 0; i < in->log.chosen; i++)
        in->by_length[in->lengths[offsets[rows[i] + 1] - offsets[rows[i]]]++] = i;
    place = 0;
    for (int64_t fold = 0; fold < in->folds; fold++)
        for (Py_ssize_t i = 0; i < in->log.chosen; i++)
            if (in->fold_of == NULL || in->fold_of[in->by_length[i]] == fold)
                in->order[place++] = in->by_length[i];
}

/* So many bytes at the beginning of a line of cache, after `room`. */
static void *aligned(void **room, size_t size)
{
    const uintptr_t at = ((uintptr_t)*room + 63) & ~(uintptr_t)63;
    *room = (void *)(at + size);
    return (void *)at;
}

static PyObject *answer(Lanes *in, int (*walk)(const Lanes *))
{
    const size_t row = (size_t)in->width * sizeof(double), chosen = (size_t)in->log.chosen;
    const size_t states = (size_t)in->n_states, order = (2 * chosen + (size_t)in->horizon + 1) * sizeof(Py_ssize_t);
    const Py_ssize_t patterns = in->patterns;
    int64_t *keep;
    void *room, *memory;
    int done;
    in->kinds = (in->weighted != NULL || in->of_steps != NULL ? STEPS : 0) |
                (in->robust != NULL || in->of_robust != NULL ? ROBUST : 0) |
                (in->lost != NULL || in->of_lost != NULL ? LOST : 0) |
                (in->by_state != NULL || in->by_pair != NULL ? PLACES : 0);
    room = memory = PyMem_Calloc(1, (GROUP + 2 + (size_t)patterns) * row + states * sizeof(int64_t *) + order + 6 * 64);
    if (memory == NULL)
        return PyErr_NoMemory();
    in->weights = aligned(&room, GROUP * row);
    in->nobody = aligned(&room, row);
    in->all = aligned(&room, row);
    keep = aligned(&room, (size_t)patterns * row);
    in->keep_of = aligned(&room, states * sizeof(int64_t *));
    in->order = aligned(&room, order);
    in->by_length = in->order + chosen, in->lengths = in->by_length + chosen;
    memset(in->all, -1, row);
    memcpy(keep, in->keep, (size_t)patterns * row);
    Py_BEGIN_ALLOW_THREADS
    for (size_t s = 0; s < states; s++)
        in->keep_of[s] = keep + in->pattern[s] * in->width;
    put_in_order(in);
    done = walk(in);
    Py_END_ALLOW_THREADS
    PyMem_Free(memory);
    return PyBool_FromLong(done);
}

/* An array is as long as it should be, or is not there. */
static int fits(const void *array, Py_ssize_t size, Py_ssize_t wanted) { return array == NULL || size == wanted; }

PyObject *lane_sums(PyObject *self, PyObject *args)
{
    PyObject *columns, *ratios, *values, *discount, *array[10], *result = NULL;
    Py_ssize_t n_discount, size[10], cells, by_state;
    double *out[10];
    Held held = {.count = 0};
    Lanes in = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "nO!O!O!O(OOOOOOOOOO)", &in.horizon, &PyTuple_Type, &columns, &PyTuple_Type, &ratios,
                          &PyTuple_Type, &values, &discount, &array[0], &array[1], &array[2], &array[3], &array[4],
                          &array[5], &array[6], &array[7], &array[8], &array[9]))
        return NULL;
    if (!read_log(&held, &in.log, columns) || !read_lanes(&held, &in, ratios) ||
        !read_values(&held, &in, values))
        goto end;
    for (int i = 0; i < 10; i++)
        out[i] = data_of(&held, array[i], 'd', 1, &size[i]);
    in.discount = data_of(&held, discount, 'd', 0, &n_discount);
    if (PyErr_Occurred())
        goto end;
    if (in.horizon < 1) {
        wrong("the results");
        goto end;
    }
    in.weight = out[0], in.weighted = out[1], in.robust = out[2], in.before = out[3], in.lost = out[4];
    in.ended = out[5], in.by_state = out[6], in.by_pair = out[7], in.final = out[8], in.returns = out[9];
    cells = in.horizon * in.width, by_state = in.folds * in.horizon * (Py_ssize_t)in.n_states;
    in.places = in.by_state != NULL ? size[6] / by_state
                : in.by_pair != NULL ? size[7] / by_state / (Py_ssize_t)in.n_actions
                                     : in.width;
    by_state *= in.places;
    if (size[0] != cells || (in.places != 1 && in.places != 2 && in.places != in.width) || !fits(in.weighted, size[1], cells) ||
        !fits(in.robust, size[2], cells) || !fits(in.before, size[3], cells) || !fits(in.lost, size[4], cells) ||
        size[5] != cells + in.width || !fits(in.by_state, size[6], by_state) ||
        !fits(in.by_pair, size[7], by_state * (Py_ssize_t)in.n_actions) || size[8] != in.log.chosen * in.width ||
        !fits(in.returns, size[9], in.log.chosen) || !fits(in.discount, n_discount, in.horizon) ||
        (in.q == NULL && (in.robust != NULL || in.before != NULL)) || (in.delta == NULL && in.lost != NULL)) {
        wrong("the results");
        goto end;
    }
    if (sound(&in.log, in.horizon))
        result = answer(&in, walk_sums);
end:
    let_go(&held);
    return result;
}

PyObject *lane_influences(PyObject *self, PyObject *args)
{
    PyObject *columns, *ratios, *values, *array[9], *found[4], *result = NULL;
    Py_ssize_t size[9], n_found[4], cells;
    const double *factor[9];
    double *out[4];
    Held held = {.count = 0};
    Lanes in = {0};
    int wrong_size = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "nO!O!O!(OOOOOOOOO)(OOOO)", &in.horizon, &PyTuple_Type, &columns, &PyTuple_Type,
                          &ratios, &PyTuple_Type, &values, &array[0], &array[1], &array[2], &array[3], &array[4],
                          &array[5], &array[6], &array[7], &array[8], &found[0], &found[1], &found[2], &found[3]))
        return NULL;
    if (!read_log(&held, &in.log, columns) || !read_lanes(&held, &in, ratios) ||
        !read_values(&held, &in, values))
        goto end;
    for (int i = 0; i < 9; i++)
        factor[i] = data_of(&held, array[i], 'd', 0, &size[i]);
    for (int i = 0; i < 4; i++)
        out[i] = data_of(&held, found[i], 'd', 1, &n_found[i]);
    if (PyErr_Occurred())
        goto end;
    cells = in.horizon * in.width;
    for (int i = 0; i < 9; i++)
        wrong_size |= !fits(factor[i], size[i], i < 6 ? cells : cells + in.width);
    for (int i = 0; i < 4; i++)
        wrong_size |= !fits(out[i], n_found[i], in.log.chosen * in.width);
    in.slope = factor[0], in.slope_before = factor[1], in.pull = factor[2], in.pull_robust = factor[3];
    in.pull_before = factor[4], in.pull_lost = factor[5];
    in.after = factor[6], in.after_robust = factor[7], in.after_lost = factor[8];
    in.of_steps = out[0], in.of_robust = out[1], in.of_lost = out[2], in.final = out[3];
    if (wrong_size || in.horizon < 1 || in.final == NULL ||
        (in.of_steps != NULL && (in.slope == NULL || in.pull == NULL || in.after == NULL)) ||
        (in.of_robust != NULL && (in.q == NULL || in.slope == NULL || in.slope_before == NULL ||
                                  in.pull_robust == NULL || in.pull_before == NULL || in.after_robust == NULL)) ||
        (in.of_lost != NULL && (in.delta == NULL || in.slope_before == NULL || in.pull_lost == NULL ||
                                in.after_lost == NULL))) {
        wrong("the results");
        goto end;
    }
    if (sound(&in.log, in.horizon))
        result = answer(&in, walk_influences);
end:
    let_go(&held);
    return result;
}
