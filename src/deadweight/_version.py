"""Versions, each written once: of the package, which the build reads here too, and of its documents."""

from __future__ import annotations

__version__ = "0.2.0"
SCHEMA = 3
"""Version of what `to_dict`, `--json` and saved files hold; results/saved.py reads older files."""
