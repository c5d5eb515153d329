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


# --- What the paper prints, table by table, in the order of its columns

SOURCE = "Bossens & Thomas (2024), Low variance off-policy evaluation with state-based importance sampling"

RUNS: Mapping[str, int] = MappingProxyType(
    {"deterministic-lift": 50, "stochastic-lift": 200, "inventory": 50, "taxi": 20}
)
INVENTORY_VALUE = 1471.1041
"""The value of the paper's inventory policy (Appendix E), which was not published itself."""

LABELS: Mapping[str, str] = MappingProxyType(
    {
        "table-1": "tab: MSE-determ",
        "table-2": "tab: MSE-stoch",
        "table-3": "tab: MSE-IM",
        "table-4": "tab: MSE-taxi",
        "table-5": "tab: MSE-SIS-determ",
        "table-6": "tab: MSE-SIS-stoch",
        "table-7": "tab: MSE-DRSIS-stoch",
    }
)
"""The label of each table in the paper's source."""

# fmt: off
_PRINTED: dict[str, dict[int, tuple[float, ...]]] = {
    "table-1": {
        7: (0.0067, 0.0019, 0.0398, 0.0121, 4.0024, 4.0007, 532.7567, 536.3787),
        9: (0.0153, 0.0019, 0.1766, 0.0215, 6.1964, 6.1765, 577.3089, 584.4657),
        11: (0.0353, 0.0029, 0.7087, 0.0600, 8.9408, 8.9225, 674.0772, 680.1959),
        13: (0.0691, 0.0026, 1.8038, 0.0688, 12.5475, 12.4779, 652.6004, 660.2387),
        15: (0.1389, 0.0033, 5.3474, 0.1378, 16.1902, 16.1558, 803.3450, 813.4997),
        17: (0.3026, 0.0031, 15.1566, 0.1303, 23.7084, 20.1534, 758.2237, 764.6283),
    },
    "table-2": {
        7: (10.2238, 8.4832, 6.8271, 5.3853, 1.0958, 0.2618, 208.7413, 209.8354, 5.2572, 5.0844),
        9: (9.4737, 7.7326, 5.3924, 4.0441, 0.2973, 0.6929, 243.1366, 245.1004, 2.8067, 2.7486),
        11: (9.7285, 6.2044, 5.7219, 3.0552, 0.2002, 2.3050, 250.3149, 251.5843, 2.3016, 1.9838),
        13: (8.4436, 9.4967, 4.4449, 3.2916, 0.8958, 4.8960, 266.7911, 268.6634, 1.3459, 1.3354),
        15: (18.0453, 4.2831, 6.2259, 1.7004, 2.6550, 9.0162, 280.6434, 282.6849, 1.2258, 0.8797),
        17: (8.2474, 4.8129, 5.2761, 1.8151, 4.7157, 13.0056, 305.7465, 307.9191, 0.8385, 0.4820),
    },
    "table-3": {
        100: (0.0490, 0.0088, 0.0278, 0.0074, 0.0641, 0.0109, 0.0160, 0.0077, 0.0173, 0.0138),
        250: (0.0651, 0.0080, 0.0335, 0.0080, 0.0546, 0.0118, 0.0161, 0.0070, 0.0132, 0.0137),
        500: (0.0652, 0.0113, 0.0340, 0.0105, 0.0456, 0.0124, 0.0163, 0.0067, 0.0098, 0.0114),
        1000: (0.0820, 0.0122, 0.0293, 0.0119, 0.0313, 0.0128, 0.0162, 0.0066, 0.0117, 0.0104),
    },
    "table-4": {
        10: (0.6080, 0.4525, 0.7234, 0.5084, 0.4896, 0.4767, 1.2764, 1.2790, 53.2003, 53.1011),
        50: (15.8227, 15.9281, 11.6239, 10.7777, 35.6350, 35.8282, 9.4938, 9.4435, 188.8620, 187.3876),
        250: (
            440.6435, 473.4986, 281.9518, 273.3647, 1753.7938, 1752.6067, 25.3142, 25.2920,
            993.3100, 1055.8603,
        ),
        1000: (
            8233.7773, 7948.8306, 4876.1759, 4652.7797, 27675.6630, 27635.4627, 231.6101, 231.4313,
            11982.1668, 12176.5372,
        ),
    },
    "table-5": {
        7: (0.0067, 0.0019, 0.0056, 0.0019),
        9: (0.0153, 0.0019, 0.0138, 0.0019),
        11: (0.0353, 0.0029, 0.0345, 0.0029),
        13: (0.0691, 0.0026, 0.0705, 0.0026),
        15: (0.1389, 0.0033, 0.1386, 0.0033),
        17: (0.3026, 0.0031, 0.3035, 0.0031),
    },
    "table-6": {
        7: (10.2238, 8.4832, 10.2186, 8.4832),
        9: (9.4737, 7.7326, 9.4489, 7.7326),
        11: (9.7285, 6.2044, 9.6775, 6.2044),
        13: (8.4436, 9.5003, 8.4058, 9.4967),
        15: (18.0453, 4.2803, 17.9633, 4.2831),
        17: (8.2474, 4.7482, 7.7646, 4.8129),
    },
    "table-7": {
        7: (5.2572, 5.0844, 5.2662, 5.0844),
        9: (2.8067, 2.7486, 2.8235, 2.7486),
        11: (2.3016, 1.9838, 2.3058, 1.9838),
        13: (1.3459, 1.3359, 1.3612, 1.3354),
        15: (1.2258, 0.8788, 1.1675, 0.8797),
        17: (0.8385, 0.4817, 0.6620, 0.4820),
    },
}
# fmt: on


def printed(table: str, row: int, position: int) -> float | None:
    """What the paper prints in a cell; None in a column that it does not have."""
    values = _PRINTED[table][row]
    return values[position] if position < len(values) else None
