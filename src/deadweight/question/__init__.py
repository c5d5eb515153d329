"""What is asked of a log: policies, options, drops, and what several estimators share."""

from __future__ import annotations
