"""What a report says of dropping: an estimator along its path, and which steps are dropped by their features.

The path is that of one estimator, `PATH_OF`, level by level as `deadweight.negligible.path` computes it, with
the standard errors and checks that intervals have. Where states have no labels there is no list of them.
Instead a reader sees which steps are dropped, by ranges of features; on which features the gap depends, and
how; and whether the old policy's probabilities are right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.intervals import ONE_EPISODE, t_quantile
from deadweight.answers.plans import plan_of
from deadweight.answers.rounds import carry_out
from deadweight.estimators.estimator import estimator_of
from deadweight.log.labels import visible
from deadweight.log.trajectories import Trajectories
from deadweight.negligible.levels import level_drops
from deadweight.negligible.path import EpsilonPath, path_of
from deadweight.negligible.rules import MIN_VISITS
from deadweight.question.drops import chosen_drop
from deadweight.question.question import Question
from deadweight.question.ratio_check import calibration_of, z_of_question
from deadweight.results.saved import saved
from deadweight.typing import BoolArray, FloatArray

PATH_OF = "C-WSPDIS"
MOST_LEVELS = 30
MOST_STATES = 200
# Effective episodes that differ from all by less are all: weights are products of rounded numbers.
ALIKE = 1e-9


@saved
@dataclass(frozen=True)
class Level:
    """One level of the path.

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
        """The corrected estimate less and plus half a width, but not beyond what is possible."""
        lowest, highest = self.limits
        ends = self.corrected - half, self.corrected + half
        return min(max(ends[0], lowest), highest), max(min(ends[1], highest), lowest)


@saved
@dataclass(frozen=True)
class PathContent:
    """Levels, and the states in the order in which they are dropped."""

    name: str  # the estimator
    levels: list[Level]  # from nothing dropped to all that may be
    chosen: int  # the level of the automatic choice
    states: list[tuple[str, int]]  # (label, level at which it is first dropped), at most `MOST_STATES`
    n_episodes: int
    confidence: float  # level of the intervals
    of_steps: bool = False  # single steps are dropped, which have no labels, and `n_dropped` counts those

    @property
    def dropped_things(self) -> str:
        """The word for what is dropped."""
        return "steps" if self.of_steps else "states"

    def is_model_only(self, k: int) -> bool:
        """Whether no ratio is left at a level: every episode counts the same, though policies differ."""
        return self.levels[k].ess >= self.n_episodes * (1 - ALIKE) > self.levels[0].ess


def path_content(question: Question, confidence: float) -> PathContent:
    """The path of a question with pi_e for all actions; `confidence` is the level of its intervals."""
    path = path_of(question, estimator_of(PATH_OF), MIN_VISITS)
    evenly = np.linspace(0, len(path) - 1, min(MOST_LEVELS, len(path))).round().astype(int)
    shown = sorted({*evenly.tolist(), path.chosen})
    entry = np.searchsorted(shown, path.levels.entry)  # a level left out joins the next one shown
    is_dropped = (question.visits > 0) & (path.levels.entry < len(path))
    dropped_at = np.where(is_dropped, entry, len(shown))
    counts = np.bincount(dropped_at, minlength=len(shown) + 1)[: len(shown)].cumsum()
    order = np.lexsort((path.levels.evidence["gap"], dropped_at))[:MOST_STATES]
    labels, of_steps = path.levels.labels, not question.parts.has_states
    listed = [] if of_steps else [s for s in order if dropped_at[s] < len(shown)]
    errors = _errors(question, path, shown)
    return PathContent(
        name=PATH_OF,
        levels=[
            _level(question, path, k, int(n), confidence, *error)
            for k, n, error in zip(shown, counts, errors, strict=True)
        ],
        chosen=shown.index(path.chosen),
        states=[(visible(labels[s]), int(dropped_at[s])) for s in listed],
        n_episodes=question.n,
        confidence=confidence,
        of_steps=of_steps,
    )


