"""The tool of the oracle: what does this tree say of sixty logs, and what did another one say?

    python tests/oracle write FOLDER            all outputs of the deadweight that is installed, in full
    python tests/oracle compare BEFORE AFTER    the first difference of each output in two such folders
    python tests/oracle keep                    fingerprints anew, for the test

To see what a change has done: write a folder from a checkout before it and one after it, and compare.
"""

from __future__ import annotations

import gzip
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracle.asked import outputs
from oracle.fingerprint import Fingerprint, first_difference, largest_change
from oracle.logs import CASES, case_of

KEPT = Path(__file__).with_name("kept.json")


def said_of(name: str) -> tuple[str, dict[str, Any]]:
    """The outputs of a case, as they come back from JSON."""
    return name, json.loads(json.dumps(outputs(case_of(name))))


def write(folder: str) -> None:
    """All outputs, a file a case."""
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        for name, said in pool.map(said_of, CASES):
            with gzip.open(where / f"{name}.json.gz", "wt", compresslevel=1) as file:
                json.dump(said, file)


def read(folder: str) -> dict[str, dict[str, Any]]:
    """What `write` has written, by case."""
    found = {}
    for path in sorted(Path(folder).glob("*.json.gz")):
        with gzip.open(path, "rt") as file:
            found[path.name.removesuffix(".json.gz")] = json.load(file)
    return found


def tell(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def compare(before: str, after: str) -> int:
    """Print the first difference of each output; the number of outputs that differ."""
    old, new, differing, most = read(before), read(after), 0, 0.0
    for name in sorted(old.keys() | new.keys()):
        for verb in sorted(old.get(name, {}).keys() | new.get(name, {}).keys()):
            theirs, ours = (side.get(name, {}).get(verb) for side in (old, new))
            difference = first_difference(theirs, ours)
            if difference is not None:
                change = largest_change(theirs, ours)
                differing, most = differing + 1, max(most, change)
                tell(f"{name}: {verb} (largest change {change:.1e}) {difference}")
    total = sum(len(said) for said in new.values())
    tell(f"{differing} of {total} outputs differ" + (f", by {most:.1e} at most." if differing else "."))
    return differing


def keep() -> None:
    """Write the fingerprints of all outputs."""
    with ProcessPoolExecutor(2) as pool:
        kept = {
            name: {verb: asdict(Fingerprint.of(tree)) for verb, tree in said.items()}
            for name, said in pool.map(said_of, CASES)
        }
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(prints)}" for name, prints in kept.items())
    KEPT.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", folder]:
            write(folder)
        case ["compare", before, after]:
            sys.exit(compare(before, after) > 0)
        case ["keep"]:
            keep()
        case _:
            sys.exit(__doc__)
