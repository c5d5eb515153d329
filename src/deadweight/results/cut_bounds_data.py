"""CutBounds: what may be said of a log whose cut episodes could have gone on in any way, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deadweight.results.evaluation import Evaluation
from deadweight.results.saved import saved
from deadweight.results.shared import SCHEMA, Result, finite
from deadweight.results.shown import forest, html_table


@saved
@dataclass(frozen=True, eq=False, repr=False)
class CutBounds(Result):
    """The worst and the best case of what was cut off.

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
        """From the lower end of the interval in the worst case to the upper end in the best."""
        low, high = self.lowest.headline.interval, self.highest.headline.interval
        return (low or (float("-inf"), 0.0))[0], (high or (0.0, float("inf")))[1]

    @property
    def shift(self) -> float:
        """By how much the average of the log depends on what was cut off; 0 against a number."""
        low, high = self.lowest.baseline, self.highest.baseline
        if isinstance(low, float) or isinstance(high, float):
            return 0.0
        return high.value - low.value

    @property
    def difference(self) -> tuple[float, float]:
        """Of new policy and baseline: in the worst case one has lost by the cuts and the other gained."""
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
        """What this means, in words."""
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
