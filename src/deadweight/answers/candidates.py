"""The candidates of BLEND: the table of the estimates that it may be made of, and what a log says of them.

Two passes over the log: one for the sums of all estimates and of their starts, one for their full influences,
whose covariance the mix (`deadweight.answers.blend`) needs. What a question has computed already (model,
values) is used again, and others may share both passes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.intervals import ReturnExtent
from deadweight.answers.model_tests import has_given_values, residual_test
from deadweight.answers.plans import plan_of
from deadweight.answers.rounds import Counts, Job, OfInfluences, Sums, Task, carry_out
from deadweight.answers.trust import calibration_z, has_folds, is_proven
from deadweight.estimators import estimator as names
from deadweight.estimators.direct import DirectByRow, Episodes, Together
from deadweight.estimators.influence import Influence, no_influence
from deadweight.estimators.product import Summed
from deadweight.estimators.windowed import ModelSteps, model_steps
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import Question, RowQuestion
from deadweight.sums.blocks import Block, Table
from deadweight.sums.ends import RewardTiming
from deadweight.sums.reduction import in_log_order, numbered
from deadweight.sums.summaries import CoMoments, Kish, Pieces, Running, scale
from deadweight.tools.arithmetic import divide
from deadweight.tools.thresholds import FEW_EPISODES, LEAST_Z, MOST_LACKING, ROUNDING
from deadweight.typing import FloatArray
from deadweight.values.model import FOLDS
from deadweight.values.model_influence import SquaresByState, Surprise
from deadweight.values.rows import RowValues

CROSS_FITTED, SECOND_OPINION, BASELINE = names.CROSS_FITTED.name, "DM by default", "BEHAVIOUR"
# What is left without a model, and where all reward comes last.
BY_STEP, BY_EPISODE = WITHOUT_MODEL = ("WPDIS", "WIS")


@dataclass(frozen=True)
class Candidate:
    """An estimate that BLEND may be made of, or is compared with.

    Attributes:
      name: of the estimate.
      words: what it is, in the sentences of a verdict.
      products: of ratios that it multiplies, of the "whole" episode, of a "window", or of "one" step. The
        standard error of what has none is right with few effective episodes.
      leans: on the model, "wholly", or "partly" and beside cross-fitted WDR alone.
      needs: what a question must have for the estimate to be made, see `_conditions`.
      excluded: what a question has where nothing tells its error, so that it has no share.
    """

    name: str
    words: str
    products: str = ""
    leans: str = ""
    needs: str = "always"
    excluded: str = "never"


_TABLE = (
    Candidate("LIN", "doubly robust with all ratios, one at a time", excluded="weighted rows"),
    Candidate("DM", "the fitted model alone", leans="wholly", excluded="given values"),
    Candidate(BASELINE, "the mean return of the log"),
    Candidate(BY_STEP, "per-decision weights without a model", "whole"),
    Candidate(BY_EPISODE, "whole-episode weights without a model", "whole"),
    Candidate(CROSS_FITTED, "doubly robust with models fitted on other episodes", "whole", needs="folds"),
    Candidate("WDR", "doubly robust with all ratios", "whole", needs="no folds"),
    Candidate("WIN3", "doubly robust with the latest three ratios", "window", "partly", needs="labels"),
    Candidate("WIN2", "doubly robust with the latest two ratios", "window", "partly", needs="labels"),
    Candidate("WIN1", "the given values, corrected by the latest ratio", "one", needs="given rows"),
    Candidate(SECOND_OPINION, "the model that is used if none is chosen, alone", "", "wholly", "default"),
)


def _conditions(question: Question) -> dict[str, bool]:
    """What a question has, by the words of the table."""
    folds, rows, given = has_folds(question), question.row_values is not None, has_given_values(question)
    return {
        "always": True,
        "never": False,
        # Where states are rows models have not seen the rows that they serve as it is: WDR is cross-fitted.
        "folds": folds,
        "no folds": not folds,
        # Windowed weights need the share of each state in the model.
        "labels": not rows,
        # Values that are taken as known have no standard error; row by row WIN1 stands for DM.
        "given values": given,
        "given rows": given and rows,
        "default": _default_values(question) is not None,
        # The error of LIN is known for sums of ratios, not for such sums of rows that stand for many.
        "weighted rows": question.cut_weights is not None,
    }


def _default_values(question: Question) -> RowValues | None:
    """The default's values where another model learned from the same features, if they predict anything."""
    values = question.default_values if isinstance(question, RowQuestion) else None
    if values is None:
        return None
    q = Table(values.q, by_action=True)
    z = question.made_once((SECOND_OPINION,), lambda: calibration_z(question, q))
    return values if z >= LEAST_Z else None


