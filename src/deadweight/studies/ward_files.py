"""The ward's log as a hospital would hand it over, and the new rules as files: something to try commands on.

The table has names of its own, German dates, an outcome on the last day of a stay only,
and stays that were still going on when the data were taken: nothing that would suit a program.
"""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from deadweight.basics.atomic import write_text
from deadweight.studies.ward import ACTIONS, RULES, STATES, ward

LOG = "stays.csv"
COLUMNS = {
    "episode": "stay_id",
    "step": "morning",
    "state": "condition",
    "action": "decision",
    "reward": "went_home",
    "truncated": "still_there",
}
TIME_FORMAT = "%d.%m.%Y %H:%M"
OPENED = datetime(2025, 1, 1, 8, 0)
LONGEST_STAY = 28


def write_ward_files(folder: Path, patients: int, seed: int) -> list[Path]:
    """The log, and a policy file for each new rule; the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / LOG]
    write_text(folder / LOG, _lines(patients, seed))
    for rule in RULES:
        rows = [
            f"{state},{action},{probability:g}"
            for state, chance in zip(STATES, rule.treats, strict=True)
            for action, probability in zip(ACTIONS, (1 - chance, chance), strict=True)
        ]
        path = folder / f"{rule.name.replace(' ', '_')}.csv"
        write_text(path, "\n".join(["state,action,prob", *rows]) + "\n")
        written.append(path)
    return written


def _lines(patients: int, seed: int) -> str:
    import io

    log = ward().sample(patients, seed)
    arrivals = np.random.default_rng(seed).integers(0, 365, size=patients)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS.values())
    for i, (start, end) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True)):
        cut = end - start > LONGEST_STAY
        for t in range(min(end - start, LONGEST_STAY)):
            row, last = start + t, t == min(end - start, LONGEST_STAY) - 1
            morning = OPENED + timedelta(days=int(arrivals[i]) + int(t))
            table.writerow(
                [
                    f"S{i:04d}",
                    morning.strftime(TIME_FORMAT),
                    log.state_labels[log.states[row]],
                    log.action_labels[log.actions[row]],
                    f"{log.rewards[row]:g}" if last and not cut else "",
                    "yes" if last and cut else "no",
                ]
            )
    return text.getvalue()
