"""The figures of the docs: `python docs/make_figures.py` writes them to docs/figures. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import deadweight as dw

FIGURES = Path(__file__).parent / "figures"
LIGHT, DARK, LINE = "#b8cbd8", "#1f5673", "#8a8a8a"


def belt() -> dw.TabularMDP:
    """A conveyor belt of twelve places: a part moves on by itself, and an arm sorts it at two switches.

    At place 3 and at place 8 the part goes on (action 0) or falls into a bin (action 1). The first bin pays
    1, the second one 3, and the end of the belt 2.
    """
    places, bins = 12, {3: 1.0, 8: 3.0}
    P, R = np.zeros((places, 2, places + 1)), np.zeros((places, 2))
    for place in range(places):
        P[place, :, place + 1] = 1.0  # the column after the last place is the end
        if place in bins:
            P[place, 1] = np.eye(places + 1)[places]
            R[place, 1] = bins[place]
    R[places - 1] = 2.0
    return dw.TabularMDP(P, R, np.eye(places)[0])


def gaps(mdp: dw.TabularMDP, pi: np.ndarray, horizon: int) -> np.ndarray:
    """(S,) largest difference that one action makes."""
    return np.ptp(dw.q_values(mdp, pi, horizon), axis=2).max(axis=0)


def negligible() -> Any:
    """Exact Q gaps in a lift, on a conveyor belt, and in an inventory."""
    from matplotlib.figure import Figure

    lift = dw.domains.stochastic_lift(11)
    shop = dw.domains.inventory(pi_e="softened-optimal")
    panels = (
        ("A lift: floors", gaps(lift.mdp, lift.pi_e.probs, 200), 1.0),
        ("A conveyor belt: places", gaps(belt(), np.full((12, 2), 0.5), 12), 0.5),
        ("An inventory: units in stock", gaps(shop.mdp, shop.pi_e.probs, 100), 3.0),
    )
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    for axes, (title, gap, epsilon) in zip(figure.subplots(1, 3), panels, strict=True):
        colours = np.where(gap < epsilon, LIGHT, DARK)
        axes.bar(np.arange(gap.size), np.maximum(gap, 0.012 * gap.max()), color=colours)
        axes.axhline(epsilon, color=LINE, linewidth=0.8, linestyle="--")
        axes.set_title(title, fontsize=10)
        axes.set_xticks(np.arange(gap.size))
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("Q gap")
    return figure


def path() -> Any:
    """The epsilon path of docs/negligible.md."""
    lift = dw.domains.stochastic_lift(11)
    log = lift.sample(episodes=1000, seed=0)
    figure = dw.epsilon_path("C-WSPDIS", log, lift.pi_e, lift.pi_b, min_visits=3).plot()
    figure.axes[0].axhline(lift.true_value, color=LINE, linewidth=0.8)
    return figure


def main() -> None:
    """Write every figure, the same bytes each time."""
    import matplotlib

    FIGURES.mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "deadweight", "svg.fonttype": "path"}):
        for make in (negligible, path):
            make().savefig(FIGURES / f"{make.__name__}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
