"""A real browser for the tests of the report: Debian's chromium, driven by Playwright, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Set where a browser must be there: its absence is then a failure and not a reason to skip.
REQUIRED = os.environ.get("DEADWEIGHT_BROWSER") == "1"


def why_not() -> str:
    """What is missing for a browser; empty when nothing is."""
    if not any(map(shutil.which, NAMES)):
        return "no Chromium found (Debian, Ubuntu: apt install chromium)"
    try:
        import axe_playwright_python
        import playwright
    except ImportError as error:
        return f"{error.name} is not installed (make setup)"
    del axe_playwright_python, playwright
    return ""


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
