"""Comparison: several policies on one log, who may be the best and who beats the baseline, as data.

Beside it `CutBounds`: two evaluations of one policy, the worst and the best case of what was cut off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deadweight._version import SCHEMA
from deadweight.errors import OptionError, did_you_mean
from deadweight.results.evaluation import Evaluation, Verdict
from deadweight.results.saved import Result, finite, saved
from deadweight.results.shown import forest, frame, html_table, key_beside, new_figure, text_table
from deadweight.tools.arithmetic import TableNumber, ends_in_words, freeze_fields, table_number
from deadweight.typing import FloatArray

BASELINE = "baseline"
# Differences smaller than this, relative to the values compared, are rounding.
ROUNDING = 1e-9
SAME = "acts-as-logged"
UNSOUND = {
    "trained-on-log": "A policy that was learnt from this log looks better on it than it is: nothing can be "
    "concluded.",
    SAME: "The policy does what the old policy does, with the same probabilities.",
}


@saved
@dataclass(frozen=True)
class StateWorth:
    """A state in which two policies differ.

    Attributes:
      state: its label.
      first, second: the action that each of the two takes most often there, and how often.
      worth: what the difference in this state adds to the difference of the values, by the fitted model.
      visits: of the log.
    """

    state: Any
    first: tuple[Any, float]
    second: tuple[Any, float]
    worth: float
    visits: int


@saved
@dataclass(frozen=True)
class PairStates:
    """The states in which two policies differ, or a policy and the baseline.

    Attributes:
      first, second: their names.
      states: what matters most first.
      other_states: how many more there are in which they differ.
      elsewhere: what those add together.
    """

    first: str
    second: str
    states: tuple[StateWorth, ...]
    other_states: int
    elsewhere: float


@saved
@dataclass(frozen=True, eq=False)
class Differences:
    """The differences of all policies from each other and from the baseline.

    Attributes:
      names: (K,) of the policies.
      values: (K,) theirs.
      half_widths: (K, K) of the differences between two of them; all hold together.
      baseline: what they are compared with, in words.
      baseline_value: its value.
      baseline_half_widths: (K, 2) of the differences from it, below and above; all hold together. Earlier
        versions have saved (K,), the same on both sides.
      unsound: of policies of which nothing can be claimed, the flag that says why, or a sentence.
    """

    names: tuple[str, ...]
    values: FloatArray
    half_widths: FloatArray
    baseline: str
    baseline_value: float
    baseline_half_widths: FloatArray
    unsound: Mapping[str, str]

    def __post_init__(self) -> None:
        freeze_fields(self)

    def verdict(self, first: int, second: int | None) -> Verdict:
        """The verdict on a policy against another, or (None) the baseline, by their places in `names`."""
        value = self.baseline_value if second is None else float(self.values[second])
        half = self.baseline_half_widths[first] if second is None else self.half_widths[first, second]
        below, above = np.broadcast_to(half, 2).tolist()
        value_first = float(self.values[first])
        difference, slack = value_first - value, ROUNDING * max(abs(value_first), abs(value))
        ends = difference - below, difference + above
        against = self.baseline if second is None else self.names[second]
        bounded = all(map(math.isfinite, ends))
        spread = f"between {ends[0]:+.4g} and {ends[1]:+.4g}" if bounded else "which could be anything"
        words = [f"{self.names[first]} less {against}: {difference:+.4g} for each episode, {spread}."]
        flagged = self._flagged(first, second)
        answer = "cannot tell"
        if flagged:
            words.append(UNSOUND.get(flagged[0], flagged[0]))
        elif ends[0] > slack or ends[1] < -slack:
            answer = "better" if difference > 0 else "worse"
        else:
            words.append("No difference at all lies within that range.")
        return Verdict(answer, tuple(words), difference, ends, sound=not flagged)

    def _flagged(self, first: int, second: int | None) -> list[str]:
        """Reasons why nothing can be claimed; a policy that acts as logged may be compared with others."""
        whys = [self.unsound.get(self.names[place]) for place in (first, second) if place is not None]
        return [why for why in whys if why is not None and (second is None or why != SAME)]


HEADINGS = (
    "policy",
    "value",
    "interval",
    "difference",
    "interval of it",
    "ESS",
    "may lose",
    "may be best",
    "verdict",
)
ROW = 0.36  # inches
NOT_KNOWN = "not known"


@saved
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Several policies on one log.

    Attributes:
      evaluations: by name.
      ranking: names, best first.
      candidates: names of those that no other policy is shown to beat, best first.
      better, worse: names of those that are shown to be better, or worse, than the baseline; all of it holds
        together with the confidence `level`.
      regret_bound: by name, how much is lost at most by shipping it instead of the best, at that level.
      recommendation: the first of the ranking that is better than the baseline; None where none is.
      reasons: sentences.
      differences: of every two policies, and of each from the baseline.
      where: in which states pairs of them differ, and what that is worth.
      ess: by name, effective episodes with all weights kept.
      level: of confidence.
      n_episodes: size of the log.
      conventions: the choices that the numbers rest on.

    Example:
      >>> from deadweight.verbs.compare import compare
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(7)
      >>> ranked = compare(lift.sample(500, seed=0), {"right": lift.pi_e, "as now": lift.pi_b}, lift.pi_b)
      >>> ranked.ranking, sorted(ranked.may_be_best), ranked.recommendation
      (['right', 'as now'], ['right'], 'right')
    """

    evaluations: dict[str, Evaluation]
    ranking: list[str]
    candidates: list[str]
    better: list[str]
    worse: list[str]
    regret_bound: dict[str, float]
    recommendation: str | None
    reasons: tuple[str, ...]
    differences: Differences
    where: tuple[PairStates, ...]
    ess: dict[str, float | None]
    level: float
    n_episodes: int
    conventions: dict[str, Any]

    @property
    def may_be_best(self) -> set[str]:
        """Names of the policies that no other is shown to beat: the best is among them, at the level."""
        return set(self.candidates)

    @property
    def baseline(self) -> str:
        """The name of what the policies are compared with, in words."""
        return self.differences.baseline

    @property
    def baseline_value(self) -> float:
        """The value of the baseline."""
        return self.differences.baseline_value

    def __getitem__(self, name: str) -> Evaluation:
        self._require(name)
        return self.evaluations[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.evaluations)

    def __len__(self) -> int:
        return len(self.evaluations)

    def difference(self, first: str, second: str = BASELINE) -> Verdict:
        """The verdict on the first policy against the second, or against the baseline.

        The interval of a difference from the baseline holds together with those of all other policies, that
        of two policies together with those of all other pairs.

        Args:
          first: the name of a policy.
          second: the name of another one, or "baseline".
        """
        self._require(first)
        if second != BASELINE:
            self._require(second)
        if first == second:
            raise OptionError(f"{first!r} cannot be compared with itself.", fix="Name two policies.")
        places = self.differences.names
        return self.differences.verdict(
            places.index(first), None if second == BASELINE else places.index(second)
        )

    def with_flag(self, flag: str) -> list[str]:
        """Names of the policies whose headline has a flag, best first."""
        return [name for name in self.ranking if flag in self.evaluations[name].headline.flags]

    def _require(self, name: str) -> None:
        if name not in self.evaluations:
            raise OptionError(
                f"{name!r} is not in this comparison.{did_you_mean(str(name), self.evaluations)}",
                fix=f"It has {', '.join(self.evaluations)}.",
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "schema": SCHEMA,
            "ranking": list(self.ranking),
            "may_be_best": list(self.candidates),
            "better": list(self.better),
            "worse": list(self.worse),
            "recommendation": self.recommendation,
            "reasons": list(self.reasons),
            "baseline": {"name": self.baseline, "value": finite(self.baseline_value)},
            "level": self.level,
            "policies": {name: self._policy(name) for name in self.ranking},
            "conventions": dict(self.conventions),
        }

    def _policy(self, name: str) -> dict[str, Any]:
        headline, verdict = self.evaluations[name].headline, self.difference(name)
        interval = headline.interval
        return {
            "value": finite(headline.value),
            "interval": None if interval is None else [finite(end) for end in interval],
            "difference": finite(verdict.difference),
            "difference_interval": [finite(end) for end in verdict.interval],
            "regret_bound": finite(self.regret_bound[name]),
            "ess": finite(self.ess[name]),
            "flags": list(headline.flags),
        }

    def to_frame(self, library: str | None = None) -> Any:
        """One row a policy, best first, in pandas, polars or pyarrow; by default whichever is in use."""
        rows = []
        for name in self.ranking:
            row = {"policy": name, **self._policy(name)}
            for prefix in ("", "difference_"):
                ends = row.pop(f"{prefix}interval") or (None, None)
                row[f"{prefix}lower"], row[f"{prefix}upper"] = ends
            row["flags"] = ", ".join(row["flags"])
            row.update(may_be_best=name in self.may_be_best, verdict=self.difference(name).answer)
            rows.append(row)
        return frame(rows, library=library)

    def rows(self) -> list[list[str]]:
        """The table as text, without its headings."""
        form = table_number(self.evaluations[name].headline.value for name in self.ranking)
        return [self._cells(name, form) for name in self.ranking]

    def _cells(self, name: str, form: TableNumber) -> list[str]:
        headline, verdict, ess = self.evaluations[name].headline, self.difference(name), self.ess[name]
        lost = self.regret_bound[name]
        return [
            name,
            form(headline.value),
            "" if headline.interval is None else ends_in_words(headline.interval, form),
            form(verdict.difference, "+"),
            ends_in_words(verdict.interval, form),
            "" if ess is None else f"{ess:.1f}",
            form(lost) if math.isfinite(lost) else NOT_KNOWN,
            "yes" if name in self.may_be_best else "no",
            verdict.answer,
        ]

    def report(self, path: str | Path, title: str | None = None, reward: str | None = None) -> Path:
        """Write the report, one self-contained HTML file.

        Args:
          path: where it goes.
          title: its heading.
          reward: what the reward is, in words, such as "euros a visit".
        """
        from deadweight.report import render_comparison, write_page

        return write_page(render_comparison(self, title, reward), path)

    def plot(self) -> Any:
        """Differences from the baseline as a matplotlib figure; who may be best in another colour."""
        figure = new_figure("The figure of a comparison", 7, 1.2 + ROW * len(self))
        axes = figure.subplots()
        for place, name in enumerate(self.ranking):
            colour = "C1" if name in self.may_be_best else "C0"
            verdict = self.difference(name)
            if all(map(math.isfinite, verdict.interval)):
                axes.plot(verdict.interval, [place, place], color=colour, linewidth=2)
            axes.plot(verdict.difference, place, "o", color=colour, markeredgecolor="white")
        axes.plot([], [], "o-", color="C1", markeredgecolor="white", label="may be the best")
        axes.axvline(0.0, color="grey", linestyle=":", label="no difference")
        key_beside(axes)
        axes.set_yticks(range(len(self)), self.ranking)
        axes.set_ylim(len(self) - 0.5, -0.5)
        axes.set_xlabel(f"better than {self.baseline} by, for each episode")
        return figure

    def _repr_html_(self) -> str:
        return html_table(HEADINGS, self.rows(), self._title(), self.reasons)

    def _title(self) -> str:
        return f"Recommendation: {'none' if self.recommendation is None else self.recommendation}"

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.ranking)}; recommendation: {self.recommendation})"

    def __str__(self) -> str:
        return "\n".join([text_table(HEADINGS, self.rows()), "", f"{self._title()}.", *self.reasons])


