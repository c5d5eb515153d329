"""The command `deadweight`: declared in `app`, run in `process`, each command in a file of its name."""

from __future__ import annotations

from deadweight.cli.process import main, run

__all__ = ["main", "run"]
