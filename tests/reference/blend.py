"""BLEND by plain loops: every estimate with its full influence, the mix, its interval and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from .log import ENDS, UNKNOWN, Array, Log, Policy, cumulative, ratio, ratios, returns
from .model import fit_model, q_values
from .products import kish
from .weighted import window_weight

FOLDS = 5


@dataclass
class Model:
    """A model fitted on some episodes of a log, with the values of pi_e over the log's horizon."""

    log: Log
    members: Sequence[int]
    pi_e: Policy
    gamma: float

    def __post_init__(self) -> None:
        log, some = self.log, self.members
        part = Log(
            [log.episodes[i] for i in some],
            [log.ended(i) for i in some],
            None if log.next_states is None else [log.next_states[i] for i in some],
        )
        shape = (len(self.pi_e), len(self.pi_e[0]))
        self.P, self.r, self.d0 = fit_model(part, *shape)
        self.Q, V = q_values(self.P, self.r, self.pi_e, log.horizon, self.gamma)
        self.V = np.zeros((log.horizon + 1, shape[0] + 1))  # with V_T, and with the end
        self.V[:-1, :-1] = V
        self.visits, self.moves = np.zeros(shape), np.zeros(shape)
        for s, a, _, after in self.steps(some):
            self.visits[s, a] += 1
            self.moves[s, a] += after != UNKNOWN
        self.value = float(self.d0 @ self.V[0, :-1])

    def steps(self, some: Sequence[int]) -> list[tuple[int, int, float, int]]:
        found = []
        for i in some:
            for t, (s, a, r) in enumerate(self.log.episodes[i]):
                after = self.log.successor(i, t)
                found.append((s, a, r, len(self.pi_e) if after == ENDS else after))
        return found

    def occupancy(self, pi: Policy) -> Array:
        """(T, S) state probabilities at each step."""
        d = np.zeros((self.log.horizon, len(pi)))
        d[0] = self.d0
        for t in range(1, self.log.horizon):
            for s in range(len(pi)):
                for a in range(len(pi[0])):
                    d[t] += d[t - 1, s] * pi[s][a] * self.P[s, a, :-1]
        return d

    def phi(self, start: Array) -> Array:
        """(n,) influence of each episode through the model on an estimate with this start (T, S, A)."""
        horizon, n_states, n_actions = start.shape
        f, g = np.zeros_like(start), np.zeros(n_states)
        for t in range(horizon):
            for s in range(n_states):
                for a in range(n_actions):
                    f[t, s, a] = start[t, s, a] + g[s] * self.pi_e[s][a]
            g = np.zeros(n_states)
            for s in range(n_states):
                for a in range(n_actions):
                    g += self.gamma * f[t, s, a] * self.P[s, a, :-1]
        n = self.log.n
        found = np.zeros(n)
        for i in self.members:
            for s, a, r, after in self.steps([i]):
                for b in range(n_actions):
                    # An unseen action b of s borrows from every step in s.
                    share_r = lent(self.visits, s, a, b)
                    share_p = lent(self.moves, s, a, b)
                    for t in range(horizon):
                        found[i] += n * share_r * f[t, s, b] * (r - self.r[s, b])
                        if after != UNKNOWN:
                            ahead = self.V[t + 1, after] - self.P[s, b] @ self.V[t + 1]
                            found[i] += n * share_p * self.gamma * f[t, s, b] * ahead
        return found


def lent(counts: Array, s: int, a: int, b: int) -> float:
    """By how much one step (s, a) enters the mean of (s, b)."""
    if counts[s, b] > 0:
        return 1 / counts[s, b] if a == b else 0.0
    return 1 / counts[s].sum() if counts[s].sum() > 0 else 0.0


