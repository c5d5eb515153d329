"""A small log and its policy on disk, for tests of the commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deadweight.domains import stochastic_lift


def small_files(folder: Path, states: list[str] | None = None, log: str = "log.csv") -> list[str]:
    """LOG --target POLICY of a lift of 7 floors, with these names of its five states."""
    lift = stochastic_lift(7)
    names = states or [str(s) for s in range(lift.mdp.n_states)]
    quoted = ['"{}"'.format(name.replace('"', '""')) for name in names]
    lines = ["episode,step,state,action,reward,behaviour_prob"]
    for i, episode in enumerate(lift.sample(60, seed=0)):
        lines += [f"{i},{t},{quoted[s]},{a},{r},0.5" for t, (s, a, r) in enumerate(episode)]
    (folder / log).write_text("\n".join(lines) + "\n", encoding="utf-8")
    named = names if states else np.arange(len(names))
    np.savez(folder / "policy.npz", probs=lift.pi_e.probs, states=named, actions=[0, 1])
    return [str(folder / log), "--target", str(folder / "policy.npz")]
