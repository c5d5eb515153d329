r"""The epsilon path: an estimate at every drop set from none to all, and the automatic choice among them.

Drop sets are nested in epsilon, so there are at most as many as states. Along the path variance falls and
bias grows; both are estimated, and the chosen level is the one with the least

.. math:: (f \cdot \mathrm{bias})^2 + \mathrm{se}^2

where f = 1/4 for estimators that correct their bias (what remains is the model's error) and 1 for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import EstimationError
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.names import estimator_of
from deadweight.log.interface import LogLike
from deadweight.log.state_sets import StateSet
from deadweight.negligible.all_levels import all_levels
from deadweight.negligible.anchor import strays
from deadweight.negligible.columns import Columns, level_by_level
from deadweight.negligible.levels import Levels, LevelSets, make_levels
from deadweight.negligible.sweep import sweep
from deadweight.policy.policies import TabularPolicy
from deadweight.question.core import Question, ask
from deadweight.question.options import read_options
from deadweight.results.base import SCHEMA, Result, finite, frame
from deadweight.results.saved import saved
from deadweight.results.shown import html_table, new_figure
from deadweight.typing import FloatArray, IntArray

QUANTILES = 25
# Relative difference of errors below which two levels are as good as each other.
SAME_ERROR = 1e-9
FLOATS = ("epsilon", "estimate", "std_error", "bias", "corrected", "ess")
# More levels than this are swept where that is possible: the walks cost the same for each of them.
MOST_AT_ONCE = 64
ENOUGH_EPISODES = 10.0
# Share of the estimated bias that is taken to remain in an estimate which corrects it.
REMAINING_BIAS = 0.25
# Whether the automatic choice is held by the undropped estimate.
ANCHORED = False


@saved
@dataclass(frozen=True, eq=False)
class EpsilonPath(Result):
    """What an estimator says at each level of dropping.

    Level 0 is the empty set; level k >= 1 drops all states that may be dropped with gap <= epsilon[k].

    Attributes:
      name: the estimator.
      epsilon: (K + 1,) the largest gap dropped.
      n_dropped: (K + 1,) states dropped.
      estimate: (K + 1,) uncorrected, also for a `C-` name.
      std_error: (K + 1,) of the estimate; of the corrected value for names that correct.
      bias: (K + 1,) estimated bias of the uncorrected estimate.
      corrected: (K + 1,) estimate - bias; the estimate itself for doubly robust names.
      ess: (K + 1,) Kish effective sample size; the number of episodes where there are no weights.
      chosen: the level of the automatic choice.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(9)
      >>> path = epsilon_path("WSIS", lift.sample(1000), lift.pi_e, lift.pi_b)
      >>> path.n_dropped.tolist(), path.sets[1].states
      ([0, 4, 5, 6, 7], [1, 2, 4, 5])
    """

    name: str
    epsilon: FloatArray
    n_dropped: IntArray
    estimate: FloatArray
    std_error: FloatArray
    bias: FloatArray
    corrected: FloatArray
    ess: FloatArray
    chosen: int
    levels: Levels

    def __len__(self) -> int:
        return len(self.epsilon)

    @property
    def sets(self) -> Sequence[StateSet]:
        """The drop set of each level."""
        return LevelSets(self.levels)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON: one list a column, what is not finite as None."""
        columns = {name: [finite(number) for number in getattr(self, name).tolist()] for name in FLOATS}
        n_dropped = [int(number) for number in self.n_dropped]
        head = {"schema": SCHEMA, "estimator": self.name, "chosen": int(self.chosen)}
        return {**head, "n_dropped": n_dropped, **columns}

    def to_frame(self) -> Any:
        """One row a level: a pandas DataFrame if pandas is installed, else a pyarrow Table."""
        columns = {name: getattr(self, name).tolist() for name in ("epsilon", "n_dropped", *FLOATS[1:])}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return frame([{**row, "chosen": level == self.chosen} for level, row in enumerate(rows)])

    def reason(self) -> str:
        """Why the chosen level was chosen, in words."""
        k = self.chosen
        return (
            f"Q gap <= {self.epsilon[k]:.4g}, level {k} of {len(self) - 1}: bias {self.bias[k]:+.4g}, "
            f"standard error {self.std_error[k]:.4g}, ESS {self.ess[k]:.1f} "
            f"(undropped: {self.std_error[0]:.4g}, ESS {self.ess[0]:.1f})"
        )

    def __repr__(self) -> str:
        return f"EpsilonPath({self.name}, {len(self) - 1} levels; chosen {self.reason()})"

    def __str__(self) -> str:
        return "\n".join([repr(self), *self._table()])

    def _table(self) -> list[str]:
        rows = self._rows()
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        return [
            "  " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]

    def _rows(self, most: int = 12) -> list[list[str]]:
        """Headings, and some levels with the chosen one among them."""
        shown = np.unique(np.linspace(0, len(self) - 1, min(most, len(self))).round().astype(int))
        columns = ("epsilon", "n_dropped", "estimate", "std_error", "bias", "corrected", "ess")
        rows = [["level", *columns, ""]]
        for level in sorted({*shown.tolist(), self.chosen}):
            cells = [f"{getattr(self, column)[level]:.5g}" for column in columns]
            rows.append([str(level), *cells, "chosen" if level == self.chosen else ""])
        return rows

    def _repr_html_(self) -> str:
        headings, *rows = self._rows()
        return html_table(headings, rows, f"Epsilon path of {self.name}", [f"Chosen: {self.reason()}."])

    def plot(self) -> Any:
        """The path as a matplotlib figure: estimates with standard errors, effective sample size below."""
        figure = new_figure("The figure of a path", 7, 5)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        low, high = self.estimate - self.std_error, self.estimate + self.std_error
        upper.fill_between(self.n_dropped, low, high, alpha=0.25, step="post", linewidth=0)
        upper.step(self.n_dropped, self.estimate, where="post", label=f"{self.name}, one standard error")
        if not np.array_equal(self.corrected, self.estimate):
            upper.step(self.n_dropped, self.corrected, where="post", linestyle="--", label="corrected")
        upper.set_ylabel("value")
        lower.step(self.n_dropped, self.ess, where="post")
        lower.set_ylabel("ESS")
        lower.set_xlabel("states dropped")
        for axes in (upper, lower):
            axes.axvline(self.n_dropped[self.chosen], color="grey", linestyle=":", label="chosen")
        upper.legend()
        return figure