def _errors(question: Question, path: EpsilonPath, shown: list[int]) -> list[tuple[float, float]]:
    """Standard error of each level shown, and how far it lies from what checks it, as in its own interval.

    The path itself takes the model as known; an interval does not. Row by row that takes a reading of the
    features for each level, so only the chosen level has it.
    """
    estimator, drops = estimator_of(PATH_OF), level_drops(question, path.levels)
    plans = [plan_of(question, estimator, drops[k]) for k in shown]
    answers = Answers(question, plans)
    judged = plans if question.row_values is None else [plans[shown.index(path.chosen)]]
    checks = [check for plan in plans for check in plan.counterparts]
    answers.wanted(counterparts=checks, with_errors=judged is plans).serve(question)
    carry_out(question, answers.std_errors(judged))
    errors = {plan: answers.std_error(plan) for plan in judged}
    return [
        (errors.get(plan, float(path.std_error[k])), answers.disagreement(plan) or 0.0)
        for plan, k in zip(plans, shown, strict=True)
    ]


def _level(
    question: Question,
    path: EpsilonPath,
    k: int,
    n_dropped: int,
    confidence: float,
    error: float,
    apart: float,
) -> Level:
    """Level k, with its standard error and how far it lies from what checks it."""
    ess, options = float(path.ess[k]), question.options
    certain = ess - 1 > ONE_EPISODE and math.isfinite(error)
    return Level(
        epsilon=float(path.epsilon[k]),
        n_dropped=n_dropped,
        estimate=float(path.estimate[k]),
        corrected=float(path.corrected[k]),
        sampling_error=t_quantile(confidence, ess - 1) * error if certain else math.inf,
        bias_allowance=options.bias_trust * (abs(path.bias[k]) + apart),
        bias=float(path.bias[k]),
        ess=ess,
        limits=options.return_range or Level.limits,
    )


# --- Features

TELLING = 3
"""So many features are shown, those on which the gap depends most."""
PIECES = 8
MOST_ASKED = 500
"""A partial dependence is the mean of so many steps at most."""
MOST_ACTIONS = 6
ROUGH = 0.9


@saved
@dataclass(frozen=True)
class Piece:
    """Steps with a feature in one range: how many, their mean gap, and the share of them that is dropped.

    `alone` is the partial dependence: the mean gap of all steps if this feature alone had the range's median,
    and all others were what they are. None where the model cannot be asked about other features.
    """

    low: float
    high: float
    steps: int
    gap: float
    dropped: float
    alone: float | None = None


@saved
@dataclass(frozen=True)
class FeaturesContent:
    """The automatic drop of steps by their features, and how the gap depends on these.

    The entries of `calibration` are action, steps, predicted and observed share, standard error, by tenths
    of the steps.
    """

    names: list[str]  # of all features
    dropped: float  # share of the steps that the automatic rule drops
    advantage: float  # share of the advantage of pi_e that lies in them, in absolute size
    words: list[str]  # clauses that describe them, of which one holds; empty for all or none
    said: float  # share of the steps that the words describe
    accuracy: float  # share of the steps for which they are right
    gaps: list[tuple[str, float, list[Piece]]]  # most telling features, with the share of variance explained
    z: float  # the mean of ratios less 1, in standard errors
    calibration: list[tuple[str, int, float, float, float]]

    def __str__(self) -> str:
        """The drop in a sentence or two."""
        if self.dropped == 0.0:
            return "The automatic rule drops no step."
        if self.dropped == 1.0:
            return "The automatic rule drops every step: the model alone tells the two policies apart."
        size = f"{self.dropped:.0%} of the steps, {self.advantage:.0%} of the advantage"
        if not self.words:
            return f"Dropped by the automatic rule: {size}. No range of features describes which."
        words = "; or ".join(f"steps with {clause}" for clause in self.words)
        rough = " They are a rough description." if self.accuracy < ROUGH else ""
        return (
            f"Dropped by the automatic rule: {words}. That is {size}. These words are right for "
            f"{self.accuracy:.0%} of the steps.{rough}"
        )


def features_content(question: Question) -> FeaturesContent | None:
    """The content of a log with features and of its automatic drop; None for another log."""
    if question.parts.has_states or not question.has_values:
        return None
    log = question.parts[0]
    if log.features is None:
        return None
    path = path_of(question, estimator_of(PATH_OF), MIN_VISITS)
    drop = chosen_drop(question, path.levels.states(path.chosen))
    flags: BoolArray = np.asarray(drop.flags(log), dtype=bool)
    size = np.abs(question.delta.along(log))
    total = float(size.sum())
    region = in_words(log.features, log.feature_names, flags)
    return FeaturesContent(
        names=[visible(name) for name in log.feature_names],
        dropped=float(flags.mean()),
        advantage=float(size[flags].sum() / total) if total > 0 else 0.0,
        words=list(region.words),
        said=region.share,
        accuracy=region.accuracy,
        gaps=_telling(question, log, log.features, flags),
        z=z_of_question(question),
        calibration=_calibration(question, log),
    )


