"""The report in a real browser: by mouse, keyboard and screen reader, on a phone, in the dark, on paper.

Every page is opened without a network; at its end no request but for the file itself may have been made, and
nothing may have been complained about on the console.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import REQUIRED, chromium, why_not
from evaluations import HOSTILE, ODD, hostile, lift, many_states

import deadweight as dw
from deadweight.log.labels import visible

pytestmark = pytest.mark.browser


def comparison() -> dw.Comparison:
    """Names of policies that are long, and one that is hostile."""
    problem = dw.domains.stochastic_lift(9)
    policies = {"go up and never_come_down_again": problem.pi_e, "<b>as now</b>": problem.pi_b}
    return dw.compare(problem.sample(200, seed=0), policies, problem.pi_b)


def improvement() -> dw.Improvement:
    """What to change in the lift."""
    problem = dw.domains.stochastic_lift(9)
    return dw.improve(problem.sample(500, seed=0), problem.pi_b, evaluation=False)


def features() -> dw.Evaluation:
    """A log whose states are numbers."""
    problem = dw.domains.sepsis_like()
    return dw.evaluate(problem.sample(150, seed=0), problem.pi_e, problem.pi_b)


EVALUATIONS = {"lift": lift, "hostile": hostile, "many": many_states, "zero": ODD["all weights zero"]}
MADE = {**EVALUATIONS, "comparison": comparison, "improvement": improvement, "features": features}
PHONE = {"viewport": {"width": 360, "height": 740}}
OUTPUTS = (
    *("level", "dropped", "corrected", "interval", "estimate"),
    *("bias", "sampling", "allowance", "ess", "epsilon"),
)
MARKS = {
    "mark-line": "x1",
    "mark-whole": "y1",
    "mark-sampling": "y1",
    "mark-corrected": "cy",
    "mark-ess": "cy",
}

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    missing = why_not()
    if missing and not REQUIRED:
        pytest.skip(missing)
    assert not missing, missing
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {name: make().report(folder / f"{name}.html") for name, make in MADE.items()}


@pytest.fixture
def open_report(browser: Any, reports: dict[str, Path]) -> Iterator[Open]:
    contexts, requests, complaints = [], [], []

    def open_one(name: str, **options: Any) -> Any:
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(reports[name].as_uri())
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert complaints == []


def outputs(page: Any) -> dict[str, str]:
    return {name: page.locator(f"#path-{name}").inner_text() for name in OUTPUTS}


def dropped(page: Any) -> list[str]:
    return list(page.locator("#path-states li:visible").all_inner_texts())


def first_cells(page: Any, column: int) -> list[str]:
    return list(page.locator(f"#states-table tbody tr > :nth-child({column})").all_inner_texts())


# --- the slider --------------------------------------------------------------------------------------


def test_the_slider_moves_everything_by_keyboard(open_report: Open) -> None:
    page = open_report("lift")
    slider = page.locator("#level")
    chosen = int(slider.input_value())
    before, states = outputs(page), dropped(page)
    marks = {mark: page.locator(f"#{mark}").get_attribute(name) for mark, name in MARKS.items()}
    assert before["level"].endswith("the chosen one")
    assert len(states) == int(before["dropped"])

    slider.focus()
    page.keyboard.press("ArrowLeft")
    after = outputs(page)
    assert int(slider.input_value()) == chosen - 1
    assert [name for name in OUTPUTS if after[name] == before[name]] == []
    assert len(dropped(page)) == int(after["dropped"]) < len(states)
    for mark, name in MARKS.items():
        assert page.locator(f"#{mark}").get_attribute(name) != marks[mark]
    spoken = slider.get_attribute("aria-valuetext")
    for name in ("level", "dropped", "corrected", "interval", "bias"):
        assert after[name] in spoken

    page.keyboard.press("Home")
    assert dropped(page) == []
    assert page.locator("#path-dropped").inner_text() == "0"
    page.keyboard.press("End")
    assert len(dropped(page)) == int(page.locator("#path-dropped").inner_text())

    page.get_by_role("button", name="Back to the chosen level").click()
    assert outputs(page) == before
    assert dropped(page) == states


def test_the_slider_stands_under_its_mark(open_report: Open) -> None:
    """Its ends are at the first and the last level of the drawing, on every screen."""
    for options in ({}, PHONE):
        page = open_report("lift", **options)
        slider = page.locator("#level")
        for key in ("Home", "End"):
            slider.press(key)
            box = slider.bounding_box()
            # The knob's middle is half its height inside the end of the track.
            knob = box["x"] + 10 if key == "Home" else box["x"] + box["width"] - 10
            mark = page.locator("#mark-ess").bounding_box()
            assert abs(mark["x"] + mark["width"] / 2 - knob) < 4


def test_paper_shows_the_chosen_level(open_report: Open) -> None:
    page = open_report("lift")
    before = outputs(page)
    page.locator("#level").press("Home")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert outputs(page) == before
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#path-dropped").inner_text() == "0"


# --- the states --------------------------------------------------------------------------------------


def test_the_table_sorts_by_click_and_by_keyboard(open_report: Open) -> None:
    page = open_report("many")
    visits = page.locator("#states-table th", has_text="Visits")
    visits.get_by_role("button").click()
    assert visits.get_attribute("aria-sort") == "descending"
    numbers = [int(text.replace(",", "")) for text in first_cells(page, 2)]
    assert numbers == sorted(numbers, reverse=True)

    visits.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert visits.get_attribute("aria-sort") == "ascending"
    assert [int(text.replace(",", "")) for text in first_cells(page, 2)] == sorted(numbers)
    assert page.locator("#states-sorted").inner_text() == "Sorted by Visits, ascending"

    bias = page.locator("#states-table th", has_text="Bias")
    bias.get_by_role("button").focus()
    page.keyboard.press("Space")
    values = [float(text.replace("−", "-")) for text in first_cells(page, 4)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0 < values[0]
    assert page.locator("#states-table th[aria-sort]").count() == 1

    page.locator("#states-table th", has_text="State").get_by_role("button").click()
    assert first_cells(page, 1) == sorted(first_cells(page, 1), key=int)


def test_a_mark_says_its_state_when_pointed_at(open_report: Open) -> None:
    page = open_report("lift")
    label = page.locator("#scatter-label")
    assert not label.is_visible()
    point = page.locator("#scatter .point").last
    point.hover()
    assert label.is_visible()
    assert label.inner_text() == point.get_attribute("aria-label")
    assert label.inner_text().startswith("State ")
    page.mouse.move(0, 0)
    assert not label.is_visible()


def test_marks_are_one_stop_for_the_keyboard_and_arrows_go_on(open_report: Open) -> None:
    page = open_report("lift")
    label, points = page.locator("#scatter-label"), page.locator("#scatter .point")
    assert page.locator('#scatter .point[tabindex="0"]').count() == 1
    points.last.focus()
    first = label.inner_text()
    page.keyboard.press("ArrowLeft")
    assert label.is_visible()
    assert label.inner_text() == points.nth(points.count() - 2).get_attribute("aria-label") != first
    page.keyboard.press("Home")
    assert label.inner_text() == points.first.get_attribute("aria-label")
    assert page.locator('#scatter .point[tabindex="0"]').count() == 1
    page.keyboard.press("Escape")
    assert not label.is_visible()


# --- screens and paper -------------------------------------------------------------------------------


# Of all words in drawings that are shown.
HEIGHTS = """() => [...document.querySelectorAll("figure > svg text")]
  .map((each) => each.getBoundingClientRect().height).filter((height) => height > 0)"""


@pytest.mark.parametrize("name", MADE)
def test_a_phone_does_not_scroll_sideways(open_report: Open, name: str) -> None:
    page = open_report(name, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    wide = page.evaluate(
        """[...document.querySelectorAll("main *")]
        .filter((each) => !each.closest(".scroll, .hidden, svg") && each.getBoundingClientRect().right > 361)
        .map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert wide == []
    assert min(page.evaluate(HEIGHTS)) >= 9


