"""Damaged files and strange options for the command line, one case for each number.

`python tests/cli/fuzz.py 17` runs case 17 again, and `python tests/cli/fuzz.py 0 250` the first 250, in one
process that may not take more than 2 GB. A case is right if the exit code is 0, 1, 2 or 4, nothing looks like
a traceback, nothing on the terminal is a control character, and JSON is JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import shlex
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from deadweight.cli import run
from deadweight.domains import stochastic_lift

MOST_MEMORY = 2 << 30
SECONDS = 600
RIGHT = (0, 1, 2, 4)
COLUMNS = ("episode", "step", "state", "action", "reward", "behaviour_prob", "terminated", "next_state")
HOSTILE = [
    *(
        "",
        "nan",
        "inf",
        "-1",
        "1e308",
        "1e999",
        "-0.0",
        "18446744073709551615",
        "123456789012345678901234567890",
    ),
    *("0x10", "01", "true", "2026-01-01", "12:00", "NA", '"', '""', "'", ",", ";", "\t", "\x00", "\r"),
    *("a\x1b]8;;http://x\x07b", "\x9b31m", "\u202egnp", "[bold red]x[/]", "\U0001f600", "\ud800", "x" * 5000),
]
WORDS = {
    "--estimators": ["WIS", "WIS,DM", "SIS,C-WSPDIS", "MIS,TMIS", "WDR,SDRE", "WISS", "", ",", "\x1b[31m"],
    "--drop": ["auto", "none", "q-gap:1.0", "q-gap:nan", "covariance:0.01", "return-test:2", "x", "q-gap:"],
    "--gamma": ["1.0", "0.9", "0", "nan", "-1", "1e-300", "two"],
    "--interval": ["auto", "student-t", "bootstrap", "guaranteed", "none", "best"],
    "--level": ["0.95", "0", "1", "nan", "0.999999999"],
    "--return-range": ["-99,99", "0,1", "1,0", "nan,1", "0", "-1e308,1e308"],
    "--baseline": ["behaviour", "0.5", "nan", "inf", "x"],
    "--behaviour": ["column", "counts", "nowhere.csv", "/dev/null", "policy.npy"],
    "--gate": ["better", "worse", "cannot tell", "not-worse", "bettr"],
    "--min-effect": ["0", "0.1", "-1", "nan"],
    "--report": ["report.html", "no/where.html", ".", "/dev/null", "r" * 300],
    "--title": ["T", "\u202e<script>", "", "\ud800"],
    "--columns": [
        "reward=reward",
        "state=action",
        "state=",
        "wrad=x",
        "episode=state,state=episode",
        "=",
        "reward=step",
    ],
    "--top": ["3", "0", "-1", "999999999999"],
    "--workers": ["1", "0", "x"],
}
OF = {
    "doctor": ["--columns", "--target", "--json"],
    "states": ["--behaviour", "--drop", "--gamma", "--top", "--columns", "--json", "--workers", "--stream"],
    "evaluate": [name for name in WORDS if name != "--top"] + ["--json", "--no-stream", "--stream"],
}


def _table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})


@cache
def sound() -> pa.Table:
    """A small log that can be evaluated."""
    problem = stochastic_lift(7)
    log = problem.sample(12, seed=0)
    rows = [
        (i, t, f"s{s}", a, r, 0.5, t == len(episode) - 1, None)
        for i, episode in enumerate(log)
        for t, (s, a, r) in enumerate(episode)
    ]
    return _table(COLUMNS, rows)


@cache
def policy() -> tuple[np.ndarray, pa.Table]:
    """The policy that is evaluated, as an array and as a table."""
    probs = stochastic_lift(7).pi_e.probs
    cells = [(f"s{s}", a, probs[s, a]) for s, a in np.ndindex(probs.shape)]
    return probs, _table(("state", "action", "prob"), cells)


def write(path: Path, table: pa.Table) -> None:
    """A table as CSV or Parquet, by the name of the file."""
    csv.write_csv(table, path) if path.suffix == ".csv" else pq.write_table(table, path, row_group_size=20)


def files(folder: Path, rng: np.random.Generator) -> tuple[Path, Path]:
    """A log and a policy on disk; one of them, or both, damaged."""
    table = sound()
    if rng.random() < 0.3:
        table = odd_columns(table, rng)
    log = folder / str(rng.choice(["log.csv", "log.parquet"]))
    try:
        write(log, table)
    except (pa.ArrowException, OSError):  # not every type can be written
        write(log, sound())
    probs, listed = policy()
    target = folder / str(rng.choice(["policy.npy", "policy.npz", "policy.csv", "policy.parquet"]))
    if target.suffix == ".npy":
        np.save(target, probs)
    elif target.suffix == ".npz":
        np.savez(target, probs=probs, states=[f"s{s}" for s in range(len(probs))], actions=[0, 1])
    else:
        write(target, listed)
    if rng.random() < 0.4:
        damage(log, rng)
    if rng.random() < 0.2:
        damage(target, rng)
    return log, target


def odd_columns(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The table with a column of another type, without one, or with one twice."""
    i = int(rng.integers(table.num_columns))
    name, n = table.column_names[i], table.num_rows
    kinds: list[Callable[[], object]] = [
        lambda: pa.array(rng.normal(size=n)),
        lambda: pa.array(rng.integers(0, 2**64, size=n, dtype=np.uint64)),
        lambda: pa.array([None] * n),
        lambda: pa.array([[1]] * n),
        lambda: pa.array([b"\xff\x00"] * n),
        lambda: pa.array([True] * n),
        lambda: pa.array(np.arange(n), pa.timestamp("ns")),
        lambda: pa.array([str(rng.choice(HOSTILE[:-2])) for _ in range(n)]).dictionary_encode(),
        lambda: pa.array([{"a": 1}] * n),
        lambda: pa.array(np.arange(n)[::-1] * 10 ** int(rng.integers(15))),
    ]
    change = int(rng.integers(len(kinds) + 2))
    if change == len(kinds):
        return table.remove_column(i)
    if change == len(kinds) + 1:
        return table.append_column(name, table[name])
    return table.set_column(i, name, kinds[change]())


