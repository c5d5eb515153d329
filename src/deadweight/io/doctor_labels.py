"""`Case`, what a check of the doctor looks at; and the checks of labels, columns and features.

Of labels: names that differ by a blank, numbers as text, columns overlooked. A feature describes the state
before the action. One that was filled in afterwards (the outcome, the length of the stay) makes every model
look excellent and every estimate wrong, so what knows the reward or the end too well is shown. Whether it may
know it, only the owner of the log can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.errors import PolicyError, TooLarge, how_many
from deadweight.io.columns import MEANS_MISSING
from deadweight.io.requirements import limited
from deadweight.io.schema import ALIASES, OPTIONAL, Checks, Found, about, show
from deadweight.io.table import LogTable
from deadweight.log.interface import in_memory
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.sums.ends import TimeLimit
from deadweight.sums.pairs import PolicyPair, pair_policies
from deadweight.tools.arithmetic import sums_by
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

# Counting in a table is faster than sorting as long as the table is not much longer than the log.
SMALL_TABLE = 1 << 20


@dataclass(frozen=True, eq=False)
class Seen:
    """The pairs of state and action that a log has, by state, then action, without a table of all pairs.

    With continuous states or actions nearly every step is a pair of its own: states x actions would be many
    gigabytes, of which the log fills one cell a step.
    """

    n_states: int
    n_actions: int
    state: IntArray  # (pairs,)
    action: IntArray
    count: IntArray  # (pairs,) visits
    of_step: IntArray  # (steps,) the pair of each

    @classmethod
    def of(cls, states: IntArray, actions: IntArray, n_states: int, n_actions: int) -> Seen:
        """The pairs of these steps."""
        cells, size = states * n_actions + actions, n_states * n_actions
        if size <= max(len(cells), SMALL_TABLE):
            table = np.bincount(cells, minlength=size)
            keys = np.flatnonzero(table)
            place = np.zeros(size, dtype=np.int64)
            place[keys] = np.arange(len(keys))
            count, of_step = table[keys], place[cells]
        else:
            keys, of_step, count = np.unique(cells, return_inverse=True, return_counts=True)
        state, action = np.divmod(keys, n_actions)
        return cls(n_states, n_actions, state, action, count, of_step)

    @cached_property
    def visits(self) -> IntArray:
        """(S,) visits of each state."""
        return np.bincount(self.state[self.of_step], minlength=self.n_states)

    @cached_property
    def taken(self) -> IntArray:
        """(A,) how often each action was taken."""
        return np.bincount(self.action[self.of_step], minlength=self.n_actions)

    @cached_property
    def actions_seen(self) -> IntArray:
        """(S,) different actions taken in each state."""
        return np.bincount(self.state, minlength=self.n_states)

    @cached_property
    def states_seen(self) -> IntArray:
        """(A,) different states in which each action was taken."""
        return np.bincount(self.action, minlength=self.n_actions)

    def sums(self, values: FloatArray) -> FloatArray:
        """(pairs,) sum of a column of the log over the visits of each pair."""
        return sums_by(self.of_step, values, len(self.count))

    def sums_of_states(self, values: FloatArray) -> FloatArray:
        """(S,) sum of a number a pair over the pairs of each state."""
        return sums_by(self.state, values, self.n_states)


@dataclass(frozen=True, eq=False)
class Case:
    """A table, and the policy to be evaluated if there is one."""

    table: LogTable
    target: TabularPolicy | None = None
    time_limit: TimeLimit = "infer"

    @cached_property
    def log(self) -> Trajectories:
        """The log; only for checks that run when the table has no error."""
        # What is taken for granted is a finding of its own.
        table = self.table
        return limited(table.trajectories(), self.time_limit, table.says_ends, lambda assumption: None)

    @cached_property
    def returns(self) -> FloatArray:
        """(n,) sum of rewards of each episode."""
        return np.add.reduceat(self.log.rewards, self.log.offsets[:-1])

    @property
    def features(self) -> FloatArray:
        """(steps, d) the features; only for checks of logs that have them."""
        assert self.log.features is not None
        return self.log.features

    @cached_property
    def seen(self) -> Seen:
        """The pairs of state and action that were logged."""
        return Seen.of(self.log.states, self.log.actions, self.log.n_states, self.log.n_actions)

    @cached_property
    def pair(self) -> PolicyPair | PolicyError | TooLarge | None:
        """The target in the log's order; the error where it does not fit; None without a target."""
        if self.target is None:
            return None
        # Only the target is looked at, so it does not matter whether there are propensities.
        labels = replace(in_memory(self.log).labels, logged=frozenset({"propensities"}))
        try:
            return pair_policies(labels, self.target, None)
        except (PolicyError, TooLarge) as error:
            return error

    @cached_property
    def ratios(self) -> FloatArray | None:
        """(steps,) pi_e / pi_b of the logged actions: from the columns, or target and counts."""
        log = self.log
        behaviour = log.propensities
        if behaviour is None and not log.has_states:
            return None
        if behaviour is None:
            behaviour = self.seen.count[self.seen.of_step] / self.seen.visits[log.states]
        if isinstance(self.pair, PolicyPair) and self.pair.pi_e is not None:
            return np.asarray(self.pair.pi_e[log.states, log.actions] / behaviour)
        return None if log.target_probs is None else log.target_probs / behaviour

    def rows(self, steps: AnyArray) -> IntArray:
        """The user's rows of these steps of the log (numbers or a mask)."""
        return np.sort(self.table.order[steps])

    def rows_of_episodes(self, episodes: AnyArray) -> IntArray:
        """The user's first row of each of these episodes (numbers or a mask)."""
        return self.rows(self.log.offsets[:-1][episodes])


