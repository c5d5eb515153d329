"""Improvement: a policy that changes the old one where that pays, as data: a list that can be vetoed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from deadweight._version import SCHEMA
from deadweight.errors import OptionError, first_few
from deadweight.log.labels import plain, visible
from deadweight.log.policies import TabularPolicy
from deadweight.results.saved import Result, absent, finite, json_label, saved
from deadweight.results.shown import frame, html_table, new_figure
from deadweight.typing import FloatArray, Labels

if TYPE_CHECKING:
    from deadweight.results.evaluation import Evaluation

ROW = 0.3  # inches
MOST_PLOTTED = 40
HEADINGS = ("state", "do", "instead of", "worth, each visit", "seen")


@saved
@dataclass(frozen=True)
class Change:
    """An action that is taken in a state instead of what was done there.

    Attributes:
      state: its label.
      old: what was done: action -> probability.
      new: the action to take instead.
      gain: what that is worth in one visit of the state.
      std_error: of the gain.
      visits: how often the log has this action in this state.

    Example:
      >>> change = Change("icu", {"wait": 0.75, "treat": 0.25}, "treat", 0.8, 0.25, 412)
      >>> print(change)
      in state icu do treat instead of wait (75%): worth +0.80 ± 0.25 for each visit, seen 412 times
      >>> change["gain"]
      0.8
    """

    state: Any
    old: Mapping[Any, float]
    new: Any
    gain: float
    std_error: float
    visits: int

    def __getitem__(self, name: str) -> Any:
        if name not in COLUMNS:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> list[str]:
        """Names of the fields: a change is a mapping as well."""
        return list(COLUMNS)

    @property
    def instead_of(self) -> str:
        """The actions that were taken and their shares, the most frequent first."""
        others = sorted(
            ((share, str(action)) for action, share in self.old.items() if action != self.new), reverse=True
        )
        return ", ".join(f"{visible(action)} ({share:.0%})" for share, action in others[:3])

    def __str__(self) -> str:
        return (
            f"in state {visible(str(self.state))} do {visible(str(self.new))} instead of {self.instead_of}: "
            f"worth {self.gain:+.2f} ± {self.std_error:.2f} for each visit, seen {self.visits:,} times"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "state": json_label(self.state),
            "old": {str(action): finite(share) for action, share in self.old.items()},
            "new": json_label(self.new),
            "gain": finite(self.gain),
            "std_error": finite(self.std_error),
            "visits": self.visits,
        }


COLUMNS = tuple(column.name for column in fields(Change))
# Two estimates that are further apart, in standard errors of their difference, do not differ by chance.
MOST_APART = 3.0


@saved
@dataclass(frozen=True)
class Gate:
    """The gain of the changes on episodes that they were not learnt from.

    Attributes:
      kind: "halves": learnt on one half and judged on the other, both ways and several times; "strict": the
        policy itself, learnt on one half and judged on the other; "none": judged on its own episodes.
      gain: what they gained, an episode.
      std_error: of the gain.
      lower: what they gained at least, with the confidence `level`; the gate is open if that is above 0.
      upper: what they gained at most, with the same confidence.
      level: of confidence, of each end by itself.
      by_half: the gain on each half.
      changed: how many states were changed by what each half was judged by.
      linear: the gain by LIN, which sees what an action does many steps later; NaN in files of old versions.
      linear_lower: what that is at least, with the confidence `level`.
      apart: LIN's gain less `gain`, in standard errors of their difference.
    """

    kind: str
    gain: float
    std_error: float
    lower: float
    upper: float
    level: float
    by_half: tuple[float, ...]
    changed: tuple[int, ...]
    linear: float = math.nan
    linear_lower: float = math.nan
    apart: float = math.nan

    @property
    def is_open(self) -> bool:
        """Whether the gain is above 0 with the confidence that was asked for, and LIN does not object."""
        return self.lower > 0.0 and not self.vetoed

    @property
    def vetoed(self) -> bool:
        """Whether LIN says something else, by more than chance, and is not sure of a gain."""
        return abs(self.apart) > MOST_APART and not self.linear_lower > 0.0


@saved
@dataclass(frozen=True, eq=False)
class PolicyTable:
    """A policy as data; see `deadweight.TabularPolicy`."""

    probs: FloatArray
    states: Labels | None
    actions: Labels | None
    trained_on: str | None = None

    @classmethod
    def of(cls, policy: TabularPolicy) -> PolicyTable:
        """The table of a policy."""
        return cls(policy.probs, policy.state_labels, policy.action_labels, policy.trained_on)

    @property
    def policy(self) -> TabularPolicy:
        """The policy of a table."""
        states, actions = (None if labels is None else list(labels) for labels in (self.states, self.actions))
        return TabularPolicy(self.probs, states, actions, self.trained_on)


@saved
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Improvement(Result):
    """A better policy, or the old one.

    Attributes:
      answer: "improved" or "no change".
      table: the policy that `policy` gives.
      changes: what it does otherwise than the behaviour policy, the most valuable first.
      gain: what it gains, an episode, as the gate found; 0 on "no change". With the gate "halves" it is what
        policies gained that were learnt from half of the log.
      interval: of the gain of what `interval_about` says, with the confidence `level` for both ends together.
        It may reach below 0 where the gate is open: the gate is about the lower end alone.
      reasons: sentences that a reader without statistics can follow.
      next_step: one sentence on what to do now or, on "no change", what it would take to be sure.
      considered: changes that were learnt from the whole log, whether they are made or not.
      gate: how such changes did on unseen episodes; None where there was nothing to judge.
      n_episodes, n_states: size of the log; states that it visits.
      settings: what the policy was learnt with.
      evaluation: of the policy on the log. It is absent if `evaluation=False` was passed.

    Example:
      >>> from deadweight.domains import stochastic_lift
      >>> import deadweight as dw
      >>> lift = stochastic_lift(7)
      >>> imp = dw.improve(lift.sample(1000, seed=0), lift.pi_b)
      >>> imp.answer, [change.state for change in imp.changes]
      ('improved', [2, 4, 0])
    """

    answer: str
    table: PolicyTable
    changes: list[Change]
    gain: float
    interval: tuple[float, float]
    reasons: tuple[str, ...]
    next_step: str
    considered: list[Change]
    gate: Gate | None
    n_episodes: int
    n_states: int
    settings: dict[str, Any]
    evaluation: Evaluation = field(default_factory=absent)

    ASK: ClassVar[Mapping[str, str]] = {"evaluation": "Ask for it: improve(..., evaluation=True)."}

    @cached_property
    def policy(self) -> TabularPolicy:
        """The policy to ship: on "no change" the behaviour policy."""
        return self.table.policy

    def veto(self, states: Iterable[Any]) -> TabularPolicy:
        """The policy without the changes in these states, in which the behaviour policy stays.

        What is left of the gain is not known: the gate has judged all changes together.

        >>> from deadweight.domains import stochastic_lift
        >>> import deadweight as dw
        >>> lift = stochastic_lift(7)
        >>> imp = dw.improve(lift.sample(1000, seed=0), lift.pi_b, evaluation=False)
        >>> imp.policy.probs[2], imp.veto([2]).probs[2]
        (array([0., 1.]), array([0.5, 0.5]))
        """
        changes = {change.state: change for change in self.changes}
        probs = self.policy.probs.copy()
        # A policy that was learnt here names its states and actions.
        rows, columns = (
            [] if labels is None else [plain(label) for label in labels]
            for labels in (self.table.states, self.table.actions)
        )
        for state in states:
            if state not in changes:
                raise OptionError(
                    f"There is no change in state {state!r} to veto.",
                    fix=f"Changed: {first_few(changes) or 'nothing'}.",
                )
            probs[rows.index(state)] = [changes[state].old.get(action, 0.0) for action in columns]
        return replace(self.table, probs=probs).policy

    @property
    def interval_about(self) -> str:
        """The policy whose gain `interval` is of, in words."""
        kind = "none" if self.gate is None or self.answer != "improved" else self.gate.kind
        if kind != "none":
            return "the policy that is shipped"
        return "nothing" if self.answer != "improved" else "the episodes that the policy was learnt from"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The reasons and the next step."""
        return (*self.reasons, self.next_step)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "schema": SCHEMA,
            "answer": self.answer,
            "gain": finite(self.gain),
            "interval": [finite(end) for end in self.interval],
            "interval_about": self.interval_about,
            "changes": [change.to_dict() for change in self.changes],
            "reasons": list(self.reasons),
            "next_step": self.next_step,
            "considered": [change.to_dict() for change in self.considered],
            "settings": dict(self.settings),
        }

    def to_frame(self, library: str | None = None) -> Any:
        """One row a change, in pandas, polars or pyarrow; by default whichever the program uses."""
        rows = [{name: change[name] for name in COLUMNS} for change in self.changes]
        return frame(rows, COLUMNS, library)

    def report(self, path: str | Path, title: str | None = None, reward: str | None = None) -> Path:
        """Write the list of changes with its reasons, one self-contained HTML file.

        Args:
          path: where it goes.
          title: its heading.
          reward: what the reward is, in words, such as "euros a visit"; it is put beside the values.
        """
        from deadweight.report import render_improvement, write_page

        return write_page(render_improvement(self, title, reward), path)

    def plot(self) -> Any:
        """The changes with two standard errors either side as a matplotlib figure, the first at the top."""
        shown = (self.changes or self.considered)[:MOST_PLOTTED]
        figure = new_figure("The figure of an improvement", 7, 1.2 + ROW * max(len(shown), 1))
        axes = figure.subplots()
        for place, change in enumerate(shown):
            ends = [change.gain - 2 * change.std_error, change.gain + 2 * change.std_error]
            axes.plot(ends, [place, place], color="C0", linewidth=1)
            axes.plot(change.gain, place, "o", color="C0", markeredgecolor="white")
        axes.axvline(0.0, color="grey", linestyle=":")
        labels = [f"{visible(str(change.state))}: {visible(str(change.new))}" for change in shown]
        axes.set_yticks(range(len(shown)), labels)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        about = "" if self.changes else " (considered, not made)"
        axes.set_xlabel(f"gain in one visit{about}, with two standard errors either side")
        return figure

    def _repr_html_(self) -> str:
        rows = [
            (
                *(str(change.state), str(change.new), change.instead_of),
                *(f"{change.gain:+.4g} ± {change.std_error:.2g}", f"{change.visits:,}"),
            )
            for change in self.changes
        ]
        return html_table(HEADINGS, rows, f"Answer: {self.answer}", self.sentences)

    def __repr__(self) -> str:
        ends = f"[{self.interval[0]:+.4g}, {self.interval[1]:+.4g}]"
        changed = f"{len(self.changes)} states changed"
        return f"Improvement({self.answer}; {changed}; gain {self.gain:+.4g}, {ends})"

    def __str__(self) -> str:
        lines = [f"Answer: {self.answer}.", *self.reasons]
        if self.changes:
            lines += ["", *(f"- {change}" for change in self.changes)]
        return "\n".join([*lines, "", self.next_step])
