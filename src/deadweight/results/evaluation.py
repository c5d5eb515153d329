"""Evaluation: a table of estimates of one question, with the verdict that it supports, as data.

A verdict says better, worse, or cannot tell, with its reasons; `deadweight.verbs.verdict` finds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from deadweight._version import SCHEMA
from deadweight.errors import UnknownEstimator, did_you_mean
from deadweight.results.estimate import Estimate
from deadweight.results.saved import Result, absent, finite, saved
from deadweight.results.shown import forest, frame, html_table, key_beside, new_figure, text_table
from deadweight.tools.arithmetic import TableNumber, ends_in_words, table_number

if TYPE_CHECKING:
    from deadweight.diagnostics.background import Background


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
      >>> from deadweight.verbs.estimate import evaluate
      >>> lift = deterministic_lift(7)
      >>> verdict = evaluate(lift.sample(1000), lift.pi_e, lift.pi_b, ["BEHAVIOUR", "WIS"]).verdict
      >>> verdict.answer, verdict.difference > 0, len(verdict.reasons)
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
        record = {
            "answer": self.answer,
            "reasons": list(self.reasons),
            "difference": finite(self.difference),
            "interval": [finite(end) for end in self.interval],
            "sound": self.sound,
            "doubts": list(self.doubts),
        }
        return record if self.next_step is None else {**record, "next_step": self.next_step}


HEADINGS = ("estimator", "value", "interval", "ESS", "bias", "dropped", "flags")


@saved
@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """A table of estimates.

    Attributes:
      estimates: by name.
      baseline: what the verdict compares with: the estimate "BEHAVIOUR", or a number.
      conventions: the choices that the numbers rest on.
      verdict: is the evaluation policy better than the baseline?
      n_episodes: size of the log.
      longest: steps of its longest episode.
      background: what a report shows beside the estimates. An interval asks for it.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> from deadweight.verbs.estimate import evaluate
      >>> lift = deterministic_lift(7)
      >>> ev = evaluate(lift.sample(1000, seed=0), lift.pi_e, lift.pi_b)
      >>> ev.verdict.answer, round(ev["WPDIS"].value, 6)
      ('better', 1.0)
    """

    estimates: dict[str, Estimate]
    baseline: Estimate | float
    conventions: dict[str, Any]
    verdict: Verdict
    n_episodes: int
    longest: int
    background: Background = field(default_factory=absent)

    ASK: ClassVar[Mapping[str, str]] = {"background": "Ask for it: evaluate(..., background=True)."}

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.estimates:
            raise UnknownEstimator(
                f"{name!r} is not in this table.{did_you_mean(name, self.estimates)}",
                fix=f"It has {', '.join(self.estimates)}. Name others in estimators=[...].",
            )
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    @property
    def headline(self) -> Estimate:
        """The estimate that the verdict rests on."""
        return headline_of(self.estimates)

    @property
    def baseline_value(self) -> float:
        """The value of what the verdict compares with."""
        return self.baseline.value if isinstance(self.baseline, Estimate) else self.baseline

    @property
    def baseline_name(self) -> str:
        """The name of what the verdict compares with: the old policy, or a baseline that was given."""
        return "old policy" if isinstance(self.baseline, Estimate) else "baseline"

    def report(
        self,
        path: str | Path,
        title: str | None = None,
        reward: str | None = None,
        truth: float | None = None,
    ) -> Path:
        """Write the report, one self-contained HTML file.

        Args:
          path: where it goes.
          title: its heading.
          reward: what the reward is, in words, such as "euros a visit"; it is put beside the values.
          truth: the exact value of the new policy where it is known, as in a simulation; it is marked.
        """
        from deadweight.report.page import render, write_page

        return write_page(render(self, title, reward, truth), path)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "schema": SCHEMA,
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
            "verdict": {**self.verdict.to_dict(), "estimator": self.headline.name},
            "conventions": dict(self.conventions),
        }

    def to_frame(self, library: str | None = None) -> Any:
        """One row an estimator, in pandas, polars or pyarrow; by default whichever the program uses."""
        rows = [{"estimator": name, **estimate.to_dict()} for name, estimate in self.estimates.items()]
        for row in rows:
            interval = row.pop("interval") or (None, None)
            row.update(lower=interval[0], upper=interval[1], n_dropped=len(row.pop("dropped")))
            for name in ("shares", "contradiction", "undetectable"):  # of a blend: no columns of the others
                row.pop(name, None)
            row["flags"] = ", ".join(row["flags"])
        return frame(rows, library=library)

    def plot(self) -> Any:
        """The estimates with their intervals as a matplotlib figure, the headline in another colour."""
        return forest(list(self.estimates.values()), self.headline.name, self.baseline_value)

    def _repr_html_(self) -> str:
        title = f"Verdict: {self.verdict.answer}"
        return html_table(HEADINGS, self.rows(), title, self.verdict.sentences)

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(self.estimates)}; verdict: {self.verdict.answer})"

    def __str__(self) -> str:
        lines = [text_table(HEADINGS, self.rows(), left=(0, len(HEADINGS) - 1))]
        if self.headline.interval is not None:
            lines += ["", f"Verdict: {self.verdict.answer}.", *self.verdict.sentences]
        return "\n".join(lines)

    def rows(self) -> list[list[str]]:
        """The table as text, without its headings."""
        form = table_number(estimate.value for estimate in self.estimates.values())
        return [_cells(name, estimate, form) for name, estimate in self.estimates.items()]


def _cells(name: str, estimate: Estimate, form: TableNumber) -> list[str]:
    interval, bias = estimate.interval, getattr(estimate, "bias", None)
    # How many states were dropped, or, where they have no labels, which share of the steps.
    dropped = f"{estimate.dropped_share:.0%} of steps" if estimate.dropped_share > 0 else ""
    return [
        name,
        form(estimate.value),
        "" if interval is None else ends_in_words(interval, form),
        "" if estimate.ess is None else estimate.ess_words or f"{estimate.ess:.1f}",
        "" if not bias or not math.isfinite(bias) else form(bias, "+"),
        str(len(estimate.dropped)) if estimate.dropped else dropped,
        ", ".join(estimate.flags),
    ]


def headline_of(estimates: Mapping[str, Estimate]) -> Estimate:
    """The estimate of a table that a verdict rests on: the best in rank, else the first that is not naive.

    Where the model does not fit the log, estimates that do without it come first.
    """
    rows = list(estimates.values())
    ranks = [[row.about.rank for row in rows]]
    if any("model-misfit" in row.flags for row in rows):
        ranks.insert(0, [row.about.rank_alone for row in rows])
    for column in ranks:
        ranked = [(rank, place) for place, rank in enumerate(column) if rank is not None]
        if ranked:
            return rows[min(ranked)[1]]
    return next((row for row in rows if not row.about.naive), rows[0])
