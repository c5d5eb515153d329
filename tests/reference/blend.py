"""BLEND by plain loops: every estimate with its full influence, the mix, its interval and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from .log import ENDS, UNKNOWN, Array, Drop, Log, Policy, cumulative, ratio, returns
from .model import fit_model, q_values
from .products import kish
from .weighted import window_weight

FOLDS = 5
NAMES = ("WDR", "WDRSIS", "WIN3", "WIN2", "DM", "BEHAVIOUR", "WDR cross-fitted", "WDRSIS cross-fitted")


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
    log: Log, pi_e: Policy, weights: list[list[float]], gamma: float, models: Sequence[Model]
) -> tuple[float, Array]:
    """WDR and its full influence, with model number i % len(models) for episode i."""
    n, count = log.n, len(models)
    value, psi = 0.0, np.zeros(n)
    starts = [np.zeros_like(models[0].Q) for _ in models]
    for t in range(log.horizon):
        now, before = [row[t] for row in weights], [row[t - 1] if t else 1.0 for row in weights]
        surprise, baseline = np.zeros(n), np.zeros(n)
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                s, a, r = episode[t]
                model, start = models[i % count], starts[i % count]
                surprise[i], baseline[i] = r - model.Q[t, s, a], model.V[t, s]
                start[t, s, a] -= gamma**t * ratio(now[i], sum(now))
                for b in range(len(pi_e[0])):
                    start[t, s, b] += gamma**t * ratio(before[i], sum(before)) * pi_e[s][b]
        for w, y in ((now, surprise), (before, baseline)):
            mean = ratio(float(np.dot(w, y)), sum(w))
            value += gamma**t * mean
            for i in range(n):
                psi[i] += gamma**t * n * ratio(w[i] * (y[i] - mean), sum(w))
    for model, start in zip(models, starts, strict=True):
        psi += model.phi(start)
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
class Result:
    """What BLEND says."""

    value: float
    half_width: float
    shares: dict[str, float]
    contradiction: float
    baseline_error: float
    estimates: dict[str, float]


def blend(log: Log, pi_e: Policy, pi_b: Policy, drop: Drop, gamma: float = 1, level: float = 0.95) -> Result:
    """The whole of it, with the given drop for WDRSIS."""
    n = log.n
    everyone = Model(log, range(n), pi_e, gamma)
    without = [Model(log, [i for i in range(n) if i % FOLDS != k], pi_e, gamma) for k in range(FOLDS)]
    plain, kept = cumulative(log, pi_e, pi_b), cumulative(log, pi_e, pi_b, drop)
    found = {
        "WDR": doubly_robust(log, pi_e, plain, gamma, [everyone]),
        "WDRSIS": doubly_robust(log, pi_e, kept, gamma, [everyone]),
        "WIN3": windowed(log, everyone, pi_b, 3)[:2],
        "WIN2": windowed(log, everyone, pi_b, 2)[:2],
        "DM": direct(log, everyone),
        "BEHAVIOUR": (sum(returns(log, gamma)) / n, np.array(returns(log, gamma))),
        "WDR cross-fitted": doubly_robust(log, pi_e, plain, gamma, without),
        "WDRSIS cross-fitted": doubly_robust(log, pi_e, kept, gamma, without),
    }
    theta = {name: value for name, (value, _) in found.items()}
    psi = np.array([influence for _, influence in found.values()])
    sigma = np.cov(psi, ddof=1) / n
    shared = (FOLDS - 1) * (sum(model.value for model in without) / FOLDS - everyone.value)
    ess, ess_dropped = kish([row[-1] for row in plain]), kish([row[-1] for row in kept])
    sizes = {"WDR": ess, "WDRSIS": ess_dropped, "WIN3": windowed(log, everyone, pi_b, 3)[2]}
    return mix(theta, sigma, n, sizes, unseen_variance(log, everyone), shared, level)


def mix(
    theta: dict[str, float],
    sigma: Array,
    n: int,
    ess: dict[str, float],
    unseen: float,
    shared: float,
    level: float,
) -> Result:
    """The mix of estimates with a given covariance."""
    names = list(theta)
    factor = {k: 1.0 if k in ("DM", "BEHAVIOUR") else sqrt(1 + 12 / max(size_of(k, ess), 1)) for k in names}

    def variance(x: dict[str, float]) -> float:
        """With more noise in what each estimate adds to the model."""
        y = {key: share * factor[key] for key, share in x.items()}
        y["DM"] = y.get("DM", 0.0) + sum(share * (1 - factor[key]) for key, share in x.items())
        return sum(y[a] * y[b] * sigma[names.index(a), names.index(b)] for a in y for b in y)

    def minus(x: dict[str, float], y: dict[str, float]) -> dict[str, float]:
        return {name: x.get(name, 0.0) - y.get(name, 0.0) for name in names}

    def value(x: dict[str, float]) -> float:
        return sum(share * theta[name] for name, share in x.items())

    order = ["WDR", "WDRSIS", "WIN3", "WIN2", "DM"]
    if ess["WDRSIS"] > 0.95 * n:
        order.remove("WDRSIS")
    elif ess["WDRSIS"] > ess["WIN3"]:
        order = ["WDR", "WIN3", "WIN2", "WDRSIS", "DM"]
    if ess["WDR"] < 10:
        order.remove("WDR")

    def noise(difference: dict[str, float], z: float, *among: str) -> float:
        """So many standard errors, with the degrees of freedom of the least of some estimates."""
        degrees = max(min(n if k == "DM" else size_of(k, ess) for k in among) - 1, 1)
        return student.ppf(norm.cdf(z), degrees) * sqrt(max(variance(difference), 0))

    def differ(a: str, b: str, *among: str) -> bool:
        difference = minus({a: 1.0}, {b: 1.0})
        return abs(value(difference)) > noise(difference, 3, *among)

    wrong_model = any(differ(k, "DM", k) for k in order[:-1])
    x = {order[0]: 1.0}
    for place, name in enumerate(order[1:], start=1):
        other = {name: 1.0}
        b2 = 0.0
        against = [(x, (order[0],)), *(({k: 1.0}, (k, name)) for k in order[:place])]
        for before, among in against:
            difference = minus(other, before)
            if wrong_model and name != "DM":
                b2 = max(b2, value(difference) ** 2 - noise(difference, 1.5, *among) ** 2)
            elif abs(value(difference)) > noise(difference, 3, *among):
                b2 = max(b2, value(difference) ** 2)
        spread = variance(minus(other, x)) + b2
        # S_jj - S_Xj from Var(X - j) = S_XX + S_jj - 2 S_Xj.
        top = (spread - b2 + variance(other) - variance(x)) / 2 + b2
        a = min(max(top / spread, 0.0), 1.0)
        x = {key: a * share for key, share in x.items()} | {name: 1 - a}

    def allowed(k: str) -> float:
        difference = minus(x, {k: 1.0})
        found = abs(value(difference)) - noise(difference, 1.64, order[0])
        nearly = k.startswith("WDRSIS") and ess["WDRSIS"] > ess["WIN3"]
        return found / 2 if (k == "DM" or nearly) and differ(order[0], k, order[0]) else found

    witnesses = [
        k for k in names if k != "BEHAVIOUR" and (ess["WDR"] >= 10 or k not in ("WDR", "WDR cross-fitted"))
    ]
    contradiction = max([abs(shared), *(allowed(k) for k in witnesses)])
    both, one = (2.5 * norm.ppf(p) / norm.ppf(0.975) for p in (0.5 + level / 2, level))

    def width(error: float) -> float:
        return max(both * error, one * error + contradiction)

    half = width(sqrt(variance(x) + 1.5 * unseen))
    gain = max(variance(minus(x, {"BEHAVIOUR": 1.0})), variance({"BEHAVIOUR": 1.0}))
    paired = width(sqrt(gain + 1.5 * unseen))
    return Result(value(x), half, x, contradiction, max(half, paired), theta)


def size_of(name: str, ess: dict[str, float]) -> float:
    """How many effective episodes an estimate has."""
    return ess["WIN3"] if name.startswith("WIN") else ess[name.removesuffix(" cross-fitted")]