def named(labels: Labels | list[Any], which: AnyArray, most: int = 3) -> str:
    """The first few of these labels, and how many more."""
    indices = np.flatnonzero(which) if which.dtype == bool else which
    text = ", ".join(show(labels[int(i)]) for i in indices[:most])
    return text + (f" and {len(indices) - most:,} more" if len(indices) > most else "")


# --- Labels and columns

ROLES = ("state", "action")
# Doing nothing is an action, and often called so.
NO_ACTION = "none"
LOOKALIKES = {
    "terminated": ("done", "dones", "terminal", "is_terminal", "is_last", "end", "ended", "terminations"),
    "truncated": ("timeout", "timeouts", "truncation", "truncations", "censored"),
    "behaviour_prob": (
        *("prob", "pscore", "action_prob", "logging_prob", "pi_b", "propensity_score", "p_behaviour"),
    ),
    "target_prob": ("pi_e", "eval_prob", "evaluation_prob", "new_prob", "p_target"),
    "next_state": ("next_obs", "next_observation", "s_next", "new_state", "successor"),
    "duration": ("dt", "delta_t", "elapsed", "time_delta", "option_length"),
    "behaviour_id": ("policy_id", "policy", "policy_version", "behavior_id", "logging_policy"),
}
NO_BEHAVIOUR = "DW339"

LABEL_CHECKS = Checks[Case]()


@LABEL_CHECKS.add("DW331", "warning", "Labels that differ by blanks or case", each=("episode", *ROLES))
def _variants(case: Case, name: str) -> Found | None:
    column = case.table.labels(name)
    if column.distinct is None:
        return None
    groups: dict[str, list[int]] = {}
    for i, label in enumerate(column.distinct):
        if isinstance(label, str):
            groups.setdefault(" ".join(label.split()).casefold(), []).append(i)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return None
    shown = " and ".join(case.table.shown(name, column.distinct[i]) for i in several[0])
    return Found(
        f"Found {how_many(len(several), 'group')} of {name}s that differ only by blanks or case, for "
        f"example {shown}; they count as different {name}s.",
        "Trim the text and choose one spelling.",
        _rows_with(case, name, [i for group in several for i in group[1:]]),
    )


@LABEL_CHECKS.add("DW332", "warning", "Labels that look like missing values", each=ROLES)
def _named_nothing(case: Case, name: str) -> Found | None:
    words = {word for word in MEANS_MISSING if not (name == "action" and word == NO_ACTION)}
    column = case.table.labels(name)
    labels = [] if column.distinct is None else list(column.distinct)
    wrong = [i for i, v in enumerate(labels) if isinstance(v, str) and v.strip().lower() in words]
    if not wrong:
        return None
    rows = _rows_with(case, name, wrong)
    return Found(
        f"{name.capitalize()} {show(labels[wrong[0]])} looks like a word for a missing value: "
        f"{case.table.rows(rows)}. It counts as the {name} of that name.",
        f"Fill in the {name} if it is missing; nothing to do if it is called so.",
        rows,
    )


@LABEL_CHECKS.add("DW333", "warning", "State -1", "state")
def _minus_one(case: Case) -> Found | None:
    column = case.table.labels("state")
    return about(
        np.flatnonzero(column.values == -1) if column.distinct is None else np.empty(0, dtype=np.int64),
        lambda rows: (
            f"State -1 often stands for a missing or terminal state: {case.table.rows(rows)}. It counts as a "
            "state."
        ),
        "Leave rows after the end of an episode out, and fill in states that are missing.",
    )


