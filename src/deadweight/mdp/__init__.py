"""Tabular MDPs: values, transitions, chains, simulation."""

from __future__ import annotations
