"""Background: what stands behind the numbers of an evaluation, as plain values that a report can show.

It is made with the evaluation, in one pass over the log beside those of the estimates and the path of
dropping, so that a report can be written where the log is no longer at hand. What grows with the number of
states or of steps is cut to what a page shows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.student_t import per_episode
from deadweight.diagnostics.features import FeaturesContent, features_content
from deadweight.diagnostics.headline_path import PATH_OF, PathContent, path_content
from deadweight.diagnostics.states import state_report_of, support_of
from deadweight.diagnostics.weight_report import WeightReport, WeightSums, weight_report, weight_sums
from deadweight.estimators.product import Summed
from deadweight.log.labels import visible
from deadweight.question.drops import Drop
from deadweight.question.question import Question
from deadweight.results.estimate import Estimate
from deadweight.results.saved import saved
from deadweight.sums.blocks import Block
from deadweight.sums.old_policies import ids_of, members_of
from deadweight.sums.summaries import Kish
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray, IntArray

# --------------------------------------------------------------------------------------------------------
# The one pass behind a background: weights before and after dropping, returns, lengths, rewards.


@dataclass(frozen=True, eq=False)
class Episodes:
    """Returns and lengths of some episodes, and their smallest and largest reward."""

    returns: FloatArray
    lengths: IntArray
    lowest: float
    highest: float

    @classmethod
    def of(cls, gamma: float, block: Block) -> Episodes:
        """Of a block."""
        rewards, alive = block.paid, True if block.alive is None else block.alive
        lowest = float(np.min(rewards, where=alive, initial=np.inf))
        highest = float(np.max(rewards, where=alive, initial=-np.inf))
        return cls(block.returns(gamma), block.lengths, lowest, highest)

    def merge(self, other: Episodes) -> Episodes:
        """Of the episodes of both."""
        return Episodes(
            np.concatenate([self.returns, other.returns]),
            np.concatenate([self.lengths, other.lengths]),
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
        )


@dataclass(frozen=True, eq=False)
class LogSums:
    """What the pass found: of the episodes, of plain weights and, where anything is dropped, of kept ones."""

    episodes: Episodes
    weights: list[tuple[WeightSums, Kish]]
    weightings: list[Weighting]


@dataclass(frozen=True, eq=False)
class _OfLog:
    """What a background sums of a log besides weights."""

    gamma: float

    @property
    def key(self) -> Hashable:
        """One for each discount."""
        return ("background", self.gamma)

    def summarise(self, block: Block) -> Episodes:
        """Of a block."""
        return Episodes.of(self.gamma, block)


@dataclass(frozen=True, eq=False)
class _OfWeights:
    """What a background sums of weights."""

    weighting: Weighting

    @property
    def key(self) -> Hashable:
        """One for each weighting."""
        return ("background", self.weighting)

    def summarise(self, block: Block) -> Side:
        """Of a block."""
        return Side(tuple(weight_sums(self.weighting, block)))


@dataclass(frozen=True, eq=False)
class Side:
    """Several sums side by side; they merge."""

    sums: tuple[Any, ...]

    def merge(self, other: Side) -> Side:
        """Each with its like."""
        return Side(tuple(a.merge(b) for a, b in zip(self.sums, other.sums, strict=True)))


def background_sums(question: Question, drop: Drop) -> list[Summed]:
    """What is to be summed; `drop` is that of the headline."""
    return [_OfLog(question.gamma), *map(_OfWeights, _weightings(question, drop))]


def _weightings(question: Question, drop: Drop) -> list[Weighting]:
    kept = drop.weighting(question.pair)
    return [kept.undropped, *([] if kept.drop is None else [kept])]


def log_sums(question: Question, drop: Drop) -> LogSums:
    """The sums of a question; made in a pass of their own where they are not there yet."""
    wanted, answers = background_sums(question, drop), Answers(question, ())
    answers.sum(wanted)
    episodes, *weights = (answers.found(one) for one in wanted)
    return LogSums(episodes, [one.sums for one in weights], _weightings(question, drop))


# --------------------------------------------------------------------------------------------------------
# The weights of a report: before and after dropping, over episodes and over steps.

BINS = 32
MOST_STEPS = 120


@saved
@dataclass(frozen=True)
class WeightSummary:
    """One set of weights, plain or with the drop.

    Attributes:
      ess, largest_share, pareto_k, mean, mean_z, zero_share: of the final weights of the episodes.
      ess_steps: at the steps of `WeightsContent.steps`.
      counts: episodes in each bin of `WeightsContent.edges`.
    """

    ess: float
    largest_share: float
    pareto_k: float
    mean: float
    mean_z: float
    zero_share: float
    ess_steps: list[float]
    counts: list[int]


@saved
@dataclass(frozen=True)
class WeightsContent:
    """Weights before and after dropping; `after` is None when nothing is dropped.

    Attributes:
      steps: step numbers, from 1, at which the effective sample size is shown.
      edges: bin edges, in powers of ten of the weight.
      n_episodes: size of the log.
    """

    steps: list[int]
    edges: list[float]
    before: WeightSummary
    after: WeightSummary | None
    n_episodes: int


def weights_content(question: Question, sums: LogSums) -> WeightsContent:
    """Plain weights, and those of the drop where it drops anything."""
    powers = [each.log_b / math.log(10) for each, _ in sums.weights]
    edges = _edges(np.concatenate(powers))
    steps = np.unique(
        np.linspace(1, question.horizon, min(question.horizon, MOST_STEPS)).round().astype(np.int64)
    )
    before, *after = (
        _summary(weight_report(question, weighting, *each), own, steps, edges)
        for weighting, each, own in zip(sums.weightings, sums.weights, powers, strict=True)
    )
    return WeightsContent(steps.tolist(), edges.tolist(), before, after[0] if after else None, question.n)


def _edges(powers: FloatArray) -> FloatArray:
    """Bin edges that hold every positive weight, at least a tenth of a power wide in all."""
    finite = powers[np.isfinite(powers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if high - low < 0.1:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, BINS + 1)


def _summary(report: WeightReport, powers: FloatArray, steps: IntArray, edges: FloatArray) -> WeightSummary:
    return WeightSummary(
        ess=report.ess,
        largest_share=report.largest_share,
        pareto_k=report.pareto_k,
        mean=report.mean,
        mean_z=report.mean_z,
        zero_share=report.zero_weight_share,
        ess_steps=report.ess_steps[steps - 1].tolist(),
        counts=np.histogram(powers[np.isfinite(powers)], edges)[0].tolist(),
    )


# --------------------------------------------------------------------------------------------------------
# The old policies of a report: what each has made of the log, and how much of it the new policy can use.


@saved
@dataclass(frozen=True)
class OldPolicyRow:
    """One of several old policies.

    Attributes:
      id: its label.
      episodes, share, mean_return: of the log.
      ess: effective episodes among its own, with all weights kept.
      drift: how the world that it met differs from that of the others, in words; empty where nothing was
        found.
    """

    id: Any
    episodes: int
    share: float
    mean_return: float
    ess: float
    drift: str


def old_policy_rows(question: Question) -> tuple[OldPolicyRow, ...]:
    """One for each old policy; none where there is one only, or the ids of a stored log are not read."""
    found = question.old_policies
    if len(found) < 2 or not question.parts.has_behaviour_ids:
        return ()
    ids = tuple(one.id for one in found)
    member, weights = per_episode(question, partial(_final_logs, Weighting(question.pair), ids))
    return tuple(
        OldPolicyRow(
            one.id,
            one.episodes,
            one.share,
            one.mean_return,
            _ess(weights[member == j]),
            one.drift if one.drifted else "",
        )
        for j, one in enumerate(found)
    )


def _final_logs(weighting: Weighting, ids: tuple[Any, ...], block: Block) -> FloatArray:
    """(2, m) the number of each episode's old policy, and the logarithm of its final weight."""
    return np.stack([members_of(ids_of(block), ids), weighting.on(block).running.last.logs()[:, 0]])


