"""A ward: a simulated problem that everybody understands, with three new rules and the truth about each.

Every day a patient is stable, frail, feverish or worsening, and is watched or treated. Treating helps the
feverish and the worsening; for the stable and the frail it changes nothing, but the old rule tosses a coin
for them as well. A stay ends at home (worth 1) or in intensive care (worth 0), so that the value of a rule is
the share of patients who go home well. Numbers are made up.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import simulate
from deadweight.mdp.tabular import TabularMDP, policy_value
from deadweight.tools.files import write_text
from deadweight.typing import FloatArray

STATES = ("stable", "frail", "feverish", "worsening")
ACTIONS = ("watch", "treat")
# What follows a day: stable, frail, feverish, worsening, home, intensive care; one row for each action.
NEXT = {
    "stable": ((0.78, 0.0, 0.10, 0.0, 0.12, 0.0), (0.78, 0.0, 0.10, 0.0, 0.12, 0.0)),
    "frail": ((0.15, 0.80, 0.0, 0.05, 0.0, 0.0), (0.15, 0.80, 0.0, 0.05, 0.0, 0.0)),
    "feverish": ((0.30, 0.0, 0.35, 0.35, 0.0, 0.0), (0.55, 0.0, 0.30, 0.15, 0.0, 0.0)),
    "worsening": ((0.0, 0.30, 0.0, 0.35, 0.0, 0.35), (0.0, 0.60, 0.0, 0.25, 0.0, 0.15)),
}
ARRIVALS = (0.2, 0.2, 0.5, 0.1)


@dataclass(frozen=True, eq=False)
class Rule:
    """A way to act: the probability of treating in each state, a name, and what it does in words."""

    name: str
    words: str
    treats: tuple[float, float, float, float]

    @property
    def policy(self) -> TabularPolicy:
        """The rule as a policy, with labels."""
        probs = [[1 - chance, chance] for chance in self.treats]
        return TabularPolicy(probs, states=STATES, actions=ACTIONS)


OLD = Rule("the old rule", "tosses a coin every day", (0.5, 0.5, 0.5, 0.5))
EARLY = Rule("treat early", "treats fever and decline at once, else watches", (0.1, 0.1, 0.9, 0.9))
WAIT = Rule("wait and see", "hardly ever treats", (0.1, 0.1, 0.15, 0.2))
CALM = Rule("calm days", "watches on calm days, else about as before", (0.1, 0.1, 0.55, 0.5))
RULES = (EARLY, WAIT, CALM)


@dataclass(frozen=True, eq=False)
class Ward:
    """The ward: its exact MDP, logs of the old rule, and the truth about any rule."""

    mdp: TabularMDP

    def truth(self, rule: Rule) -> float:
        """The exact share of patients who go home well."""
        return policy_value(self.mdp, np.array(rule.policy.probs))

    def sample(self, patients: int, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log of the old rule in words."""
        log = simulate(self.mdp, np.array(OLD.policy.probs), patients, seed)
        return Trajectories(
            np.array(STATES)[log.states],
            np.array(ACTIONS)[log.actions],
            log.rewards,
            log.offsets,
            propensities=log.propensities,
            terminated=log.terminated,
        )


def ward() -> Ward:
    """The ward.

    >>> round(ward().truth(OLD), 3), round(ward().truth(EARLY), 3)
    (0.758, 0.872)
    """
    moves = np.array([NEXT[state] for state in STATES])  # (S, A, S + 2)
    home, ends = moves[:, :, 4], moves[:, :, 4:].sum(axis=2)
    transitions: FloatArray = np.concatenate([moves[:, :, :4], ends[:, :, None]], axis=2)
    rewards = np.zeros_like(transitions)
    # A stay from here ends in one way only, so that what an end is worth is known.
    rewards[:, :, 4] = np.divide(home, ends, out=np.zeros_like(home), where=ends > 0)
    return Ward(TabularMDP(transitions, rewards, np.array(ARRIVALS)))


# --------------------------------------------------------------------------------------------------------
# The ward's log as a hospital would hand it over, and the new rules as files: something to try commands on.
#
# The table has names of its own, German dates, an outcome on the last day of a stay only,
# and stays that were still going on when the data were taken: nothing that would suit a program.

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