def quoted(name: str) -> str:
    """A name in a sentence, of which it may be a word: 'nothing' is shown to be worse."""
    return f"'{name}'"


@saved
@dataclass(frozen=True, eq=False, repr=False)
class CutBounds(Result):
    """The worst and the best case of a log whose cut episodes could have gone on in any way.

    Attributes:
      lowest, highest: evaluations of the log in which every cut episode earned the least, or the most, after
        its cut.
      remaining: the least and the most.
      n_cut: how many episodes were cut.

    Example:
      >>> from deadweight import Trajectories, cut_bounds
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]], terminated=[False, True])
      >>> cut_bounds(log, [[0.25, 0.75]], [[0.5, 0.5]], ["WIS"], remaining=(0, 4)).n_cut
      1
    """

    lowest: Evaluation
    highest: Evaluation
    remaining: tuple[float, float]
    n_cut: int

    @property
    def n_episodes(self) -> int:
        """Size of the log."""
        return self.lowest.n_episodes

    @property
    def value(self) -> tuple[float, float]:
        """The headline's value in both cases."""
        return self.lowest.headline.value, self.highest.headline.value

    @property
    def interval(self) -> tuple[float, float]:
        """The ends: the lower one of the interval in the worst case, the upper one in the best."""
        low, high = self.lowest.headline.interval, self.highest.headline.interval
        return (low or (float("-inf"), 0.0))[0], (high or (0.0, float("inf")))[1]

    @property
    def shift(self) -> float:
        """The range of the log's average over what was cut off; 0 against a number."""
        return self.highest.baseline_value - self.lowest.baseline_value

    @property
    def difference(self) -> tuple[float, float]:
        """New policy less baseline: in the worst case one has lost by the cuts and the other gained."""
        against = self.shift
        return self.lowest.verdict.interval[0] - against, self.highest.verdict.interval[1] + against

    @property
    def answer(self) -> str:
        """ "better", "worse" or "cannot tell", in the worst and in the best case alike."""
        lower, upper = self.difference
        if not (self.lowest.verdict.sound and self.highest.verdict.sound):
            return "cannot tell"
        return "better" if lower > 0 else "worse" if upper < 0 else "cannot tell"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Two sentences on what this means."""
        (low, high), (lower, upper) = self.value, self.difference
        said = (
            f"{self.n_cut:,} of {self.n_episodes:,} episodes were cut. If each of them would have earned "
            f"between {self.remaining[0]:g} and {self.remaining[1]:g} more, {self.lowest.headline.name} puts "
            f"the new policy between {low:.4g} and {high:.4g}."
        )
        reach = f"from {lower:+.4g} in the worst case to {upper:+.4g} in the best"
        ends = {
            "better": "so the new policy is better even in the worst case.",
            "worse": "so the new policy is worse even in the best case.",
            "cannot tell": "so the answer depends on what was cut off, or on chance.",
        }
        return said, f"The difference with its sampling error reaches {reach}, {ends[self.answer]}"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "schema": SCHEMA,
            "answer": self.answer,
            "n_cut": self.n_cut,
            "remaining": list(self.remaining),
            "value": [finite(end) for end in self.value],
            "interval": [finite(end) for end in self.interval],
            "difference": [finite(end) for end in self.difference],
        }

    def plot(self) -> Any:
        """The headline in both cases as a matplotlib figure."""
        cases = [self.lowest.headline, self.highest.headline]
        return forest(cases, "", None, ["worst case", "best case"])

    def _repr_html_(self) -> str:
        rows = [
            (words, f"{ev.headline.value:.4g}", ev.verdict.answer)
            for words, ev in (("least", self.lowest), ("most", self.highest))
        ]
        headings = ("what was cut off earned the", "value", "verdict")
        return html_table(headings, rows, f"In the worst and the best case: {self.answer}", self.sentences)

    def __repr__(self) -> str:
        (low, high), cut = self.value, f"{self.n_cut} of {self.n_episodes} cut"
        return f"CutBounds({cut}; value {low:.4g} to {high:.4g}; {self.answer})"

    def __str__(self) -> str:
        return "\n".join(self.sentences)