CANDIDATES = {candidate.name: candidate for candidate in _TABLE}
# From the fewest assumptions to the least variance; the first two never stand beside each other.
ORDER = (CROSS_FITTED, "WDR", "LIN", "WIN3", "WIN2", "WIN1", "DM")
WINDOWS = tuple(each.name for each in _TABLE if each.products == "window")
WHOLE_WEIGHTS = tuple(each.name for each in _TABLE if each.products == "whole")
_ESTIMATORS = {**names.BUILT_IN, **{one.name: one for one in (names.CROSS_FITTED, *names.WINDOWS)}}
WORDS = {
    **{candidate.name: candidate.words for candidate in _TABLE},
    # In results that earlier versions have saved.
    "WDRSIS": "doubly robust with negligible states dropped",
    "WDRSIS cross-fitted": "doubly robust with negligible states dropped and models of other episodes",
}


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a question, as the log has them.

    Attributes:
      names: (k,) of the estimates.
      values: (k,) the estimates.
      covariance: (k, k) of the estimates, from full influences.
      sizes: (k,) effective episodes behind each.
      n: episodes.
      ess: effective sample size of the weights of whole episodes.
      thirds: (k, k, k) means of the products of three influences, each in its standard deviation; None for a
        single episode.
      unseen_variance: of what the model hardly saw.
      shared_bias: of the model, by leaving out folds.
      model: whether the model may be used at all.
      late: all reward comes with the last step of episodes of different lengths.
      lacking: by how much the mean weight of whole episodes is less than 1, beyond one standard error.
      extent: the range of returns.
      row_distance: what the row of weights alone allows for its distance from other estimates.
      left_out: estimates that may not be mixed: nothing says how sure they are.
      influences: (k,) of an episode on each estimate, where the mix is to have one.
      unseen: (S, A) what each pair contributes to the root of that variance.
      rows: (k, n) the influences of all episodes, where a question keeps them.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    sizes: FloatArray
    n: int
    ess: float
    thirds: FloatArray | None = None
    unseen_variance: float = 0.0
    shared_bias: float = 0.0
    model: bool = True
    late: bool = False
    lacking: float = 0.0
    extent: float = 0.0
    row_distance: float = 0.0
    left_out: tuple[str, ...] = ()
    influences: tuple[Influence, ...] = ()
    unseen: FloatArray | None = None
    rows: FloatArray | None = None

    @property
    def missing(self) -> float:
        """What episodes may hold that the log does not have."""
        return self.lacking * self.extent

    @property
    def order(self) -> list[str]:
        """The estimates that may be mixed, from the one that assumes least."""
        sizes = dict(zip(self.names, self.sizes.tolist(), strict=True))
        order = [name for name in ORDER if name in sizes and not self._is_out(CANDIDATES[name], sizes[name])]
        return order if self.model and order else [BY_EPISODE if self.late else BY_STEP]

    def _is_out(self, candidate: Candidate, size: float) -> bool:
        whole, window = candidate.products == "whole", candidate.products == "window"
        few = (whole or window) and size < FEW_EPISODES
        return few or (whole and self.lacking > MOST_LACKING) or candidate.name in self.left_out


# --- What the log says of them ------------------------------------------------------------------------------


def gather(question: Question) -> Candidates:
    """The candidates of a question; those that are there already are not gathered again."""
    if Candidates not in question.paths:
        carry_out(question, candidates_of(question))
    candidates: Candidates = question.paths[Candidates]
    return candidates


def candidates_of(question: Question) -> Task[Candidates]:
    """The candidates of a question, by passes that others may share."""
    yield Counts()
    gatherer = Gatherer(question)
    yield Sums(gatherer.wanted, [gatherer.plans[BY_STEP].weighting])
    moments: list[Joint] = []
    summarise = partial(joint_moments, gatherer.unit, question.keeps_influences)
    yield OfInfluences([Job([each for _, each in gatherer.estimates.values()], summarise, moments.append)])
    question.paths[Candidates] = candidates = gatherer.candidates(*moments)  # for whoever asks again
    return candidates


def checked(question: Question, answers: Answers, candidates: Candidates, lost: bool) -> Candidates:
    """The candidates once it is known whether the model is lost; whoever gathers again gets them so."""
    if lost or not candidates.model:
        name = BY_EPISODE if candidates.late else BY_STEP
        distance = answers.disagreement(plan_of(question, names.BUILT_IN[name], NOTHING_DROPPED))
        candidates = replace(candidates, model=False, row_distance=distance or 0.0)
    question.paths[Candidates] = candidates
    return candidates


