"""Whether the compiled kernel is there, and what follows for the tests that need it."""

from __future__ import annotations

import os

import pytest

try:
    from deadweight.sums import _kernel
except ImportError:
    _kernel = None  # type: ignore[assignment]

# Set where a compiler is there: a missing kernel is then a failure and not a reason to skip.
REQUIRED = os.environ.get("DEADWEIGHT_KERNEL") == "1"
NOT_BUILT = "the kernel is not built (no C compiler at installation)"

needs_kernel = pytest.mark.skipif(_kernel is None and not REQUIRED, reason=NOT_BUILT)
