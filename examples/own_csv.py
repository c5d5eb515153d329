"""Your own table: from a CSV file with your column names to a verdict.

    python examples/own_csv.py

The file is made up here, so that the script runs anywhere: 600 stays on a ward, one row for each hour, with
the probability of what was done. The new policy calls a doctor more often when a patient gets worse.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

import deadweight as dw

CALLS_NOW = {"stable": 0.3, "worse": 0.5}  # probability of calling a doctor, as logged
CALLS_NEW = {"stable": 0.1, "worse": 0.9}


def write_stays(path: Path, stays: int = 600, seed: int = 0) -> None:
    """Each hour a stable patient may get worse, and a patient who is worse recovers sooner with a doctor."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["stay", "hour", "condition", "done", "score", "chance"])
        for stay in range(stays):
            condition = "stable"
            for hour in range(8):
                call = rng.random() < CALLS_NOW[condition]
                chance = CALLS_NOW[condition] if call else 1 - CALLS_NOW[condition]
                recovers = rng.random() < (0.8 if call else 0.3)
                score = (condition == "stable") - 0.1 * call
                rows.writerow([stay, hour, condition, "call" if call else "wait", f"{score:.1f}", chance])
                if condition == "worse":
                    condition = "stable" if recovers else "worse"
                elif rng.random() < 0.3:
                    condition = "worse"


def main() -> None:
    """Write, examine, evaluate."""
    names = {"episode": "stay", "step": "hour", "state": "condition", "action": "done", "reward": "score"}
    names["behaviour_prob"] = "chance"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stays.csv"
        write_stays(path)
        # Every stay is watched for eight hours: the log stops there, the patient's story does not.
        for finding in dw.doctor(path, columns=names, time_limit=8):
            print(f"{finding.severity} {finding.code}: {finding.title}")
        log = dw.read(path, columns=names, time_limit=8)
    new = dw.TabularPolicy(
        [[CALLS_NEW[state], 1 - CALLS_NEW[state]] for state in CALLS_NEW],
        states=list(CALLS_NEW),
        actions=["call", "wait"],
    )
    print(dw.evaluate(log, new))


if __name__ == "__main__":
    main()
