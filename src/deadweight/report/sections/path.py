"""The path of dropping, with a slider that moves everything that depends on the level."""

from __future__ import annotations

from deadweight.background.path import Level, PathContent
from deadweight.report.charts.path import PathChart
from deadweight.report.charts.svg import line
from deadweight.report.content import Content
from deadweight.report.markup import Markup, data_block, element
from deadweight.report.numbers import Format, count, signed, significant
from deadweight.report.sections.parts import figure, key_entry, note, scrolling, section

OUTPUTS = (
    ("dropped", "States dropped"),
    ("corrected", "Corrected estimate"),
    ("interval", "Interval"),
    ("estimate", "Uncorrected estimate"),
    ("bias", "Estimated bias"),
    ("sampling", "Sampling error ±"),
    ("allowance", "Bias allowance ±"),
    ("ess", "Effective episodes"),
    ("epsilon", "Largest Q gap dropped"),
)
OTHER_RULE = (
    "The estimates above do not drop by this rule (see Conventions); the path shows what the automatic "
    "choice would say."
)
KEY = (
    key_entry(line(2, 8, 26, 8, "line after"), "corrected estimate"),
    key_entry(line(2, 8, 26, 8, "line before"), "uncorrected estimate"),
    key_entry(element("rect", x=2, y=2, width=24, height=12, class_="band inner"), "sampling error"),
    key_entry(element("rect", x=2, y=2, width=24, height=12, class_="band whole"), "with bias allowance"),
    key_entry(line(14, 0, 14, 16, "reference chosen"), "chosen level"),
)


def path_section(content: Content, form: Format) -> Markup:
    """The drawing, the slider and what it moves; a sentence where there is no path."""
    path = content.path
    if path is None:
        return section("path", "How much to drop", element("p", content.without_states))
    return section(
        "path",
        "How much to drop",
        element(
            "p",
            "From left to right more and more states are dropped, those first in which the action matters "
            "least. The spread shrinks and the bias grows; the level chosen balances the two.",
        ),
        None if content.drop_rule == "auto" else note(OTHER_RULE),
        figure(
            PathChart(path).draw(form),
            f"Above: {path.name} and its {100 * path.confidence:.3g} % interval. Below: effective episodes. "
            "Along: states dropped.",
            KEY,
            _slider(path, form),
        ),
        _outputs(path, form),
        _dropped(path),
        data_block("path-data", {"chosen": path.chosen, "levels": _moves(path, form)}),
    )


def _slider(path: PathContent, form: Format) -> Markup:
    last = len(path.levels) - 1
    slider = element(
        "input",
        type="range",
        id="level",
        min=0,
        max=last,
        value=path.chosen,
        step=1,
        autocomplete="off",
        disabled=last == 0,
        aria_valuetext=_spoken(path, path.chosen, form),
    )
    back = element("button", "Back to the chosen level", type="button", id="level-back", hidden=True)
    return element(
        "div",
        element("label", "Level of dropping", for_="level"),
        slider,
        back,
        class_="slider",
        id="level-box",
    )


def _outputs(path: PathContent, form: Format) -> Markup:
    said = _texts(path, path.chosen, form)
    entries = [
        element("div", element("dt", words), element("dd", said[name], id=f"path-{name}"))
        for name, words in OUTPUTS
    ]
    heading = element("h3", said["level"], id="path-level")
    return element("div", heading, element("dl", entries, class_="numbers small"), class_="outputs")


def _dropped(path: PathContent) -> Markup:
    """Every state that can be dropped, hidden until the level reaches it."""
    names = [
        element("li", label, data_entry=entry, hidden=entry > path.chosen) for label, entry in path.states
    ]
    return element(
        "div",
        element("h3", "States dropped at this level"),
        scrolling("States dropped", element("ul", names, class_="chips", id="path-states"), "low"),
        element("p", _texts(path, path.chosen, significant)["more"], class_="note", id="path-more"),
    )


def _moves(path: PathContent, form: Format) -> list[dict[str, object]]:
    """For each level the texts and places that the script puts in."""
    chart = PathChart(path)
    return [
        {"text": _texts(path, k, form), "at": chart.places(k), "spoken": _spoken(path, k, form)}
        for k in range(len(path.levels))
    ]


def _texts(path: PathContent, k: int, form: Format) -> dict[str, str]:
    level = path.levels[k]
    chosen = ", the chosen one" if k == path.chosen else ""
    return {
        "level": f"Level {k} of {len(path.levels) - 1}{chosen}",
        "dropped": count(level.n_dropped),
        "corrected": form(level.corrected),
        "interval": _interval(level, form),
        "estimate": form(level.estimate),
        "bias": signed(form)(level.bias),
        "sampling": form(level.sampling_error),
        "allowance": form(level.bias_allowance),
        "ess": f"{count(level.ess)} of {count(path.n_episodes)}",
        "epsilon": significant(level.epsilon),
        "more": _more(path, k),
    }


def _more(path: PathContent, k: int) -> str:
    dropped, listed = path.levels[k].n_dropped, sum(entry <= k for _, entry in path.states)
    if dropped == 0:
        return "No state: every weight is kept, as in the plain estimator."
    return f"And {count(dropped - listed)} more." if dropped > listed else ""


def _interval(level: Level, form: Format) -> str:
    lower, upper = level.interval
    return f"{form(lower)} to {form(upper)}"


def _spoken(path: PathContent, k: int, form: Format) -> str:
    level = path.levels[k]
    return (
        f"{_texts(path, k, form)['level']}: {count(level.n_dropped)} states dropped, corrected estimate "
        f"{form(level.corrected)}, interval {_interval(level, form)}, bias {signed(form)(level.bias)}, "
        f"{count(level.ess)} effective episodes"
    )
