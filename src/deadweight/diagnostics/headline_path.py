"""The path of a report: what the headline estimator says at each level of dropping."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.plans import plan_of
from deadweight.answers.student_t import ONE_EPISODE, t_quantile
from deadweight.estimators.estimator import estimator_of
from deadweight.log.labels import visible
from deadweight.negligible.levels import level_drops
from deadweight.negligible.path import EpsilonPath, path_of
from deadweight.negligible.rules import MIN_VISITS
from deadweight.question.question import Question
from deadweight.results.saved import saved

PATH_OF = "C-WSPDIS"
MOST_LEVELS = 30
MOST_STATES = 200
# Effective episodes that differ from all by less are all: weights are products of rounded numbers.
ALIKE = 1e-9


@saved
@dataclass(frozen=True)
class Level:
    """One level: everything that the slider moves.

    `n_dropped` counts visited states; the half-width of the interval is sampling_error + bias_allowance, as
    far as it lies within the `limits` of what an episode can earn.
    """

    epsilon: float
    n_dropped: int
    estimate: float
    corrected: float
    sampling_error: float
    bias_allowance: float
    bias: float
    ess: float
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def interval(self) -> tuple[float, float]:
        """Around the corrected estimate."""
        return self.around(self.sampling_error + self.bias_allowance)

    def around(self, half: float) -> tuple[float, float]:
        """So far to both sides of the corrected estimate, but not beyond what is possible."""
        lowest, highest = self.limits
        ends = self.corrected - half, self.corrected + half
        return min(max(ends[0], lowest), highest), max(min(ends[1], highest), lowest)


@saved
@dataclass(frozen=True)
class PathContent:
    """Levels, and the states in the order in which they are dropped.

    Attributes:
      name: the estimator.
      levels: from nothing dropped to all that may be.
      chosen: the level of the automatic choice.
      states: (label, level at which it is first dropped), at most `MOST_STATES` of them.
      n_episodes: size of the log.
      confidence: level of the intervals.
      of_steps: single steps are dropped, which have no labels, and `n_dropped` counts those.
    """

    name: str
    levels: list[Level]
    chosen: int
    states: list[tuple[str, int]]
    n_episodes: int
    confidence: float
    of_steps: bool = False

    @property
    def dropped_things(self) -> str:
        """What is dropped, in a word."""
        return "steps" if self.of_steps else "states"

    def is_model_only(self, k: int) -> bool:
        """Whether no ratio is left at a level: every episode counts the same, though policies differ."""
        return self.levels[k].ess >= self.n_episodes * (1 - ALIKE) > self.levels[0].ess


def path_content(question: Question, confidence: float) -> PathContent:
    """The path of a question with pi_e for all actions; `confidence` is the level of its intervals."""
    path = path_of(question, estimator_of(PATH_OF), MIN_VISITS)
    shown, labelled = _shown(path), question.parts.has_states
    visited = question.visits > 0
    entry = np.searchsorted(shown, path.levels.entry)  # a level left out joins the next one shown
    dropped_at = np.where(visited & (path.levels.entry < len(path)), entry, len(shown))
    counts = np.bincount(dropped_at, minlength=len(shown) + 1)[: len(shown)].cumsum()
    trust, limits = question.options.bias_trust, question.options.return_range
    gap = path.levels.evidence["gap"]
    order = np.lexsort((gap, dropped_at))[:MOST_STATES]
    return PathContent(
        name=PATH_OF,
        levels=[
            replace(level, limits=limits or level.limits)
            for level in (
                _level(path, k, int(n), confidence, error, trust * (abs(path.bias[k]) + extra))
                for k, n, (error, extra) in zip(shown, counts, _errors(question, path, shown), strict=True)
            )
        ],
        chosen=shown.index(path.chosen),
        states=[
            (visible(path.levels.labels[s]), int(dropped_at[s])) for s in order if dropped_at[s] < len(shown)
        ]
        if labelled
        else [],
        n_episodes=question.n,
        confidence=confidence,
        of_steps=not labelled,
    )


def _shown(path: EpsilonPath) -> list[int]:
    """Levels to show: all, or evenly many of them and the chosen one."""
    some = np.linspace(0, len(path) - 1, min(MOST_LEVELS, len(path))).round().astype(int)
    return sorted({*some.tolist(), path.chosen})


def _errors(question: Question, path: EpsilonPath, shown: list[int]) -> list[tuple[float, float]]:
    """Standard error of each level shown, and how far it lies from what checks it, as in its own interval.

    The path itself takes the model as known; an interval does not. Row by row that takes a reading of the
    features for each level, so only the chosen level has it.
    """
    made = estimator_of(PATH_OF)
    drops = level_drops(question, path.levels)
    plans = [plan_of(question, made, drops[k]) for k in shown]
    answers = Answers(question, plans)
    some = plans if question.row_values is None else [plans[shown.index(path.chosen)]]
    answers.prepare(
        False, [check for plan in plans for check in plan.counterparts], with_errors=some is plans
    )
    answers.prepare_std_errors(some)
    errors = {plan: answers.std_error(plan) for plan in some}
    return [
        (errors.get(plan, float(path.std_error[k])), answers.disagreement(plan) or 0.0)
        for plan, k in zip(plans, shown, strict=True)
    ]


def _level(
    path: EpsilonPath, k: int, n_dropped: int, confidence: float, std_error: float, bias_allowance: float
) -> Level:
    ess, bias = float(path.ess[k]), float(path.bias[k])
    certain = ess - 1 > ONE_EPISODE and math.isfinite(std_error)
    return Level(
        epsilon=float(path.epsilon[k]),
        n_dropped=n_dropped,
        estimate=float(path.estimate[k]),
        corrected=float(path.corrected[k]),
        sampling_error=t_quantile(confidence, ess - 1) * std_error if certain else math.inf,
        bias_allowance=bias_allowance,
        bias=bias,
        ess=ess,
    )
