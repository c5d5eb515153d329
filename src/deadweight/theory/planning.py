"""How many episodes a wanted precision takes."""

from __future__ import annotations

from math import ceil
from typing import Any

from deadweight.errors import OptionError
from deadweight.mdp.tabular import TabularMDP
from deadweight.theory.moments import moments


def episodes_needed(
    mdp: TabularMDP,
    pi_e: Any,
    pi_b: Any,
    std_error: float,
    estimator: str = "SIS",
    drop: Any = None,
    horizon: int | None = None,
    gamma: float = 1.0,
) -> int:
    r"""Episodes of pi_b for which the estimator's standard error is at most `std_error`.

    .. math:: n = \lceil \mathrm{Var}(X) / \mathrm{se}^2 \rceil

    X is one episode's term, with its exact variance; no number of episodes removes a bias.

    Args:
      mdp, pi_e, pi_b, estimator, drop, horizon, gamma: those of `moments`.
      std_error: the largest standard error.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(17)
      >>> episodes_needed(lift.mdp, lift.pi_e, lift.pi_b, std_error=0.1, estimator="IS")
      25500
    """
    if not std_error > 0:
        raise OptionError(
            f"std_error must be above 0; found {std_error!r}.", fix="For example std_error=0.1."
        )
    variance = moments(mdp, pi_e, pi_b, estimator, drop, horizon, gamma).variance
    # Rounding of the variance must not add an episode.
    return max(1, ceil(variance / std_error**2 * (1 - 1e-12)))
