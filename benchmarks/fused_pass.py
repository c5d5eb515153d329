"""IS + WIS + PDIS + WPDIS in one pass, against a plain read of the columns it needs.

Also INCRIS against PDIS, the memory of a pass, and what `import deadweight` adds to `import numpy`.
Run: `python benchmarks/fused_pass.py`.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
from paired import ratio

import deadweight as dw

PLAIN = ("IS", "WIS", "PDIS", "WPDIS")
STATE_BASED = ("SIS", "WSIS", "SPDIS", "WSPDIS")
IMPORT_TIME = "import time, numpy; t = time.process_time(); import deadweight; print(time.process_time() - t)"


def random_log(n: int, horizon: int, n_states: int = 50, n_actions: int = 4) -> dw.Trajectories:
    """n episodes of equal length with states and actions drawn uniformly."""
    rng = np.random.default_rng(0)
    steps = n * horizon
    return dw.Trajectories(
        rng.integers(n_states, size=steps),
        rng.integers(n_actions, size=steps),
        rng.normal(size=steps),
        np.arange(0, steps + 1, horizon),
    )


def main() -> None:
    """Print every ratio with its quartiles."""
    rng = np.random.default_rng(1)
    pi_e, pi_b = rng.dirichlet(np.full(4, 20.0), 50), rng.dirichlet(np.full(4, 20.0), 50)
    mask = rng.random(50) < 0.5

    log = random_log(100_000, 100)

    def read() -> None:
        log.states.sum(), log.actions.sum(), log.rewards.sum()

    def plain() -> None:
        dw.evaluate(log, pi_e, pi_b, PLAIN, interval=None)

    def masked() -> None:
        dw.evaluate(log, pi_e, pi_b, STATE_BASED, drop=mask, interval=None)

    print(f"fused pass, 10M steps, against a read of its columns: {ratio(plain, read)}")
    print(f"the same with a state mask:                           {ratio(masked, read)}")
    tracemalloc.start()
    plain()
    peak = tracemalloc.get_traced_memory()[1] / (3 * log.states.nbytes)
    tracemalloc.stop()
    print(f"extra memory of the fused pass, of the input:         {peak:.1%}")

    small = random_log(1_000, 100)

    def one(name: str) -> None:
        dw.estimate(name, small, pi_e, pi_b, interval=None)

    print(f"INCRIS(10) against PDIS, 1,000 x 100:                 {ratio(lambda: one('INCRIS'), lambda: one('PDIS'))}")
    found = [float(subprocess.check_output([sys.executable, "-c", IMPORT_TIME])) for _ in range(5)]
    print(f"CPU seconds that `import deadweight` adds to numpy:   {np.median(found):.2f}")


if __name__ == "__main__":
    main()
