"""The compiled module itself: when it is used, and that it trusts no array."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from kernel.built import NOT_BUILT, REQUIRED, _kernel, needs_kernel

from deadweight.sums import kernel


def test_the_kernel_is_there_where_it_must_be() -> None:
    if _kernel is None:
        if REQUIRED:
            pytest.fail("DEADWEIGHT_KERNEL=1, but deadweight.sums._kernel has not been compiled")
        pytest.skip(NOT_BUILT)
    assert _kernel.REVISION == kernel.REVISION


def call(**changes: Any) -> bool:
    """The kernel on a tiny sound log, except for what is changed."""
    given = {
        "states": np.array([0, 1, 1]),
        "actions": np.array([1, 0, 1]),
        "rewards": np.ones(3),
        "offsets": np.array([0, 2, 3]),
        "rows": np.arange(2),
        "table": np.ones(4),
        "final": np.zeros(2),
        "weight": np.zeros(2),
        "scratch": np.zeros(12),
        **changes,
    }
    columns = tuple(given[name] for name in ("states", "actions", "rewards", "offsets", "rows"))
    ratios = (given["table"], None, None, None, None, None, None, 2, 10)
    results = (given["final"], np.zeros(2), np.zeros(2), given["weight"], np.zeros(2))
    return _kernel.sums(columns, ratios, None, results, given["scratch"])


@needs_kernel
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"actions": np.array([1, 0])}, ValueError),
        ({"states": np.array([0.0, 1.0, 1.0])}, TypeError),
        ({"states": np.array([0, 1, 1], dtype=np.int32)}, TypeError),
        ({"rewards": np.ones((3, 1))}, TypeError),
        ({"rewards": np.ones(6)[::2]}, ValueError),
        ({"rows": np.array([0, 2])}, ValueError),
        ({"rows": np.array([0, -1])}, ValueError),
        ({"offsets": np.array([0, 2, 4])}, ValueError),
        ({"offsets": np.array([0, 2, 2])}, ValueError),
        ({"final": np.zeros(1)}, ValueError),
        ({"weight": np.zeros(1)}, ValueError),
        ({"scratch": np.zeros(3)}, ValueError),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    assert call()
    with pytest.raises(error):
        call(**changes)


@needs_kernel
@pytest.mark.parametrize("code", [2, -1, np.iinfo(np.int64).max])
def test_what_is_not_in_the_table_is_declined_and_never_read(code: int) -> None:
    assert not call(states=np.array([0, 1, code]))


def test_the_environment_switches_it_off() -> None:
    code = "from deadweight.sums import kernel; print(kernel.in_use())"
    environment = {**os.environ, "DEADWEIGHT_KERNEL": "0"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stdout.strip() == "numpy"


@needs_kernel
def test_a_build_from_other_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEADWEIGHT_KERNEL", "1")
    assert kernel.load() is _kernel
    monkeypatch.setattr(_kernel, "REVISION", kernel.REVISION + 1)
    assert kernel.load() is None