def _ess(logs: FloatArray) -> float:
    """Kish's effective sample size of weights given by their logarithms."""
    if not np.isfinite(logs).any():
        return 0.0
    weights = np.exp(logs - logs.max())
    return float(weights.sum() ** 2 / np.square(weights).sum())


# --------------------------------------------------------------------------------------------------------
# The data card of a report: what was logged, and what is known about the two policies.

QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@saved
@dataclass(frozen=True)
class DataCard:
    """Facts about a log.

    Attributes:
      lengths, returns: minimum, quartiles and maximum over the episodes.
      visited_states: of the `states` that log and policies know.
      truncated_share: share of the episodes that were cut.
      rewards: smallest and largest.
      old_policies: where several have made the log.
      unseen_mass: mean probability that pi_e gives, in the visited states, to actions never logged there;
        None where pi_e is known for logged actions only, or states have no labels.
      features: names of what describes the states; none where labels do.
    """

    episodes: int
    steps: int
    lengths: list[float]
    states: int
    visited_states: int
    actions: int
    truncated_share: float
    rewards: tuple[float, float]
    returns: list[float]
    mean_return: float
    unseen_mass: float | None
    behaviour_logged: bool
    evaluation_logged: bool
    features: tuple[str, ...] = ()
    old_policies: tuple[OldPolicyRow, ...] = ()


