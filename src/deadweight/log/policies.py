"""Policies: tables of probabilities by state, probabilities row by row of a log, and functions of features.

A table has labels of its own or plain row numbers. A policy row by row belongs to one log, in the order of
the table that the log was read from; a function of features becomes one on a log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import PolicyError, how_many
from deadweight.log.columns import check_log_probabilities, first_odd_row
from deadweight.log.labels import as_column, joined, objects, plain
from deadweight.log.trajectories import TableRows, Trajectories, places, places_among
from deadweight.tools.arithmetic import frozen, real, unmasked
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

ROW_SUM_TOLERANCE = 1e-6
PER_CENT = 100.0
# Rows that are printed.
SHOWN = 5
# A function of features is called with at most so many rows at a time.
MOST_ROWS = 65_536
ONE_BY_ONE = "With a function f of a single row: lambda X: [f(x) for x in X]."


class TabularPolicy:
    """A policy as a table of probabilities.

    Args:
      probs: (S, A), one row a state, rows summing to 1.
      states, actions: labels of the rows and columns; without them row i is state index i.
      trained_on: fingerprint of the log that the policy was learnt from, by which an evaluation on that same
        log can tell; `deadweight.improve` sets it.

    Example:
      >>> TabularPolicy([[0.2, 0.8], [1.0, 0.0]], actions=["wait", "treat"])
      TabularPolicy(2 states, 2 actions)
    """

    def __init__(
        self,
        probs: npt.ArrayLike,
        states: Sequence[Any] | None = None,
        actions: Sequence[Any] | None = None,
        trained_on: str | None = None,
    ) -> None:
        table = check_table(probs)
        self.state_labels = check_names(states, table.shape[0], "states")
        self.action_labels = check_names(actions, table.shape[1], "actions")
        labels = range(len(table)) if self.state_labels is None else self.state_labels
        check_distributions(table, lambda row: f"state {plain(labels[row])}", self.action_labels)
        table.flags.writeable = False
        self.probs: FloatArray = table
        self.source: str | None = None
        self.trained_on = trained_on

    @property
    def n_states(self) -> int:
        """Number of rows."""
        return int(self.probs.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of columns."""
        return int(self.probs.shape[1])

    def __repr__(self) -> str:
        return f"TabularPolicy({self.n_states:,} states, {self.n_actions:,} actions)"

    def __str__(self) -> str:
        labels = range(self.n_states) if self.state_labels is None else self.state_labels
        names = [f"state {plain(label)!r}" for label in labels[:SHOWN]]
        return shown(self, names, self.probs, self.action_labels, self.source)


def shown(
    policy: object, names: Sequence[str], probs: FloatArray, actions: Labels | None, source: str | None
) -> str:
    """The first rows of a policy, without actions that it does not take, and where it comes from."""
    labels = range(probs.shape[1]) if actions is None else [plain(label) for label in actions]
    lines = [f"{policy!r}" + (f", from {source}" if source else "")]
    for name, row in zip(names, probs, strict=False):
        taken = [f"{label} {p:.4g}" for label, p in zip(labels, row, strict=True) if p > 0]
        lines.append(f"  {name}: {', '.join(taken)}")
    return "\n".join(lines + (["  ..."] if len(probs) > len(names) else []))


def check_distributions(table: FloatArray, where: Callable[[int], str], actions: Labels | None) -> None:
    """Refuse a table in which a row is no distribution over actions; `where` says what a row is."""
    fine = (table >= 0) & (table < np.inf)
    if not fine.all():
        row, column = (int(i) for i in np.argwhere(~fine)[0])
        action = column if actions is None else plain(actions[column])
        raise PolicyError(
            f"Probabilities must be finite numbers of at least 0; found {table[row, column]} in "
            f"{where(row)}, action {action}.",
            fix="Correct the table; each row is a distribution over actions.",
        )
    sums = table.sum(axis=1)
    within = np.abs(sums - 1) <= ROW_SUM_TOLERANCE
    if not within.all():
        off = np.flatnonzero(~within)
        raise PolicyError(
            f"Each row of a policy must sum to 1; {where(int(off[0]))} sums to "
            f"{sums[off[0]]:.6g} ({off.size} of {len(sums)} rows are off).",
            fix="They look like percentages: divide them by 100."
            if (np.abs(sums - PER_CENT) <= PER_CENT * ROW_SUM_TOLERANCE).all()
            else "Make the probabilities of every state (a row of an array) sum to 1.",
        )


