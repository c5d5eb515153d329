"""Logs in memory: episodes, labels, sets of states."""

from __future__ import annotations
