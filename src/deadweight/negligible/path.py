r"""The epsilon path: an estimate at every drop set from none to all, and the automatic choice among them.

Drop sets are nested in epsilon, so there are at most as many as states. Along the path variance falls and
bias grows; both are estimated, and the chosen level is the one with the least

.. math:: (f \cdot \mathrm{bias})^2 + \mathrm{se}^2

where f = 1/4 for estimators that correct their bias (what remains is the model's error) and 1 for others.
Anchored choices (`deadweight.negligible.path`) ask other estimates as well; with labels they have less need
of what the model says of itself, and f = 1/16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight._version import SCHEMA
from deadweight.answers.plans import Plan, plan_of
from deadweight.answers.rounds import Counts, Task, carry_out, together
from deadweight.answers.trust import CrossChecks, cross_checks, cross_checks_of
from deadweight.errors import EstimationError, OptionError
from deadweight.estimators.estimator import Estimator, estimator_of
from deadweight.log.interface import LogLike
from deadweight.log.labels import StateSet
from deadweight.log.policies import TabularPolicy
from deadweight.negligible.levels import (
    Columns,
    Levels,
    LevelSets,
    columns_of,
    level_by_level,
    level_drops,
    make_levels,
)
from deadweight.negligible.sweep import sweep
from deadweight.question.asked import read_options
from deadweight.question.question import Policy, Question, ask
from deadweight.results.saved import Result, finite, saved
from deadweight.results.shown import frame, html_table, new_figure, text_table
from deadweight.tools.thresholds import FEW_EPISODES
from deadweight.typing import FloatArray, IntArray

# --- The anchor of the automatic drop: levels that stray from what other estimates say are taken to be wrong
#
# Along a path bias and standard error are what a model says of itself, and a model that is wrong says little
# of either. Estimates that drop nothing (`answers.trust`) do not depend on the drop, and less on the model;
# how far a level lies from them is added to its error:
#
# .. math:: (f \, m_k)^2 + \mathrm{se}_k^2 + \max_j A_{kj}
#
# The estimate with all ratios is right but noisy, and counts beyond its noise only,
#
# .. math:: A_{k0} = \max(0, (C_k - \mathrm{WDR}_0)^2 - \mathrm{se}_0^2)
#
# and for doubly robust names, whose level 0 is that estimate, max(0, (D_k - D_0)^2 - abs(se_0^2 - se_k^2)).
# With few effective episodes it does not hold, and there is none. Windowed estimates have little noise and
# count in full, :math:`A_{kj} = (C_k - \mathrm{Win}_j)^2`, unless the first contradicts them. Noise excuses
# nothing, and without an anchor nothing is dropped, where the model says nothing of unseen episodes
# (its calibration slope). Where states are rows windowed estimates are none of the value, and count only
# where a level lies farther from them than no drop:
# :math:`A_{kj} = \max(0, (C_k - \mathrm{Win}_j)^2 - (C_0 - \mathrm{Win}_j)^2)`.


def strays(estimator: Estimator, columns: Columns, checks: CrossChecks) -> FloatArray:
    """(K + 1,) how far each level lies from the checks, squared.

    Levels that drop anything are infinitely far by a model that is of no use.
    """
    inside = estimator.contains_correction
    values = columns.estimate if inside else columns.estimate - columns.bias
    apart: FloatArray = np.zeros_like(values)
    counts = 1.0 if checks.proven else 0.0  # an unproven model gets no allowance for noise
    if inside and columns.ess[0] >= FEW_EPISODES:
        shared = np.abs(columns.std_error[0] ** 2 - columns.std_error**2)
        apart = np.square(values - values[0]) - counts * shared
    elif not inside and checks.anchored:
        apart = np.square(values - checks.undropped) - counts * checks.std_error**2
    for value in checks.windowed if checks.one_sided else checks.believed:
        distance = np.square(values - value)
        apart = np.maximum(apart, distance - distance[0] if checks.one_sided else distance)
    apart = np.maximum(apart, 0.0)
    if not checks.allows:
        apart[1:] = np.inf
    return apart


QUANTILES = 25
# Relative difference of errors below which two levels are as good as each other.
SAME_ERROR = 1e-9
FLOATS = ("epsilon", "estimate", "std_error", "bias", "corrected", "ess")
# More levels than this are swept where that is possible: the walks cost the same for each of them.
MOST_AT_ONCE = 256
ENOUGH_EPISODES = 10.0
# Share of the estimated bias that is taken to remain in an estimate which corrects it.
REMAINING_BIAS = 0.25
REMAINING_BIAS_HEARD = 1 / 16


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
      std_error: (K + 1,) of the estimate; of the corrected value for names that correct. The model is taken
        as known, so that `estimate` with the same drop, which adds its noise, says more for such names.
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

    def to_frame(self, library: str | None = None) -> Any:
        """One row a level, in pandas, polars or pyarrow; by default whichever the program uses."""
        columns = {name: getattr(self, name).tolist() for name in ("epsilon", "n_dropped", *FLOATS[1:])}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return frame(
            [{**row, "chosen": level == self.chosen} for level, row in enumerate(rows)], library=library
        )

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
        headings, *rows = self._rows()
        return "\n".join([repr(self), indent(text_table(headings, rows, left=()), "  ")])

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
        upper.set_ylabel("value of an episode")
        lower.step(self.n_dropped, self.ess, where="post")
        lower.set_ylabel("effective\nepisodes")
        lower.set_xlabel("states dropped")
        lower.xaxis.get_major_locator().set_params(integer=True)
        for axes in (upper, lower):
            axes.axvline(self.n_dropped[self.chosen], color="grey", linestyle=":", label="chosen")
        upper.legend()
        return figure


def epsilon_path(
    name: str | Estimator,
    log: LogLike,
    pi_e: TabularPolicy | npt.ArrayLike | None,
    pi_b: Policy = None,
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
        often; see `q_gap`. Without labels each step is a state of its own, seen once: any number means 1.
      gamma: discount.
      **options: see `deadweight.question.asked.Options`.

    Example:
      >>> from deadweight.domains import stochastic_lift
      >>> lift = stochastic_lift(17)
      >>> path = epsilon_path("WSPDIS", lift.sample(1000), lift.pi_e, lift.pi_b)
      >>> len(path), int(path.n_dropped[path.chosen])
      (16, 14)
    """
    question = ask(log, pi_e, pi_b, gamma, read_options(options))
    if min_visits and not question.parts.has_states and question.pair.pi_b is None:
        raise OptionError(
            f"min_visits={min_visits!r} asks where pi_e differs from the behaviour policy, and there is "
            "none: a log without labels of states has only the probabilities of the actions taken.",
            fix="Pass pi_b, for example pi_b=deadweight.fit_behaviour(log), or leave min_visits out.",
        )
    return path_of(question, estimator_of(name), min_visits)


