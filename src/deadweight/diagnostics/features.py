"""What a report says about a log with features: the drop in words, the gap by feature, and calibration.

Without labels there is no list of states. Instead a reader sees which steps are dropped, by ranges of
features; on which features the gap depends, and how; and whether the old policy's probabilities are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deadweight.diagnostics.headline_path import PATH_OF
from deadweight.estimators.estimator import estimator_of
from deadweight.log.labels import visible
from deadweight.negligible.path import path_of
from deadweight.negligible.rules import MIN_VISITS
from deadweight.question.drops import chosen_drop
from deadweight.question.question import Question
from deadweight.question.ratio_check import calibration_of, z_of_question
from deadweight.results.saved import saved
from deadweight.typing import BoolArray, FloatArray

TELLING = 3
"""So many features are shown, those on which the gap depends most."""
PIECES = 8
MOST_ASKED = 500
"""Of so many steps at most a partial dependence is the mean."""
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
    """What is known of features.

    Attributes:
      names: of all features.
      dropped: share of the steps that the automatic rule drops.
      advantage: share of the advantage of pi_e that lies in them, in absolute size.
      words: clauses that describe them, of which one holds; empty for all or none.
      said, accuracy: share of the steps that the words describe, and for which they are right.
      gaps: the most telling features, each with how much of the gap's variance it explains and its pieces.
      z: the mean of ratios less 1, in standard errors.
      calibration: action, steps, predicted and observed share, standard error, by tenths of the steps.
    """

    names: list[str]
    dropped: float
    advantage: float
    words: list[str]
    said: float
    accuracy: float
    gaps: list[tuple[str, float, list[Piece]]]
    z: float
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
    """What there is to say of a log with features and of its automatic drop; None of another log."""
    if question.parts.has_states or not question.has_values:
        return None
    log = question.parts[0]
    if log.features is None:
        return None
    path = path_of(question, estimator_of(PATH_OF), MIN_VISITS)
    drop = chosen_drop(question, path.levels.states(path.chosen))
    flags: BoolArray = np.asarray(drop.flags(log), dtype=bool)
    gaps = question.gaps[log.states]
    size = np.abs(question.delta.along(log))

    region = in_words(log.features, log.feature_names, flags)
    total = float(size.sum())
    return FeaturesContent(
        names=[visible(name) for name in log.feature_names],
        dropped=float(flags.mean()),
        advantage=float(size[flags].sum() / total) if total > 0 else 0.0,
        words=list(region.words),
        said=region.share,
        accuracy=region.accuracy,
        gaps=_with_dependence(
            question, _telling(log.features, [visible(name) for name in log.feature_names], gaps, flags)
        ),
        z=z_of_question(question),
        calibration=_calibration(question),
    )


def _telling(
    x: FloatArray, names: list[str], gaps: FloatArray, flags: BoolArray
) -> list[tuple[str, float, list[Piece]]]:
    """The features on which the gap depends most, each in pieces of about as many steps."""
    found = []
    spread = float(gaps.var())
    for j, name in enumerate(names):
        # Edges are rows of the log, so that no piece is without a step.
        edges = np.unique(np.quantile(x[:, j], np.linspace(0, 1, PIECES + 1), method="inverted_cdf"))
        piece = np.clip(np.searchsorted(edges, x[:, j], side="right") - 1, 0, max(len(edges) - 2, 0))
        counts = np.bincount(piece)
        means = np.bincount(piece, gaps) / np.maximum(counts, 1)
        explained = float(means[piece].var() / spread) if spread > 0 else 0.0
        shares = np.bincount(piece, flags) / np.maximum(counts, 1)
        ends = edges if len(edges) > 1 else np.repeat(edges, 2)
        pieces = [
            Piece(float(ends[k]), float(ends[k + 1]), int(counts[k]), float(means[k]), float(shares[k]))
            for k in range(len(counts))
        ]
        found.append((name, explained, pieces))
    return sorted(found, key=lambda one: -one[1])[:TELLING]


def _with_dependence(
    question: Question, telling: list[tuple[str, float, list[Piece]]]
) -> list[tuple[str, float, list[Piece]]]:
    """The same with the partial dependence of the gap on each feature, by a fixed sample of the steps."""
    log, values = question.parts[0], question.row_values
    assert values is not None, "there are features"
    assert log.features is not None, "there are features"
    some = np.arange(0, log.n_steps, max(1, log.n_steps // MOST_ASKED))
    times = some - np.repeat(log.offsets[:-1], log.lengths)[some]
    names = [visible(name) for name in log.feature_names]
    found = []
    for name, explained, pieces in telling:
        column = names.index(name)
        asked = np.repeat(log.features[None, some], len(pieces), axis=0)  # (pieces, m, d)
        own = log.features[:, column]
        for copy, piece in zip(asked, pieces, strict=True):
            copy[:, column] = np.median(own[(own >= piece.low) & (own <= piece.high)])
        q = values.q_of(asked.reshape(-1, asked.shape[2]), np.tile(times, len(pieces)))
        if q is None:
            return telling
        alone = np.ptp(q, axis=1).reshape(len(pieces), -1).mean(axis=1)
        made = [replace(piece, alone=float(gap)) for piece, gap in zip(pieces, alone, strict=True)]
        found.append((name, explained, made))
    return found


def _calibration(question: Question) -> list[tuple[str, int, float, float, float]]:
    """Of the most frequent actions, where pi_b is known for all of them."""
    if question.pair.pi_b is None:
        return []
    log = question.parts[0]
    often = np.argsort(-np.bincount(log.actions, minlength=log.n_actions), kind="stable")[:MOST_ACTIONS]
    records: list[dict[str, Any]] = calibration_of(
        question.pair.pi_b[log.states], log.actions, log.action_labels, np.sort(often)
    )
    return [
        (visible(one["action"]), one["steps"], one["predicted"], one["observed"], one["std_error"])
        for one in records
    ]


# --------------------------------------------------------------------------------------------------------
# A region of feature space in words: a shallow tree that tells some steps from the others.
#
# A drop is one flag for each step; nobody can read that. A tree of two questions about single features
# describes most drops well ("lactate below 2, and map at least 65"), and it says how well: the share of the
# steps for which the words and the drop agree.

DEPTH = 2
MOST_ROWS = 50_000
"""Questions are found on so many steps; how well they fit is said of all."""
LEAST = 0.02
"""A part with a smaller share of the steps is not split off: it would not be worth a clause."""


@dataclass(frozen=True)
class Region:
    """Some steps, in words.

    Attributes:
      words: clauses of which one holds; empty where the words are "all" or "none".
      share: of the steps, that the words describe.
      accuracy: share of the steps for which the words are right.
    """

    words: tuple[str, ...]
    share: float
    accuracy: float


def in_words(x: FloatArray, names: Sequence[str], flags: BoolArray) -> Region:
    """Which steps are flagged, in words about their features, (m, d).

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> in_words(x, ["lactate"], x[:, 0] < 2).words
    ('lactate below 2',)
    """
    leaves: list[tuple[tuple[_Question, ...], BoolArray]] = []
    _grow(x, flags, np.ones(len(x), dtype=bool), (), leaves)
    said = np.zeros(len(x), dtype=bool)
    words = []
    for questions, inside in leaves:
        if flags[inside].mean() > 0.5:
            said |= inside
            words.append(_clause(questions, names))
    words = [clause for clause in words if clause]
    return Region(tuple(words), float(said.mean()), float((said == flags).mean()))


@dataclass(frozen=True)
class _Question:
    """x[feature] < threshold, or its opposite."""

    feature: int
    threshold: float
    below: bool


def _grow(
    x: FloatArray,
    flags: BoolArray,
    inside: BoolArray,
    asked: tuple[_Question, ...],
    leaves: list[tuple[tuple[_Question, ...], BoolArray]],
) -> None:
    """Split as long as it tells flagged steps apart; halves that would say the same are one."""
    found = _best(x, flags, inside) if len(asked) < DEPTH else None
    if found is None:
        leaves.append((asked, inside))
        return
    below = inside & (x[:, found.feature] < found.threshold)
    above = inside & ~below
    grown: list[tuple[tuple[_Question, ...], BoolArray]] = []
    for part, is_below in ((below, True), (above, False)):
        question = _Question(found.feature, found.threshold, is_below)
        _grow(x, flags, part, (*asked, question), grown)
    answers = {bool(flags[part].mean() > 0.5) for _, part in grown}
    leaves.extend([(asked, inside)] if len(answers) == 1 else grown)


def _best(x: FloatArray, flags: BoolArray, inside: BoolArray) -> _Question | None:
    """The question after which least is unsaid, by Gini impurity; None where there is no use in any."""
    stride = -(-len(flags) // MOST_ROWS)
    rows = np.flatnonzero(inside)[::stride]
    y = flags[rows].astype(np.float64)
    if not y.size or not 0.0 < y.mean() < 1.0:
        return None
    least = max(1.0, LEAST * len(flags) / stride)
    best, lowest = None, len(y) * y.mean() * (1.0 - y.mean()) * (1.0 - 1e-9)
    for feature in range(x.shape[1]):
        column = x[rows, feature]
        order = np.argsort(column, kind="stable")
        sorted_column, hits = column[order], np.cumsum(y[order])
        cuts = np.flatnonzero(np.diff(sorted_column) > 0) + 1  # so many rows are below
        cuts = cuts[(cuts >= least) & (len(y) - cuts >= least)]
        if not cuts.size:
            continue
        inside_hits, total = hits[cuts - 1], hits[-1]
        impurity = inside_hits * (1 - inside_hits / cuts)
        impurity += (total - inside_hits) * (1 - (total - inside_hits) / (len(y) - cuts))
        k = int(impurity.argmin())
        if impurity[k] < lowest:
            lowest = float(impurity[k])
            between = sorted_column[cuts[k] - 1], sorted_column[cuts[k]]
            best = _Question(feature, round_between(*between), True)
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


def _clause(questions: tuple[_Question, ...], names: Sequence[str]) -> str:
    """ "lactate from 1 to 2, map at least 65"."""
    ranges: dict[int, list[float]] = {}
    for question in questions:
        ends = ranges.setdefault(question.feature, [-np.inf, np.inf])
        if question.below:
            ends[1] = min(ends[1], question.threshold)
        else:
            ends[0] = max(ends[0], question.threshold)
    parts = []
    for feature, (low, high) in ranges.items():
        name = names[feature]
        if np.isinf(low):
            parts.append(f"{name} below {high:g}")
        elif np.isinf(high):
            parts.append(f"{name} at least {low:g}")
        else:
            parts.append(f"{name} from {low:g} to below {high:g}")
    return ", ".join(parts)