def data_card(question: Question, sums: LogSums) -> DataCard:
    """The card of the log that a question is about."""
    pair, episodes, labelled = question.pair, sums.episodes, question.parts.has_states
    return DataCard(
        episodes=question.n,
        steps=int(episodes.lengths.sum()),
        lengths=np.quantile(episodes.lengths, QUARTILES).tolist(),
        states=pair.n_states if labelled else 0,
        visited_states=int((question.visits > 0).sum()) if labelled else 0,
        actions=pair.n_actions,
        truncated_share=1 - question.terminated / question.n,
        rewards=(episodes.lowest, episodes.highest),
        returns=np.quantile(episodes.returns, QUARTILES).tolist(),
        mean_return=float(episodes.returns.mean()),
        unseen_mass=support_of(question).unseen_mass if pair.pi_e is not None and labelled else None,
        behaviour_logged=pair.pi_b is None,
        evaluation_logged=pair.pi_e is None,
        features=() if labelled else question.parts[0].feature_names,
        old_policies=old_policy_rows(question),
    )


# --------------------------------------------------------------------------------------------------------
# The conventions of a report: choices that change the numbers, in words.

FINISHED = {
    "absorb": "stay in every normaliser with their last weight",
    "leave": "leave the normaliser of later steps",
    "survivors": "are left out; steps count by the share of episodes that reach them",
}
UNSEEN = {
    "pool": "behave like the average logged action in that state",
    "terminate": "earn nothing and end the episode",
    "mean": "earn the mean reward of the log",
}
INTERVALS = {
    "auto": "sampling error by Student's t with effective degrees of freedom, plus the estimated bias of "
    "dropping, plus the distance between weights and model",
    "blend": "two and a half standard errors, the noise of the fitted model in them; or about two and what "
    "the estimates in the mix contradict each other by beyond noise, if that is more",
    "student-t": "Student's t with effective degrees of freedom; no allowance for bias",
    "bootstrap": "bootstrap of whole episodes, percentile",
    "bca": "bootstrap of whole episodes, bias-corrected and accelerated",
    "bernstein": "empirical Bernstein bound with the given return range",
    "guaranteed": "betting bound with the given return range, valid in any sample",
}
# A rule in words, with labels in it at times.
LONGEST_RULE = 400
# Kinds of interval that draw random numbers.
RANDOM = ("bootstrap", "bca")


def conventions(question: Question, headline: Estimate, shown: str) -> list[tuple[str, str]]:
    """(what, which) of every choice behind the numbers; `shown` says what is dropped in figures."""
    options, kind = question.options, headline.interval_kind
    found = [
        ("Discount (gamma)", f"{question.discount:g}"),
        ("Finished episodes", f"{options.finished}: they {FINISHED[options.finished]}"),
        ("Ends of episodes", _ends(question)),
        ("Actions never logged in a state", _unseen(question)),
        ("States dropped", _beside(headline) + visible(shown, LONGEST_RULE)),
    ]
    if kind is None:
        found.append(("Interval", "none was asked for"))
    else:
        found.append(("Interval", f"{kind}, {100 * headline.level:.3g} % confidence: {INTERVALS[kind]}"))
    if kind in RANDOM:
        found.append(("Seed of the bootstrap", str(options.seed)))
    else:
        found.append(("Seed", "not used: no step of this evaluation is random"))
    if question.cut_weights is not None:
        found.append(("Cut episodes", question.cut_weights.sentence))
    if options.return_range is not None:
        found.append(("Possible returns", "{:g} to {:g}".format(*options.return_range)))
    return found


