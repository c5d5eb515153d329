"""Studies: long measurements behind the claims of the documentation, each a command."""

from __future__ import annotations
