"""Random small logs of every kind that a table can hold, with the values that plain loops give to them.

A world is drawn from its number alone. What stands in it is kept as indices, for the loops of `reference`,
and as the labels, ids and steps that a user would have, for the doors by which it comes into the library. No
value is ever computed from what a door has given back.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import reference as ref
from strategies import Step, random_policy

Columns = dict[str, list[Any]]
BERLIN = dt.timezone(dt.timedelta(hours=2))
DAY = dt.date(2024, 2, 27)

TEXT = (
    *("10", "9", "-1", "01", "1", "A", "a", " a", "a ", "a  b", "a,b", "a;b", "a|b", "a\tb", "line\nbreak"),
    *('say "when"', '"', "it's", "'", "ü", "u\u0308", "日本", "🙂", "\u202egnp", "NA", "nan", "None", "null"),
    *("true", "1e5", "0x10", "inf", "12:00", "2024-01-01", "=1+1", "#", "\\", "\\n", "%", "[red]", "x" * 300),
    *("state", "(1, 2)", "50%", "1,5", "-", "_", "é=ê", "~!@$^&*"),
)
WILD = ("", "\x00", "a\x00", "a", "\x01", "\r", "\x1b[31m", " ", "\u2028")
LABELS: dict[str, Callable[[np.random.Generator], Sequence[Any]]] = {
    "dense": lambda rng: range(int(rng.integers(6, 30))),
    "sparse": lambda rng: [int(i) for i in rng.integers(5_000, 10**12, 8)],
    "beyond floats": lambda rng: [2**53 + i for i in range(4)] + [2**62 + i for i in range(4)],
    "negative": lambda rng: range(-4, 4),
    "digits": lambda rng: [str(i) for i in (*range(8, 13), 2, 100, 20)],
    "zeros": lambda rng: ["1", "01", "001", "10", "010", "2", "02"],
    "text": lambda rng: TEXT,
    "wild": lambda rng: WILD,
    "flags": lambda rng: [False, True],
    "halves": lambda rng: [i / 2 for i in range(-3, 5)],
    "whole floats": lambda rng: [float(i) for i in range(8)],
    "floats": lambda rng: [float(x) for x in rng.normal(size=6)] + [0.1, 0.1 + 0.2],
    "days": lambda rng: [DAY + dt.timedelta(days=i) for i in range(8)],
}
IDS: dict[str, Callable[[np.random.Generator, int], list[Any]]] = {
    "counted": lambda rng, n: list(range(n)),
    "integers": lambda rng, n: [int(i) for i in rng.permutation(40)[:n]],
    "beyond floats": lambda rng, n: [2**53 + int(i) for i in rng.permutation(20)[:n]],
    "negative": lambda rng, n: [int(i) - 9 for i in rng.permutation(20)[:n]],
    "digits": lambda rng, n: [str(i) for i in rng.permutation(20)[:n]],
    "zeros": lambda rng, n: [f"{i:0{1 + i % 3}d}" for i in rng.permutation(20)[:n]],
    "text": lambda rng, n: [f"id{i}" for i in rng.permutation(20)[:n]],
    "odd text": lambda rng, n: [TEXT[i] for i in rng.permutation(len(TEXT))[:n]],
    "days": lambda rng, n: [DAY + dt.timedelta(days=int(i)) for i in rng.permutation(20)[:n]],
    "halves": lambda rng, n: [int(i) / 2 for i in rng.permutation(20)[:n]],
}
# From where a step comes after the one before to what is written.
STEPS: dict[str, Callable[[int], Any]] = {
    "counted": lambda t: t,
    "from seven": lambda t: 7 + t,
    "below zero": lambda t: t - 5,
    "beyond floats": lambda t: 2**53 + t,
    "quarters": lambda t: t / 4,
    "text": lambda t: str(t + 8),
    "days": lambda t: DAY + dt.timedelta(days=t),
    "times": lambda t: dt.datetime(2024, 2, 28, 20, 15) + dt.timedelta(hours=7 * t),
    "times with a zone": lambda t: (
        dt.datetime(2024, 3, 30, 20, 15, tzinfo=BERLIN) + dt.timedelta(hours=7 * t)
    ),
    "text of times": lambda t: str(dt.datetime(2024, 2, 28, 20, 15) + dt.timedelta(hours=7 * t)),
}
REWARDS: dict[str, Callable[[np.random.Generator], float]] = {
    "any": lambda rng: float(rng.normal()),
    "whole": lambda rng: float(rng.integers(-2, 4)),
    "cents": lambda rng: int(rng.integers(-300, 300)) / 100,
    "tiny": lambda rng: float(rng.normal() * 1e-12),
    "least": lambda rng: float(rng.integers(-5, 9) * 1e-300),
    "large": lambda rng: float(rng.normal() * 1e6),
    "few": lambda rng: float(rng.choice([0.0, -0.0, 0.0, 1.0])),
    "all sizes": lambda rng: float(rng.normal() * 10.0 ** rng.integers(-8, 9)),
}
GENERIC = ("any", "large")
UNWEIGHTED = ("IS", "PDIS", "SIS", "SPDIS")
WEIGHTED = ("WIS", "WPDIS", "WSIS")
WINDOWS = ("INCRIS", "WINCRIS", "SINCRIS", "WSINCRIS")
WITH_MODEL = ("DR", "WDR", "DRSIS", "WDRSIS")
WITH_TABLES = ("C-SIS", "C-WSIS", "C-SPDIS", "C-WSPDIS", "MIS", "SMIS", "CIS", "TMIS", "STMIS")
STATE_BASED = ("SIS", "WSIS", "SPDIS", "WSPDIS", "SINCRIS", "WSINCRIS", "DRSIS", "WDRSIS", "SMIS", "STMIS")


@dataclass(frozen=True, eq=False)
class World:
    """A log, the policies that are asked about, and what is asked.

    Attributes:
      episodes: of (state, action, reward), states and actions by index.
      terminated, after: an entry an episode; `after` is what follows a cut one, -1 where nobody knows.
      ends: what says how episodes end: "nothing", "limit" or names of columns.
      states, actions: the labels; some of them are never seen.
      kinds: what kinds of labels, ids, steps and rewards it has.
      target, logged: "table", or "column" where all that is known are probabilities of the logged actions.
      new, old: these, one an episode and step.
      old_policies, made_by: policies by id and the id of each episode; None for a log of one old policy.
      durations: one an episode and step, or None.
      names: the estimators that are asked for.
    """

    seed: int
    episodes: list[list[Step]]
    terminated: list[bool]
    after: list[int]
    ends: str
    states: list[Any]
    actions: list[Any]
    ids: list[Any]
    steps: list[list[Any]]
    kinds: dict[str, str]
    pi_e: np.ndarray
    pi_b: np.ndarray
    target: str
    logged: str
    new: list[list[float]]
    old: list[list[float]]
    old_policies: dict[Any, np.ndarray] | None
    made_by: list[Any]
    durations: list[list[float]] | None
    gamma: float
    drop: frozenset[int]
    names: tuple[str, ...]

    @property
    def n(self) -> int:
        return len(self.episodes)

    @property
    def longest(self) -> int:
        return max(len(episode) for episode in self.episodes)

    @property
    def time_limit(self) -> int | None:
        return self.longest if self.ends == "limit" else None

    @property
    def flat(self) -> list[Step]:
        return [step for episode in self.episodes for step in episode]

    @property
    def lengths(self) -> list[int]:
        return [len(episode) for episode in self.episodes]

    @property
    def offsets(self) -> list[int]:
        return [0, *accumulate(self.lengths)]

    @property
    def has_next(self) -> bool:
        return any(code >= 0 for code in self.after) or "next_state" in self.ends

    @property
    def unknown(self) -> Any:
        """What is written in a table where nobody knows what follows: nothing, or -1 if that is no state."""
        kind = type(self.states[0])
        if self.seed % 2 or kind not in (int, float, str) or kind(-1) in self.states:
            return None
        return kind(-1)

    def next_states(self, unknown: Any = None) -> list[Any]:
        """A label a step; at the end of an episode that was not cut its value does not matter."""
        column: list[Any] = []
        for episode, code in zip(self.episodes, self.after, strict=True):
            column += [self.states[s] for s, _, _ in episode[1:]]
            column.append(self.states[code] if code >= 0 else unknown)
        return column

    def columns(self) -> Columns:
        """The table, in order of episodes and steps, as plain values."""
        flat = self.flat
        table: Columns = {
            "episode": [
                one for one, length in zip(self.ids, self.lengths, strict=True) for _ in range(length)
            ],
            "step": [step for steps in self.steps for step in steps],
            "state": [self.states[s] for s, _, _ in flat],
            "action": [self.actions[a] for _, a, _ in flat],
            "reward": [r for _, _, r in flat],
        }
        if self.logged == "column":
            table["behaviour_prob"] = [p for row in self.old for p in row]
        if self.target == "column":
            table["target_prob"] = [p for row in self.new for p in row]
        last = [t + 1 == length for length in self.lengths for t in range(length)]
        ended = [
            one for one, length in zip(self.terminated, self.lengths, strict=True) for _ in range(length)
        ]
        if "terminated" in self.ends:
            table["terminated"] = [here and flag for here, flag in zip(last, ended, strict=True)]
        if "truncated" in self.ends:
            table["truncated"] = [here and not flag for here, flag in zip(last, ended, strict=True)]
        if self.has_next:
            table["next_state"] = self.next_states(self.unknown)
        if self.durations is not None:
            table["duration"] = [d for row in self.durations for d in row]
        if self.old_policies is not None:
            made_by = zip(self.made_by, self.lengths, strict=True)
            table["behaviour_id"] = [one for one, length in made_by for _ in range(length)]
        return table

    def some(self, chosen: Sequence[int]) -> World:
        """The world of some of its episodes, each with an id of its own."""

        def of(rows: Sequence[Any] | None) -> Any:
            return None if rows is None else [rows[i] for i in chosen]

        return replace(
            self,
            episodes=of(self.episodes),
            terminated=of(self.terminated),
            after=of(self.after),
            ids=list(range(len(chosen))),
            steps=of(self.steps),
            new=of(self.new),
            old=of(self.old),
            made_by=of(self.made_by),
            durations=of(self.durations),
            names=tuple(name for name in self.names if name not in WINDOWS),
        )  # fmt: skip

    # --- what the loops say ------------------------------------------------------------------------------

    @cached_property
    def plain(self) -> ref.Log:
        following = [
            [-1] * (len(episode) - 1) + [code]
            for episode, code in zip(self.episodes, self.after, strict=True)
        ]
        return ref.Log(self.episodes, self.terminated, following)

    @cached_property
    def by_row(self) -> tuple[ref.Log, np.ndarray, np.ndarray]:
        """The log with a state for each row, discounted by its durations if it has any, and both policies."""
        size = len(self.flat)
        pi_e, pi_b = np.zeros((2, size, self.pi_e.shape[1]))
        episodes, row = [], 0
        for i, episode in enumerate(self.episodes):
            elapsed, own = 0.0, []
            for t, (s, a, r) in enumerate(episode):
                pi_e[row] = self.pi_e[s] if self.target == "table" else 0.0
                pi_e[row, a], pi_b[row, a] = self.new[i][t], self.old[i][t]
                own.append((row, a, r * self.gamma**elapsed if self.durations else r))
                elapsed += self.durations[i][t] if self.durations else 1.0
                row += 1
            episodes.append(own)
        return ref.Log(episodes), pi_e, pi_b

    @cached_property
    def q(self) -> np.ndarray:
        """(T, rows, A) Q of the fitted model in the state of each row."""
        q = ref.fitted_q(self.plain, self.pi_e, self.gamma)
        return q[:, [s for s, _, _ in self.flat]]

    @cached_property
    def expected(self) -> dict[str, float]:
        """The value of each estimator that is asked for."""
        return {name: float(self._value(name)) for name in self.names}

    def _value(self, name: str) -> float:
        states = {"drop": self.drop} if name.startswith("C-") or name in STATE_BASED else {"drop": None}
        weighted = name.removeprefix("C-").startswith("W")
        base = name.removeprefix("C-").removeprefix("W")
        if base == "DM":
            return ref.direct(self.plain, self.pi_e, self.gamma)
        if name in WITH_TABLES:
            tables = (self.plain, self.pi_e, self.pi_b)
            if base in ("MIS", "SMIS"):
                return ref.mis(*tables, **states, gamma=self.gamma)
            if base in ("TMIS", "STMIS"):
                return ref.tmis(self.plain, self.pi_e, **states, gamma=self.gamma)
            if base == "CIS":
                return ref.cis(*tables, **states, gamma=self.gamma)
            whole = base == "SIS"
            corrected = ref.corrected_is if whole else ref.corrected_per_decision
            return corrected(*tables, **states, gamma=self.gamma, weighted=weighted)
        flags = [[s in (states["drop"] or ()) for s, _, _ in episode] for episode in self.episodes]
        gamma = 1.0 if self.durations else self.gamma
        if base == "BEHAVIOUR":
            return ref.behaviour(self.by_row[0], gamma)
        rows = {"drop": flags, "gamma": gamma, "weighted": weighted}
        if base in ("IS", "SIS"):
            return ref.is_(*self.by_row, **rows)
        if base in ("PDIS", "SPDIS"):
            return ref.per_decision(*self.by_row, **rows)
        if base in ("INCRIS", "SINCRIS"):
            return ref.incremental(*self.by_row, **rows)[0]
        assert base in ("DR", "DRSIS"), name
        return ref.doubly_robust(*self.by_row, **rows, q=self.q)

    @cached_property
    def size(self) -> float:
        """What a value may be made of by subtraction: rounding is relative to this."""
        paid = max(sum(abs(r) for _, _, r in episode) for episode in self.episodes)
        weights = ref.cumulative(*self.by_row)
        return float(paid * max(1.0, max(abs(w) for row in weights for w in row)) * self.longest)


def world(seed: int) -> World:
    """World number `seed`."""
    rng = np.random.default_rng([24, seed])

    # Whole numbers throughout are what most logs are, and have ways of their own through the library.
    whole = rng.random() < 0.25

    def kind(kinds: Iterable[str], first: float = 0.0) -> str:
        able = list(kinds)
        return able[0] if rng.random() < first else str(rng.choice(able))

    n = 1 if rng.random() < 0.08 else int(rng.integers(2, 10))
    longest = int(rng.choice([1, 3, 6, 12], p=[0.08, 0.3, 0.4, 0.22]))
    lengths = [longest] * n if rng.random() < 0.15 else [int(i) for i in rng.integers(1, longest + 1, n)]
    kinds = {
        "states": "dense" if whole else kind(LABELS),
        "actions": "dense" if whole else kind(LABELS),
        "ids": "integers" if whole else kind(IDS),
        "steps": "counted" if whole else kind(STEPS, 0.2),
        "rewards": kind(REWARDS, 0.35),
    }
    n_states, n_actions = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    states = drawn(rng, LABELS[kinds["states"]](rng), n_states)
    actions = drawn(rng, LABELS[kinds["actions"]](rng), n_actions)
    n_states, n_actions = len(states), len(actions)
    seen = rng.permutation(n_states)[: int(rng.integers(1, n_states + 1))]
    reward = REWARDS[kinds["rewards"]]
    episodes = [
        [(int(rng.choice(seen)), int(rng.integers(n_actions)), reward(rng)) for _ in range(length)]
        for length in lengths
    ]
    ends = kind(
        ["nothing", "limit", "terminated", "truncated", "terminated truncated", "terminated next_state"],
    )
    if ends in ("nothing", "limit"):
        terminated = [ends == "nothing" or length < max(lengths) for length in lengths]
    else:
        terminated = [bool(flag) for flag in rng.random(n) < rng.choice([0.0, 0.5, 0.8])]
    known = ends not in ("nothing", "limit") and rng.random() < 0.7
    after = [
        -1 if end or not known or rng.random() < 0.3 else int(rng.integers(n_states)) for end in terminated
    ]
    visited = {states[s] for episode in episodes for s, _, _ in episode}
    # -1 says that nothing is known, unless it is one of the states.
    after = [-1 if a >= 0 and states[a] in (-1, "-1") and states[a] not in visited else a for a in after]

    pi_e = random_policy(rng, n_states, n_actions, float(rng.choice([0.0, 0.3, 1.0], p=[0.5, 0.35, 0.15])))
    pi_b = random_policy(rng, n_states, n_actions) * 0.9 + 0.1 / n_actions
    if not does_what_was_done(pi_e, episodes):
        pi_e = pi_b
    old_policies, made_by = None, [None] * n
    logged = str(rng.choice(["table", "column"], p=[0.6, 0.4]))
    if rng.random() < 0.12:
        names = drawn(rng, [["v1", "v2", "ü,x"], [3, 1, 2], ["10", "9", "b"]][int(rng.integers(3))], 3)
        old_policies = {one: random_policy(rng, n_states, n_actions) * 0.9 + 0.1 / n_actions for one in names}
        made_by = [names[int(i)] for i in rng.integers(len(names), size=n)]
        old_policies = {one: old_policies[one] for one in old_policies if one in made_by}
        old, logged = mixture(episodes, old_policies, made_by), "ids"
    elif logged == "column":
        old = [[float(p) for p in rng.uniform(0.05, 1.0, length)] for length in lengths]
    else:
        old = [[float(pi_b[s, a]) for s, a, _ in episode] for episode in episodes]
    target = str(rng.choice(["table", "column"], p=[0.85, 0.15]))
    if target == "column":
        new = [
            [float(p) for p in rng.uniform(0.0, 1.0, length) * (rng.random(length) < 0.8)]
            for length in lengths
        ]
    else:
        new = [[float(pi_e[s, a]) for s, a, _ in episode] for episode in episodes]
    durations = None
    if rng.random() < 0.1:
        durations = [[float(d) for d in rng.choice([0.5, 1.0, 3.0], length)] for length in lengths]
    stride = int(rng.choice([1, 1, 1, 3]))
    as_steps = STEPS[kinds["steps"]]
    # What every log knows: a state of a policy that nobody has seen is none of its labels.
    known_states = sorted({s for episode in episodes for s, _, _ in episode} | {a for a in after if a >= 0})
    drawn_world = World(
        seed,
        episodes,
        terminated,
        after,
        ends,
        states,
        actions,
        IDS[kinds["ids"]](rng, n),
        [[as_steps(stride * t) for t in range(length)] for length in lengths],
        kinds,
        pi_e,
        pi_b,
        target,
        logged,
        new,
        old,
        old_policies,
        made_by,
        durations,
        gamma=float(rng.choice([1.0, 0.9, 0.5])),
        drop=frozenset(int(s) for s in known_states if rng.random() < 0.5),
        names=(),
    )
    return replace(drawn_world, names=asked_for(drawn_world, rng))


def does_what_was_done(pi_e: np.ndarray, episodes: list[list[Step]]) -> bool:
    """Whether a policy takes any of the logged actions where it has been; others may be slips of the pen."""
    visited, taken = ({step[i] for episode in episodes for step in episode} for i in (0, 1))
    return bool(pi_e[sorted(visited)][:, sorted(taken)].any())


def asked_for(world: World, rng: np.random.Generator) -> tuple[str, ...]:
    """A few estimators that this world can be asked for, of every family."""
    groups: list[Sequence[str]] = [["BEHAVIOUR"], ["WSPDIS"], UNWEIGHTED, WEIGHTED]
    in_time = world.durations is not None and world.gamma < 1
    # Ties of the windows' criterion are decided by rounding alone, and a log of one episode has no variance.
    if world.n > 1 and world.kinds["rewards"] in GENERIC and not in_time and rng.random() < 0.3:
        groups.append(WINDOWS)
    if world.target == "table" and not in_time:
        groups += [["DM"], WITH_MODEL]
        if world.logged == "table" and world.durations is None:
            groups.append(WITH_TABLES)
    return tuple(str(rng.choice(group)) for group in groups)


def drawn(rng: np.random.Generator, pool: Sequence[Any], count: int) -> list[Any]:
    """Some of the pool in any order, as plain values."""
    distinct = list(dict.fromkeys(pool))
    return [distinct[i] for i in rng.permutation(len(distinct))[:count]]


def mixture(
    episodes: list[list[Step]], policies: dict[Any, np.ndarray], made_by: list[Any]
) -> list[list[float]]:
    """The probability of each logged action under a policy that draws one of these and keeps to it."""
    shares = [made_by.count(one) / len(made_by) for one in policies]
    rows = []
    for episode in episodes:
        past, row = list(shares), []
        for s, a, _ in episode:
            now = [before * table[s, a] for before, table in zip(past, policies.values(), strict=True)]
            row.append(float(sum(now) / sum(past)))
            past = now
        rows.append(row)
    return rows