def _beside(headline: Estimate) -> str:
    """A blend drops nothing; what the other rows drop is shown by one of them."""
    return "" if headline.blend is None else f"none in {headline.name}; in {PATH_OF} "


def _ends(question: Question) -> str:
    if question.time_limit is not None:
        return f"cut by a time limit of {question.time_limit:,} steps; values are those of so many steps"
    if question.has_end:
        return "none was cut; a model is solved until its values settle"
    over = "of its own" if question.model_horizon > question.horizon else "of the longest episode"
    return f"a model is solved over the {question.model_horizon:,} steps {over}"


def _unseen(question: Question) -> str:
    if question.options.model is not None:
        return "follow the model that was given"
    return f"{question.options.unseen}: in the model they {UNSEEN[question.options.unseen]}"


# --------------------------------------------------------------------------------------------------------
# The states of a report: what each costs in variance, and what dropping it costs in bias.

MOST_STATES = 200


@saved
@dataclass(frozen=True)
class StateRow:
    """One visited state; see `deadweight.diagnostics.states.StateReport`."""

    label: str
    visits: int
    chi2: float
    variance_cost: float
    bias: float
    gap: float
    dropped: bool


@saved
@dataclass(frozen=True)
class StatesContent:
    """The states with the highest variance cost, how many are left out, and how many are dropped in all."""

    rows: list[StateRow]
    left_out: int
    n_dropped: int


def states_content(question: Question, drop: Drop) -> StatesContent:
    """The state report of a question with pi_e for all actions and a drop of states."""
    report = state_report_of(question, drop)
    rows = [
        StateRow(
            visible(row["state"]),
            row["visits"],
            row["chi2"],
            row["variance_cost"],
            row["bias"],
            row["gap"],
            row["dropped"],
        )
        for row in report.rows()[:MOST_STATES]
    ]
    return StatesContent(rows, max(0, len(report.labels) - MOST_STATES), int(report.dropped.sum()))


# --------------------------------------------------------------------------------------------------------

CONFIDENCE = 0.95


@saved
@dataclass(frozen=True, eq=False)
class Background:
    """What a report shows beside the estimates and the verdict.

    `path` and `states` are None where the log cannot give them; `without_states` then says why.
    """

    data: DataCard
    weights: WeightsContent
    path: PathContent | None
    states: StatesContent | None
    without_states: str
    conventions: list[tuple[str, str]]
    confidence: float
    features: FeaturesContent | None = None


def background_of(question: Question, headline: Estimate, drop: Drop) -> Background:
    """The background of a table whose headline has this drop."""
    confidence = headline.level if headline.interval is not None else CONFIDENCE
    all_actions = question.has_values
    of_states = all_actions and question.parts.has_states and drop.steps is None
    sums = log_sums(question, drop)
    return Background(
        data=data_card(question, sums),
        weights=weights_content(question, sums),
        path=path_content(question, confidence) if all_actions else None,
        states=states_content(question, drop) if of_states else None,
        without_states=_why_not(all_actions, question.parts.has_states),
        conventions=conventions(question, headline, drop.origin),
        confidence=confidence,
        features=features_content(question),
    )


def _why_not(all_actions: bool, labelled: bool) -> str:
    if not labelled:
        return "The states of this log have no labels: there is no list of states to show."
    if all_actions:
        return "Single steps were dropped, not states: there is no list of states to show."
    return (
        "The log holds the evaluation policy for the actions taken only. What a state costs, and what "
        "happens when it is dropped, can be said when the policy is known for all actions."
    )


__all__ = ["Background", "background_of"]
