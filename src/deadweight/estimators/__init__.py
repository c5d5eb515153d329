"""The estimators of the paper and beyond it, one family a file; `names` is their table."""

from __future__ import annotations
