"""Which path sums a block: the compiled kernel where it is built and wanted, plain numpy otherwise.

`_kernel.c` is compiled when the package is installed, if there is a C compiler. Without it every result is
the same up to the order of additions, only later. `DEADWEIGHT_KERNEL=0` in the environment does without it.
"""

from __future__ import annotations

import os
from types import ModuleType

REVISION = 13  # of the signatures in `_kernel.c`: one that was built from older source is not used


def load() -> ModuleType | None:
    """The compiled module; None where it is not wanted, not built, or out of date."""
    if os.environ.get("DEADWEIGHT_KERNEL") == "0":
        return None
    try:
        from deadweight.sums import _kernel
    except ImportError:
        return None
    return _kernel if getattr(_kernel, "REVISION", None) == REVISION else None


KERNEL = load()


def in_use() -> str:
    """The way in which blocks are summed, in words."""
    return "numpy" if KERNEL is None else "compiled kernel"
