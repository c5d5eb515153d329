r"""What each state costs in variance, what dropping it costs in bias, and which actions the log never shows.

A state is worth dropping when its variance cost is high and its bias small. The variance cost is by how much
dropping the state alone shrinks the second moment of the weight,

.. math:: c(s) = \log E[B^2] - \log E[B^2 \text{ with } s \text{ dropped}], \qquad
   u_t(s) = \sum_a \pi_b(a|s) k(s, a)^2 \sum_{s'} P(s'|s, a) u_{t+1}(s')

with u = 1 at the end and E[B^2] = sum_s d0(s) u_0(s), by dynamic programming in the fitted model. It ranks
states nearly perfectly; decompositions of the logged weights fail on heavy tails.

The bias of a drop D is the sum of its states' contributions

.. math:: -\sum_t \gamma^t d_t(s) \, \delta_t(s), \qquad
   \delta_t(s) = \sum_a (\pi_e(a|s) - \pi_b(a|s)) \, Q_t(s, a)

with d_t the state distribution of mu_D, the policy equal to pi_b in D and to pi_e elsewhere: exactly the
model's V(mu_D) - V(pi_e). For a state that is not dropped it is what it would add, to first order.

Support is about actions of pi_e in visited states in which they were never logged. Importance weights cannot
correct for what was never tried: its effect is unknown, and estimates leave that probability out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.estimators.estimator import estimator_of
from deadweight.log.columns import require_labels
from deadweight.log.interface import LogLike, in_memory
from deadweight.log.labels import plain, visible
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP, average_actions, chain_table
from deadweight.negligible.rules import states_by_rule
from deadweight.question.asked import read_options
from deadweight.question.drops import Drop, drop_of
from deadweight.question.question import Policy, Question, ask
from deadweight.results.saved import saved
from deadweight.results.shown import frame, html_table, key_beside, new_figure, text_table
from deadweight.tools.arithmetic import freeze_fields, sums_by, table_number
from deadweight.tools.limits import one_blas_thread
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.until_end import occupancy

# Columns of the recursion at a time: (states x columns) doubles.
CHUNK_CELLS = 1 << 21
# Numbers are brought back to at most 1 after so many steps, or before they changed by 2 to this power.
MOST_AT_ONCE, RANGE = 16, 500.0


def variance_costs(
    model: TabularMDP, pi_e: FloatArray, pi_b: FloatArray, horizon: int, wanted: IntArray
) -> FloatArray:
    """c(s) of the wanted states, with nothing else dropped.

    Dropping s changes one row of the recursion, so that all states are done together, one column each.

    Args:
      model: the MDP, fitted or known.
      pi_e, pi_b: (S, A); actions that pi_b never takes contribute nothing.
      horizon: steps of an episode that does not terminate.
      wanted: (X,) state indices.
    """
    ratio = np.divide(pi_e, pi_b, out=np.zeros_like(pi_e), where=pi_b > 0)
    chain_of = partial(chain_table, model) if model._table is not None else partial(average_actions, model.P)
    squared, plain = chain_of(pi_b * ratio**2), chain_of(pi_b)
    # Where the policies agree, dropping changes nothing, and no column is needed.
    columns = np.flatnonzero(np.abs(pi_e - pi_b)[wanted].max(axis=1) > 0)
    costs = np.zeros(len(wanted))
    size = max(1, CHUNK_CELLS // (model.n_states + 1))
    for lo in range(0, len(columns), size):
        chunk = columns[lo : lo + size]
        with one_blas_thread():
            second = _log_second_moments(squared, plain[wanted[chunk]], wanted[chunk], model.d0, horizon)
        costs[chunk] = second[0] - second[1:]
    return costs


def _log_second_moments(
    squared: Any, plain: Any, states: IntArray, d0: FloatArray, horizon: int
) -> FloatArray:
    """log E[B^2] with nothing dropped, and then with each of the (X,) states dropped alone.

    `squared`, (S, S + 1), is the recursion where nothing is dropped; `plain`, (X, S + 1), has its rows in the
    states where they are dropped.
    """
    number = np.arange(len(states))
    u = np.ones((squared.shape[0] + 1, 1 + len(states)))  # the last row is termination
    scale = np.zeros(u.shape[1])  # u is in units of exp(scale)
    # After so many steps numbers of at most 1 are still far from leaving the range of doubles.
    growth = np.asarray(squared.sum(axis=1))
    power = float(np.abs(np.log2(growth[growth > 0])).max(initial=1.0))
    at_once = max(1, min(MOST_AT_ONCE, int(RANGE / power)))
    for t in range(horizon):
        following = squared @ u
        following[states, 1 + number] = _diagonal(plain, u[:, 1:])
        u[:-1] = following
        if t % at_once == at_once - 1 or t == horizon - 1:
            largest = u.max(axis=0)
            u /= largest
            scale += np.log(largest)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(d0 @ u[:-1]) + scale)


def _diagonal(rows: Any, u: FloatArray) -> FloatArray:
    """(X,) the product of each row with the column of the same number."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.einsum("xs,sx->x", rows, u))
    column = np.repeat(np.arange(u.shape[1]), np.diff(rows.indptr))
    return sums_by(column, rows.data * u[rows.indices, column], u.shape[1])