def _telling(
    question: Question, log: Trajectories, x: FloatArray, flags: BoolArray
) -> list[tuple[str, float, list[Piece]]]:
    """The features, (m, d), on which the gap depends most: name, share of its variance explained, pieces."""
    gaps = question.gaps[log.states]
    features = [(j, *_pieces(x[:, j], gaps, flags)) for j in range(x.shape[1])]
    most = sorted(features, key=lambda feature: -feature[1])[:TELLING]
    return [
        (visible(log.feature_names[j]), explained, _with_dependence(question, log, x, j, pieces))
        for j, explained, pieces in most
    ]


def _pieces(column: FloatArray, gaps: FloatArray, flags: BoolArray) -> tuple[float, list[Piece]]:
    """The share of the gap's variance that a feature explains, and its pieces of equally many steps."""
    # Edges are rows of the log, so that no piece is without a step.
    edges = np.unique(np.quantile(column, np.linspace(0, 1, PIECES + 1), method="inverted_cdf"))
    piece = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, max(len(edges) - 2, 0))
    counts = np.bincount(piece)
    means, shares = (np.bincount(piece, values) / np.maximum(counts, 1) for values in (gaps, flags))
    spread = float(gaps.var())
    ends = edges if len(edges) > 1 else np.repeat(edges, 2)
    columns = (ends[:-1], ends[1:], counts, means, shares)
    pieces = [Piece(*values) for values in zip(*(each.tolist() for each in columns), strict=True)]
    return float(means[piece].var() / spread) if spread > 0 else 0.0, pieces


