"""What the process that forks has at hand: everything imported, down to what a first call imports."""

from __future__ import annotations

import matplotlib
import pyarrow.parquet
import rich.progress
import scipy.optimize
import scipy.sparse.linalg
import scipy.stats
from studies.records.commands import tiny_problems
from typer.testing import CliRunner

from deadweight.cli.app import app

__all__ = ["matplotlib", "pyarrow", "rich", "scipy"]

tiny_problems()
CliRunner().invoke(app, ["study", "none"])
