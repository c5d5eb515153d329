"""The kernel against numpy on many random logs: `python benchmarks/agreement.py 10000 [first seed]`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "negligible")]

from test_lanes import compare  # noqa: E402

if __name__ == "__main__":
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    warnings.simplefilter("error")
    for seed in range(first, first + count):
        compare(seed)
    print(f"{count} logs from seed {first}: kernel and numpy agree to 1e-10.")
