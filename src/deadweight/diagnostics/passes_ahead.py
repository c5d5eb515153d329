"""How many passes over its log a table of estimates will take, told from what it is asked for.

Whoever waits wants to know before the work begins. The numbers here follow `estimating.answer` step by step;
what only the log decides, such as a path with very many levels, comes on top (`unforeseen_passes`). None
where it depends on more than that: intervals that resample, or that look at every episode by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deadweight.estimators.estimator import Estimator
from deadweight.inference import PAIRED
from deadweight.negligible.by_name import read_rule
from deadweight.question.core import Question


@dataclass(frozen=True, eq=False)
class Table:
    """A table that is asked for; arguments as those of `deadweight.estimating.answer`."""

    question: Question
    estimators: Sequence[Estimator]
    drop: Any
    interval: str | None
    also: Sequence[str] = ()
    shown: bool = False

    @property
    def passes(self) -> int | None:
        """All of them; None where nobody can tell."""
        if not self._is_foreseeable:
            return None
        return self._before_sums + self._paths + 1 + self._after_sums + self._background

    @property
    def _is_foreseeable(self) -> bool:
        question, options = self.question, self.question.options
        plain_sums = options.finished == "absorb" and not question.by_duration and options.cut_weights is None
        own_model = options.model is not None or options.cross_fit
        plain_drop = self.drop != "auto:free" and not callable(self.drop)
        # Without a count of its transitions a stored log does not know its horizon, which flags may need.
        counted = question.parts.known is not None or self.interval != "student-t" or self._mixed
        # A mix has the model checked, in a pass of its own where no other estimate has it checked already.
        checked = not self._mixed or any(made.uses_model and not made.is_mix for made in self.estimators)
        return (
            (self.interval is None or self.interval in PAIRED)
            and options.return_range is None
            and question.parts.has_states
            and plain_sums
            and plain_drop
            and counted
            and checked
            and not own_model
            and all(made.scheme.interval is None for made in self.estimators)
        )

    @property
    def _mixed(self) -> bool:
        return any(made.is_mix for made in self.estimators)

    @property
    def _automatic(self) -> bool:
        return isinstance(self.drop, str) and read_rule(self.drop)[0] == "auto"

    @property
    def _has_paths(self) -> bool:
        """Whether paths are made before the sums."""
        wanted = self._mixed or any(made.is_state_based for made in self.estimators)
        return self._automatic and (wanted or self._shows_path)

    @property
    def _shows_path(self) -> bool:
        return self.shown and self.question.has_values

    @property
    def _with_errors(self) -> bool:
        # The mean return has its standard error from the sums.
        wanted = any(not made.is_naive for made in self.estimators)
        return wanted and (self.interval is not None or "std_error" in self.also)

    @property
    def _before_sums(self) -> int:
        """Counts, those of the folds apart where nobody took them along, and how episodes end."""
        if not self._uses_model:
            return 0
        # A log that is read in parts, or that paths are made of first, is counted by fold from the first.
        by_fold = self._mixed or self._has_paths or not self.question.parts.has_rows
        apart = self._shows_path and not by_fold
        return 1 + apart + (not self.question.parts.knows_limit)

    @property
    def _uses_model(self) -> bool:
        if not self.question.has_values:
            return False
        checked = self.interval == "auto" and self.question.options.cross_check
        biased = self.interval is not None or "bias" in self.also
        return (
            self._has_paths
            or self._shows_path
            or any(made.uses_model or made.is_mix for made in self.estimators)
            or any(
                (checked and made.counterpart is not None) or (biased and made.is_state_based)
                for made in self.estimators
            )
        )

    @property
    def _paths(self) -> int:
        return 2 if self._has_paths else 0

    @property
    def _after_sums(self) -> int:
        """Influences, and what is asked for of each estimate by itself."""
        # Without standard errors a mix has passes of its own: for its evidence, and to check the model.
        found = self._with_errors if not self._mixed else 1 if self._with_errors else 2
        if "ess_steps" in self.also:
            found += sum(made.is_product for made in self.estimators)
        return found + len(self.estimators) * ("influence" in self.also)

    @property
    def _background(self) -> int:
        """Weights and returns where no mix takes them along; the path where no drop has needed it."""
        if not self.shown:
            return 0
        return (not self._mixed) + (4 if self._shows_path and not self._has_paths else 0)