def doubly_robust(
    log: Log,
    pi_e: Policy,
    weights: list[list[float]],
    gamma: float,
    models: Sequence[Model],
    weighted: bool = True,
) -> tuple[float, Array]:
    """WDR and its full influence, with model number i % len(models) for episode i; LIN is not `weighted`."""
    n, count = log.n, len(models)
    value, psi = 0.0, np.zeros(n)
    starts = [np.zeros_like(models[0].Q) for _ in models]
    for t in range(log.horizon):
        now, before = [row[t] for row in weights], [row[t - 1] if t else 1.0 for row in weights]
        total = [sum(row) if weighted else n for row in (now, before)]
        surprise, baseline = np.zeros(n), np.zeros(n)
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                s, a, r = episode[t]
                model, start = models[i % count], starts[i % count]
                surprise[i], baseline[i] = r - model.Q[t, s, a], model.V[t, s]
                start[t, s, a] -= gamma**t * ratio(now[i], total[0])
                for b in range(len(pi_e[0])):
                    start[t, s, b] += gamma**t * ratio(before[i], total[1]) * pi_e[s][b]
        for w, y, norm_of in ((now, surprise, total[0]), (before, baseline, total[1])):
            mean = ratio(float(np.dot(w, y)), norm_of)
            value += gamma**t * mean
            for i in range(n):
                psi[i] += gamma**t * n * ratio(w[i] * (y[i] - mean) if weighted else w[i] * y[i], norm_of)
    for model, start in zip(models, starts, strict=True):
        psi += model.phi(start)
    return value, psi


def first_order(log: Log, pi_e: Policy, pi_b: Policy) -> list[list[float]]:
    """1 + sum_{u <= t} (rho_u - 1), after the end as at the end."""
    rows = []
    for row in ratios(log, pi_e, pi_b):
        weights = [1 + sum(rho - 1 for rho in row[: t + 1]) for t in range(len(row))]
        rows.append(weights + [weights[-1]] * (log.horizon - len(weights)))
    return rows


def by_weights(weights: list[list[float]], paid: list[list[float]]) -> tuple[float, Array]:
    """Self-normalised means added up, and the influence: WPDIS with a slot a step, WIS with one for all."""
    n = len(weights)
    value, psi = 0.0, np.zeros(n)
    for t in range(len(weights[0])):
        total = sum(row[t] for row in weights)
        mean = ratio(sum(w[t] * y[t] for w, y in zip(weights, paid, strict=True)), total)
        value += mean
        for i in range(n):
            psi[i] += n * ratio(weights[i][t] * (paid[i][t] - mean), total)
    return value, psi


def direct(log: Log, model: Model) -> tuple[float, Array]:
    """DM and its influence."""
    start = np.zeros_like(model.Q)
    for s in range(start.shape[1]):
        for a in range(start.shape[2]):
            start[0, s, a] = model.d0[s] * model.pi_e[s][a]
    first = np.array([model.V[0, episode[0][0]] for episode in log.episodes])
    return model.value, first - first.mean() + model.phi(start)


def windowed(log: Log, model: Model, pi_b: Policy, window: int) -> tuple[float, Array, float]:
    """Win_k, its influence with state ratios taken as known, and its mean effective sample size."""
    pi_e, gamma, n = model.pi_e, model.gamma, log.n
    d_e, d_b = model.occupancy(pi_e), model.occupancy(pi_b)
    ratios = np.zeros_like(d_e)
    for t, s in np.ndindex(*d_e.shape):
        ratios[t, s] = ratio(d_e[t, s], d_b[t, s])
    value, psi = direct(log, model)
    start = np.zeros_like(model.Q)
    sizes = 0.0
    for t in range(log.horizon):
        w, y, next_state = np.zeros(n), np.zeros(n), [UNKNOWN] * n
        for i, episode in enumerate(log.episodes):
            if t >= len(episode):
                continue
            s, a, r = episode[t]
            after = log.successor(i, t)
            if after == UNKNOWN and t + 1 < log.horizon:
                continue
            next_state[i] = after
            w[i] = window_weight(episode, t, pi_e, pi_b, window, ratios)
            y[i] = r + (gamma * model.V[t + 1, after] if after >= 0 else 0.0) - model.Q[t, s, a]
        mean, share = ratio(float(w @ y), w.sum()), d_e[t].sum()
        value += gamma**t * share * mean
        sizes += share * kish(w.tolist()) / d_e.sum()
        for i, episode in enumerate(log.episodes):
            if w[i] == 0:
                continue
            psi[i] += gamma**t * share * n * ratio(w[i] * (y[i] - mean), w.sum())
            s, a, _ = episode[t]
            start[t, s, a] -= gamma**t * share * w[i] / w.sum()
            if next_state[i] >= 0 and t + 1 < log.horizon:
                for b in range(len(pi_e[0])):
                    entry = gamma ** (t + 1) * share * w[i] / w.sum() * pi_e[next_state[i]][b]
                    start[t + 1, next_state[i], b] += entry
    return value, psi + model.phi(start), sizes


