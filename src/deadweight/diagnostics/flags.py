r"""The flags of a row of a table: what a reader of that estimate must know.

Their sentences are in `deadweight.results.estimate`, their thresholds in `deadweight.tools.thresholds`. Flags
that take sums of their own, or a standard error, are there only if an interval was asked for: `watched`,
`contents_of` and `order_job` say what these need of passes that are made anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.candidates import WHOLE_WEIGHTS, WITHOUT_MODEL
from deadweight.answers.plans import Plan, plan_of
from deadweight.answers.rounds import Job
from deadweight.answers.trust import is_confounded, is_proven
from deadweight.diagnostics.tails import LargestWeights, has_infinite_variance
from deadweight.diagnostics.weight_report import is_contradicted, mean_weight_z
from deadweight.estimators.estimator import MODEL, PER_DECISION
from deadweight.estimators.product import Summed
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.question.question import Question
from deadweight.question.ratio_check import FLAG as MISCALIBRATED
from deadweight.question.ratio_check import InverseProbabilities
from deadweight.results.estimate import Estimate, Interval
from deadweight.sums.blocks import Block, Folds
from deadweight.sums.ends import RewardTiming
from deadweight.sums.old_policies import Confounding
from deadweight.sums.summaries import Added, Pieces
from deadweight.sums.weighting import Weighting
from deadweight.tools import thresholds
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.typing import FloatArray, IntArray
from deadweight.values.equal_episodes import Copies, EpisodeContents

# --- Weights and rewards


def watched(question: Question, plans: Iterable[Plan]) -> list[Summed]:
    """The sums that the flags of these plans need."""
    weighted = [plan for plan in plans if plan.estimator.is_product]
    summed: list[Summed] = [LargestWeights(plan.weighting, question.n) for plan in weighted]
    if question.pair.pi_b is None and question.parts.has_states:
        summed.append(InverseProbabilities(question.pair.n_actions))
    if any(plan.estimator.scheme == PER_DECISION for plan in weighted):
        summed.append(RewardTiming())
    return summed


def weight_flags(answers: Answers, plan: Plan) -> list[str]:
    """Flags of an estimate that rests on products of ratios; none for others."""
    if not plan.estimator.is_product:
        return []
    question = answers.question
    answers.sum(watched(question, [plan]))
    flags = _flags_of(answers, plan.weighting, plan.drop)
    if plan.estimator.scheme == PER_DECISION and answers.found(RewardTiming()).is_late:
        flags.append("late-reward")
    if plan.weighting.drop is not None:
        flags += _few_undropped(answers)
    return flags


def _few_undropped(answers: Answers) -> list[str]:
    few = answers.size_of(NOTHING_DROPPED.weighting(answers.question.pair)) < thresholds.FEW_EPISODES
    return ["low-ess-undropped"] if few else []


def _flags_of(answers: Answers, weighting: Weighting, drop: Drop) -> list[str]:
    question = answers.question
    largest = LargestWeights(weighting, question.n)
    answers.sum([largest], [weighting])
    flags = []
    if answers.found(largest).is_heavy:
        flags.append("heavy-tail")
    z = mean_weight_z(answers, weighting)
    if z is not None and abs(z) > thresholds.FAR_FROM_ONE:
        flags.append("mean-weight")
    # As far as a table of states can tell.
    by_table = drop.steps is None and question.can_solve_model and question.parts.has_states
    if by_table and has_infinite_variance(question, drop.mask(question.pair.n_states)):
        flags.append("infinite-variance")
    return flags


# --- The order of episodes

# Blocks whose means are compared.
BLOCKS = 10
# So many episodes, the first of the log, show whether neighbours are alike; no more are kept.
MOST_KEPT = 1 << 20


@dataclass(frozen=True)
class LogOrder:
    r"""Signs in the order of a log: neighbours that are alike, and returns that change.

    Intervals take episodes as independent and of one kind. Several of one person, one after the other, are
    not independent: the influences of neighbouring episodes on DM are correlated then,

    .. math:: r_1 = \frac{\sum_i \phi_i \phi_{i+1}}{\sum_i \phi_i^2} > \frac{3.3}{\sqrt n}.

    Where conditions change along the log, the means of ten consecutive blocks of returns differ by more than
    chance (an analysis of variance). Where the old policy may have changed on the way its returns may as
    well; influences on DM, which know what was done, take their place. If the order means nothing, there is
    nothing to be found.
    """

    correlation: float  # of neighbours' influences on DM
    kept: int  # episodes that it is taken from
    p_value: float  # of the comparison of consecutive blocks

    @property
    def flags(self) -> list[str]:
        """The flags that it raises."""
        alike = self.kept >= thresholds.FEWEST and self.correlation > thresholds.ALIKE / np.sqrt(self.kept)
        marks = {"maybe-clustered": alike, "drift": self.p_value < thresholds.DRIFT}
        return [flag for flag, holds in marks.items() if holds]


@dataclass(frozen=True, eq=False)
class ByBlock:
    """Number, means and squared deviations of values, by consecutive block of the log; merges."""

    n: FloatArray  # (blocks,)
    mean: FloatArray  # (k, blocks)
    squares: FloatArray  # (k, blocks)

    @classmethod
    def of(cls, block_of: IntArray, values: FloatArray) -> ByBlock:
        """The moments of (k, m) values of episodes of these consecutive blocks."""
        n = sums_by(block_of, None, BLOCKS)
        mean = divide(np.stack([sums_by(block_of, row, BLOCKS) for row in values]), n)
        apart = np.square(values - mean[:, block_of])
        return cls(n, mean, np.stack([sums_by(block_of, row, BLOCKS) for row in apart]))

    def merge(self, other: ByBlock) -> ByBlock:
        """The moments of both together."""
        n, step = self.n + other.n, other.mean - self.mean
        mean = self.mean + divide(step * other.n, n)
        return ByBlock(n, mean, self.squares + other.squares + divide(np.square(step) * self.n * other.n, n))

    def p_value(self, row: int) -> float:
        """The p-value of the hypothesis that all blocks have one mean; 1 where nothing varies."""
        from scipy.special import fdtrc

        total = float(self.n.sum())
        mean = float(self.mean[row] @ self.n) / total
        between = float(np.square(self.mean[row] - mean) @ self.n) / (BLOCKS - 1)
        within = float(self.squares[row].sum()) / (total - BLOCKS)
        return float(fdtrc(BLOCKS - 1, total - BLOCKS, between / within)) if within > 0.0 else 1.0


@dataclass(frozen=True, eq=False)
class Ordered(Added):
    """The sums of the order: influences of the first episodes with their places, and all by block."""

    first: Pieces
    by_block: ByBlock


def order_job(answers: Answers) -> Job | None:
    """The job of a second pass; None where it has been done, or there are too few episodes."""
    question = answers.question
    if LogOrder in question.sums or question.n < thresholds.FEWEST:
        return None
    influence = answers.influence(plan_of(question, MODEL.variant(), NOTHING_DROPPED))
    summarise = _InOrder(Folds.of(1, question.sizes).first, question.n, question.gamma)

    def keep(sums: Ordered) -> None:
        kept = np.zeros(min(question.n, MOST_KEPT))
        for places, values in sums.first.items:
            kept[places] = values
        kept -= kept.mean()
        squares = float(kept @ kept)
        alike = float(kept[1:] @ kept[:-1]) / squares if squares > 0.0 else 0.0
        p_value = sums.by_block.p_value(int(_may_have_changed(question)))
        question.sums[LogOrder] = LogOrder(alike, len(kept), p_value)

    return Job([influence], summarise, keep)


def _may_have_changed(question: Question) -> bool:
    """Whether the old policy may have acted in several ways: there are several, or it looked at more."""
    return question.made_by is not None or question.sums.get(Confounding) is not None


@dataclass(frozen=True, eq=False)
class _InOrder:
    """The sums of a block; travels to workers."""

    first: IntArray  # (parts,) the number, in the whole log, of each part's first episode
    n: int  # episodes of the log
    gamma: float  # discount of returns

    def __call__(self, values: FloatArray, block: Block) -> Ordered:
        """The sums of (1, m) influences of a block's episodes."""
        places = self.first[block.part] + block.first + block.rows
        kept = places < MOST_KEPT
        both = np.stack([block.returns(self.gamma), values[0]])
        return Ordered(
            Pieces(((places[kept], values[0][kept]),)), ByBlock.of(places * BLOCKS // self.n, both)
        )


# --- Copies of episodes


def contents_of(question: Question) -> list[EpisodeContents]:
    """The sums of a first pass; none where states have no labels."""
    if not question.can_solve_model or question.row_values is not None or question.n < 2:
        return []
    return [EpisodeContents(question.parts, question.pair.n_actions)]


def copies_of(answers: Answers) -> Copies | None:
    """The copies in the sums of `contents_of`; None where they were not made."""
    question = answers.question
    contents = next(iter(contents_of(question)), None)
    if contents is None or contents.key not in question.sums:
        return None
    sums, habits = answers.found(contents), _may_have_changed(question)
    return question.made_once(Copies, lambda: contents.finish(sums, question.counts, habits))


# --- Rows and mixes


def row_flags(answers: Answers, plan: Plan, bounds: Interval | None) -> list[str]:
    """Flags of an estimate with its interval, by what they are about: log, weights, drop, model."""
    flags = _log_flags(answers, plan, bounds, answers.model_misfits)
    ess, share = answers.ess(plan), answers.dropped_share(plan)
    if ess is not None and ess < thresholds.FEW_EPISODES:
        flags.append("low-ess")
    if plan.estimator.is_state_based and share >= thresholds.NEARLY_ALL:
        flags.append("all-dropped")
    if plan.estimator.is_state_based and share == 0.0:
        flags.append("none-dropped")
    if bounds is not None:
        flags += [*weight_flags(answers, plan), *_interval_flags(plan, bounds)]
        if plan.uses_model and not is_proven(plan.question):
            flags.append("model-unproven")
    return [*flags, *_model_flags(answers, plan)]


def mix_flags(answers: Answers, plan: Plan, mix: Estimate) -> list[str]:
    """Flags of a mix, beside those that it has by itself."""
    flags, shares = _log_flags(answers, plan, mix.bounds, "model-misfit" in mix.flags), mix.shares or {}
    if mix.bounds is None:
        return flags
    if sum(shares.get(name, 0.0) for name in WHOLE_WEIGHTS) >= thresholds.SMALL_SHARE:
        weighting = NOTHING_DROPPED.weighting(plan.question.pair)
        flags += _flags_of(answers, weighting, NOTHING_DROPPED)
    flags += _few_undropped(answers)
    if not is_proven(plan.question):
        flags.append("model-unproven")
    if sum(share for name, share in shares.items() if name not in WITHOUT_MODEL) >= thresholds.HALF:
        flags += _flags_of_fit(plan.question)
    order: LogOrder | None = plan.question.sums.get(LogOrder)
    return flags if order is None else [*flags, *order.flags]


def _log_flags(answers: Answers, plan: Plan, bounds: Interval | None, misfits: bool) -> list[str]:
    """Flags of the log, and of where the behaviour policy comes from."""
    question, naive = plan.question, plan.estimator.is_naive
    flags = [] if naive else list(question.behaviour_flags)
    if bounds is not None:
        flags += ["undetermined"] if bounds.is_undetermined else []
        flags += [] if naive else _summed_log_flags(answers, question, misfits)
    if question.cut_early > 0:
        flags.append("truncated" if question.cut_weights is None else "cut-weighted")
    if not naive and _lacks_support(question):
        flags.append("no-support")
    return flags


def _summed_log_flags(answers: Answers, question: Question, misfits: bool) -> list[str]:
    """Flags of the log that take sums of their own."""
    copies = copies_of(answers)
    # How many are equal by chance a model tells only if it fits the log.
    marks = {
        "mixed-worlds": question.has_mixed_worlds,
        "copies": copies is not None and copies.found and (copies.real or not misfits),
        MISCALIBRATED: question.parts.has_states and is_contradicted(question),
    }
    return [flag for flag, holds in marks.items() if holds]


def _interval_flags(plan: Plan, bounds: Interval) -> list[str]:
    """Flags of the checks of an interval."""
    if bounds.kind != "auto" or not plan.estimator.is_product or not plan.question.options.cross_check:
        return []
    if not plan.counterparts:
        return ["unchecked"]
    rounding = thresholds.ROUNDING * abs(bounds.centre)
    return ["contradicted"] if (bounds.disagreement or 0.0) > bounds.sampling_error + rounding else []


def _model_flags(answers: Answers, plan: Plan) -> list[str]:
    """Flags of the model behind an estimate."""
    misfit = answers.misfit(plan)
    flags = ["model-misfit"] if misfit is not None and misfit.found else []
    flags += ["confounded-model"] if plan.uses_model and is_confounded(answers) else []
    return [*flags, *_flags_of_fit(plan.question)] if plan.has_used_model else flags


def _flags_of_fit(question: Question) -> list[str]:
    """Flags of whatever rests on the fitted model."""
    flags = ["model-unsettled"] if question.unsettled else []
    return flags if question.row_values is None else [*flags, *question.row_values.flags]


def _lacks_support(question: Question) -> bool:
    """Whether pi_e acts in a visited state where pi_b never does.

    Where pi_b is known for logged actions only, the log tells: an action that it does not have at all, which
    may be misspelt; or, where pairs have been counted, many choices that were never made in states visited
    so often that this is no accident.
    """
    pi_e, pi_b = question.pair.pi_e, question.pair.pi_b
    if pi_e is None:
        return False
    if pi_b is None and not question.parts.has_states:
        return False
    strange = pi_e[:, len(question.parts.action_labels) :] > 0 if pi_b is None else (pi_e > 0) & (pi_b == 0)
    states = strange.any(axis=1)
    if states.any() and (question.visits[states] > 0).any():
        return True
    return pi_b is None and _takes_unseen(question)


def _takes_unseen(question: Question) -> bool:
    """Whether many choices of pi_e were never made; False where pairs have not been counted."""

    def takes() -> bool:
        unseen = (question.counts.visits() == 0) & (question.visits >= thresholds.OFTEN)[:, None]
        mass = np.where(unseen, question.pi_e("The support"), 0.0).sum(axis=1)
        return bool(question.visits @ mass / question.visits.sum() > thresholds.UNSEEN_SHARE)

    return question.facts.has_counts(question.shape) and question.made_once((_takes_unseen,), takes)
