"""Plans, the passes that they need, and whether the model fits."""

from __future__ import annotations
