"""The path of dropping, with a slider that moves everything that depends on the level."""

from __future__ import annotations

from deadweight.background.headline_path import Level, PathContent
from deadweight.report.charts.path_chart import PathChart
from deadweight.report.charts.svg import line
from deadweight.report.content import Content
from deadweight.report.markup import Markup, data_block, element
from deadweight.report.numbers import Format, between, count, signed, significant
from deadweight.report.sections.pieces import figure, key_entry, note, scrolling, section
from deadweight.results.estimate_data import MODEL_ONLY

OUTPUTS = (
    ("dropped", "{things} dropped"),
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
OTHER_LEVELS = " Other estimates choose levels of their own."
MODEL_LEFT = " At the far right no weight is left: there the model alone says what the new policy changes."
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
    things = path.dropped_things
    return section(
        "path",
        "How much to drop",
        element(
            "p",
            f"From left to right more and more {things} are dropped, those first in which the action matters "
            "least. The spread shrinks and the bias grows; the level chosen for "
            f"{path.name} balances the two.",
            OTHER_LEVELS if content.drop_rule == "auto" else "",
            MODEL_LEFT if path.is_model_only(len(path.levels) - 1) else "",
        ),
        None if content.drop_rule == "auto" else note(OTHER_RULE),
        figure(
            PathChart(path).draw(form),
            f"Above: {path.name} with its {100 * path.confidence:.3g} % interval; below: how many episodes "
            f"effectively count, as more and more {things} are dropped.",
            KEY,
            _slider(path, form),
        ),
        _outputs(path, form),
        None if path.of_steps else _dropped(path),
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
    said, things = _texts(path, path.chosen, form), path.dropped_things.capitalize()
    entries = [
        element(
            "div", element("dt", words.format(things=things)), element("dd", said[name], id=f"path-{name}")
        )
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
        "ess": MODEL_ONLY if path.is_model_only(k) else f"{count(level.ess)} of {count(path.n_episodes)}",
        "epsilon": significant(level.epsilon),
        **({} if path.of_steps else {"more": _more(path, k)}),
    }


def _more(path: PathContent, k: int) -> str:
    dropped, listed = path.levels[k].n_dropped, sum(entry <= k for _, entry in path.states)
    if dropped == 0:
        return "No state: every weight is kept, as in the plain estimator."
    return f"And {count(dropped - listed)} more." if dropped > listed else ""


def _interval(level: Level, form: Format) -> str:
    return between(*level.interval, form)


def _spoken(path: PathContent, k: int, form: Format) -> str:
    level, texts = path.levels[k], _texts(path, k, form)
    return (
        f"{texts['level']}: {texts['dropped']} {path.dropped_things} dropped, corrected estimate "
        f"{form(level.corrected)}, interval {_interval(level, form)}, bias {signed(form)(level.bias)}, "
        f"effective episodes {texts['ess']}"
    )