def unseen_variance(log: Log, model: Model) -> float:
    """sum_{s,a} (occ(s) pi_e(a|s) / (n_sa + 1))^2 g_s^2."""
    n_states = len(model.pi_e)
    squares, number = np.zeros(n_states), np.zeros(n_states)
    for i, episode in enumerate(log.episodes):
        for t, (s, _, r) in enumerate(episode):
            after = log.successor(i, t)
            if after == UNKNOWN and t + 1 < log.horizon:
                continue
            ahead = model.gamma * model.V[t + 1, after] if after >= 0 else 0.0
            squares[s] += (r + ahead - model.V[t, s]) ** 2
            number[s] += 1
    overall = squares.sum() / number.sum()
    d = model.occupancy(model.pi_e)
    found = 0.0
    for s in range(n_states):
        occupancy = sum(model.gamma**t * d[t, s] for t in range(log.horizon))
        mean = (squares[s] + overall) / (number[s] + 1)
        for a in range(len(model.pi_e[0])):
            found += (occupancy * model.pi_e[s][a] / (model.visits[s, a] + 1)) ** 2 * mean
    return found


@dataclass
class Evidence:
    """The estimates that there are, and what is known of them."""

    theta: dict[str, float]
    psi: dict[str, Array]
    sizes: dict[str, float]
    ess: float
    unseen: float
    shared: float
    lacking: float  # by how much the mean weight falls short of 1
    missing: float
    distance: float  # of the row of weights alone from what it is checked by


@dataclass
class Result:
    """What BLEND says; half-widths are below and above."""

    value: float
    std_error: float
    half_widths: tuple[float, float]
    baseline_half_widths: tuple[float, float]
    shares: dict[str, float]
    contradiction: float
    shared: float
    missing: float
    undetectable: float
    skewness: float


def gather(log: Log, pi_e: Policy, pi_b: Policy, gamma: float = 1) -> Evidence:
    """Every estimate with its full influence."""
    n = log.n
    everyone = Model(log, range(n), pi_e, gamma)
    plain, paid = cumulative(log, pi_e, pi_b), returns(log, gamma)
    linear = first_order(log, pi_e, pi_b)
    by_step = [[gamma**t * e[t][2] if t < len(e) else 0.0 for t in range(log.horizon)] for e in log.episodes]
    *of_three, size_of_windows = windowed(log, everyone, pi_b, 3)
    found = {
        "LIN": doubly_robust(log, pi_e, linear, gamma, [everyone], weighted=False),
        "WIN3": of_three,
        "WIN2": windowed(log, everyone, pi_b, 2)[:2],
        "DM": direct(log, everyone),
        "BEHAVIOUR": (sum(paid) / n, np.array(paid)),
        "WPDIS": by_weights(plain, by_step),
        "WIS": by_weights([row[-1:] for row in plain], [[one] for one in paid]),
    }
    in_sample, shared = doubly_robust(log, pi_e, plain, gamma, [everyone]), 0.0
    if n < FOLDS:
        found["WDR"] = in_sample
    else:
        without = [Model(log, [i for i in range(n) if i % FOLDS != k], pi_e, gamma) for k in range(FOLDS)]
        found["WDR cross-fitted"] = doubly_robust(log, pi_e, plain, gamma, without)
        shared = (FOLDS - 1) * (sum(model.value for model in without) / FOLDS - everyone.value)
    ess = kish([row[-1] for row in plain])
    sizes = {"WIN3": size_of_windows, "WIN2": size_of_windows}
    sizes |= dict.fromkeys(("LIN", "DM", "BEHAVIOUR"), n)
    distances = [abs(found["WPDIS"][0] - in_sample[0])]
    if ess < 10:
        distances.append(abs(found["WPDIS"][0] - everyone.value))
    mean_weight = sum(row[-1] for row in plain) / n
    mean_weight += mean_weight * sqrt(max(1 / ess - 1 / n, 0)) if ess > 0 else 0  # and one standard error
    return Evidence(
        {name: value for name, (value, _) in found.items()},
        {name: influence for name, (_, influence) in found.items()},
        {name: sizes.get(name, ess) for name in found},
        ess,
        unseen_variance(log, everyone),
        shared,
        max(1 - mean_weight, 0),
        max(1 - mean_weight, 0) * (max(paid) - min(paid)),
        max(distances),
    )


