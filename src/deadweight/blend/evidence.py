"""Evidence: the estimates that BLEND mixes, with the covariance of their full influences.

Two passes over the log: one for the sums of all estimates and of their starts, one for the influences. What a
question has computed already (model, values) is used again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.given_model import has_given_model
from deadweight.answers.influences import Job, one_pass
from deadweight.answers.known_values import known_values
from deadweight.answers.plans import plan_of
from deadweight.basics.progress import unforeseen_passes
from deadweight.blend.candidates import (
    BY_EPISODE,
    BY_STEP,
    CROSS_FITTED,
    FULL_WEIGHTS,
    SECOND_OPINION,
    WITHOUT_MODEL,
    Evidence,
)
from deadweight.blend.evidence_sums import (
    Joint,
    LinearSizes,
    WalkedSurprise,
    WindowSizes,
    joint_moments,
    joint_rows,
)
from deadweight.estimators.builders import doubly_robust_by
from deadweight.estimators.direct import DirectByRow, Episodes, Together
from deadweight.estimators.family import Summed
from deadweight.estimators.full_influence import (
    Influence,
    WithModel,
    full_influences,
    no_influence,
    starts_of,
)
from deadweight.estimators.names import BUILT_IN
from deadweight.estimators.product import ProductFamily, SelfNormalised
from deadweight.estimators.starts import StartFamily
from deadweight.estimators.windowed import ModelSteps, model_steps, windowed
from deadweight.inference.intervals import ReturnExtent
from deadweight.negligible.guard import fit_of
from deadweight.negligible.proof import is_proven
from deadweight.negligible.witnesses import LEAST_Z
from deadweight.question.by_row import RowQuestion
from deadweight.question.core import MOST_VALUES, Question
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.solved_values import Values
from deadweight.sums.fields import Field
from deadweight.sums.reduction import in_log_order
from deadweight.sums.reward_timing import RewardTiming
from deadweight.sums.running import scale
from deadweight.typing import FloatArray
from deadweight.values.crossfit import FOLDS

LONGEST_WINDOW = 3
# Sums of ratios that are rarely large have a few episodes that decide, and Kish's size does not see them.
SEEN_OF_LINEAR = 0.5
# By name, those that are estimates of a table as well.
OF_TABLE = ("LIN", "DM", "BEHAVIOUR", BY_STEP, BY_EPISODE)
# Those that weights of whole episodes carry.
_WEIGHTED = (*FULL_WEIGHTS, *WITHOUT_MODEL)


@dataclass(frozen=True, eq=False)
class _Piece:
    """A self-normalised estimate with its starts."""

    name: str
    family: ProductFamily
    values: Values[Field]
    shape: tuple[int, int]

    @property
    def summed(self) -> SelfNormalised:
        return SelfNormalised(self.family)

    @cached_property
    def starts(self) -> StartFamily | None:
        return starts_of(self.family, self.values, self.shape)


def gather(question: Question, answers: Answers | None = None) -> Evidence:
    """All estimates of a question that a blend needs.

    Args:
      question: with pi_e of all actions, and a model that can be solved.
      answers: sums that are there already are not made again.
    """
    if Evidence not in question.paths:
        gatherer_of(question, answers or Answers(question, ())).evidence()
    found: Evidence = question.paths[Evidence]
    return found


def checked(question: Question, answers: Answers, gathered: Evidence, lost: bool) -> Evidence:
    """The evidence once it is known whether the model is lost; whoever gathers again gets it so."""
    found = gathered
    if lost or not gathered.model:
        name = BY_EPISODE if gathered.late else BY_STEP
        with unforeseen_passes():
            distance = answers.disagreement(plan_of(question, BUILT_IN[name], NOTHING_DROPPED))
        found = replace(gathered, model=False, row_distance=distance or 0.0)
    question.paths[Evidence] = found
    return found


def gatherer_of(question: Question, answers: Answers) -> Gatherer:
    """What gathers the evidence of a question: less of it has a meaning where states are rows."""
    return (Gatherer if question.row_values is None else RowGatherer)(question, answers)


class Gatherer:
    """What a blend needs of the log, asked for in two passes that others may share.

    Args:
      question, answers: as in `gather`.
    """

    def __init__(self, question: Question, answers: Answers) -> None:
        self.question, self.answers = question, answers
        self._joint: Joint | None = None
        names = OF_TABLE if self._cross_fitted is not None else ("WDR", *OF_TABLE)
        self.plans = {name: plan_of(question, BUILT_IN[name], NOTHING_DROPPED) for name in names}

    @cached_property
    def steps(self) -> ModelSteps:
        """The model at the steps of the log."""
        return model_steps(self.question)

    @cached_property
    def surprise(self) -> WalkedSurprise:
        """How far off its values are, by state."""
        return WalkedSurprise(self.question.model, self.steps)

    @cached_property
    def sizes(self) -> WindowSizes:
        """Effective sample sizes of windowed weights."""
        return WindowSizes(self.steps, LONGEST_WINDOW)

    @cached_property
    def of_log(self) -> tuple[LinearSizes, ReturnExtent]:
        """Sizes of the weights of LIN, and the range of returns."""
        return LinearSizes(self.plans[BY_STEP].weighting), ReturnExtent(self.question.gamma)

    @property
    def _of_tables(self) -> list[Summed]:
        """What only a table of states has."""
        return [self.surprise, self.sizes]

    @property
    def wanted(self) -> list[Summed]:
        """What is to be summed in the first pass."""
        of_plans = [one for plan in self.plans.values() for one in (plan.summed, plan.starts)]
        wanted = [one for one in of_plans if one is not None]
        return [*wanted, RewardTiming(), *self.of_log, *self._of_tables, *_sums_of(self.pieces)]

    @property
    def job(self) -> Job:
        """What is to be done in the second pass."""
        summarise = joint_rows if self.question.keeps_influences else joint_moments
        return Job([influence for _, influence in self._found.values()], summarise, self._keep)

    def _keep(self, found: Joint) -> None:
        self._joint = found

    @cached_property
    def _found(self) -> dict[str, tuple[float, Influence]]:
        """Value and influence of each estimate."""
        answers = self.answers
        answers.sum(self.wanted, [self.plans[BY_STEP].weighting])
        found: dict[str, tuple[float, Influence]] = {}
        influences = answers.influences(list(self.plans.values()))
        for (name, plan), influence in zip(self.plans.items(), influences, strict=True):
            found[name] = answers.fit(plan).value, influence
        for piece, (value, influence) in zip(self.pieces, self._finished(), strict=True):
            if piece.name.startswith("WIN"):
                value += found["DM"][0]
                influence = Together((influence, found["DM"][1]))
            found[piece.name] = value, influence
        return found

    def evidence(self) -> Evidence:
        """All of it; by passes of its own where no others were shared."""
        question, answers, found = self.question, self.answers, self._found
        if self._joint is None:
            one_pass(question, [self.job])
        assert self._joint is not None
        unseen, joint, ess = self._unseen(), self._joint, answers.ess(self.plans[BY_STEP]) or 0.0
        covariance = joint.moments.covariance_of_means
        kept = self._finite(covariance)
        names = tuple(list(found)[place] for place in kept)
        sizes = {"WIN": self._windowed_size(), "LIN": self._size_of_linear()}
        made = Evidence(
            names,
            np.array([found[name][0] for name in names]),
            covariance[np.ix_(kept, kept)],
            np.array([sizes.get(name[:3], ess if name in _WEIGHTED else question.n) for name in names]),
            question.n,
            ess,
            thirds=joint.thirds[np.ix_(kept, kept, kept)] / question.n if question.n > 1 else None,
            unseen_variance=0.0 if unseen is None else float(np.square(unseen).sum()),
            shared_bias=self._shared_bias(found["DM"][0]),
            # Without other episodes to check it by, or any that acts like the new policy, a model is a guess.
            model=question.n >= FOLDS and ess > 0.0 and is_proven(question),
            late=answers.found(RewardTiming()).is_late,
            missing=self._missing(),
            left_out=self._left_out(),
            influences=tuple(found[name][1] for name in names),
            unseen=unseen,
            rows=None if joint.rows is None else in_log_order(joint.rows)[kept],
        )
        question.paths[Evidence] = made  # for whoever asks again
        return made

    def _finite(self, covariance: FloatArray) -> list[int]:
        """Places of the estimates that have a value.

        Products over a window may leave the range of doubles; all the others carry an exponent.
        """
        names, known = list(self._found), np.isfinite(np.diag(covariance)) | (self.question.n < 2)
        fine = {
            name: bool(known[place] and np.isfinite(self._found[name][0])) for place, name in enumerate(names)
        }
        windows = [name for name in names if name.startswith("WIN")]
        left = windows if not all(fine[name] for name in windows) else []
        left += [] if fine["LIN"] else ["LIN"]
        return [place for place, name in enumerate(names) if name not in left]

    def _left_out(self) -> tuple[str, ...]:
        """A given model by itself."""
        return ("DM",) if has_given_model(self.question) else ()

    def _size_of_linear(self) -> float:
        """Effective episodes of the weights of LIN, of mean 1; they are seen half as well as products are."""
        found = self.answers.found(self.of_log[0])
        return float(SEEN_OF_LINEAR * self.question.n / max(found.squares / found.steps, 1.0))

    def _missing(self) -> float:
        """The range of returns by as much of it as weights of whole episodes fall short of their mean, 1."""
        (sums,), found = self.answers.sums(self.plans[BY_EPISODE]).groups, self.answers.found(self.of_log[1])
        mean = float(scale(sums.weight, sums.shift)[0]) / self.question.n
        lowest, highest = self.question.options.return_range or (found.lowest, found.highest)
        return max(1.0 - mean, 0.0) * (highest - lowest)

    @cached_property
    def _cross_fitted(self) -> Values[Field] | None:
        """Values of models that have not seen the episodes that they serve; None where there are none."""
        question = self.question
        size = FOLDS * question.values.q.values.size
        if question.options.model is not None or question.n < FOLDS or size > MOST_VALUES:
            return None
        return question.cross_fitted(FOLDS)

    @cached_property
    def _windows(self) -> list[_Piece]:
        question = self.question
        shape = (question.pair.n_states, question.pair.n_actions)
        return [
            _Piece(f"WIN{window}", windowed(question, self.steps, window), question.values, shape)
            for window in (LONGEST_WINDOW, 2)
        ]

    @cached_property
    def pieces(self) -> list[_Piece]:
        """Estimates that are in no table."""
        question, values = self.question, self._cross_fitted
        shape = (question.pair.n_states, question.pair.n_actions)
        pieces = list(self._windows)
        if values is not None:
            family = doubly_robust_by(question, self.plans["LIN"].weighting, values)
            pieces.append(_Piece(CROSS_FITTED, family, values, shape))
        return pieces

    def _finished(self) -> list[tuple[float, Influence]]:
        """Value and influence of each piece; their models are gone through together."""
        found: list[tuple[float, Influence]] = []
        with_model: list[tuple[int, WithModel]] = []
        for number, piece in enumerate(self.pieces):
            sums = self.answers.found(piece.summed)
            fit = piece.family.finish(sums, weighted=True)
            own, starts = fit.influence, piece.starts
            assert own is not None  # they are all self-normalised
            found.append((fit.value, own))
            if starts is not None:
                with_sums = (starts, self.answers.found(starts))
                with_model.append((number, WithModel(own, sums, True, with_sums, piece.values.fits)))
        full = full_influences([one for _, one in with_model])
        for (number, _), influence in zip(with_model, full, strict=True):
            found[number] = found[number][0], influence
        return found

    def _windowed_size(self) -> float:
        """Effective episodes of the longest window, on average over the steps that pi_e reaches."""
        ess, alive = self.answers.found(self.sizes).ess, self.steps.alive
        return float(ess @ alive[: len(ess)] / alive.sum())

    def _unseen(self) -> FloatArray | None:
        """(S, A) what pairs that were hardly seen could do, of which no influence knows, DM's included."""
        question = self.question
        if question.options.model is not None:
            return None
        return question.unseen_errors(self.answers.found(self.surprise))

    def _shared_bias(self, direct: float) -> float:
        """The jackknife's estimate of the bias of DM, from leaving out one fold after the other."""
        values = self._cross_fitted
        if values is None:
            return 0.0
        without = [float(fitted.model.d0 @ fitted.v[0]) for fitted in values.fits]
        return (FOLDS - 1) * (float(np.mean(without)) - direct)


