"""Pictures of the report for the documentation.

Made by `python tests/browser/screenshots.py docs/images`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from chromium import chromium
from evaluations import lift

DESK: dict[str, Any] = {"viewport": {"width": 820, "height": 1180}}
PICTURES: dict[str, tuple[dict[str, Any], str]] = {
    "report-light": (DESK, "#verdict"),
    "report-path": (DESK, "#path"),
    "report-dark": ({**DESK, "color_scheme": "dark"}, "#estimates"),
    "report-phone": ({"viewport": {"width": 360, "height": 1000}, "device_scale_factor": 1.5}, "#verdict"),
}


def take(folder: Path) -> None:
    """One picture of each kind, with the section named at the top."""
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        report = lift().report(Path(scratch) / "report.html", title="A lift with a new controller")
        for name, (options, section) in PICTURES.items():
            page = browser.new_context(offline=True, reduced_motion="reduce", **options).new_page()
            page.goto(report.as_uri())
            if section != "#verdict":
                page.locator(section).evaluate("(each) => each.scrollIntoView()")
            page.screenshot(path=folder / f"{name}.png")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