def epsilon_path(
    name: str | Estimator,
    log: LogLike,
    pi_e: TabularPolicy | npt.ArrayLike | None,
    pi_b: TabularPolicy | npt.ArrayLike | None = None,
    min_visits: int = 0,
    gamma: float = 1.0,
    **options: Any,
) -> EpsilonPath:
    """The path of a state-based estimator.

    SIS, WSIS and their corrected forms have a level at each distinct gap, at about the cost of a few passes
    over the log; other names have up to 25, at quantiles of the gaps.

    Args:
      name: a state-based or corrected name, such as "WSPDIS", or an `Estimator`.
      log: episodes of the behaviour policy.
      pi_e, pi_b: the policies; pi_b=None takes the log's propensities.
      min_visits: a state may be dropped only if every action on which the policies differ was seen there so
        often; see `q_gap`.
      gamma: discount.
      **options: see `deadweight.question.options.Options`.

    Example:
      >>> from deadweight.domains import stochastic_lift
      >>> lift = stochastic_lift(17)
      >>> path = epsilon_path("WSPDIS", lift.sample(1000), lift.pi_e, lift.pi_b)
      >>> len(path), int(path.n_dropped[path.chosen])
      (16, 9)
    """
    return path_of(ask(log, pi_e, pi_b, gamma, read_options(options)), estimator_of(name), min_visits)


def path_of(
    question: Question, made: Estimator, min_visits: int = 0, anchored: bool = ANCHORED
) -> EpsilonPath:
    """The path of a question that has been asked already; made once.

    `anchored`: the choice is held by the undropped estimate, see `deadweight.negligible.anchor`.
    """
    key = (made, min_visits, anchored)
    if key not in question.paths:
        question.paths[key] = _path(question, made, min_visits, anchored)
    found: EpsilonPath = question.paths[key]
    return found


def _path(question: Question, made: Estimator, min_visits: int, anchored: bool) -> EpsilonPath:
    if not made.is_state_based:
        twin = made.state_based
        raise EstimationError(
            f"A path needs an estimator that drops states; {made.name} does not.",
            fix="Use a state-based name, such as WSPDIS." if twin is None else f"Use {twin.name}.",
        )
    levels = make_levels(question, min_visits, None if made.whole_episode else QUANTILES)
    columns = _columns(question, made, levels)
    inside = made.contains_correction
    stray = strays(question, made, columns) if anchored else 0.0
    return EpsilonPath(
        made.name,
        levels.epsilon,
        levels.n_dropped,
        columns.estimate,
        columns.std_error,
        columns.bias,
        columns.estimate if inside else columns.estimate - columns.bias,
        columns.ess,
        _choose(made, columns, stray),
        levels,
    )


def _columns(question: Question, made: Estimator, levels: Levels) -> Columns:
    """By the quickest way there is: two walks at all levels, a sweep of very many, or one by one."""
    if made.whole_episode and len(levels) > MOST_AT_ONCE:
        columns = sweep(question, made, levels)
    else:
        found = all_levels(question, [made], levels) if made.all_levels else None
        columns = None if found is None else found[0]
    return level_by_level(question, made, levels) if columns is None else columns


def _choose(made: Estimator, columns: Columns, stray: FloatArray | float) -> int:
    """The level with the least estimated error among those with enough effective episodes."""
    share = REMAINING_BIAS if made.is_corrected or made.contains_correction else 1.0
    error = (share * columns.bias) ** 2 + columns.std_error**2 + stray
    ess = columns.ess
    barred = (ess < min(ENOUGH_EPISODES, ess.max())) | np.isnan(error)
    error = np.where(barred, np.inf, error)
    # Of levels that differ by rounding only, the one that drops least: the last bit must not decide.
    return int((error <= error.min() * (1 + SAME_ERROR)).argmax())