def blend(
    log: Log, pi_e: Policy, pi_b: Policy, gamma: float = 1, level: float = 0.95, misfit: bool = False
) -> Result:
    """The whole of it; `misfit` for a model that does not fit the log."""
    found = gather(log, pi_e, pi_b, gamma)
    if misfit or log.n < FOLDS or found.ess == 0:
        return weights_alone(found, log.n, level, found.distance)
    return mix(found, log.n, level)


Mix = dict[str, float]


def product(psi: dict[str, Array], x: Mix, y: Mix) -> float:
    """The covariance of two mixes of means."""
    n = len(psi["DM"])
    found = 0.0
    for a, share in x.items():
        for b, other in y.items():
            p, q = psi[a] - psi[a].mean(), psi[b] - psi[b].mean()
            found += share * other * sum(p[i] * q[i] for i in range(n)) / (n - 1) / n
    return found


def minus(x: Mix, y: Mix) -> Mix:
    return {name: x.get(name, 0.0) - y.get(name, 0.0) for name in {**x, **y}}


def skewness_of(psi: dict[str, Array], x: Mix) -> float:
    """Third central moment over the standard deviation to the third, of the influences on a mix."""
    n = len(psi["DM"])
    own = [sum(share * float(psi[name][i]) for name, share in x.items()) for i in range(n)]
    centre = sum(own) / n
    second = sum((one - centre) ** 2 for one in own) / n
    return sum((one - centre) ** 3 for one in own) / n / second**1.5 if second > 0 else float("nan")


def sides(skewness: float, n: int, level: float) -> tuple[float, float]:
    """By how much Hall's transformation makes an interval wider below and above."""
    if not abs(skewness) > 3:
        return 1.0, 1.0
    z, u = norm.ppf(0.5 + level / 2), skewness / sqrt(n)
    moved = []
    for at in (z, -z):
        inner = 1 + u * at - u**2 / 6
        moved.append(3 / u * ((abs(inner) ** (1 / 3)) * (1 if inner > 0 else -1) - 1))
    return max(moved[0] / z, 1.0), max(-moved[1] / z, 1.0)


def width(error: float, contradiction: float, level: float) -> float:
    """Noise on both sides, or what contradicts and noise on one."""
    both, one = (2.5 * norm.ppf(p) / norm.ppf(0.975) for p in (0.5 + level / 2, level))
    return max(both * error, one * error + contradiction)


def weights_alone(found: Evidence, n: int, level: float, distance: float) -> Result:
    """WPDIS, never surer than the row of that name, and allowing for weights that are not there."""
    x = {"WPDIS": 1.0}
    own = product(found.psi, x, x)
    gain = minus(x, {"BEHAVIOUR": 1.0})
    difference = max(
        product(found.psi, gain, gain), product(found.psi, {"BEHAVIOUR": 1.0}, {"BEHAVIOUR": 1.0})
    )
    skewness = skewness_of(found.psi, x)
    widths = []
    for variance in (own, difference):
        of_row = student.ppf(0.5 + level / 2, found.ess - 1) * sqrt(variance) + max(found.missing, distance)
        factors = sides(skewness, n, level)
        widths.append([max(width(sqrt(variance) * f, found.missing, level), of_row) for f in factors])
    return Result(
        found.theta["WPDIS"],
        sqrt(own),
        (widths[0][0], widths[0][1]),
        (max(widths[0][0], widths[1][0]), max(widths[0][1], widths[1][1])),
        x,
        found.missing,
        0.0,
        found.missing,
        float("nan"),
        skewness,
    )