# States that are named in a figure, and rows of a table in a notebook.
MOST_NAMED, MOST_SHOWN = 12, 30
# Pixels between two names, across and along.
ROOM = (60.0, 16.0)
COLUMNS = ("state", "visits", "chi2", "variance_cost", "bias", "gap", "dropped")
HEADINGS = tuple(name.replace("_", " ") for name in COLUMNS)
# A rule that depends on the estimator chooses for this one.
RULE_FOR = "WSPDIS"


@saved
@dataclass(frozen=True, eq=False)
class StateReport:
    """The report of the visited states, dearest in variance first.

    Attributes:
      labels: what the user calls each state.
      visits: logged visits.
      chi2: sum_a pi_e^2 / pi_b - 1, the variance of one ratio; infinite where pi_b never does what pi_e may.
      variance_cost: log E[B^2] minus the same with this state dropped, nothing else being dropped.
      bias: contribution to V(mu_D) - V(pi_e), in units of the return.
      gap: largest difference that one action can make, max_t (max_a Q - min_a Q).
      dropped: whether the state is in D.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(7)
      >>> report = state_report(lift.sample(1000), lift.pi_e, lift.pi_b, drop=[1, 3])
      >>> round(report.total_bias, 9) == 0, int(report.dropped.sum())
      (True, 2)
    """

    labels: list[Any]
    visits: FloatArray
    chi2: FloatArray
    variance_cost: FloatArray
    bias: FloatArray
    gap: FloatArray
    dropped: BoolArray

    def __post_init__(self) -> None:
        freeze_fields(self)

    @property
    def total_bias(self) -> float:
        """Bias of the drop in the model, V(mu_D) - V(pi_e)."""
        return float(self.bias[self.dropped].sum())

    def listed(self, n: int) -> StateReport:
        """The n states with the highest variance cost, their labels as text on one line."""
        columns = {name: column[:n] for name, column in vars(self).items()}
        return StateReport(**{**columns, "labels": [visible(label) for label in columns["labels"]]})

    def rows(self) -> list[dict[str, Any]]:
        """Plain Python values, one dictionary a state."""
        columns = (self.visits.astype(int), self.chi2, self.variance_cost, self.bias, self.gap, self.dropped)
        table = zip(self.labels, *(column.tolist() for column in columns), strict=True)
        return [dict(zip(COLUMNS, row, strict=True)) for row in table]

    def to_frame(self, library: str | None = None) -> Any:
        """One row a state, in pandas, polars or pyarrow; by default whichever the program uses."""
        return frame(self.rows(), COLUMNS, library)

    def plot(self) -> Any:
        """Variance cost against bias as a matplotlib figure: worth dropping is what lies right, near zero."""
        figure = new_figure("The figure of the states", 7, 4)
        axes = figure.subplots()
        for chosen, words, colour in ((self.dropped, "dropped", "C1"), (~self.dropped, "kept", "C0")):
            if chosen.any():
                axes.plot(self.variance_cost[chosen], self.bias[chosen], "o", color=colour, label=words)
        axes.axhline(0.0, color="grey", linestyle=":")
        axes.margins(0.15)  # room for the names
        for k in self._named(axes):
            place = (float(self.variance_cost[k]), float(self.bias[k]))
            axes.annotate(visible(str(self.labels[k]), 16), place, (6, 4), textcoords="offset points")
        axes.set_xlabel("variance cost")
        axes.set_ylabel("bias, in units of the return")
        key_beside(axes)
        return figure

    def _named(self, axes: Any) -> list[int]:
        """States whose names have room in a drawing, those that cost most variance first."""
        at = axes.transData.transform(np.column_stack([self.variance_cost, self.bias]))
        named: list[int] = []
        for k in range(len(self)):
            apart = np.abs(at[named] - at[k]) > ROOM
            if len(named) < MOST_NAMED and np.isfinite(at[k]).all() and apart.any(axis=1).all():
                named.append(k)
        return named

    def _repr_html_(self) -> str:
        more = [f"And {len(self) - MOST_SHOWN:,} more."] if len(self) > MOST_SHOWN else []
        title = f"{len(self):,} states, dearest in variance first; {int(self.dropped.sum()):,} dropped"
        return html_table(HEADINGS, self.cells()[:MOST_SHOWN], title, more)

    def cells(self) -> list[list[str]]:
        """The table as text, one list a state."""
        form = table_number([max(self.gap, default=0.0)])
        return [
            [
                str(row["state"]),
                f"{row['visits']:,}",
                f"{row['chi2']:.3g}",
                f"{row['variance_cost']:.4f}",
                form(row["bias"], "+"),
                f"{row['gap']:.4g}",
                "yes" if row["dropped"] else "no",
            ]
            for row in self.rows()
        ]

    def __len__(self) -> int:
        return len(self.labels)

    def __str__(self) -> str:
        return text_table(HEADINGS, self.cells(), left=())


