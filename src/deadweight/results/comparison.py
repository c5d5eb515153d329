"""Comparison: several policies on one log, who may be the best and who beats the baseline, as data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadweight.basics.table_numbers import TableNumber, ends_in_words, table_number
from deadweight.errors import OptionError, did_you_mean
from deadweight.results.as_frame import frame
from deadweight.results.differences import BASELINE, Differences, PairStates
from deadweight.results.evaluation import Evaluation
from deadweight.results.saved import saved
from deadweight.results.shared import SCHEMA, Result, finite
from deadweight.results.shown import html_table, key_beside, new_figure
from deadweight.results.verdict_data import Verdict

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
      >>> from deadweight.comparing.compare_policies import compare
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(7)
      >>> found = compare(lift.sample(500, seed=0), {"right": lift.pi_e, "as now": lift.pi_b}, lift.pi_b)
      >>> found.ranking, sorted(found.may_be_best), found.recommendation
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
        """What the policies are compared with, in words."""
        return self.differences.baseline

    @property
    def baseline_value(self) -> float:
        """Its value."""
        return self.differences.baseline_value

    def __getitem__(self, name: str) -> Evaluation:
        self._require(name)
        return self.evaluations[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.evaluations)

    def __len__(self) -> int:
        return len(self.evaluations)

    def difference(self, first: str, second: str = BASELINE) -> Verdict:
        """Is the first policy better than the second, or than the baseline?

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
        headline, found = self.evaluations[name].headline, self.difference(name)
        interval = headline.interval
        return {
            "value": finite(headline.value),
            "interval": None if interval is None else [finite(end) for end in interval],
            "difference": finite(found.difference),
            "difference_interval": [finite(end) for end in found.interval],
            "regret_bound": finite(self.regret_bound[name]),
            "ess": finite(self.ess[name]),
            "flags": list(headline.flags),
        }

    def to_frame(self, library: str | None = None) -> Any:
        """One row a policy, best first, in pandas, polars or pyarrow; by default whichever is in use."""
        rows = []
        for name in self.ranking:
            row = self._policy(name)
            for key in ("interval", "difference_interval"):
                ends = row.pop(key) or (None, None)
                prefix = "" if key == "interval" else "difference_"
                row[f"{prefix}lower"], row[f"{prefix}upper"] = ends
            row["flags"] = ", ".join(row["flags"])
            rows.append(
                {
                    "policy": name,
                    **row,
                    "may_be_best": name in self.may_be_best,
                    "verdict": self.difference(name).answer,
                }
            )
        return frame(rows, library=library)

    def rows(self) -> list[list[str]]:
        """The table as text, without its headings."""
        form = table_number(self.evaluations[name].headline.value for name in self.ranking)
        return [self._cells(name, form) for name in self.ranking]

    def _cells(self, name: str, form: TableNumber) -> list[str]:
        headline, found, ess = self.evaluations[name].headline, self.difference(name), self.ess[name]
        lost = self.regret_bound[name]
        return [
            name,
            form(headline.value),
            _interval(headline.interval, form),
            form(found.difference, "+"),
            _interval(found.interval, form),
            "" if ess is None else f"{ess:.1f}",
            form(lost) if math.isfinite(lost) else NOT_KNOWN,
            "yes" if name in self.may_be_best else "no",
            found.answer,
        ]

    def report(self, path: str | Path, title: str | None = None, reward: str | None = None) -> Path:
        """Write the report, one self-contained HTML file.

        Args:
          path: where it goes.
          title: its heading.
          reward: what the reward is, in words, such as "euros a visit".
        """
        from deadweight.report.comparison_page import write_comparison

        return write_comparison(self, path, title, reward)

    def plot(self) -> Any:
        """Differences from the baseline as a matplotlib figure; who may be best in another colour."""
        figure = new_figure("The figure of a comparison", 7, 1.2 + ROW * len(self))
        axes = figure.subplots()
        for place, name in enumerate(self.ranking):
            colour = "C1" if name in self.may_be_best else "C0"
            found = self.difference(name)
            if all(math.isfinite(end) for end in found.interval):
                axes.plot(found.interval, [place, place], color=colour, linewidth=2)
            axes.plot(found.difference, place, "o", color=colour, markeredgecolor="white")
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
        rows = [list(HEADINGS), *self.rows()]
        widths = [max(len(row[j]) for row in rows) for j in range(len(HEADINGS))]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
            )
            for row in rows
        ]
        return "\n".join([*(line.rstrip() for line in lines), "", f"{self._title()}.", *self.reasons])


def quoted(name: str) -> str:
    """A name in a sentence, of which it may be a word: 'nothing' is shown to be worse."""
    return f"'{name}'"


def _interval(ends: tuple[float, float] | None, form: TableNumber) -> str:
    return "" if ends is None else ends_in_words(ends, form)
