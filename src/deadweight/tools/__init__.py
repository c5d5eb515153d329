"""Small things that know nothing of logs: arithmetic, files written whole, limits of memory and threads."""

from __future__ import annotations