def _with_dependence(
    question: Question, log: Trajectories, x: FloatArray, column: int, pieces: list[Piece]
) -> list[Piece]:
    """The pieces with the partial dependence of the gap on the feature, by a fixed sample of the steps."""
    sample = np.arange(0, log.n_steps, max(1, log.n_steps // MOST_ASKED))
    times = sample - np.repeat(log.offsets[:-1], log.lengths)[sample]
    asked = np.repeat(x[None, sample], len(pieces), axis=0)  # (pieces, m, d)
    for copy, piece in zip(asked, pieces, strict=True):
        within = (x[:, column] >= piece.low) & (x[:, column] <= piece.high)
        copy[:, column] = np.median(x[within, column])
    values = question.row_values
    assert values is not None, "there are features"
    q = values.q_of(asked.reshape(-1, asked.shape[2]), np.tile(times, len(pieces)))
    if q is None:
        return pieces
    alone = np.ptp(q, axis=1).reshape(len(pieces), -1).mean(axis=1)
    return [replace(piece, alone=float(gap)) for piece, gap in zip(pieces, alone, strict=True)]


def _calibration(question: Question, log: Trajectories) -> list[tuple[str, int, float, float, float]]:
    """The calibration of the most frequent actions, where pi_b is known for all of them."""
    if question.pair.pi_b is None:
        return []
    often = np.argsort(-np.bincount(log.actions, minlength=log.n_actions), kind="stable")[:MOST_ACTIONS]
    records: list[dict[str, Any]] = calibration_of(
        question.pair.pi_b[log.states], log.actions, log.action_labels, np.sort(often)
    )
    columns = ("steps", "predicted", "observed", "std_error")
    return [(visible(record["action"]), *(record[name] for name in columns)) for record in records]


# --- A region in words

DEPTH = 2
MOST_ROWS = 50_000
"""Questions are found on so many steps; how well they fit is said of all."""
LEAST = 0.02
"""A part with a smaller share of the steps is not split off: it would not be worth a clause."""


@dataclass(frozen=True)
class Region:
    """Steps in words."""

    words: tuple[str, ...]  # clauses of which one holds; empty for "all" or "none"
    share: float  # of the steps that they describe
    accuracy: float  # the share for which they are right


@dataclass(frozen=True)
class _Split:
    """x[feature] < threshold, or its opposite."""

    feature: int
    threshold: float
    below: bool


_Leaf = tuple[tuple[_Split, ...], BoolArray]


def in_words(x: FloatArray, names: Sequence[str], flags: BoolArray) -> Region:
    """The flagged steps in words about their features, (m, d), and how well these fit.

    One flag for each step nobody can read. A tree of two questions about single features describes most drops
    well ("lactate below 2, and map at least 65").

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> in_words(x, ["lactate"], x[:, 0] < 2).words
    ('lactate below 2',)
    """
    said, words = np.zeros(len(x), dtype=bool), []
    for splits, inside in _leaves(x, flags, np.ones(len(x), dtype=bool), ()):
        if flags[inside].mean() > 0.5:
            said |= inside
            words.append(_clause(splits, names))
    return Region(tuple(filter(None, words)), float(said.mean()), float((said == flags).mean()))


def _leaves(x: FloatArray, flags: BoolArray, inside: BoolArray, splits: tuple[_Split, ...]) -> list[_Leaf]:
    """Split as long as it tells flagged steps apart; halves that would say the same are one."""
    best = _best(x, flags, inside) if len(splits) < DEPTH else None
    if best is None:
        return [(splits, inside)]
    below = inside & (x[:, best.feature] < best.threshold)
    leaves = _leaves(x, flags, below, (*splits, best))
    leaves += _leaves(x, flags, inside & ~below, (*splits, replace(best, below=False)))
    answers = {bool(flags[part].mean() > 0.5) for _, part in leaves}
    return [(splits, inside)] if len(answers) == 1 else leaves


def _best(x: FloatArray, flags: BoolArray, inside: BoolArray) -> _Split | None:
    """The split with the lowest Gini impurity; None where none is of use."""
    stride = -(-len(flags) // MOST_ROWS)
    rows = np.flatnonzero(inside)[::stride]
    y = flags[rows].astype(np.float64)
    if not y.size or not 0.0 < y.mean() < 1.0:
        return None
    least = max(1.0, LEAST * len(flags) / stride)
    best, lowest = None, len(y) * y.mean() * (1.0 - y.mean()) * (1.0 - 1e-9)
    for feature in range(x.shape[1]):
        order = np.argsort(x[rows, feature], kind="stable")
        column, hits = x[rows, feature][order], np.cumsum(y[order])
        cuts = np.flatnonzero(np.diff(column) > 0) + 1  # so many rows are below
        cuts = cuts[(cuts >= least) & (len(y) - cuts >= least)]
        if not cuts.size:
            continue
        below, above = hits[cuts - 1], hits[-1] - hits[cuts - 1]
        impurity = below * (1 - below / cuts)
        impurity += above * (1 - above / (len(y) - cuts))
        k = int(impurity.argmin())
        if impurity[k] < lowest:
            lowest = float(impurity[k])
            best = _Split(feature, round_between(column[cuts[k] - 1], column[cuts[k]]), True)
    return best


def round_between(low: float, high: float) -> float:
    """The number with fewest digits above `low` and at most `high`.

    >>> round_between(1.96, 2.04), round_between(0.123, 0.127), round_between(64.2, 71.0)
    (2.0, 0.125, 70.0)
    """
    middle = (low + high) / 2
    for digits in range(-6, 16):
        for candidate in (round(middle, digits), round(high, digits)):
            if low < candidate <= high:
                return float(candidate)
    return float(high)


def _clause(splits: tuple[_Split, ...], names: Sequence[str]) -> str:
    """ "lactate from 1 to below 2, map at least 65"."""
    ranges: dict[int, tuple[float, float]] = {}
    for split in splits:
        low, high = ranges.get(split.feature, (-math.inf, math.inf))
        ranges[split.feature] = (
            (low, min(high, split.threshold)) if split.below else (max(low, split.threshold), high)
        )
    return ", ".join(f"{names[feature]} {_range(*ends)}" for feature, ends in ranges.items())


def _range(low: float, high: float) -> str:
    if low == -math.inf:
        return f"below {high:g}"
    return f"at least {low:g}" if high == math.inf else f"from {low:g} to below {high:g}"
