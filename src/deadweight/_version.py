"""The version, written once: the build reads it here, and so does the package."""

from __future__ import annotations

__version__ = "0.2.0"
