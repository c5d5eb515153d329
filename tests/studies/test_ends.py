"""The study of ends: it resumes, and its tables have a line for every cell."""

from __future__ import annotations

from pathlib import Path

from deadweight_studies import ends as unsaid_ends


def test_two_runs_and_the_same_again(tmp_path: Path) -> None:
    lines = list(unsaid_ends.STUDY.lines(tmp_path, 2))
    fixed, *ending = lines
    assert fixed[0][:3] == ["read without flags", "2", "0"]
    assert fixed[1][:3] == ["read with time_limit=None", "0", "2"]
    assert [row[0] for (row,) in ending] == list(unsaid_ends.self_ending())
    assert all(row[1] == "0" for (row,) in ending)
    assert list(unsaid_ends.STUDY.lines(tmp_path, 2)) == lines
    text = unsaid_ends.table(lines)
    for line in text.splitlines():
        assert line.count("|") in (0, 5, 8)
    assert all(unsaid_ends.STUDY.words(line) in text for line in lines)
