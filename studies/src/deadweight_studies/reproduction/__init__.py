"""The paper's experiments: what was measured, how, and how it compares with what was printed."""

from __future__ import annotations
