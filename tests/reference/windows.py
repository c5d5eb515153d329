"""Incremental importance sampling (Guo, Thomas & Brunskill 2017): per step, only the m latest ratios."""

from __future__ import annotations

from typing import Literal

from .log import Drop, Log, Policy, dropped_steps, ratio, ratios
from .products import Finished

TIE = 1e-12


def incremental(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop = None,
    gamma: float = 1,
    weighted: bool = False,
    window: int | None = 10,
    variance: Literal["estimator", "sample"] = "estimator",
    ended_ratios: Literal["absorb", "one"] = "absorb",
    finished: Finished = "absorb",
) -> tuple[float, list[int]]:
    """The estimate and the window chosen at each step.

    At step t and window m, A is the product of the ratios before the window and of the dropped ones within
    it, B of the kept ones within it, X = B r_t (0 for an ended episode). The window minimises Var(X)/n +
    Cov(A, X)^2 ("estimator") or Var(X) + Cov(A, X)^2 ("sample"), Var with ddof 0, Cov with ddof 1, over all n
    episodes. The weighted form divides sum X by sum B over all n episodes and chooses its window by the same
    criterion.

    An ended episode has ratio 1 after its end ("absorb": its A and B are still products of its real ratios,
    and B tends to 1 as the window slides past the end), or A = B = 1 outright ("one"). `finished` says which
    episodes the divisor sum B is made of: all n, those that have a step t ("leave"), or the same times their
    share ("survivors").

    Ties: a larger window replaces the best one so far only if its criterion is lower by more than 1e-12 times
    the scale of the best, which is the criterion with the mean of X^2 in place of Var(X). So criteria that
    differ by rounding alone, zero ones included, go to the smallest window.
    """
    rho, dropped = ratios(log, pi_e, pi_b), dropped_steps(log, drop)
    n = log.n
    estimate, windows = 0.0, []
    for t in range(log.horizon):
        best: tuple[float, float, int, float] | None = None  # criterion, scale, window, this step's estimate
        for m in range(1, min(t + 1, window or t + 1) + 1):
            a, b, x = [], [], []
            for i, episode in enumerate(log.episodes):
                before, within = 1.0, 1.0
                if t < len(episode) or ended_ratios == "absorb":
                    for j in range(min(t + 1, len(episode))):
                        if j <= t - m or dropped[i][j]:
                            before *= rho[i][j]
                        else:
                            within *= rho[i][j]
                a.append(before)
                b.append(within)
                x.append(within * episode[t][2] if t < len(episode) else 0.0)
            bias = covariance(a, x)
            divisor = n if variance == "estimator" else 1
            criterion = spread(x) / divisor + bias**2
            scale = sum(v * v for v in x) / n / divisor + bias**2
            members = [finished == "absorb" or len(episode) > t for episode in log.episodes]
            total = sum(v for v, member in zip(b, members, strict=True) if member)
            value = ratio(sum(x), total) if weighted else sum(x) / n
            if weighted and finished == "survivors":
                value *= sum(members) / n
            if best is None or criterion < best[0] - TIE * best[1]:
                best = (criterion, scale, m, value)
        assert best is not None
        windows.append(best[2])
        estimate += gamma**t * best[3]
    return estimate, windows


def spread(x: list[float]) -> float:
    """Variance with ddof 0."""
    mean = sum(x) / len(x)
    return sum((v - mean) ** 2 for v in x) / len(x)


def covariance(x: list[float], y: list[float]) -> float:
    """Covariance with ddof 1."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((u - mean_x) * (v - mean_y) for u, v in zip(x, y, strict=True)) / (len(x) - 1)
