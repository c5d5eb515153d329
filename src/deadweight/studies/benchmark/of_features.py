"""Logs with features: what a default `evaluate` takes, in a process of its own, where memory can be seen."""

from __future__ import annotations

import json
import subprocess
import sys

from deadweight.studies.benchmark.result import Result

STEPS, MANY_STEPS = 200_000, 1_000_000
# The peak of a process never falls: it is read before and after, in kilobytes (in bytes on macOS). On Linux
# `getrusage` would begin with what the parent held.
SCRIPT = """
import json, resource, sys, time
import deadweight as dw
def peak():
    if sys.platform == "linux":
        return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
problem = dw.domains.sepsis_like()
few = problem.sample(200, seed=0)
log = problem.sample(max(20, round(int(sys.argv[1]) * 200 / few.n_steps)), seed=0)
dw.evaluate(few, problem.pi_e, problem.pi_b)
before, began = peak(), time.process_time()
dw.evaluate(log, problem.pi_e, problem.pi_b)
seconds = time.process_time() - began
more = peak() - before
unit = 1 if sys.platform == "darwin" else 1024
sizes = [log.n_steps, log.features.shape[1], log.n_actions]
print(json.dumps([*sizes, seconds, more * unit / 1e9]))
"""


def features(scale: float) -> list[Result]:
    """200,000 steps of the sepsis-like problem."""
    return _measured(int(STEPS * scale), "at most 15", "below 1.0")


def features_million(scale: float) -> list[Result]:
    """A million of them, about a minute."""
    return _measured(int(MANY_STEPS * scale), "at most 60", "")


def _measured(steps: int, most_seconds: str, most_memory: str) -> list[Result]:
    found = subprocess.check_output([sys.executable, "-c", SCRIPT, str(steps)])
    n_steps, n_features, n_actions, seconds, more = json.loads(found)
    what = f"default evaluate, {n_steps:,} steps, {n_features} features, {n_actions} actions"
    return [
        Result(f"{what}, CPU seconds", f"{seconds:.1f}", most_seconds),
        Result(f"{what}, more memory at its peak, GB", f"{more:.2f}", most_memory),
    ]