def mix(found: Evidence, n: int, level: float) -> Result:
    """The mix of estimates that lean on the model."""
    theta, sizes = found.theta, found.sizes
    products = ("WDR cross-fitted", "WIN3", "WIN2", "WPDIS", "WIS")
    factor = {k: sqrt(1 + 12 / max(sizes[k], 1)) if k in products else 1.0 for k in theta}

    def widened(x: Mix) -> Mix:
        """With more noise in what each estimate adds to the model."""
        y = {key: share * factor[key] for key, share in x.items()}
        y["DM"] = y.get("DM", 0.0) + sum(share * (1 - factor[key]) for key, share in x.items())
        return y

    def variance(x: Mix) -> float:
        return max(product(found.psi, widened(x), widened(x)), 0.0)

    def value(x: Mix) -> float:
        return sum(share * theta[name] for name, share in x.items())

    def noise(difference: Mix, z: float) -> float:
        return z * sqrt(variance(difference))

    def differ(a: str, b: str) -> bool:
        difference = minus({a: 1.0}, {b: 1.0})
        return abs(value(difference)) > noise(difference, 3)

    order = ["WDR cross-fitted", "LIN", "WIN3", "WIN2", "DM"]
    order = [k for k in order if k not in products or sizes[k] >= 10]
    if found.lacking > 0.5:
        order = [k for k in order if k != "WDR cross-fitted"]
    wrong_model = any(differ(k, "DM") for k in order[:-1])
    x = {order[0]: 1.0}
    for place, name in enumerate(order[1:], start=1):
        other = {name: 1.0}
        b2 = 9 * found.shared**2 if order[0] == "WDR cross-fitted" else 0.0
        for before in (x, *({k: 1.0} for k in order[:place])):
            difference = minus(other, before)
            if wrong_model and name != "DM":
                b2 = max(b2, value(difference) ** 2 - noise(difference, 1.5) ** 2)
            elif abs(value(difference)) > noise(difference, 3):
                b2 = max(b2, value(difference) ** 2)
        spread = variance(minus(other, x)) + b2
        both = product(found.psi, widened(x), widened(other))
        a = min(max((variance(other) - both + b2) / spread, 0.0), 1.0)
        x = {key: a * share for key, share in x.items()} | {name: 1 - a}

    std_error = sqrt(product(found.psi, x, x))
    sparse = abs(found.shared) > 0.3 * std_error or sqrt(found.unseen) > 0.7 * std_error

    mean = {"BEHAVIOUR": 1.0}
    linear = minus({"LIN": 1.0}, mean)
    upwards = value(minus(x, mean)) > 0
    backed = (value(linear) if upwards else -value(linear)) > noise(linear, 1)

    def allowed(k: str) -> float:
        difference = minus(x, {k: 1.0})
        beyond = abs(value(difference)) - noise(difference, 1.64)
        if (sparse and k == "WDR cross-fitted") or (k == "LIN" and not backed):
            beyond = abs(value(difference))
        leans = ("DM", "WIN3", "WIN2") if order[0] == "WDR cross-fitted" else ("DM",)
        return beyond / 2 if k in leans and differ(order[0], k) else beyond

    contradiction = max(0.0, abs(found.shared), *(allowed(k) for k in order))
    skewness = skewness_of(found.psi, x)
    factors = sides(skewness, n, level)
    gain = max(variance(minus(x, {"BEHAVIOUR": 1.0})), variance({"BEHAVIOUR": 1.0}))
    own, paired = (
        [width(f * sqrt(of + found.unseen), contradiction, level) for f in factors]
        for of in (variance(x), gain)
    )
    return Result(
        value(x),
        std_error,
        (own[0], own[1]),
        (max(own[0], paired[0]), max(own[1], paired[1])),
        x,
        contradiction,
        abs(found.shared),
        0.0,
        noise(minus({order[0]: 1.0}, {"DM": 1.0}), 3) if x["DM"] > 0 else float("nan"),
        skewness,
    )