class Gatherer:
    """What a mix needs of the log of a question, whose model can be solved for pi_e of all actions."""

    def __init__(self, question: Question) -> None:
        self.question, self.answers = question, Answers(question, ())
        has = _conditions(question)
        self.names = [each.name for each in _TABLE if has[each.needs]]
        self.left_out = tuple(each.name for each in _TABLE if has[each.excluded])
        self.plans = {
            name: plan_of(question, _ESTIMATORS[name], NOTHING_DROPPED)
            for name in self.names
            if name in _ESTIMATORS
        }
        self._facts: dict[str, Summed] = {"timing": RewardTiming(), "extent": ReturnExtent(question.gamma)}
        if has["labels"]:
            steps = model_steps(question)
            self._facts["surprise"] = WalkedSurprise(question.model, steps)
            self._facts["windows"] = WindowSizes(steps, 3)

    @property
    def wanted(self) -> list[Summed]:
        """What is to be summed in the first pass: the estimates and their starts, and facts of the log."""
        of_plans = [summed for plan in self.plans.values() for summed in (plan.summed, plan.starts)]
        return [*(summed for summed in of_plans if summed is not None), *self._facts.values()]

    @property
    def unit(self) -> float:
        """A power of two of the size of returns, in which no third moment leaves the range of numbers."""
        extent = self.answers.found(self._facts["extent"])
        largest = max(abs(extent.lowest), abs(extent.highest))
        return math.ldexp(1.0, math.frexp(largest)[1]) if 0.0 < largest < math.inf else 1.0

    @cached_property
    def estimates(self) -> dict[str, tuple[float, Influence]]:
        """Value and influence of each estimate."""
        answers, plans = self.answers, list(self.plans.values())
        pairs = zip(plans, answers.influences(plans), strict=True)
        estimates = {plan.name: (answers.fit(plan).value, influence) for plan, influence in pairs}
        direct = estimates["DM"]
        for name in WINDOWS:
            if name in estimates:
                value, influence = estimates[name]
                estimates[name] = direct[0] + value, Together((influence, direct[1]))
        if "WIN1" in self.names and (known := residual_test(self.question)) is not None:
            estimates["WIN1"] = known.estimate
        if (default := _default_values(self.question)) is not None:
            fit = DirectByRow(default).finish(Episodes(self.question.n), weighted=False)
            estimates[SECOND_OPINION] = fit.value, fit.influence or no_influence
        return estimates

    def candidates(self, joint: Joint) -> Candidates:
        """The candidates, from the moments of the influences of all estimates."""
        question, answers, estimates = self.question, self.answers, self.estimates
        ess = answers.ess(self.plans[BY_STEP]) or 0.0
        covariance = joint.moments.covariance_of_means * self.unit**2
        kept = self._finite(covariance)
        named = tuple(list(estimates)[place] for place in kept)
        unseen = self._unseen()
        return Candidates(
            named,
            np.array([estimates[name][0] for name in named]),
            covariance[np.ix_(kept, kept)],
            np.array([self._size(name, ess) for name in named]),
            question.n,
            ess,
            thirds=joint.standardised[np.ix_(kept, kept, kept)] if question.n > 1 else None,
            unseen_variance=0.0 if unseen is None else float(np.square(unseen).sum()),
            shared_bias=self._shared_bias(),
            # Without other episodes to check it by, or any that acts like the new policy, a model is a guess.
            model=question.n >= FOLDS and ess > 0.0 and is_proven(question),
            late=answers.found(self._facts["timing"]).is_late,
            lacking=self._lacking,
            extent=self._extent,
            left_out=self.left_out,
            influences=tuple(estimates[name][1] for name in named),
            unseen=unseen,
            rows=None if joint.rows is None else in_log_order(joint.rows)[kept],
        )

    def _finite(self, covariance: FloatArray) -> list[int]:
        """Places of the estimates with a value: products over windows may leave the range of doubles."""
        known = np.isfinite(np.diag(covariance)) | (self.question.n < 2)
        values = [value for value, _ in self.estimates.values()]
        fine = dict(zip(self.estimates, known & np.isfinite(values), strict=True))
        lost = {name for name in ("LIN", *WINDOWS) if not fine.get(name, True)}
        lost.update(WINDOWS if lost.intersection(WINDOWS) else ())
        return [place for place, name in enumerate(self.estimates) if name not in lost]

    def _size(self, name: str, ess: float) -> float:
        """Effective episodes behind an estimate: all of them where it has no products of ratios."""
        if name in WINDOWS:  # of the longest, on average over the steps that pi_e reaches
            sizes, alive = self.answers.found(self._facts["windows"]).ess, model_steps(self.question).alive
            return float(sizes @ alive[: len(sizes)] / alive.sum())
        return ess if name in WHOLE_WEIGHTS else self.question.n

    @property
    def _lacking(self) -> float:
        """By how much the mean of the weights of whole episodes, and its standard error, fall short of 1."""
        (sums,), n = self.answers.sums(self.plans[BY_EPISODE]).groups, self.question.n
        mean, ess = float(scale(sums.weight, sums.shift)[0]) / n, self.answers.ess(self.plans[BY_STEP]) or n
        return max(1.0 - mean * (1.0 + math.sqrt(max(1.0 / ess - 1.0 / n, 0.0))), 0.0)

    @property
    def _extent(self) -> float:
        """The range of returns, as the user knows it or the log has it."""
        of_log = self.answers.found(self._facts["extent"])
        lowest, highest = self.question.options.return_range or (of_log.lowest, of_log.highest)
        return float(highest - lowest)

    def _unseen(self) -> FloatArray | None:
        """(S, A) what pairs that were hardly seen could do, of which no influence knows, DM's included."""
        if self.question.options.model is not None or "surprise" not in self._facts:
            return None
        return self.question.unseen_errors(self.answers.found(self._facts["surprise"]))

    def _shared_bias(self) -> float:
        """The jackknife's estimate of the bias of DM, from leaving out one fold after the other."""
        question, values = self.question, self.question.row_values
        if values is not None and values.start_without is not None:
            folds, n = values.start_without.shape
            without = [values.start_without[k, np.arange(n) % folds != k].mean() for k in range(folds)]
        elif has_folds(question):
            fits = question.cross_fitted(FOLDS).fits
            without = [float(fitted.model.d0 @ fitted.v[0]) for fitted in fits]
        else:
            return 0.0
        direct = self.estimates["DM"][0]
        bias = float((len(without) - 1) * (np.mean(without) - direct))
        return bias if abs(bias) > ROUNDING * abs(direct) else 0.0


