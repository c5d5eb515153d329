"""The experiments as data: four domains, seven tables, three figures. Nothing here computes.

An experiment is a domain in all its settings (sizes, numbers of episodes or horizons) with every column that
any table or figure of it needs, so that tables 2, 6 and 7 come from the same runs, as they do in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Column:
    """One estimate of every run.

    Attributes:
      label: how tables and rows call it.
      estimator: the name that `deadweight.evaluate` knows.
      rule: how its drop is found: "q", "lift", "covariance", "auto", or "" where nothing is dropped.
    """

    label: str
    estimator: str
    rule: str = ""


@dataclass(frozen=True)
class Experiment:
    """A domain in all its settings.

    Attributes:
      name, title: for files, and for people.
      setting: what varies between rows.
      settings: its values.
      runs: independent runs of each setting.
      episodes: episodes of a run; 0 where they are what varies.
      columns: estimates under every protocol.
      extras: estimates that the paper left out, made under `corrected`.
      epsilon: the paper's threshold of the Q gap.
      lift: whether the domain has lift states, and episodes that terminate.
      q_unseen: what an unseen action does in the model of the published Q test.
      costs: rough seconds of a run in each setting, for the time left.
    """

    name: str
    title: str
    setting: str
    settings: tuple[int, ...]
    runs: int
    episodes: int
    columns: tuple[Column, ...]
    extras: tuple[Column, ...]
    epsilon: float
    lift: bool
    q_unseen: str
    costs: tuple[float, ...]

    def column(self, label: str) -> Column:
        """The column of that label."""
        return next(column for column in (*self.columns, *self.extras) if column.label == label)

    def episodes_of(self, setting: int) -> int:
        """Episodes of one run."""
        return self.episodes or setting


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    Attributes:
      name, title: for files, and for people.
      experiment: where its numbers come from.
      columns: printed label and label of the experiment's column.
      marks: how many ranks the paper highlights.
      normalised: errors are divided by the squared reference value.
    """

    name: str
    title: str
    experiment: str
    columns: tuple[tuple[str, str], ...]
    marks: int
    normalised: bool = False
    with_extras: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: residuals against the setting, one file a panel."""

    name: str
    title: str
    panels: tuple[tuple[str, str, tuple[str, ...]], ...]  # suffix, experiment, columns


STATE_BASED = MappingProxyType(
    {
        "IS": "SIS",
        "PDIS": "SPDIS",
        "INCRIS": "SINCRIS",
        "SDRE": "SSDRE",
        "WIS": "WSIS",
        "WPDIS": "WSPDIS",
        "WINCRIS": "WSINCRIS",
        "WDR": "WDRSIS",
    }
)
"""Plain estimators and the state-based ones that the paper sets against them."""

LIFT_SIZES = (7, 9, 11, 13, 15, 17)


def _plain(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, name) for name in names)


def _pairs(*names: str) -> tuple[Column, ...]:
    return tuple(
        column
        for name in names
        for column in (Column(name, name), Column(STATE_BASED[name], STATE_BASED[name], "q"))
    )


def _rules(estimator: str, *rules: str) -> tuple[Column, ...]:
    return tuple(Column(f"{estimator} ({rule})", estimator, rule) for rule in rules)


def _left_out(doubly_robust: str) -> tuple[Column, ...]:
    return (
        *_plain("DM", "MIS", "TMIS"),
        Column("C-WSPDIS", "C-WSPDIS", "auto"),
        *_rules(doubly_robust, "auto"),
    )


ORDINARY = ("IS", "PDIS", "INCRIS", "SDRE")
WEIGHTED = ("WIS", "WPDIS", "WINCRIS", "SDRE", "WDR")
NAIVE = _plain("BEHAVIOUR")

_EXPERIMENTS = (
    Experiment(
        "deterministic-lift",
        "deterministic lift",
        "size",
        LIFT_SIZES,
        runs=50,
        episodes=1000,
        columns=(*_pairs(*ORDINARY), *_rules("SIS", "lift", "covariance"), *NAIVE),
        extras=(*_left_out("DRSIS"), *_plain("DR")),
        epsilon=1.0,
        lift=True,
        q_unseen="terminate",
        costs=(0.1,) * 6,
    ),
    Experiment(
        "stochastic-lift",
        "stochastic lift",
        "size",
        LIFT_SIZES,
        runs=200,
        episodes=1000,
        columns=(
            *_pairs(*WEIGHTED),
            *_rules("WSIS", "lift", "covariance"),
            *_rules("WDRSIS", "lift", "covariance"),
            *NAIVE,
        ),
        extras=_left_out("WDRSIS"),
        epsilon=1.0,
        lift=True,
        q_unseen="terminate",
        costs=(0.2,) * 6,
    ),
    Experiment(
        "inventory",
        "inventory management",
        "episodes",
        (100, 250, 500, 1000),
        runs=50,
        episodes=0,
        columns=(*_pairs(*WEIGHTED), *NAIVE),
        extras=_left_out("WDRSIS"),
        epsilon=50.0,
        lift=False,
        q_unseen="terminate",
        costs=(0.3, 0.5, 0.8, 1.5),
    ),
    Experiment(
        "taxi",
        "taxi",
        "horizon",
        (10, 50, 250, 1000),
        runs=20,
        episodes=100,
        columns=(*_pairs(*WEIGHTED), *NAIVE),
        extras=_left_out("WDRSIS"),
        epsilon=2.0,
        lift=False,
        q_unseen="mean",
        costs=(0.5, 0.8, 1.0, 3.0),
    ),
)
EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType({each.name: each for each in _EXPERIMENTS})


def _same(*names: str) -> tuple[tuple[str, str], ...]:
    """Every plain name with its state-based one, under their own labels."""
    return tuple((label, label) for name in names for label in (name, STATE_BASED[name]))


def _identified(plain: str) -> tuple[tuple[str, str], ...]:
    name = STATE_BASED[plain]
    rules = ((f"{name} ({rule})", f"{name} ({rule})") for rule in ("lift", "covariance"))
    return ((plain, plain), *rules, (f"{name} (Q)", name))


_TABLES = (
    Table("table-1", "Deterministic lift", "deterministic-lift", _same(*ORDINARY), 2, with_extras=True),
    Table("table-2", "Stochastic lift", "stochastic-lift", _same(*WEIGHTED), 3, with_extras=True),
    Table(
        "table-3", "Inventory management", "inventory", _same(*WEIGHTED), 3, normalised=True, with_extras=True
    ),
    Table("table-4", "Taxi", "taxi", _same(*WEIGHTED), 3, with_extras=True),
    Table("table-5", "State sets of SIS, deterministic lift", "deterministic-lift", _identified("IS"), 2),
    Table("table-6", "State sets of WSIS, stochastic lift", "stochastic-lift", _identified("WIS"), 2),
    Table("table-7", "State sets of WDRSIS, stochastic lift", "stochastic-lift", _identified("WDR"), 2),
)
TABLES: Mapping[str, Table] = MappingProxyType({each.name: each for each in _TABLES})

_WITHOUT_SDRE = tuple(label for label, _ in _same("WIS", "WPDIS", "WINCRIS", "WDR"))
_ALL_WEIGHTED = tuple(label for label, _ in _same(*WEIGHTED))
_FIGURES = (
    Figure(
        "figure-1",
        "Residuals in the lift domains",
        (
            ("a", "deterministic-lift", tuple(label for label, _ in _same("IS", "PDIS", "INCRIS"))),
            ("b", "stochastic-lift", _WITHOUT_SDRE),
        ),
    ),
    Figure("figure-2", "Residuals in inventory management", (("", "inventory", _ALL_WEIGHTED),)),
    Figure("figure-3", "Residuals in the taxi domain", (("", "taxi", _ALL_WEIGHTED),)),
)
FIGURES: Mapping[str, Figure] = MappingProxyType({each.name: each for each in _FIGURES})

TARGETS = (*TABLES, *FIGURES, "all")


def experiments_of(target: str) -> tuple[str, ...]:
    """Names of the experiments behind a table, a figure, or all of them."""
    if target in TABLES:
        return (TABLES[target].experiment,)
    if target in FIGURES:
        return tuple(experiment for _, experiment, _ in FIGURES[target].panels)
    return tuple(EXPERIMENTS)