def state_report(
    log: LogLike,
    pi_e: TabularPolicy | npt.ArrayLike,
    pi_b: Policy = None,
    drop: Any = None,
    gamma: float = 1.0,
    **options: Any,
) -> StateReport:
    """Variance cost and bias of every visited state.

    Args:
      log: episodes of the behaviour policy.
      pi_e: evaluation policy.
      pi_b: behaviour policy; None takes the log's propensities, and the observed policy for what needs all
        actions.
      drop: the states to mark as dropped: a `StateSet`, labels, flags, or a rule such as "auto".
      gamma: discount.
      **options: of the model, `model=`, `unseen=` and `solve=`.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(7)
      >>> report = state_report(lift.sample(1000), lift.pi_e, lift.pi_b, drop=[1, 3])
      >>> report.labels[0], round(float(report.chi2[0]), 3)
      (3, 1.0)
    """
    question = ask(log, pi_e, pi_b, gamma, read_options(options))
    if isinstance(drop, str):
        return state_report_of(question, Drop(states=states_by_rule(question, estimator_of(RULE_FOR), drop)))
    return state_report_of(question, drop_of(question, drop))


def state_report_of(question: Question, drop: Drop) -> StateReport:
    """The state report of a question and its drop."""
    require_labels(question.parts, "The state report")
    mask = drop.mask_for("A state report", question.pair.n_states)
    pi_e, pi_b = question.pi_e("The state report"), question.pi_b
    visited = np.flatnonzero(question.visits > 0)
    costs = variance_costs(question.chain, pi_e, pi_b, question.horizon, visited)
    order = np.lexsort((visited, -costs))
    index = visited[order]
    return StateReport(
        labels=[plain(question.pair.state_labels[s]) for s in index],
        visits=question.visits[index],
        chi2=chi_squared(pi_e, pi_b)[index],
        variance_cost=costs[order],
        bias=bias_contributions(question, mask)[index],
        gap=question.gaps[index],
        dropped=mask[index],
    )