def path_of(
    question: Question, estimator: Estimator, min_visits: int = 0, anchored: bool = True
) -> EpsilonPath:
    """The path of a question that has been asked already; made once.

    `anchored`: the choice is held by estimates that drop nothing, see `deadweight.negligible.path`.
    """
    carry_out(question, paths(question, [(estimator, min_visits)], anchored))
    path: EpsilonPath = question.paths[estimator, min_visits, anchored]
    return path


def paths(
    question: Question,
    wanted: Sequence[tuple[Estimator, int]],
    anchored: bool,
    shown: tuple[Estimator, int] | None = None,
) -> Task[None]:
    """Make the paths of some names with their `min_visits`, one pass for sums and one for influences.

    `shown`: of these levels full standard errors will be asked for as well.
    """
    wanted = [each for each in dict.fromkeys(wanted) if (*each, anchored) not in question.paths]
    for estimator, _ in wanted:
        _require_drops(estimator)
    if not wanted:
        return
    yield Counts()
    levels = {each: levels_of(question, *each) for each in wanted}
    at_once = [
        (each[0], path_levels) for each, path_levels in levels.items() if not _is_swept(each[0], path_levels)
    ]
    plans = _shown_plans(question, *shown) if shown is not None and at_once else []
    checks = [cross_checks(question)] if anchored and at_once else []
    columns_at_once, *_ = yield from together(columns_of(question, at_once, plans), *checks)
    columns = iter(columns_at_once)
    for (estimator, min_visits), path_levels in levels.items():
        of_path = (
            sweep(question, estimator, path_levels) if _is_swept(estimator, path_levels) else next(columns)
        )
        of_path = level_by_level(question, estimator, path_levels) if of_path is None else of_path
        question.paths[estimator, min_visits, anchored] = _path(
            question, estimator, path_levels, of_path, anchored
        )


def _is_swept(estimator: Estimator, levels: Levels) -> bool:
    return estimator.whole_episode and len(levels) > MOST_AT_ONCE


def _shown_plans(question: Question, estimator: Estimator, min_visits: int) -> list[Plan]:
    """The levels that a report shows; row by row a full error takes a reading of the features for each."""
    if not question.parts.has_states:
        return []
    drops = level_drops(question, levels_of(question, estimator, min_visits))
    return [plan_of(question, estimator, drop) for drop in drops]


def levels_of(question: Question, estimator: Estimator, min_visits: int) -> Levels:
    """The levels of a name's path; those of names that have the same are made once."""
    all_gaps = estimator.whole_episode and question.parts.has_states
    return question.made_once(
        ("levels", min_visits, estimator.whole_episode),
        lambda: make_levels(question, min_visits, None if all_gaps else QUANTILES),
    )


def _require_drops(estimator: Estimator) -> None:
    if estimator.is_state_based:
        return
    twin = estimator.state_based
    raise EstimationError(
        f"A path needs an estimator that drops states; {estimator.name} does not.",
        fix="Use a state-based name, such as WSPDIS." if twin is None else f"Use {twin.name}.",
    )


def _path(
    question: Question, estimator: Estimator, levels: Levels, columns: Columns, anchored: bool
) -> EpsilonPath:
    inside = estimator.contains_correction
    heard = anchored and question.parts.has_states
    stray: FloatArray | float = strays(estimator, columns, cross_checks_of(question)) if anchored else 0.0
    return EpsilonPath(
        estimator.name,
        levels.epsilon,
        levels.n_dropped,
        columns.estimate,
        columns.std_error,
        columns.bias,
        columns.estimate if inside else columns.estimate - columns.bias,
        columns.ess,
        _choose(estimator, columns, stray, REMAINING_BIAS_HEARD if heard else REMAINING_BIAS),
        levels,
    )


def _choose(estimator: Estimator, columns: Columns, stray: FloatArray | float, remaining: float) -> int:
    """The level with the least estimated error among those with enough effective episodes."""
    share = remaining if estimator.is_corrected or estimator.contains_correction else 1.0
    error = (share * columns.bias) ** 2 + columns.std_error**2 + stray
    ess = columns.ess
    barred = (ess < min(ENOUGH_EPISODES, ess.max())) | np.isnan(error)
    error = np.where(barred, np.inf, error)
    # Of levels that differ by rounding only, the one that drops least: the last bit must not decide.
    return int((error <= error.min() * (1 + SAME_ERROR)).argmax())
