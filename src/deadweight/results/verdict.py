"""Verdict: better, worse, or cannot tell, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deadweight.results.base import Result, finite
from deadweight.results.saved import saved


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

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> from deadweight.estimate import evaluate
      >>> lift = deterministic_lift(7)
      >>> found = evaluate(lift.sample(1000), lift.pi_e, lift.pi_b, ["BEHAVIOUR", "WIS"]).verdict
      >>> found.answer, found.difference > 0, len(found.reasons)
      ('better', True, 1)
    """

    answer: str
    reasons: tuple[str, ...]
    difference: float
    interval: tuple[float, float]
    sound: bool = True
    next_step: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The reasons, and the next step where there is one."""
        return self.reasons if self.next_step is None else (*self.reasons, self.next_step)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; the next step where there is one."""
        found = {
            "answer": self.answer,
            "reasons": list(self.reasons),
            "difference": finite(self.difference),
            "interval": [finite(end) for end in self.interval],
        }
        return found if self.next_step is None else {**found, "next_step": self.next_step}
