"""Verdict: better, worse, or cannot tell, with the reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from deadweight.basics.table_numbers import ends_in_words
from deadweight.results.saved import saved
from deadweight.results.shared import Result, finite
from deadweight.results.shown import html_table, key_beside, new_figure


@saved
@dataclass(frozen=True)
class Verdict(Result):
    """An answer with its reasons.

    Attributes:
      answer: "better", "worse" or "cannot tell".
      reasons: sentences that a reader without statistics can follow.
      difference: estimate minus baseline, from the centre of the interval.
      interval: of the difference.
      sound: whether weights and table allow a verdict at all; False makes every answer "cannot tell".
      next_step: one sentence on what would settle the question; None where the estimate does not tell.
      doubts: flags of the estimate that keep every gate closed, whatever the answer.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> from deadweight.estimate import evaluate
      >>> lift = deterministic_lift(7)
      >>> found = evaluate(lift.sample(1000), lift.pi_e, lift.pi_b, ["BEHAVIOUR", "WIS"]).verdict
      >>> found.answer, found.difference > 0, len(found.reasons)
      ('better', True, 2)
    """

    answer: str
    reasons: tuple[str, ...]
    difference: float
    interval: tuple[float, float]
    sound: bool = True
    next_step: str | None = None
    doubts: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The reasons, and the next step where there is one."""
        return self.reasons if self.next_step is None else (*self.reasons, self.next_step)

    def plot(self) -> Any:
        """The difference and its interval as a matplotlib figure, against no difference at all."""
        figure = new_figure("The figure of a verdict", 7, 1.6)
        axes = figure.subplots()
        ends = [end for end in self.interval if math.isfinite(end)]
        axes.plot(ends, [0] * len(ends), color="C1", linewidth=4, solid_capstyle="butt")
        if math.isfinite(self.difference):
            axes.plot(self.difference, 0, "o", color="C1", markeredgecolor="white")
        axes.axvline(0.0, color="grey", linestyle=":", label="no difference")
        axes.set_yticks([])
        axes.set_xlabel(f"new policy minus baseline: {self.answer}")
        key_beside(axes)
        return figure

    def _repr_html_(self) -> str:
        ends = ends_in_words(self.interval, "{:+.4g}".format)
        rows = [(f"{self.difference:+.4g}", ends)]
        return html_table(("difference", "interval"), rows, f"Verdict: {self.answer}", self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; the next step where there is one."""
        found = {
            "answer": self.answer,
            "reasons": list(self.reasons),
            "difference": finite(self.difference),
            "interval": [finite(end) for end in self.interval],
            "sound": self.sound,
            "doubts": list(self.doubts),
        }
        return found if self.next_step is None else {**found, "next_step": self.next_step}
