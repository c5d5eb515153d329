"""Results: the rows of an experiment as arrays, and the errors behind tables, figures and claims."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.studies.reproduction.experiment_rows import RowStore
from deadweight.studies.reproduction.measure import BOUNDS, EXACT, REFERENCE, SAMPLED_RETURN
from deadweight.studies.reproduction.protocols import Protocol
from deadweight.studies.reproduction.run import run_count
from deadweight.studies.reproduction.spec import Experiment
from deadweight.typing import FloatArray


@dataclass(frozen=True)
class Mean:
    """A mean over runs and its standard error; NaN where there is one run only."""

    value: float
    std_error: float

    @classmethod
    def of(cls, values: FloatArray) -> Mean:
        """Of one number a run."""
        spread = float(values.std(ddof=1)) if values.size > 1 else math.nan
        return cls(float(values.mean()), spread / math.sqrt(values.size))


class Results:
    """The first runs of every setting of an experiment under one protocol.

    Args:
      store: the rows.
      protocol: the protocol that they were made under.
      runs: at most so many runs of each setting; None for all.
    """

    def __init__(self, store: RowStore, protocol: Protocol, runs: int | None = None) -> None:
        self.experiment: Experiment = store.experiment
        self.protocol = protocol
        self.given_policies = store.made_with["policies"] != "own"
        self._rows = store.runs
        wanted = run_count(self.experiment, runs)
        complete = [self._consecutive(setting, wanted) for setting in self.experiment.settings]
        self.runs: int = min(complete)

    def _consecutive(self, setting: int, most: int) -> int:
        """How many runs of a setting are there without a gap, its exact values among them."""
        if (setting, EXACT) not in self._rows:
            return 0
        return next((run for run in range(most) if (setting, run) not in self._rows), most)

    @cached_property
    def _values(self) -> dict[tuple[int, str], FloatArray]:
        """(runs, 3) of each setting and column: value, states dropped, share of steps dropped."""
        found: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
        for setting in self.experiment.settings:
            for run in range(self.runs):
                for row in self._rows[setting, run]:
                    numbers = (row.value, float(row.n_dropped), row.dropped_share)
                    found.setdefault((setting, row.column), []).append(numbers)
        return {key: np.array(numbers) for key, numbers in found.items()}

    def exact(self, setting: int, name: str) -> float:
        """A number that is known without sampling; NaN where this protocol does not ask for it."""
        rows = self._rows[setting, EXACT]
        return next((row.value for row in rows if row.column == name), math.nan)

    def has(self, label: str) -> bool:
        """Whether the column was made."""
        return label in BOUNDS or (self.experiment.settings[0], label) in self._values

    def values(self, setting: int, label: str) -> FloatArray:
        """(runs,) estimates."""
        return self._values[setting, label][:, 0]

    def n_dropped(self, setting: int, label: str) -> float:
        """Mean number of visited states that were dropped."""
        return float(self._values[setting, label][:, 1].mean())

    def dropped_share(self, setting: int, label: str) -> float:
        """Mean share of the steps whose ratio was dropped."""
        return float(self._values[setting, label][:, 2].mean())

    def reference(self, setting: int) -> float:
        """What the estimates are compared with."""
        sampled = self._values.get((setting, SAMPLED_RETURN))
        return self.exact(setting, REFERENCE) if sampled is None else float(sampled[:, 0].mean())

    def residuals(self, setting: int, label: str) -> FloatArray:
        """(runs,) estimate minus reference."""
        return self.values(setting, label) - self.reference(setting)

    def squares(self, setting: int, label: str, normalised: bool = False) -> FloatArray:
        """(runs,) squared errors, divided by the squared reference if `normalised`."""
        if self.protocol.has("D11") and self.experiment.name == "taxi":
            a_step = self.values(setting, label) / setting - self.reference(setting) / setting
            squares: FloatArray = np.square(a_step) * setting**2
        else:
            squares = np.square(self.residuals(setting, label))
        return squares / self.reference(setting) ** 2 if normalised else squares

    def mse(self, setting: int, label: str, normalised: bool = False) -> Mean:
        """Mean squared error with its Monte-Carlo error; Cramer-Rao bounds are known exactly."""
        if label in BOUNDS:
            scale = self.reference(setting) ** 2 if normalised else 1.0
            return Mean(self.exact(setting, label) / scale, 0.0)
        return Mean.of(self.squares(setting, label, normalised))

    def ranking(self, setting: int, labels: tuple[str, ...]) -> list[str]:
        """Labels from the smallest error to the largest."""
        return sorted(labels, key=lambda label: self.mse(setting, label).value)

    def win_rate(self, setting: int, better: str, worse: str) -> float:
        """Share of the runs in which the first column is closer to the reference."""
        return float((self.squares(setting, better) < self.squares(setting, worse)).mean())

    def heaviest(self, label: str) -> float:
        """The largest share of a setting's summed squared errors that comes from a single run."""
        shares = [squares.max() / squares.sum() for squares in self._all_squares(label) if squares.sum() > 0]
        return float(max(shares, default=0.0))

    def _all_squares(self, label: str) -> list[FloatArray]:
        return [self.squares(setting, label) for setting in self.experiment.settings]
