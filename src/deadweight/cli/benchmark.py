"""`deadweight benchmark`: timings against plain references, as ratios."""

from __future__ import annotations

import platform
import sys
from datetime import date

from deadweight._version import __version__
from deadweight.benchmark import CASES
from deadweight.cli.tables import print_table
from deadweight.errors import OptionError, did_you_mean


def benchmark(only: str, scale: float) -> None:
    """Run the cases and print a line for each."""
    names = [name.strip() for name in only.split(",") if name.strip()] or list(CASES)
    for name in names:
        if name not in CASES:
            raise OptionError(
                f"There is no benchmark {name!r}.{did_you_mean(name, CASES)}",
                fix=f"There are {', '.join(CASES)}.",
            )
    rows = []
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        rows += [[result.name, result.measured, result.aim] for result in CASES[name](scale)]
    print_table(("what", "measured", "aim"), rows, left=(0, 2))
    import numpy
    import scipy

    print(
        f"\ndeadweight {__version__}, Python {platform.python_version()}, numpy {numpy.__version__}, scipy "
        f"{scipy.__version__}, {platform.machine()} {platform.system()}, {date.today().isoformat()}, scale "
        f"{scale:g}."
    )
    print("Ratios are medians of paired rounds (reference, candidate, reference) with their quartiles.")
