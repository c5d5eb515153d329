"""A report is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluations import ODD

from deadweight.errors import DeadweightError
from deadweight.results.evaluation import Evaluation


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return ODD["equal policies"]()


def test_the_report_is_one_file(evaluation: Evaluation, tmp_path: Path) -> None:
    written = evaluation.report(tmp_path / "out.html", title="Ward 7")
    assert written == tmp_path / "out.html"
    assert list(tmp_path.iterdir()) == [written]
    text = written.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>\n")
    assert "<h1>Ward 7</h1>" in text


def test_an_older_report_is_replaced(evaluation: Evaluation, tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    target.write_text("old")
    evaluation.report(str(target))
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_folder_that_is_not_there_is_one_clear_error(evaluation: Evaluation, tmp_path: Path) -> None:
    with pytest.raises(DeadweightError, match=r"cannot be written to .*missing.*\n  Name a file in a folder"):
        evaluation.report(tmp_path / "missing" / "out.html")


def test_a_failure_leaves_what_was_there(
    evaluation: Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.html"
    target.write_text("old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DeadweightError, match="No space left on device"):
        evaluation.report(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_in_the_place_of_the_file_is_one_clear_error(evaluation: Evaluation, tmp_path: Path) -> None:
    with pytest.raises(DeadweightError, match="cannot be written"):
        evaluation.report(tmp_path)
    assert list(tmp_path.iterdir()) == []
