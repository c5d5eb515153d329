"""Figures: residuals (mean and standard error over the runs) against the setting, as in Appendix F.

The same results give the same bytes: no dates, and fixed identifiers in the SVG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from deadweight.basics.atomic import write_whole, writing
from deadweight.errors import MissingExtra
from deadweight.studies.reproduction.results import Mean, Results
from deadweight.studies.reproduction.spec import STATE_BASED, Figure
from deadweight.studies.reproduction.tables import command

COLOURS = {"IS": "#0072B2", "PDIS": "#D55E00", "INCRIS": "#009E73", "SDRE": "#CC79A7", "DR": "#7F6000"}
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "deadweight",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
STATE_BASED_NAMES = frozenset(STATE_BASED.values())


def can_draw() -> bool:
    """Whether the plotting library is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(figure: Figure, folder: Path, protocols: Sequence[Mapping[str, Results]]) -> list[Path]:
    """Write a figure as SVG and PDF and return the paths: a row of panels for each protocol's results."""
    if not can_draw():
        raise MissingExtra("Drawing figures", "figures")
    import matplotlib
    from matplotlib.figure import Figure as Picture

    commands = [command(figure.name, results[figure.panels[0][1]]) for results in protocols]
    about = f"{figure.title}; made by: {'; '.join(commands)}"
    written = []
    with matplotlib.rc_context(STYLE):
        shape = (len(protocols), len(figure.panels))
        picture = Picture(figsize=(6.2 * shape[1], 3.6 * shape[0]), layout="constrained")
        grid = picture.subplots(*shape, squeeze=False)
        for line, results in zip(grid, protocols, strict=True):
            for axes, (letter, experiment, labels) in zip(line, figure.panels, strict=True):
                _panel(axes, letter, results[experiment], labels)
        for kind, dateless in (
            ("svg", {"Date": None, "Description": about}),
            ("pdf", {"CreationDate": None}),
        ):
            metadata = {"Title": about, **dateless}
            path = folder / f"{figure.name}.{kind}"
            with writing(path):
                write_whole(path, partial(picture.savefig, format=kind, metadata=metadata))
            written.append(path)
    return written


def _panel(axes: Any, letter: str, results: Results, labels: tuple[str, ...]) -> None:
    settings = results.experiment.settings
    for i, label in enumerate(labels):
        residuals = [Mean.of(results.residuals(setting, label)) for setting in settings]
        state_based = label in STATE_BASED_NAMES
        axes.errorbar(
            [k + (i - (len(labels) - 1) / 2) * 0.06 for k in range(len(settings))],
            [residual.value for residual in residuals],
            [residual.std_error for residual in residuals],
            label=label,
            color=_colour(label),
            linestyle="-" if state_based else "--",
            marker="o" if state_based else "s",
            markerfacecolor=_colour(label) if state_based else "white",
            markersize=4,
            linewidth=1.0,
            capsize=2,
        )
    axes.axhline(0.0, color="black", linewidth=0.6)
    axes.set_xticks(range(len(settings)), [str(setting) for setting in settings])
    axes.set_xlabel(results.experiment.setting)
    axes.set_ylabel("estimate - reference")
    title = f"{results.experiment.title}, {results.protocol.name}, {results.runs} runs"
    axes.set_title(f"({letter}) {title}" if letter else title, fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _colour(label: str) -> str:
    for plain, state_based in STATE_BASED.items():
        if label in (plain, state_based):
            return COLOURS[plain.removeprefix("W")]
    return "black"
