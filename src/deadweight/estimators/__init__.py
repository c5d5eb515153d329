"""The estimators of the paper and beyond it, one family a file; `estimator` has their table."""

from __future__ import annotations