def _sums_of(pieces: Iterable[_Piece]) -> list[Summed]:
    return [one for piece in pieces for one in (piece.summed, piece.starts) if one is not None]


class RowGatherer(Gatherer):
    """The same where states are rows.

    Windowed weights need the share of each state in the model, which is known of tables only: the blend goes
    from WDR, which is cross-fitted already, over LIN to DM. Values that are taken as known have no standard
    error of their own: WIN1 (`deadweight.answers.known_values`) takes the place of DM.
    """

    def _left_out(self) -> tuple[str, ...]:
        """Values that are taken as known by themselves."""
        return () if known_values(self.question) is None else ("DM",)

    @cached_property
    def _found(self) -> dict[str, tuple[float, Influence]]:
        """Value and influence of each estimate."""
        found, known, second = super()._found, known_values(self.question), self._second_opinion
        if known is not None:
            found["WIN1"] = known.estimate
        if second is not None:
            found[SECOND_OPINION] = second
        return found

    @property
    def _second_opinion(self) -> tuple[float, Influence] | None:
        """What the default's model says where another one was learned, unless it foretells nothing."""
        question = self.question
        assert isinstance(question, RowQuestion), "rows are asked about"
        values = question.default_values
        if values is None or fit_of(question.parts[0], values.q, question.gamma) < LEAST_Z:
            return None
        fit = DirectByRow(values).finish(Episodes(question.n), weighted=False)
        return fit.value, fit.influence or no_influence

    @property
    def _cross_fitted(self) -> None:
        """None are made: values row by row are those of models that have not seen the row."""

    @cached_property
    def pieces(self) -> list[_Piece]:
        """There are none."""
        return []

    @property
    def _of_tables(self) -> list[Summed]:
        return []

    def _windowed_size(self) -> float:
        return float(self.question.n)  # of WIN1

    def _unseen(self) -> None:
        """Nothing is counted."""

    def _shared_bias(self, direct: float) -> float:
        """The jackknife's estimate of the bias of DM, from leaving out one fold after the other."""
        values = self.question.row_values
        if values is None or values.start_without is None:
            return 0.0
        folds, n = values.start_without.shape
        kept = [values.start_without[k, np.arange(n) % folds != k].mean() for k in range(folds)]
        return float((folds - 1) * (np.mean(kept) - direct))
