"""Evidence: the estimates that BLEND mixes, with the covariance of their full influences.

Two passes over the log: one for the sums of all estimates and of their starts, one for the influences. What a
question has computed already (model, values, the drop of WDRSIS) is used again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.given_model import has_given_model
from deadweight.answers.influences import Job, one_pass
from deadweight.answers.known_values import known_values
from deadweight.answers.plans import FEW_EPISODES, plan_of
from deadweight.blend.candidates import CROSS_FITTED, OF_MODEL, SECOND_OPINION, Evidence
from deadweight.blend.evidence_sums import (
    JointRows,
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
from deadweight.negligible.guard import fit_of, guard_of
from deadweight.negligible.proof import is_proven
from deadweight.negligible.witnesses import LEAST_Z, witnesses_of
from deadweight.question.by_row import RowQuestion
from deadweight.question.core import MOST_VALUES, Question
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.question.solved_values import Values
from deadweight.sums.fields import Field
from deadweight.sums.reduction import in_log_order
from deadweight.sums.reward_timing import RewardTiming
from deadweight.sums.summaries import CoMoments
from deadweight.typing import FloatArray
from deadweight.values.crossfit import FOLDS

LONGEST_WINDOW = 3


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


def gather(question: Question, drop: Drop, answers: Answers | None = None) -> Evidence:
    """All estimates of a question that a blend needs.

    Args:
      question: with pi_e of all actions, and a model that can be solved.
      drop: of WDRSIS.
      answers: sums that are there already are not made again.
    """
    if (Evidence, drop) not in question.paths:
        gatherer_of(question, drop, answers or Answers(question, ())).evidence()
    found: Evidence = question.paths[Evidence, drop]
    return found


def gatherer_of(question: Question, drop: Drop, answers: Answers) -> Gatherer:
    """What gathers the evidence of a question: less of it has a meaning where states are rows."""
    return (Gatherer if question.row_values is None else RowGatherer)(question, drop, answers)


def sums_of_windows(question: Question) -> list[Summed]:
    """What a blend sums whatever it drops; the first pass of a path takes it along."""
    return gatherer_of(question, NOTHING_DROPPED, Answers(question, ())).of_windows


class Gatherer:
    """What a blend needs of the log, asked for in two passes that others may share.

    Args:
      question, drop, answers: as in `gather`.
    """

    def __init__(self, question: Question, drop: Drop, answers: Answers) -> None:
        self.question, self.drop, self.answers = question, drop, answers
        self._joint: CoMoments | None = None
        self._rows: FloatArray | None = None
        self.plans = {
            name: plan_of(question, BUILT_IN[name], drop if name == "WDRSIS" else NOTHING_DROPPED)
            for name in ("WDR", "WDRSIS", "DM", "BEHAVIOUR", "WPDIS", "WIS")
        }

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

    @property
    def _of_tables(self) -> list[Summed]:
        """What only a table of states has."""
        return [self.surprise, self.sizes]

    @property
    def of_windows(self) -> list[Summed]:
        """What does not depend on the drop, and takes a walk of its own."""
        return [*self._of_tables, *_sums_of(self._windows)]

    @property
    def wanted(self) -> list[Summed]:
        """What is to be summed in the first pass."""
        wanted: list[Summed | None] = [plan.summed for plan in self.plans.values()]
        wanted += [self.plans["WDR"].starts, self.plans["WDRSIS"].starts, RewardTiming(), *self._of_tables]
        return [*(one for one in wanted if one is not None), *_sums_of(self.pieces)]

    @property
    def job(self) -> Job:
        """What is to be done in the second pass."""
        summarise = joint_rows if self.question.keeps_influences else joint_moments
        return Job([influence for _, influence in self._found.values()], summarise, self._keep)

    def _keep(self, found: CoMoments | JointRows) -> None:
        if isinstance(found, JointRows):
            self._joint, self._rows = found.joint, in_log_order(found.rows)
        else:
            self._joint = found

    @cached_property
    def _found(self) -> dict[str, tuple[float, Influence]]:
        """Value and influence of each estimate."""
        answers = self.answers
        answers.sum(self.wanted, [self.plans[name].weighting for name in ("WDR", "WDRSIS")])
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
        unseen, covariance = self._unseen(), self._joint.covariance_of_means
        kept = self._finite(covariance)
        made = Evidence(
            tuple(list(found)[place] for place in kept),
            np.array([list(found.values())[place][0] for place in kept]),
            covariance[np.ix_(kept, kept)],
            question.n,
            answers.ess(self.plans["WDR"]) or 0.0,
            answers.ess(self.plans["WDRSIS"]) or 0.0,
            self._windowed_size(),
            unseen_variance=0.0 if unseen is None else float(np.square(unseen).sum()),
            shared_bias=self._shared_bias(found["DM"][0]),
            weights_only=self._weights_only(covariance),
            left_out=self._left_out(),
            useless=self._model_is_useless,
            heard=has_given_model(question),
            drops=answers.dropped_share(self.plans["WDRSIS"]) > 0.0,
            late=answers.found(RewardTiming()).is_late,
            some_cut=question.time_limit is not None or question.terminated < question.n,
            influences=tuple(list(found.values())[place][1] for place in kept),
            unseen=unseen,
            rows=None if self._rows is None else self._rows[kept],
        )
        question.paths[Evidence, self.drop] = made  # for whoever asks again
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
        return [place for place, name in enumerate(names) if name not in left]

    def _weights_only(self, covariance: FloatArray) -> bool:
        """Whether full weights are surer without the model, and nothing else in the mix may use it."""
        if is_proven(self.question):
            return False
        robust, plain = (list(self._found).index(name) for name in ("WDR", "WPDIS"))
        return bool(covariance[plain, plain] < covariance[robust, robust])

    def _left_out(self) -> tuple[str, ...]:
        """A given model by itself, and all that rests on it if the log contradicts it."""
        if not has_given_model(self.question):
            return ()
        return ("DM",) if is_proven(self.question) else OF_MODEL

    @property
    def _model_is_useless(self) -> bool:
        """Whether a fitted model foretells nothing, and too few episodes are left to say so otherwise.

        Where its labels mean nothing it is of no use however many there are.
        """
        question, ess = self.question, self.answers.ess(self.plans["WDR"]) or 0.0
        if has_given_model(question) or question.row_values is not None:
            return False
        if question.n < FOLDS:  # none are left that could show that it knows anything
            return True
        found = witnesses_of(question)
        return found.meaningless or (ess < FEW_EPISODES and not found.proven)

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
            for name, plan in zip(CROSS_FITTED, ("WDR", "WDRSIS"), strict=True):
                family = doubly_robust_by(question, self.plans[plan].weighting, values)
                pieces.append(_Piece(name, family, values, shape))
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
    from WDR over WDRSIS to DM. Its doubly robust parts are cross-fitted already, and WPDIS takes the place of
    WDR where the model adds noise instead of taking it away. Where it foretells nothing of unseen episodes
    only full weights are left. Values that are taken as known have no standard error of their own: WIN1
    (`deadweight.answers.known_values`) takes the place of DM, and full weights are left where the log speaks
    against them.
    """

    def _weights_only(self, covariance: FloatArray) -> bool:
        """Where the model adds noise to them."""
        return not guard_of(self.question).helps

    def _left_out(self) -> tuple[str, ...]:
        """Values that are taken as known by themselves, and what rests on values that are no good."""
        if not is_proven(self.question):
            return ("DM", "WIN1", "WDRSIS")
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

    @cached_property
    def pieces(self) -> list[_Piece]:
        """There are none."""
        return []

    @property
    def of_windows(self) -> list[Summed]:
        """There is nothing."""
        return []

    @property
    def _of_tables(self) -> list[Summed]:
        return []

    def _windowed_size(self) -> float:
        return self.answers.ess(self.plans["WDRSIS"]) or 0.0

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
