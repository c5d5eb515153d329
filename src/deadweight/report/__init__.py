"""The report: an evaluation as one HTML file that a decision maker can read, and that needs no network.

`markup` has elements, parts of pages and axes; `charts` and `sections` draw on the results' own data; `page`
puts the report on an evaluation together, `policy_pages` those on a comparison and an improvement.
"""

from __future__ import annotations

from deadweight.report.page import ReportError, render, write_page
from deadweight.report.policy_pages import render_comparison, render_improvement

__all__ = ["ReportError", "render", "render_comparison", "render_improvement", "write_page"]
