"""Evaluation: a table of estimates of one question, with the verdict that it supports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.errors import UnknownEstimator, did_you_mean
from deadweight.question import Question
from deadweight.results import Estimate, finite
from deadweight.verdict import Verdict, contradicts, verdict

# Which estimate the verdict rests on: corrected and state-based ones first, the naive average never.
HEADLINES = (
    *("C-WSPDIS", "C-WSIS", "WDRSIS", "WDR", "C-SPDIS", "C-SIS", "DRSIS", "DR"),
    *("WSPDIS", "WPDIS", "WIS"),
)

# And where the model does not fit the log.
WEIGHTS_ALONE = ("WPDIS", "WIS", "PDIS", "IS")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A table of estimates.

    Attributes:
      estimates: by name.
      question: what was asked.
      baseline: what the verdict compares with: the estimate "BEHAVIOUR", or a number.
      conventions: the choices that the numbers rest on.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> from deadweight.estimate import evaluate
      >>> lift = deterministic_lift(7)
      >>> ev = evaluate(lift.sample(1000, seed=0), lift.pi_e, lift.pi_b)
      >>> ev.verdict.answer, round(ev["WPDIS"].value, 6)
      ('better', 1.0)
    """

    estimates: dict[str, Estimate]
    question: Question
    baseline: Estimate | float
    conventions: dict[str, Any]

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.estimates:
            raise UnknownEstimator(
                f"{name!r} is not in this table.{did_you_mean(name, self.estimates)}",
                fix=f"It has {', '.join(self.estimates)}.",
            )
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    @property
    def headline(self) -> Estimate:
        """The estimate that the verdict rests on."""
        order: tuple[str, ...] = HEADLINES
        if any("model-misfit" in one.flags for one in self.estimates.values()):
            order = (*WEIGHTS_ALONE, *HEADLINES)
        name = next((name for name in order if name in self.estimates), None)
        others = [name for name in self.estimates if name != "BEHAVIOUR"]
        return self.estimates[name or (others or list(self.estimates))[0]]

    @cached_property
    def verdict(self) -> Verdict:
        """Is the evaluation policy better than the baseline?

        A verdict stands only as long as no other estimate of the table, with enough effective episodes of its
        own, rules out the headline's value and would not give the same answer.
        """
        found = self._doubted(verdict(self.headline, self.baseline))
        if found.answer == "cannot tell":
            return found
        against = [
            name
            for name, other in self.estimates.items()
            if contradicts(other, self.headline) and verdict(other, self.baseline).answer != found.answer
        ]
        if not against:
            return found
        reason = (
            f"{' and '.join(against)} rule out what {self.headline.name} says: their intervals do not meet. "
            "One of them must be wrong, and the log does not tell which."
        )
        return replace(found, answer="cannot tell", reasons=(*found.reasons, reason), sound=False)

    def _doubted(self, found: Verdict) -> Verdict:
        """The verdict with what the check of the model says first, where that is bad news."""
        flagged = [one for one in self.estimates.values() if "model-misfit" in one.flags]
        if not flagged:
            return found
        reason = flagged[0].details["model_check"].reason
        if self.headline in flagged:
            reason += f" {self.headline.name} rests on that model, and nothing can be concluded from it."
            return replace(found, answer="cannot tell", reasons=(reason, *found.reasons))
        reason += f" The verdict rests on {self.headline.name}, which does without the model."
        return replace(found, reasons=(reason, *found.reasons))

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write the report, one self-contained HTML file."""
        from deadweight.report import write_report

        return write_report(self, path, title)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        found = self.verdict
        return {
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
            "verdict": {
                "answer": found.answer,
                "reasons": list(found.reasons),
                "estimator": self.headline.name,
                "difference": finite(found.difference),
                "interval": [finite(end) for end in found.interval],
            },
            "conventions": self.conventions,
        }

    def to_frame(self) -> Any:
        """One row an estimator: a pandas DataFrame if pandas is installed, else a pyarrow Table."""
        rows = [{"estimator": name, **estimate.to_dict()} for name, estimate in self.estimates.items()]
        for row in rows:
            interval = row.pop("interval") or (None, None)
            row.update(lower=interval[0], upper=interval[1], n_dropped=len(row.pop("dropped")))
            row["flags"] = ", ".join(row["flags"])
        try:
            import pandas
        except ImportError:
            import pyarrow

            return pyarrow.Table.from_pylist(rows)
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        rows = [list(HEADINGS), *self.rows()]
        widths = [max(len(row[j]) for row in rows) for j in range(len(HEADINGS))]
        lines = []
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:-1], row[-1]]).rstrip())
        if self.headline.interval is not None:
            lines += ["", f"Verdict: {self.verdict.answer}.", *self.verdict.reasons]
        return "\n".join(lines)

    def rows(self) -> list[list[str]]:
        """The table as text, without its headings."""
        return [_cells(name, estimate) for name, estimate in self.estimates.items()]


HEADINGS = ("estimator", "value", "interval", "ESS", "bias", "dropped", "flags")


def _cells(name: str, estimate: Estimate) -> list[str]:
    interval, bias = estimate.interval, estimate.bias
    return [
        name,
        f"{estimate.value:.4f}",
        "" if interval is None else f"[{interval[0]:.4f}, {interval[1]:.4f}]",
        "" if estimate.ess is None else f"{estimate.ess:.1f}",
        "" if not bias or not np.isfinite(bias) else f"{bias:+.4f}",
        str(len(estimate.dropped)) if estimate.dropped else "",
        ", ".join(estimate.flags),
    ]