def test_dark_mode_is_dark(open_report: Open) -> None:
    def lightness(scheme: str) -> float:
        page = open_report("lift", color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        red, green, blue = (int(part) for part in colour.strip("rgb()").split(","))
        return (red + green + blue) / 3

    assert lightness("light") > 230
    assert lightness("dark") < 40


def test_paper_is_white_with_drawings_and_without_the_slider(open_report: Open) -> None:
    page = open_report("lift", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#level").is_visible()
    assert page.locator("#path-level").is_visible()
    for name in ("difference", "forest", "path", "ess", "distribution"):
        assert page.locator(f"svg:has(> #{name}-title)").is_visible()
    tall = page.locator(".tall")
    assert tall.evaluate("(box) => box.scrollHeight <= box.clientHeight + 2")
    assert len(page.pdf(format="A4")) > 10_000


WIDTHS = (360, 768, 1280)
# Words of one drawing that lie on each other, by more than the room that letters leave around themselves.
OVERLAPS = """() => [...document.querySelectorAll("figure > svg")].flatMap((drawing) => {
  const texts = [...drawing.querySelectorAll("text")];
  const words = texts.map((each) => [each.textContent, each.getBoundingClientRect()]);
  return words.flatMap(([said, a], i) => words.slice(i + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 4 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5).map(([other]) => said + " | " + other));
})"""
HINTS = """() => [...document.querySelectorAll(".hint")].map((hint) => [
  hint.offsetParent !== null,
  hint.nextElementSibling.scrollWidth > hint.nextElementSibling.clientWidth + 1,
])"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["lift", "comparison", "improvement", "features"])
def test_words_are_legible_and_hints_are_true(open_report: Open, name: str, width: int) -> None:
    page = open_report(name, viewport={"width": width, "height": 900})
    assert page.evaluate(OVERLAPS) == []
    hints = page.evaluate(HINTS)
    assert hints
    assert [shown for shown, _ in hints] == [needed for _, needed in hints]


# --- safety and access -------------------------------------------------------------------------------


def test_hostile_labels_are_shown_and_do_nothing(open_report: Open) -> None:
    page = open_report("hostile")
    for point in page.locator("#scatter .point").all():
        point.dispatch_event("pointerenter")
    page.locator("#states-table th").first.get_by_role("button").click()
    page.locator("#level").press("Home")
    page.locator("#level").press("End")
    assert page.evaluate("window.hacked") is None
    assert set(first_cells(page, 1)) == {visible(label) for label in HOSTILE}
    assert page.locator("img, main script:not([type])").count() == 0


def test_the_policy_stops_what_is_not_in_the_file(
    browser: Any, reports: dict[str, Path], tmp_path: Path
) -> None:
    """A script slipped in between would not run: the policy of the page is in force."""
    text = reports["lift"].read_text(encoding="utf-8")
    changed = tmp_path / "changed.html"
    changed.write_text(
        text.replace("<main>", "<main><script>window.hacked = 1</script>", 1), encoding="utf-8"
    )
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(changed.as_uri())
    assert page.evaluate("window.hacked") is None
    assert "Content Security Policy" in "".join(refused)
    page.close()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("lift", {}), ("lift", {"color_scheme": "dark"}), ("hostile", PHONE), ("zero", {})),
        *(("comparison", {**PHONE, "color_scheme": "dark"}), ("improvement", {}), ("features", PHONE)),
    ],
    ids=["light", "dark", "phone", "without weights", "comparison", "improvement", "features"],
)
def test_nothing_hinders_access(open_report: Open, name: str, options: dict[str, Any]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_report(name, **options)
    found = Axe().run(page).response["violations"]
    told = [
        (each["id"], each["impact"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found
    ]
    assert told == []


def test_without_script_everything_is_there(open_report: Open) -> None:
    page = open_report("lift", java_script_enabled=False)
    assert page.locator("#path-level").inner_text().endswith("the chosen one")
    assert len(dropped(page)) == int(page.locator("#path-dropped").inner_text())
    assert page.locator("#states-table tbody tr").count() == 9
