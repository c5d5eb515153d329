"""`deadweight benchmark`: timings against plain references, as ratios."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

from deadweight._version import __version__
from deadweight.cli.output import out_json, say, tell
from deadweight.cli.terminal_tables import print_table
from deadweight.errors import OptionError, did_you_mean
from deadweight.studies.benchmark import CASES, ONLY_IF_NAMED
from deadweight.sums.kernel import in_use


def benchmark(only: str, scale: float, as_json: bool) -> None:
    """Run the cases and print a line for each, under a head that says where and when."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    names = names or [name for name in CASES if name not in ONLY_IF_NAMED]
    for name in names:
        if name not in CASES:
            raise OptionError(
                f"There is no benchmark {name!r}.{did_you_mean(name, CASES)}",
                fix=f"There are {', '.join(CASES)}.",
            )
    head = surroundings(scale)
    if not as_json:
        tell(", ".join(f"{key} {value}" for key, value in head.items()))
        tell("Ratios are medians of paired rounds (reference, candidate, reference) with their quartiles.\n")
    found = []
    for name in names:
        say(f"{name} ...")
        found += [(name, result) for result in CASES[name](scale)]
    if as_json:
        results = [{"case": name, **vars(result)} for name, result in found]
        out_json({**head, "results": results})
    else:
        rows = [(result.name, result.measured, result.aim) for _, result in found]
        print_table(("what", "measured", "aim"), rows, left=(0, 2))


def surroundings(scale: float) -> dict[str, str]:
    """Versions, machine and date of a run."""
    import numpy
    import scipy

    return {
        "deadweight": __version__,
        "Python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "summed by": in_use(),
        "machine": f"{processor()} ({platform.machine()} {platform.system()}), {os.cpu_count()} cores",
        "date": date.today().isoformat(),
        "scale": f"{scale:g}",
    }


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(errors="replace").splitlines() if listed.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "processor unknown"
