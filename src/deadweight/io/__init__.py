"""Logs and policies from elsewhere: tables, files, Minari data sets and Gymnasium environments."""

from __future__ import annotations

from deadweight.io.minari import from_minari
from deadweight.io.policy_files import read_policy
from deadweight.io.read import read
from deadweight.io.record import record

__all__ = ["from_minari", "read", "read_policy", "record"]
