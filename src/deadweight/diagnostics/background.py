"""Background: what a report shows beside the estimates and the verdict of an evaluation, as plain data.

It is made with the evaluation, in one pass over the log beside those of the estimates and the path of
dropping, so that a report can be written where the log is no longer at hand. What grows with the number of
states or of steps is cut to what a page shows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.intervals import per_episode
from deadweight.diagnostics.dropping import (
    PATH_OF,
    FeaturesContent,
    PathContent,
    features_content,
    path_content,
)
from deadweight.diagnostics.states import StateReport, state_report_of, support_of
from deadweight.diagnostics.weight_report import WeightReport, WeightSums, weight_report, weight_sums
from deadweight.estimators.product import Summed
from deadweight.log.labels import visible
from deadweight.question.drops import Drop
from deadweight.question.question import Question
from deadweight.results.estimate import Estimate
from deadweight.results.saved import saved
from deadweight.sums.blocks import Block
from deadweight.sums.old_policies import ids_of, members_of
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray, IntArray

saved(WeightReport)


@dataclass(frozen=True, eq=False)
class Episodes:
    """Returns and lengths of episodes, and their smallest and largest reward."""

    returns: FloatArray
    lengths: IntArray
    lowest: float
    highest: float

    def merge(self, other: Episodes) -> Episodes:
        """The sums of the episodes of both."""
        return Episodes(
            np.concatenate([self.returns, other.returns]),
            np.concatenate([self.lengths, other.lengths]),
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
        )


@dataclass(frozen=True, eq=False)
class _Sums:
    """The sums of episodes under a discount, or of weights."""

    of: float | Weighting

    @property
    def key(self) -> Hashable:
        return ("background", self.of)

    def summarise(self, block: Block) -> Episodes | WeightSums:
        """The sums of a block."""
        if isinstance(self.of, Weighting):
            return weight_sums(self.of, block)[0]
        rewards, alive = block.paid, True if block.alive is None else block.alive
        lowest = float(np.min(rewards, where=alive, initial=np.inf))
        highest = float(np.max(rewards, where=alive, initial=-np.inf))
        return Episodes(block.returns(self.of), block.lengths, lowest, highest)


def background_sums(question: Question, drop: Drop) -> list[Summed]:
    """The sums of episodes, of plain weights and, where the headline's drop drops anything, of kept ones."""
    return [_Sums(question.gamma), *map(_Sums, _weightings(question, drop))]


def _weightings(question: Question, drop: Drop) -> list[Weighting]:
    kept = drop.weighting(question.pair)
    return [kept.undropped, *([] if kept.drop is None else [kept])]


# --- Weights

BINS = 32
MOST_STEPS = 120


@saved
@dataclass(frozen=True)
class WeightsContent:
    """Weights before and, where anything is dropped, after dropping: a report and a histogram of each."""

    steps: list[int]  # step numbers, from 1, of which the reports have `ess_steps`
    edges: list[float]  # bin edges, in powers of ten of the weight of an episode
    reports: list[WeightReport]  # files of schema 2 do not have all of their fields
    counts: list[list[int]]  # of each report, episodes in each bin


def weights_content(question: Question, sums: dict[Weighting, WeightSums]) -> WeightsContent:
    """Plain weights, and those of the drop where it drops anything."""
    horizon = question.horizon
    steps = np.unique(np.linspace(1, horizon, min(horizon, MOST_STEPS)).round().astype(np.int64))
    powers = [side.log_b / math.log(10) for side in sums.values()]
    powers = [logs[np.isfinite(logs)] for logs in powers]
    # Edges hold every positive weight, and are at least a tenth of a power apart in all.
    together = np.concatenate([*powers, [] if any(map(len, powers)) else [0.0]])
    low, high = float(together.min()), float(together.max())
    edges = np.linspace(*((low, high) if high - low >= 0.1 else (low - 0.5, high + 0.5)), BINS + 1)
    reports = [weight_report(question, of, side) for of, side in sums.items()]
    return WeightsContent(
        steps.tolist(),
        edges.tolist(),
        [replace(report, ess_steps=report.ess_steps[steps - 1]) for report in reports],
        [np.histogram(logs, edges)[0].tolist() for logs in powers],
    )


# --- Data


@saved
@dataclass(frozen=True)
class OldPolicyRow:
    """One of several old policies."""

    id: Any  # its label
    episodes: int
    share: float
    mean_return: float
    ess: float  # effective episodes among its own, with all weights kept
    drift: str  # how the world that it met differs from that of the others, in words; empty if it does not