def frequencies(counts: npt.NDArray[Any]) -> FloatArray:
    """Rows divided by their sums, uniform where a row is empty."""
    totals = counts.sum(axis=1, keepdims=True)
    shares: FloatArray = np.where(totals > 0, counts / np.where(totals > 0, totals, 1), 1.0 / counts.shape[1])
    return shares


def check_table(probs: npt.ArrayLike) -> FloatArray:
    """The table as numbers; an error where it is none, or one of log-probabilities."""
    try:
        table = real(getattr(probs, "probs", probs))
    except (TypeError, ValueError):
        raise PolicyError(
            "A policy must be an (S, A) table of numbers; found something else.",
            fix="For example [[0.5, 0.5], [0.2, 0.8]]: two states, two actions.",
        ) from None
    if table.ndim != 2 or 0 in table.shape:
        raise PolicyError(
            f"A policy must be a table of shape (states, actions); found shape {table.shape}.",
            fix="Stack one row of action probabilities for each state.",
        )
    check_log_probabilities(table.ravel(), "A policy", PolicyError)
    return table


def check_names(labels: Sequence[Any] | None, size: int, what: str) -> Labels | None:
    """One label for each row or column, none twice."""
    if labels is None:
        return None
    names = [plain(label) for label in labels]
    if len(names) != size or len(set(names)) != size:
        raise PolicyError(
            f"{what} must name each of the {size} {what} of the table once; found {len(names)} names, "
            f"{len(set(names))} of them different.",
            fix=f"Pass one label for each of the {size} {what}.",
        )
    return np.asarray(frozen(objects(names)))