class WalkedSurprise(Surprise):
    """The errors of the model's state values by the kernel, on a walk that is made for the windows anyway."""

    def __init__(self, model: Hashable, steps: ModelSteps) -> None:
        super().__init__(model, steps.v, steps.gamma)
        self.steps = steps

    def summarise(self, block: Block) -> SquaresByState:
        """Of the steps of a block whose successor is known."""
        walk = self.steps.walks.on(block)
        return super().summarise(block) if walk is None else SquaresByState(walk.surprise, walk.visits)


@dataclass(frozen=True, eq=False)
class WindowSizes:
    """Effective sample sizes of the weights of a window, step by step."""

    steps: ModelSteps
    window: int

    @property
    def key(self) -> Hashable:
        """One for each model and window."""
        return ("window-sizes", self.steps, self.window)

    def summarise(self, block: Block) -> Kish:
        """Of the steps of a block whose successor is known."""
        walk = self.steps.walks.on(block)
        if walk is not None:
            return walk.sizes(self.window)
        weights = self.steps.weights(self.steps.weighting.on(block), self.window)
        return Kish.of(Running(weights), self.steps.errors(block).known)


@dataclass(frozen=True, eq=False)
class Joint:
    """Joint moments of influences, up to the third, and where wanted the influences themselves; merges.

    Attributes:
      moments: up to the second, in some unit.
      thirds: (k, k, k) sums of the products of three deviations, likewise.
      rows: numbered by episode, as they are; None where nobody wants them.
    """

    moments: CoMoments
    thirds: FloatArray
    rows: Pieces | None = None

    @classmethod
    def of(cls, values: FloatArray, rows: Pieces | None = None) -> Joint:
        """Of (k, m) values of m episodes."""
        moments, k = CoMoments.of(values), len(values)
        deviations = values - moments.mean[:, None]
        pairs = (deviations[:, None] * deviations[None]).reshape(k * k, -1)
        return cls(moments, (pairs @ deviations.T).reshape(k, k, k), rows)

    @property
    def standardised(self) -> FloatArray:
        """(k, k, k) means of the products of three deviations, each in its own standard deviation."""
        n = self.moments.n
        deviation = np.sqrt(np.maximum(np.diag(self.moments.covariance_of_means), 0.0) * (n - 1))
        cube = np.multiply.outer(np.multiply.outer(deviation, deviation), deviation)
        return divide(self.thirds / n, cube)

    def merge(self, other: Joint) -> Joint:
        """Of the episodes of both."""
        a, b, n = self.moments, other.moments, self.moments.n + other.moments.n
        step = b.mean - a.mean
        crossed = np.multiply.outer(step, (a.n * b.products - b.n * a.products) / n)
        crossed = crossed + crossed.transpose(1, 0, 2) + crossed.transpose(1, 2, 0)
        cube = np.multiply.outer(np.multiply.outer(step, step), step)
        between = a.n * b.n * (a.n - b.n) / float(n) ** 2 * cube
        rows = None if self.rows is None or other.rows is None else self.rows.merge(other.rows)
        return Joint(a.merge(b), self.thirds + other.thirds + crossed + between, rows)


def joint_moments(unit: float, keeps: bool, values: FloatArray, block: Block) -> Joint:
    """Joint moments of the influences of a block, with the influences where a question keeps them."""
    return Joint.of(values / unit, numbered(block, values.copy()) if keeps else None)