def damage(path: Path, rng: np.random.Generator) -> None:
    """A file with a few bytes, cells or pieces changed."""
    data = bytearray(path.read_bytes())
    for _ in range(int(rng.geometric(0.6))):
        at, length = int(rng.integers(len(data) + 1)), int(rng.integers(1, 60))
        kind = 5 if path.suffix == ".csv" and rng.random() < 0.5 else int(rng.integers(7))
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = data[at : at + length] * int(rng.integers(1, 5))
        elif kind == 3:
            data[at:at] = rng.bytes(length)
        elif kind == 4:
            del data[at:]
        elif kind == 5 and path.suffix == ".csv":
            data = cell_changed(data, rng)
        elif kind == 6 and data:  # a length or a count in a header
            data[at % len(data)] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))
    path.write_bytes(bytes(data))


def cell_changed(data: bytearray, rng: np.random.Generator) -> bytearray:
    """CSV with one field, perhaps of the header, replaced by something hostile."""
    lines = bytes(data).split(b"\n")
    row = int(rng.integers(len(lines))) if rng.random() < 0.8 else 0
    fields = lines[row].split(b",")
    fields[int(rng.integers(len(fields)))] = str(rng.choice(HOSTILE)).encode("utf-8", "surrogatepass")
    lines[row] = b",".join(fields)
    return bytearray(b"\n".join(lines))


def arguments(folder: Path, rng: np.random.Generator) -> list[str]:
    """A command with options, some of them wrong."""
    log, target = files(folder, rng)
    command = str(rng.choice(["doctor", "states", "evaluate", "evaluate"]))
    given = [command, str(log)]
    if command != "doctor" or rng.random() < 0.5:
        given += ["--target", str(target)]
    if command == "evaluate" and rng.random() < 0.7:
        given += ["--estimators", "WIS,WSPDIS"]
    for option in rng.choice(OF[command], size=int(rng.integers(4)), replace=False):
        given.append(str(option))
        if option in WORDS:
            # The first words are good ones, and come most often.
            words = WORDS[option]
            given.append(words[min(int(rng.geometric(0.4)), len(words)) - 1])
        elif option == "--target":
            given.append(str(folder / "nowhere.npy"))
    if rng.random() < 0.05:
        given[int(rng.integers(len(given)))] = str(rng.choice(HOSTILE)).replace("\x00", "")
    return given


def wrong(number: int) -> str:
    """What is wrong with the answer to a case; empty where nothing is."""
    rng = np.random.default_rng([12, number])
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        given = arguments(Path(name), rng)
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(given)
        except BaseException:
            return f"{shlex.join(given)}\n{traceback.format_exc()}"
    found = _judged(code, given, out.getvalue(), err.getvalue())
    return found and f"{found}: {shlex.join(given)}\n{out.getvalue()[-1000:]}\n{err.getvalue()[-1000:]}"


def _judged(code: int, given: list[str], out: str, err: str) -> str:
    if code not in RIGHT:
        return f"exit code {code}"
    if "Traceback" in out + err:
        return "a traceback"
    odd = [c for c in out + err if not c.isprintable() and c != "\n"]
    if odd:
        return f"{odd[0]!r} on the terminal"
    if code == 2 and err.count("Error: ") != 1:
        return f"{err.count('Error: ')} messages"
    if "--json" in given:
        document = json.loads(out)
        if document.get("schema") != 3 or (code == 2) != ("error" in document):
            return "another JSON document than promised"
    return ""


def peak_memory() -> int:
    """Bytes that this process had at most; ru_maxrss counts those of the process that started it as well."""
    status = Path("/proc/self/status")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return 1024 * (int(peak[1]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main(first: int, cases: int) -> int:
    """Run cases one after the other; the exit code is 1 if one of them went wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * MOST_MEMORY, 2 * MOST_MEMORY))
    failures = 0
    for number in range(first, first + cases):
        signal.alarm(SECONDS)  # ends the process where a case hangs
        sys.stdout.write(f"case {number}\n")
        found = wrong(number)
        if found:
            failures += 1
            sys.stdout.write(f"WRONG case {number} (python tests/cli/fuzz.py {number}): {found!a}\n")
    signal.alarm(0)
    peak = peak_memory()
    sys.stdout.write(f"peak {peak / 2**30:.2f} GB, {failures} of {cases} wrong\n")
    return int(failures > 0 or peak > MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
