"""The report: an evaluation as one HTML file that a decision maker can read, and that needs no network.

`content` says what is shown, as plain values; `charts` and `sections` how; `page` puts them together.
"""

from __future__ import annotations

from deadweight.report.content import Content, gather
from deadweight.report.improvement_page import render_improvement, write_improvement
from deadweight.report.page import ReportError, render, write_report

__all__ = [
    "Content",
    "ReportError",
    "gather",
    "render",
    "render_improvement",
    "write_improvement",
    "write_report",
]
