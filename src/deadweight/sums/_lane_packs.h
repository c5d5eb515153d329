/* Some steps of a few episodes in one pack of lanes; included once for each size of a pack.

   Running weights, and in the second pass influences, stay in registers from one step to the next; the episodes
   of a few are added up before their sum is added to that of a step.

   Before: PACK lanes, and OF(name) for what the name is called at this size. */

#if defined(__GNUC__)
typedef double OF(Doubles) __attribute__((vector_size(8 * PACK), aligned(8), may_alias));
typedef int64_t OF(Masks) __attribute__((vector_size(8 * PACK), aligned(8), may_alias));
#define NONE {0.0}

INLINE OF(Doubles) OF(kept)(OF(Masks) keep, int64_t turned) { return (OF(Doubles))((keep & turned) ^ ONE); }

INLINE OF(Doubles) OF(dropped)(OF(Masks) keep, int64_t delta) { return (OF(Doubles))(~keep & delta); }

/* Adds weights to a place, where few lanes have no room for those that are thrown away. */
INLINE void OF(put)(const Lanes *in, double *place, const Py_ssize_t l, OF(Doubles) w)
{
    if (in->places > 2)
        *(OF(Doubles) *)(place + l) += w;
    else if (l == 0) {
        place[0] += w[0];
        if (in->places == 2)
            place[1] += w[1];
    }
}
#else
typedef double OF(Doubles);
typedef int64_t OF(Masks);
#define NONE 0.0

INLINE double OF(kept)(int64_t keep, int64_t turned) { return number_of((keep & turned) ^ ONE); }
INLINE double OF(dropped)(int64_t keep, int64_t delta) { return number_of(~keep & delta); }

INLINE void OF(put)(const Lanes *in, double *place, const Py_ssize_t l, double w)
{
    if (l < in->places)
        place[l] += w;
}
#endif

#define AT(array) (*(OF(Doubles) *)(array))
#define HERE(array) (*(const OF(Doubles) *)((array) + at))

/* First pass: lanes l and those after it of some episodes, `count` steps from step t on. */
INLINE void OF(add_pack)(const Lanes *in, const Py_ssize_t l, Few *of, const int kinds, int64_t t, int64_t count)
{
    const Py_ssize_t width = in->width;
    const int by_state = in->by_state != NULL, by_pair = in->by_pair != NULL;
    double *const all = in->weight, *const of_steps = in->weighted, *const of_robust = in->robust;
    double *const of_before = in->before, *const of_lost = in->lost;
    OF(Doubles) w[FEW];
    for (int e = 0; e < FEW; e++)
        w[e] = AT(of->weights[e] + l);
    for (int64_t u = 0; u < count; u++) {
        const Steps *step = &of->steps[u];
        const Py_ssize_t at = (t + u) * width + l;
        OF(Doubles) weight = NONE, weighted = NONE, robust = NONE, before = NONE, lost = NONE;
        for (int e = 0; e < FEW; e++) {
            const OF(Masks) keep = *(const OF(Masks) *)(step->keep[e] + l);
            if (by_state)
                OF(put)(in, step->by_state[e], l, w[e]);
            if (kinds & ROBUST)
                before += w[e] * step->v[e];
            if (kinds & LOST)
                lost += w[e] * OF(dropped)(keep, step->delta[e]);
            w[e] *= OF(kept)(keep, step->turned[e]);
            weight += w[e];
            if (kinds & STEPS)
                weighted += w[e] * step->reward[e];
            if (kinds & ROBUST)
                robust += w[e] * step->error[e];
            if (by_pair)
                OF(put)(in, step->by_pair[e], l, w[e]);
        }
        AT(all + at) += weight;
        if (kinds & STEPS)
            AT(of_steps + at) += weighted;
        if (kinds & ROBUST)
            AT(of_robust + at) += robust, AT(of_before + at) += before;
        if (kinds & LOST)
            AT(of_lost + at) += lost;
    }
    for (int e = 0; e < FEW; e++)
        AT(of->weights[e] + l) = w[e];
}

/* Second pass: the influences of some episodes so far. */
INLINE void OF(pull_pack)(const Lanes *in, const Py_ssize_t l, Few *of, const int kinds, int64_t t, int64_t count)
{
    const Py_ssize_t width = in->width;
    OF(Doubles) w[FEW], steps[FEW], robust[FEW], lost[FEW];
    for (int e = 0; e < FEW; e++) {
        w[e] = AT(of->weights[e] + l);
        if (kinds & STEPS)
            steps[e] = AT(of->of_steps[e] + l);
        if (kinds & ROBUST)
            robust[e] = AT(of->of_robust[e] + l);
        if (kinds & LOST)
            lost[e] = AT(of->of_lost[e] + l);
    }
    for (int64_t u = 0; u < count; u++) {
        const Steps *step = &of->steps[u];
        const Py_ssize_t at = (t + u) * width + l;
        OF(Doubles) slope = NONE, slope_before = NONE, pull = NONE, pull_robust = NONE, pull_before = NONE;
        OF(Doubles) pull_lost = NONE;
        if (kinds & (STEPS | ROBUST))
            slope = HERE(in->slope);
        if (kinds & (ROBUST | LOST))
            slope_before = HERE(in->slope_before);
        if (kinds & STEPS)
            pull = HERE(in->pull);
        if (kinds & ROBUST)
            pull_robust = HERE(in->pull_robust), pull_before = HERE(in->pull_before);
        if (kinds & LOST)
            pull_lost = HERE(in->pull_lost);
        for (int e = 0; e < FEW; e++) {
            const OF(Masks) keep = *(const OF(Masks) *)(step->keep[e] + l);
            if (kinds & LOST)
                lost[e] += w[e] * (OF(dropped)(keep, step->delta[e]) * slope_before - pull_lost);
            if (kinds & ROBUST)
                robust[e] += w[e] * (step->v[e] * slope_before - pull_before);
            w[e] *= OF(kept)(keep, step->turned[e]);
            if (kinds & STEPS)
                steps[e] += w[e] * (step->reward[e] * slope - pull);
            if (kinds & ROBUST)
                robust[e] += w[e] * (step->error[e] * slope - pull_robust);
        }
    }
    for (int e = 0; e < FEW; e++) {
        AT(of->weights[e] + l) = w[e];
        if (kinds & STEPS)
            AT(of->of_steps[e] + l) = steps[e];
        if (kinds & ROBUST)
            AT(of->of_robust[e] + l) = robust[e];
        if (kinds & LOST)
            AT(of->of_lost[e] + l) = lost[e];
    }
}

#undef AT
#undef HERE
#undef NONE