def chi_squared(pi_e: FloatArray, pi_b: FloatArray) -> FloatArray:
    """(S,) sum_a pi_e^2 / pi_b - 1; infinite where pi_e does what pi_b never does.

    >>> chi_squared(np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([0.36,  inf])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(pi_e > 0, pi_e**2 / pi_b, 0.0)
    return np.asarray(terms.sum(axis=1) - 1.0)


def bias_contributions(question: Question, dropped: BoolArray) -> FloatArray:
    """(S,) each state's part of V(mu_D) - V(pi_e) in the model."""
    mu = np.where(dropped[:, None], question.pi_b, question.pi_e("The state report"))
    visits = None if question.settled is None else occupancy(question.model, mu, question.gamma)
    if visits is not None:
        return np.asarray(-visits * question.delta.values[0])
    chain: Any = average_actions(question.model.P, mu).T.tocsr()
    d = question.model.d0
    total = np.zeros_like(d)
    for t, delta_t in enumerate(question.delta.values):
        total -= question.gamma**t * d * delta_t
        d = (chain @ d)[:-1]
    return total


@dataclass(frozen=True)
class Violation:
    """An action that pi_e takes in a visited state in which it was never logged."""

    state: Any
    action: Any
    probability: float
    visits: int
    possible: bool  # whether pi_b could have taken it: more episodes would then show it


@dataclass(frozen=True, eq=False)
class SupportReport:
    """The actions of pi_e that the log does not show.

    Attributes:
      violations: largest unseen probability first.
      unseen_mass: mean over the logged steps of the probability that pi_e gives to actions never logged
        in their state.
      n_states: visited states with a violation.

    Example:
      >>> log = Trajectories.from_episodes([[("ward", "wait", 1.0)]])
      >>> policy = TabularPolicy([[0.9, 0.1]], states=["ward"], actions=["wait", "treat"])
      >>> support(log, policy, policy).n_states
      1
    """

    violations: tuple[Violation, ...]
    unseen_mass: float
    n_states: int


def support(
    log: Trajectories, pi_e: TabularPolicy | npt.ArrayLike, pi_b: TabularPolicy | npt.ArrayLike | None = None
) -> SupportReport:
    """Actions with pi_e > 0 that were never logged in a visited state.

    Args:
      log: episodes of the behaviour policy.
      pi_e: evaluation policy.
      pi_b: behaviour policy, which says whether such an action was possible; None where it is not known.

    Example:
      >>> log = Trajectories.from_episodes([[("ward", "wait", 1.0)]])
      >>> policy = TabularPolicy([[0.9, 0.1]], states=["ward"], actions=["wait", "treat"])
      >>> support(log, policy, policy).violations[0]
      Violation(state='ward', action='treat', probability=0.1, visits=1, possible=True)
    """
    return support_of(ask(in_memory(log), pi_e, pi_b))


def support_of(question: Question) -> SupportReport:
    """The support report of a question."""
    require_labels(question.parts, "The support report")
    pair, pi_e = question.pair, question.pi_e("The support report")
    visits: FloatArray = question.visits
    unseen = (pi_e > 0) & (question.counts.visits() == 0) & (visits > 0)[:, None]
    states, actions = np.nonzero(unseen)
    order = np.lexsort((actions, states, -pi_e[states, actions]))
    violations = tuple(
        Violation(
            plain(pair.state_labels[s]),
            plain(pair.action_labels[a]),
            float(pi_e[s, a]),
            int(visits[s]),
            pair.pi_b is None or bool(pair.pi_b[s, a] > 0),
        )
        for s, a in zip(states[order], actions[order], strict=True)
    )
    mass = (pi_e * unseen).sum(axis=1)
    return SupportReport(violations, float(visits @ mass / visits.sum()), int(unseen.any(axis=1).sum()))