def old_policy_rows(question: Question) -> tuple[OldPolicyRow, ...]:
    """One for each old policy; none where there is one only, or the ids of a stored log are not read."""
    policies = question.old_policies
    if len(policies) < 2 or not question.parts.has_behaviour_ids:
        return ()
    ids = tuple(old.id for old in policies)
    member, logs = per_episode(question, partial(_final_logs, Weighting(question.pair), ids))
    return tuple(
        OldPolicyRow(
            *(old.id, old.episodes, old.share, old.mean_return),
            ess=_ess(logs[member == j]),
            drift=old.drift if old.drifted else "",
        )
        for j, old in enumerate(policies)
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


QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@saved
@dataclass(frozen=True)
class DataCard:
    """Facts about a log.

    `unseen_mass` is the mean probability that pi_e gives, in the visited states, to actions never logged
    there; None where pi_e is known for logged actions only, or states have no labels.
    """

    episodes: int
    steps: int
    lengths: list[float]  # minimum, quartiles and maximum over the episodes
    states: int  # those that log and policies know
    visited_states: int
    actions: int
    truncated_share: float  # of the episodes
    rewards: tuple[float, float]  # smallest and largest
    returns: list[float]  # as `lengths`
    mean_return: float
    unseen_mass: float | None
    behaviour_logged: bool
    evaluation_logged: bool
    features: tuple[str, ...] = ()  # names of what describes the states; none where labels do
    old_policies: tuple[OldPolicyRow, ...] = ()  # where several have made the log


def data_card(question: Question, episodes: Episodes) -> DataCard:
    """The card of the log that a question is about."""
    pair, labelled = question.pair, question.parts.has_states
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


# --- Conventions

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
    # A blend drops nothing; what the other rows drop is shown by one of them.
    beside = "" if headline.blend is None else f"none in {headline.name}; in {PATH_OF} "
    unseen = f"{options.unseen}: in the model they {UNSEEN[options.unseen]}"
    if options.model is not None:
        unseen = "follow the model that was given"
    interval = "none was asked for"
    if kind is not None:
        interval = f"{kind}, {100 * headline.level:.3g} % confidence: {INTERVALS[kind]}"
    seed = ("Seed", "not used: no step of this evaluation is random")
    choices = [
        ("Discount (gamma)", f"{question.discount:g}"),
        ("Finished episodes", f"{options.finished}: they {FINISHED[options.finished]}"),
        ("Ends of episodes", _ends(question)),
        ("Actions never logged in a state", unseen),
        ("States dropped", beside + visible(shown, LONGEST_RULE)),
        ("Interval", interval),
        ("Seed of the bootstrap", str(options.seed)) if kind in RANDOM else seed,
    ]
    if question.cut_weights is not None:
        choices.append(("Cut episodes", question.cut_weights.sentence))
    if options.return_range is not None:
        choices.append(("Possible returns", "{:g} to {:g}".format(*options.return_range)))
    return choices


def _ends(question: Question) -> str:
    if question.time_limit is not None:
        return f"cut by a time limit of {question.time_limit:,} steps; values are those of so many steps"
    if question.has_end:
        return "none was cut; a model is solved until its values settle"
    over = "of its own" if question.model_horizon > question.horizon else "of the longest episode"
    return f"a model is solved over the {question.model_horizon:,} steps {over}"


# --- The background

CONFIDENCE = 0.95
MOST_STATES = 200


@saved
@dataclass(frozen=True, eq=False)
class Background:
    """The part of a report beside the estimates and the verdict."""

    data: DataCard  # facts about the log
    weights: WeightsContent  # before and after dropping
    path: PathContent | None  # an estimator at each level of dropping
    states: StateReport | None  # those with the highest variance cost, with labels as text
    without_states: str  # why there is no path, or no list of states
    conventions: list[tuple[str, str]]  # (what, which) of every choice that changes the numbers
    confidence: float  # level of the intervals
    features: FeaturesContent | None = None  # of a log without labels of states
    n_dropped: int = 0  # how many visited states are dropped, whether `states` has them or not


def background_of(question: Question, headline: Estimate, drop: Drop) -> Background:
    """The background of a table whose headline has this drop."""
    confidence = headline.level if headline.interval is not None else CONFIDENCE
    all_actions, labelled = question.has_values, question.parts.has_states
    answers, wanted = Answers(question, ()), background_sums(question, drop)
    answers.sum(wanted)  # those that are not there yet
    episodes, *weights = map(answers.found, wanted)
    sums = dict(zip(_weightings(question, drop), weights, strict=True))
    data, shown = data_card(question, episodes), weights_content(question, sums)
    path = path_content(question, confidence) if all_actions else None
    report = state_report_of(question, drop) if all_actions and labelled and drop.steps is None else None
    return Background(
        data=data,
        weights=shown,
        path=path,
        states=None if report is None else report.listed(MOST_STATES),
        without_states=_why_not(all_actions, labelled),
        conventions=conventions(question, headline, drop.origin),
        confidence=confidence,
        features=features_content(question),
        n_dropped=0 if report is None else int(report.dropped.sum()),
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
