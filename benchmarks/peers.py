"""Other libraries side by side: what it takes to install them, to import them, and what they say of one log.

Run: `python benchmarks/peers.py FOLDER`. Each library is installed into an environment of its own in FOLDER,
from the package index, unless it is there already. What does not install is said. All of them see the same
logs: 2,000 and 50,000 episodes of ten steps whose truth is known, and 200 of 400 steps with equal policies
over ten actions, each of which earns exactly 1. How long they take is what `deadweight benchmark` measures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from deadweight_studies.ends import ergodic

import deadweight as dw

PEERS = {"scope-rl": "scope_rl.ope.discrete", "obp": "obp", "d3rlpy": "d3rlpy", "skdr-eval": "skdr_eval"}
LONG = 400

# What each library is asked of the two logs, in its own environment; it prints one line of JSON.
IMPORT = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
start = time.perf_counter()
import {module}
print(json.dumps({{"import": time.perf_counter() - start}}))
"""
SCOPE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from scope_rl.ope.discrete import SelfNormalizedPDIS, SelfNormalizedTIS
found = {}
for name in ("short", "large", "long"):
    log = np.load(sys.argv[1] + "/" + name + ".npz")
    given = dict(step_per_trajectory=int(log["steps"]), action=log["action"], reward=log["reward"],
                 pscore=log["pscore"], evaluation_policy_action_dist=log["target"], gamma=1.0)
    for kind, made in (("WPDIS", SelfNormalizedPDIS()), ("WIS", SelfNormalizedTIS())):
        found[name + " " + kind] = float(made.estimate_policy_value(**given))
    for ci in ("hoeffding", "ttest"):
        ends = SelfNormalizedPDIS().estimate_interval(**given, ci=ci, random_state=0)
        found[name + " " + ci] = [v for k, v in ends.items() if "CI" in k]
print(json.dumps(found))
"""


def write_logs(folder: Path) -> dict[str, tuple[dw.Trajectories, np.ndarray, float]]:
    """Both logs for all libraries: the log, pi_e, and the truth."""
    problem = ergodic()
    short, large = problem.sample(2_000, seed=0), problem.sample(50_000, seed=1)
    rng = np.random.default_rng(0)
    actions, even = rng.integers(0, 10, 200 * LONG), np.full((1, 10), 0.1)
    offsets, propensities = np.arange(0, 200 * LONG + 1, LONG), np.full(200 * LONG, 0.1)
    states, rewards = np.zeros(200 * LONG, dtype=int), np.full(200 * LONG, 1.0 / LONG)
    long = dw.Trajectories(states, actions, rewards, offsets, propensities, time_limit=LONG)
    logs = {
        "short": (short, problem.pi_e.probs, problem.true_value),
        "large": (large, problem.pi_e.probs, problem.true_value),
        "long": (long, even, 1.0),
    }
    for name, (log, pi_e, _) in logs.items():
        np.savez(
            folder / f"{name}.npz",
            steps=log.horizon,
            action=log.actions,
            reward=log.rewards,
            pscore=log.propensities,
            target=pi_e[log.states],
        )
    return logs


def install(folder: Path, package: str) -> tuple[Path | None, str]:
    """The interpreter that has the library, and what it took; None where it cannot be installed."""
    home = folder / package
    python = home / "bin" / "python"
    note = home / "installed.txt"
    if not note.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        start = time.monotonic()
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", package], capture_output=True, text=True
        )
        size = sum(path.lstat().st_size for path in home.rglob("*")) / 1e6
        taken = f"{time.monotonic() - start:.0f} s, {size:,.0f} MB"
        note.write_text(taken if done.returncode == 0 else "does not install")
    said = note.read_text().strip()
    return (None if said == "does not install" else python), said


def version(python: Path, package: str) -> str:
    """Of an installed library."""
    asked = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([str(python), "-c", asked], capture_output=True, text=True).stdout.strip()


def ask(python: Path, script: str, folder: Path) -> dict[str, Any]:
    """What a script prints in the environment of a library."""
    done = subprocess.run([str(python), "-c", script, str(folder)], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {}


def main() -> None:
    """Install, ask, and print a table."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    logs = write_logs(folder)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    print(f"Python {python}\n\n| library | installs (time, size) | import |\n| --- | --- | ---: |")
    start = subprocess.run(
        [sys.executable, "-c", IMPORT.format(module="deadweight")], capture_output=True, text=True
    )
    print(f"| deadweight {dw.__version__} | | {json.loads(start.stdout)['import']:.1f} s |")
    scope: dict[str, Any] = {}
    for package, module in PEERS.items():
        interpreter, said = install(folder, package)
        if interpreter is None:
            print(f"| {package} | {said} | |")
            continue
        imported = ask(interpreter, IMPORT.format(module=module), folder).get("import")
        seconds = "fails" if imported is None else f"{imported:.1f} s"
        print(f"| {package} {version(interpreter, package)} | {said} | {seconds} |")
        if package == "scope-rl":
            scope = ask(interpreter, SCOPE, folder)
    print("\n| log | estimator | truth | deadweight | scope-rl |\n| --- | --- | ---: | ---: | ---: |")
    for kind, (log, pi_e, truth) in logs.items():
        for name in ("WPDIS", "WIS"):
            theirs = scope.get(f"{kind} {name}", float("nan"))
            value = dw.estimate(name, log, pi_e, interval=None).value
            print(f"| {kind} | {name} | {truth:.4f} | {value:.6f} | {theirs:.6f} |")
    print("\n| log | interval of WPDIS | from | to |\n| --- | --- | ---: | ---: |")
    for kind in ("short", "large"):
        for rule, said in (("hoeffding", "scope-rl, Hoeffding"), ("ttest", "scope-rl, t")):
            low, high = scope.get(f"{kind} {rule}", [float("nan")] * 2)
            print(f"| {kind} | {said} | {low:.3f} | {high:.3f} |")
        low, high = dw.estimate("WPDIS", *logs[kind][:2]).interval or (float("nan"),) * 2
        print(f"| {kind} | deadweight | {low:.3f} | {high:.3f} |")


if __name__ == "__main__":
    main()