class RowPolicy:
    """A policy as probabilities for the rows of one log, and of no other.

    Rows are in the order of the table that the log was read from, however `read` has sorted its steps
    (`log.rows` says how); where there is no table, in the order of the log. For some of the episodes
    (`log.select`) they are all rows of the table, or those that were selected, in the order of the table.
    What the library makes (`dw.policy`, `FeaturePolicy.on`, `fit_behaviour`, `log.policies`) has that order.

    Args:
      probs: (steps, A), rows summing to 1.
      actions: labels of the columns; None takes the names of a frame's columns, and without those column j is
        the log's action number j.
      last: (n, A) what the policy does after the last step of each episode, for episodes that were cut; a row
        of NaN where nobody knows. None: nobody knows for any. Episodes are in the order of the log, in which
        `read` has sorted them by their ids.

    Example:
      >>> RowPolicy([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]], actions=["wait", "treat"])
      RowPolicy(3 rows, 2 actions)
    """

    def __init__(
        self,
        probs: npt.ArrayLike,
        actions: Sequence[Any] | None = None,
        last: npt.ArrayLike | None = None,
    ) -> None:
        table = check_table(probs)
        names = column_names(probs) if actions is None else actions
        self.action_labels = check_names(names, table.shape[1], "actions")
        check_distributions(table, lambda row: f"row {row}", self.action_labels)
        table.flags.writeable = False
        self.probs: FloatArray = table
        self.last = None if last is None else self._check_last(last)
        self.source: str | None = None
        self._of: TableRows | None = None

    def _check_last(self, last: npt.ArrayLike) -> FloatArray:
        table = check_table(last)
        if table.shape[1] != self.n_actions:
            raise PolicyError(
                f"last must have a column for each of the {self.n_actions} actions of probs; found shape "
                f"{table.shape}.",
                fix="Give one row of probabilities for each episode, in the order of the columns of probs.",
            )
        known = np.flatnonzero(~np.isnan(table).all(axis=1))
        check_distributions(
            table[known], lambda row: f"what follows episode {known[row]}", self.action_labels
        )
        table.flags.writeable = False
        return table

    @property
    def n_rows(self) -> int:
        """Number of rows: the steps of its log."""
        return int(self.probs.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of columns."""
        return int(self.probs.shape[1])

    def known_last(self, n_episodes: int) -> BoolArray:
        """(n,) where it is known what the policy does after an episode."""
        if self.last is None:
            return np.zeros(n_episodes, dtype=bool)
        return np.asarray(~np.isnan(self.last).any(axis=1))

    def made_for(self, of: TableRows | None) -> RowPolicy:
        """This policy, knowing the rows of a table that its own rows stand for."""
        policy = copy(self)
        policy._of = of
        return policy

    def select(self, rows: IntArray, episodes: IntArray) -> RowPolicy:
        """The policy of some rows and episodes, by their numbers in this policy's own order."""
        policy = self.made_for(None if self._of is None else self._of.select(rows, episodes))
        policy.probs = frozen(self.probs[rows])
        policy.last = None if self.last is None else frozen(self.last[episodes])
        return policy

    def in_table_order(self) -> RowPolicy:
        """The policy as its user has it; as it is where it does not know the rows of a table."""
        return self if self._of is None else self.select(*self._of.order)

    def in_order_of(self, log: Trajectories, name: str = "A RowPolicy") -> RowPolicy:
        """The policy in the order of a log's steps; an error that calls it `name` where it does not fit."""
        table, order = log._table_rows, log.order_of_rows
        if table is not None and self._of is not None:
            rows = places_among(table.rows, self._of.rows)
            episodes = places_among(table.episodes, self._of.episodes)
            misfit = PolicyError(
                f"{name} was made for other rows of the table than those of this log.",
                fix="Make it for this log, or for the log that has all rows of the table.",
            )
        else:
            rows = places(order.rows, order.n_rows, self.n_rows)
            lasting = order.n_episodes if self.last is None else len(self.last)
            episodes = places(order.episodes, order.n_episodes, lasting)
            misfit = self._misfit(order, name)
        if rows is None or episodes is None:
            raise misfit
        return self.select(rows, episodes).made_for(table)

    def _misfit(self, order: TableRows, name: str) -> PolicyError:
        needed, given = f"a row for each of the {len(order.rows):,} steps of the log", f"{self.n_rows:,}"
        if order.n_rows != len(order.rows):
            needed += f", or for each of the {order.n_rows:,} rows of the table that it was read from"
        if self.last is not None:
            needed += f", and in `last` one for each of its {len(order.episodes):,} episodes"
            given += f", and {len(self.last):,} in `last`"
        return PolicyError(
            f"{name} must have {needed}; found {given}.",
            fix="A RowPolicy belongs to one log: make it again after rows were left out. Its rows are in the "
            "order of the table that the log was read from.",
        )

    def __repr__(self) -> str:
        return f"RowPolicy({self.n_rows:,} rows, {self.n_actions:,} actions)"

    def __str__(self) -> str:
        rows = np.arange(self.n_rows) if self._of is None else self._of.rows
        names = [f"row {row}" for row in rows[:SHOWN]]
        return shown(self, names, self.probs, self.action_labels, self.source)


class FeaturePolicy:
    """A policy as a function of features.

    Args:
      f: a function from (m, d) features to (m, A) probabilities, or to (m,) labels of actions; it is called
        with at most 65,536 rows at a time.
      actions: labels of the columns that f returns; None takes the names of the columns if f returns a frame,
        and else column j is the log's action number j.

    Example:
      >>> def careful(x):
      ...     p = 1 / (1 + np.exp(-x[:, 0]))
      ...     return np.stack([1 - p, p], axis=1)
      >>> log = Trajectories(None, [0, 1], [0.0, 1.0], [0, 2], features=[[0.0], [2.0]])
      >>> FeaturePolicy(careful).on(log).probs.round(3)
      array([[0.5  , 0.5  ],
             [0.119, 0.881]])
    """

    def __init__(self, f: Callable[[FloatArray], Any], actions: Sequence[Any] | None = None) -> None:
        if not callable(f):
            raise PolicyError(
                f"A FeaturePolicy needs a function of features; found {type(f).__name__}.",
                fix="Pass a function from (m, d) features to (m, A) probabilities; probabilities that are "
                "there already are a RowPolicy.",
            )
        self.f = f
        self.actions = None if actions is None else list(actions)

    def __repr__(self) -> str:
        name = getattr(self.f, "__name__", type(self.f).__name__)
        return f"FeaturePolicy({name})"

    def on(self, log: Trajectories) -> RowPolicy:
        """The probabilities for the rows of a log, in the order of the table that it was read from."""
        if log.features is None or log.last_features is None:
            raise PolicyError(
                f"{self!r} needs features; this log has labels of states only.",
                fix="Give the log features (Trajectories(..., features=X)), or pass a policy over its "
                "states: a TabularPolicy, a dict, or a function of one state.",
            )
        x, after = log.features, log.last_features
        names: list[Any] = []  # of the columns, where f returns a frame: the same ones for all rows
        blocks = [
            self._block(x[lo : lo + MOST_ROWS], log, lo, names) for lo in range(0, log.n_steps, MOST_ROWS)
        ]
        known = np.flatnonzero(np.isfinite(after).all(axis=1) & ~log.terminated)
        cuts = [known[lo : lo + MOST_ROWS] for lo in range(0, known.size, MOST_ROWS)]
        blocks += [self._block(after[cut], log, None, names) for cut in cuts]
        actions, table = _joined(blocks, self.actions or names or None, log)
        last = np.full((log.n_episodes, table.shape[1]), np.nan)
        last[known] = table[log.n_steps :]
        policy = RowPolicy(table[: log.n_steps], actions, last if known.size else None)
        return policy.made_for(log._table_rows).in_table_order()

    def _block(self, x: FloatArray, log: Trajectories, first: int | None, names: list[Any]) -> AnyArray:
        """What f says of some rows, from row `first` on; None for what follows cut episodes.

        `names`: those of the columns so far; written to by the first answer that has some.
        """
        where = "what follows cut episodes" if first is None else _rows(log, first, len(x))
        try:
            returned = self.f(x.copy())  # it may write to what it is given
        except Exception as error:
            raise PolicyError(
                f"{self!r} failed on {where}{self._culprit(x, log, first)}: {type(error).__name__}: "
                f"{str(error).rstrip('.')}.",
                fix=f"It gets a matrix of features, one row for each step. {ONE_BY_ONE}",
            ) from error
        try:
            answer = as_numpy(returned)
        except ValueError:  # rows of different lengths
            width, odd, length = first_odd_row(returned)
            raise PolicyError(
                f"{self!r} must return as many columns for every row; for {where} the first row has {width} "
                f"and row number {odd} of them has {length}.",
                fix="Return a probability for each action in every row, 0 for one that is never taken.",
            ) from None
        if answer.ndim not in (1, 2) or len(answer) != len(x):
            raise PolicyError(
                f"{self!r} must return (m, A) probabilities or (m,) actions for (m, d) features; for "
                f"{where}, of shape {x.shape}, it returned shape {answer.shape}.",
                fix=f"Return one row for each row of features. {ONE_BY_ONE}",
            )
        at = (lambda row: where) if first is None else (lambda row: _row(log, first + row))
        if answer.ndim == 1:
            self._check_chosen(answer, at)
            return answer
        answer = self._in_order(answer, column_names(returned), log, names, where)
        self._check_width(answer, log, names)
        answer = self._as_numbers(answer, where)
        if first is not None:
            labels = objects(self.actions or names) if self.actions or names else log.action_labels
            check_distributions(answer, at, labels)
        return answer

    def _check_chosen(self, chosen: AnyArray, where: Callable[[int], str]) -> None:
        """Refuse rows without an action, and what cannot be one."""
        for row, label in enumerate(chosen.tolist()):
            if label is None or label != label or isinstance(label, dict | list | set):
                raise PolicyError(
                    f"{self!r} must return an action for each row, or (m, A) probabilities; found {label!r} "
                    f"in {where(row)}.",
                    fix="Return the label of an action in every row, or a column of probabilities for each.",
                )

    def _in_order(
        self, answer: AnyArray, labels: list[Any] | None, log: Trajectories, names: list[Any], where: str
    ) -> AnyArray:
        """The columns, so labelled, in one order for all rows: that of `actions`, or of the first frame."""
        if labels is None:
            return answer
        labels = _as_written(labels, log.action_labels.tolist() if self.actions is None else self.actions)
        if self.actions is None and not names:
            names.extend(labels)
        wanted = self.actions or names
        if self.actions is None and set(labels) != set(wanted):
            raise PolicyError(
                f"{self!r} must return the same columns for all rows; it returned "
                f"{', '.join(map(str, labels))} for {where} and {', '.join(map(str, wanted))} before.",
                fix="Return a column for each action every time.",
            )
        return answer[:, [labels.index(name) for name in wanted]] if set(labels) == set(wanted) else answer

    def _check_width(self, answer: AnyArray, log: Trajectories, names: list[Any]) -> None:
        """Refuse columns of which nobody knows the actions."""
        width = answer.shape[1]
        if self.actions is None and not names and width != log.n_actions:
            raise PolicyError(
                f"The log has {how_many(log.n_actions, 'action')}, and {self!r} returned "
                f"{how_many(width, 'column')} without names.",
                fix="Name its columns: FeaturePolicy(f, actions=[...]).",
            )
        if self.actions is not None and width != len(self.actions):
            raise PolicyError(
                f"{self!r} has {how_many(len(self.actions), 'action')} and returned "
                f"{how_many(width, 'column')}.",
                fix="Return a column for each of its actions, in their order.",
            )

    def _as_numbers(self, answer: AnyArray, where: str) -> FloatArray:
        try:
            return real(answer)
        except (TypeError, ValueError):
            raise PolicyError(
                f"{self!r} must return probabilities, one column for each action; for {where} it returned "
                f"{plain(answer.flat[0])!r} in its first cell.",
                fix="Return numbers from 0 to 1; a function that chooses returns one action for each row.",
            ) from None

    def _culprit(self, x: FloatArray, log: Trajectories, first: int | None) -> str:
        """Which row it fails on, where a single one makes it fail."""
        if first is None:
            return ""
        low, high = 0, len(x)
        while high - low > 1:  # halves, as long as one of them fails by itself
            middle = (low + high) // 2
            halves = [half for half in ((low, middle), (middle, high)) if self._fails(x[slice(*half)])]
            if not halves:
                return ""
            low, high = halves[0]
        return f", in {log.where(first + low)}"

    def _fails(self, x: FloatArray) -> bool:
        try:
            self.f(x.copy())
        except Exception:
            return True
        return False


def as_numpy(returned: Any) -> AnyArray:
    """What a function returned, as an array, labels as they are; a tensor with gradients lets go of them."""
    if hasattr(returned, "detach"):
        returned = returned.detach().cpu().numpy()
    array = np.asarray(unmasked(returned))
    return as_column(returned, "action") if array.ndim == 1 and isinstance(returned, list | tuple) else array


def classes_of(model: Any, name: str) -> list[Any]:
    """The actions that the columns of a model's `predict_proba` are; `name` is what messages call it."""
    if not hasattr(model, "classes_"):
        raise PolicyError(
            f"{name} has predict_proba and no classes_: {type(model).__name__} does not say which column is "
            "which action.",
            fix="Fit it first, or pass deadweight.FeaturePolicy(model.predict_proba, actions=[...]).",
        )
    classes = model.classes_
    if not isinstance(classes, np.ndarray) and any(np.ndim(label) for label in classes):
        raise PolicyError(
            f"{name} is a classifier ({type(model).__name__}) of {len(classes)} outputs; a policy has one, "
            "the action.",
            fix="Fit it to one column of actions, or pass deadweight.FeaturePolicy(f, actions=[...]).",
        )
    # numpy would make text of the numbers in a list of both, and cut zero characters off the end of text
    return [plain(label) for label in (classes if isinstance(classes, list | tuple) else as_numpy(classes))]


def column_names(table: Any) -> list[Any] | None:
    """The names of a frame's columns; None of an array, and of a frame that merely numbers its columns."""
    given = getattr(table, "column_names", getattr(table, "columns", None))  # the former in pyarrow
    if given is None or callable(given) or not hasattr(table, "shape"):
        return None
    names = [plain(name) for name in given]
    return None if names in ([*range(len(names))], [f"column_{j}" for j in range(len(names))]) else names


def _as_written(names: Sequence[Any], actions: Sequence[Any]) -> list[Any]:
    """Names of columns as the labels that they stand for; some frames have no names but text."""
    meant = {str(action): plain(action) for action in actions}
    return [meant.get(name, name) if isinstance(name, str) else name for name in names]


def _joined(
    blocks: Sequence[AnyArray], actions: Sequence[Any] | None, log: Trajectories
) -> tuple[Sequence[Any] | None, AnyArray]:
    """All blocks as one table of probabilities, with the labels of its columns."""
    if len({block.ndim for block in blocks}) > 1:
        raise PolicyError(
            "The policy returned probabilities for some rows and one action a row for others.",
            fix="Return the same kind for all rows.",
        )
    if blocks[0].ndim == 2:
        return actions, np.concatenate(blocks)
    # One label a row: probability 1 for the chosen action. Actions that the log lacks are kept.
    known = list(dict.fromkeys([*(log.action_labels.tolist() if actions is None else actions)]))
    index = {label: j for j, label in enumerate(known)}
    codes = [index.setdefault(label, len(index)) for label in joined(blocks).tolist()]
    table: FloatArray = np.zeros((len(codes), len(index)))
    table[np.arange(len(codes)), codes] = 1.0
    return list(index), table


def _rows(log: Trajectories, first: int, count: int) -> str:
    kind = "rows" if log.rows is None else "steps"  # those of a table may stand anywhere in it
    return f"{kind} {first:,} to {first + count - 1:,}"


def _row(log: Trajectories, step: int) -> str:
    return f"row {step if log.rows is None else log.rows[step]}"
