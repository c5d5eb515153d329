"""Action values: the model that is fitted to a log."""

from __future__ import annotations
