"""Loading: a result from its file. Who imports `load` has imported the classes of all parts of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deadweight.diagnostics.background import Background
from deadweight.negligible.path import EpsilonPath
from deadweight.results.comparison import Comparison, CutBounds
from deadweight.results.estimate import Estimate
from deadweight.results.evaluation import Evaluation, Verdict
from deadweight.results.improvement import Improvement
from deadweight.results.saved import loaded

PARTS = (Background,)  # of an evaluation; what it consists of is imported with it
KINDS = (Comparison, CutBounds, EpsilonPath, Estimate, Evaluation, Improvement, Verdict)


def load(path: str | Path) -> Any:
    """A result that `save` has written: an `Estimate`, an `Evaluation`, a `Verdict`, an `Improvement`, ...

    Loading runs no code from the file.

    Args:
      path: of the file.

    Example:
      >>> import deadweight as dw, tempfile
      >>> log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]])
      >>> ev = dw.evaluate(log, [[0.25, 0.75]], [[0.5, 0.5]], ["WIS"])
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     again = load(ev.save(f"{folder}/result.json"))
      >>> again.to_dict() == ev.to_dict()
      True
    """
    return loaded(path, KINDS)
