"""Pictures of the report for the documentation.

Made by `python tests/browser/screenshots.py docs/images`.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from chromium import chromium

import deadweight as dw
from deadweight.cli import run
from deadweight.domains import OLD, RULES, ward

WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 1000}}
TABLET: dict[str, Any] = {"viewport": {"width": 768, "height": 1100}}
DESK: dict[str, Any] = {"viewport": {"width": 820, "height": 1180}}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 1000}, "device_scale_factor": 1.5}
# Name of the picture: the page, how it is looked at, and the section at the top.
PICTURES: dict[str, tuple[str, dict[str, Any], str]] = {
    "report-light": ("demo", DESK, "#verdict"),
    "report-wide": ("demo", WIDE, "#estimates"),
    "report-wide-dark": ("demo", {**WIDE, "color_scheme": "dark"}, "#verdict"),
    "report-tablet": ("demo", TABLET, "#states"),
    "report-path": ("demo", DESK, "#path"),
    "report-phone": ("demo", PHONE, "#verdict"),
    "report-comparison": ("comparison", TABLET, "#verdict"),
}


def demo(path: Path) -> Path:
    """The report of the demo."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(["demo", "--logs", "1", "--report", str(path)]) == 0
    return path


def comparison(path: Path) -> Path:
    """A page that compares the three rules of the demo."""
    rules = {rule.name: rule.policy for rule in RULES}
    found = dw.compare(ward().sample(600, seed=0), rules, OLD.policy, return_range=(0.0, 1.0))
    return found.report(path, title="Which rule for the ward?", reward="share of patients who go home well")


def take(folder: Path) -> None:
    """One picture of each kind, with the section named at the top."""
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        made = {"demo": demo, "comparison": comparison}
        pages = {name: make(Path(scratch) / f"{name}.html") for name, make in made.items()}
        for name, (kind, options, section) in PICTURES.items():
            page = browser.new_context(offline=True, reduced_motion="reduce", **options).new_page()
            page.goto(pages[kind].as_uri())
            if section != "#verdict":
                page.locator(section).evaluate("(each) => each.scrollIntoView()")
            page.screenshot(path=folder / f"{name}.png")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