@LABEL_CHECKS.add("DW335", "warning", "Continuous actions", each=["action"])
@LABEL_CHECKS.add("DW334", "warning", "Continuous states", each=["state"])
def _continuous(case: Case, name: str) -> Found | None:
    column = case.table.labels(name)
    if column.distinct is None or not any(isinstance(label, float) for label in column.distinct[:1]):
        return None
    return Found(
        f"{case.table.called(name)} holds numbers with fractions, {len(column.distinct):,} different "
        f"ones; each counts as one {name}.",
        f"Read it as a feature (--features {case.table.names[name]}): cutting numbers into bins to have "
        "labels is not safe."
        if name == "state"
        else f"Bin or cluster the {name}s, so that each is seen many times.",
    )


@LABEL_CHECKS.add("DW336", "info", "Numbers stored as text", each=("reward", "behaviour_prob", "target_prob"))
def _numbers_as_text(case: Case, name: str) -> Found | None:
    numbers = case.table.numbers(name)
    if not numbers.from_text:
        return None
    row = int(np.argmax(~numbers.missing & (numbers.values != 0)))  # 0 looks alike in all notations
    return Found(
        f"{case.table.called(name)} holds text, such as {show(case.table.arrow(name)[row].as_py())}, "
        f"which was read as {numbers.values[row]:g}.",
        "Store it as a number, to be safe.",
    )


@LABEL_CHECKS.add("DW337", "warning", "Two columns for the behaviour probability")
def _two_behaviours(case: Case) -> Found | None:
    others = [name for name in ALIASES["behaviour_prob"] if name in case.table.unused]
    if not others or not case.table.has("behaviour_prob"):
        return None
    return Found(
        f"Both {case.table.called('behaviour_prob')} and column {show(others[0])} could be the behaviour "
        "probability; the first is used.",
        f"Name the one you mean (--columns behaviour_prob={others[0]}), or remove the other.",
    )


@LABEL_CHECKS.add("DW338", "info", "A column that may have been overlooked")
def _overlooked(case: Case) -> Found | None:
    table = case.table
    missing = [name for name in OPTIONAL if not table.has(name)]
    pairs = [
        (ours, name) for ours in missing for name in table.unused if name.lower().strip() in LOOKALIKES[ours]
    ]
    if not pairs:
        return None
    ours, name = pairs[0]
    return Found(
        f"Column {show(name)} is not used; it may be {ours}."
        + (f" Likewise: {', '.join(show(n) for _, n in pairs[1:])}." if pairs[1:] else ""),
        f"Say so if it is: --columns {ours}={name}.",
    )


@LABEL_CHECKS.add(NO_BEHAVIOUR, "info", "No probabilities of the old policy")
def _no_behaviour(case: Case) -> Found | None:
    table = case.table
    if table.has("behaviour_prob") or table.keys("behaviour_prob:"):
        return None
    way = "counts" if table.has("state") else "learned"
    return Found(
        "The log has no column behaviour_prob: with which probability the old policy acted is not known.",
        f"Have it estimated (--behaviour {way}), or give the old policy (--behaviour FILE).",
    )


def _rows_with(case: Case, name: str, codes: list[int]) -> IntArray:
    column = case.table.labels(name)
    return np.flatnonzero(np.isin(column.values, codes) & ~column.missing)


# --- Features

SAME = 1.0 - 1e-9
TELLS = 0.999
"""A correlation with the reward, or a chance to tell last rows from others, that is worth a warning."""
FEWEST_EPISODES = 20
WILD = 10.0
"""Standard deviation over that of the middle half, from which on a feature is called wildly scaled."""
FEW_VALUES = (3, 12)

FEATURE_CHECKS = Checks[Case]()


@FEATURE_CHECKS.add("DW711", "warning", "Features that are constant")
def _constant(case: Case) -> Found | None:
    x = case.features
    return _about(
        case,
        (x == x[0]).all(axis=0) if len(x) > 1 else np.zeros(x.shape[1], dtype=bool),
        "the same value in every row",
        "Leave it out: it tells no state from another.",
    )


