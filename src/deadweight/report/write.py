"""Write the report to a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from deadweight.basics.atomic import write_text
from deadweight.errors import OutputError
from deadweight.report.content import gather
from deadweight.report.page import render
from deadweight.results.evaluation import Evaluation


class ReportError(OutputError):
    """A report that cannot be written where it should go."""


def write_report(
    evaluation: Evaluation,
    path: str | os.PathLike[str],
    title: str | None = None,
    reward: str | None = None,
    truth: float | None = None,
) -> Path:
    """Write the report on an evaluation as one self-contained HTML file.

    Args:
      evaluation: made by `evaluate`.
      path: the file; an older one is replaced, in one step, when the new one is complete.
      title: heading of the report.
      reward: what the reward is, in words.
      truth: the exact value of the new policy, where it is known.

    Returns the path.
    """
    return write_page(render(gather(evaluation, title, reward=reward, truth=truth)), path)


def write_page(page: str, path: str | os.PathLike[str]) -> Path:
    """Write a page to a file, in one step."""
    target = Path(path)
    try:
        # Half a character, as a file name or a title may have, is shown as an escape.
        write_text(target, page.encode("utf-8", "backslashreplace").decode("utf-8"))
    except OSError as error:
        raise ReportError(
            f"The report cannot be written to {target}: {error.strerror or error}.",
            fix="Name a file in a folder that exists and may be written to.",
        ) from None
    return target