@FEATURE_CHECKS.add("DW712", "warning", "Features that say the same")
def _duplicated(case: Case) -> Found | None:
    x = case.features
    z = _standardised(x)
    likeness = np.abs(z.T @ z) / len(z)
    twins = np.argwhere(np.triu(likeness > SAME, 1))
    if not twins.size:
        return None
    names = case.log.feature_names
    first, second = (names[i] for i in twins[0])
    return Found(
        f"Features {show(first)} and {show(second)} say the same, up to scale"
        + (f" ({len(twins) - 1} more such pairs)." if len(twins) > 1 else "."),
        "Keep one of them: twice the same weighs twice in distances between states.",
    )


@FEATURE_CHECKS.add("DW713", "warning", "Features that know the reward")
def _leaks_reward(case: Case) -> Found | None:
    log, x = case.log, case.features
    if log.n_episodes < FEWEST_EPISODES:
        return None
    starts = x[log.offsets[:-1]]
    steady = (x == np.repeat(starts, log.lengths, axis=0)).all(axis=0)
    known = (_correlations(x, log.rewards) > TELLS) | (
        steady & (_correlations(starts, case.returns) > TELLS) & bool(log.horizon > 1)
    )
    return _about(
        case,
        known,
        "the reward itself, or the return of the episode, up to scale",
        "If it was written down after the action, as an outcome is, leave it out: nothing known only "
        "afterwards describes a state. If the reward is paid for the state as it was before, all is well.",
    )


@FEATURE_CHECKS.add("DW714", "warning", "Features that know the end")
def _leaks_end(case: Case) -> Found | None:
    log, x = case.log, case.features
    if log.n_episodes < FEWEST_EPISODES or log.lengths.min() == log.horizon:
        return None
    last = np.zeros(log.n_steps, dtype=bool)
    last[log.offsets[1:] - 1] = True
    return _about(
        case,
        np.array([_tells_apart(column, last) for column in x.T]),
        "a different value on the last row of an episode than on nearly all others",
        "If it was made by looking ahead (steps left, length of the episode, a flag of the end), leave it "
        "out. If the task ends where this value is reached, all is well.",
    )


@FEATURE_CHECKS.add("DW715", "warning", "Features that are wildly scaled")
def _wildly_scaled(case: Case) -> Found | None:
    x = case.features
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    middle = (high - low) / 1.35  # the standard deviation, were it a normal distribution
    wild = (middle > 0) & (x.std(axis=0) > WILD * middle)
    if not wild.any():
        return None
    j = int(np.flatnonzero(wild)[0])
    return _about(
        case,
        wild,
        f"a few values far from all others (from {x[:, j].min():.6g} to {x[:, j].max():.6g}, half of them "
        f"between {low[j]:.6g} and {high[j]:.6g})",
        "Correct codes for nothing such as -999, and take logarithms of amounts: features are measured in "
        "standard deviations, and next to such rows all others look alike.",
    )


@FEATURE_CHECKS.add("DW716", "info", "Features that may be names")
def _category(case: Case) -> Found | None:
    x = case.features
    few = np.zeros(x.shape[1], dtype=bool)
    for j, column in enumerate(x.T):
        if (column == np.round(column)).all():
            few[j] = FEW_VALUES[0] <= len(np.unique(column)) <= FEW_VALUES[1]
    return _about(
        case,
        few,
        f"{FEW_VALUES[0]} to {FEW_VALUES[1]} different whole numbers and nothing else",
        "If the numbers are names (a ward, a device), write a column of 0 and 1 for each; if they are "
        "amounts or grades, all is well.",
    )


def _about(case: Case, which: BoolArray, holds: str, fix: str) -> Found | None:
    """A sentence about the features that are concerned."""
    if not which.any():
        return None
    names = list(case.log.feature_names)
    several = int(which.sum()) > 1
    return Found(f"Feature{'s' * several} {named(names, which)} hold{'s' * (not several)} {holds}.", fix)


def _standardised(x: FloatArray) -> FloatArray:
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0, spread, np.inf))


def _correlations(x: FloatArray, y: FloatArray) -> FloatArray:
    """(d,) absolute correlation of each column with y; 0 where one of the two is constant."""
    return np.abs(_standardised(x).T @ _standardised(y[:, None])[:, 0]) / len(y)


def _tells_apart(column: FloatArray, flag: BoolArray) -> bool:
    """Whether values of flagged rows are nearly always above, or nearly always below, those of the others."""
    from scipy.stats import rankdata

    inside = int(flag.sum())
    above = rankdata(column)[flag].sum() - inside * (inside + 1) / 2
    chance = above / (inside * (len(flag) - inside))
    return bool(max(chance, 1.0 - chance) > TELLS)
