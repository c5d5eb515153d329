"""The study of ends: it resumes, and its tables have a line for every cell."""

from __future__ import annotations

from pathlib import Path

from deadweight_studies import ends as unsaid_ends


def test_two_runs_and_the_same_again(tmp_path: Path) -> None:
    lines = list(unsaid_ends.study(tmp_path, 2))
    assert lines[0].startswith("| read without flags | 2 | 0 |")
    assert lines[1].startswith("| read with time_limit=None | 0 | 2 |")
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {name}" for name in unsaid_ends.self_ending()]
    assert all(line.split(" | ")[1] == "0" for line in lines[2:])
    assert list(unsaid_ends.study(tmp_path, 2)) == lines
    text = unsaid_ends.markdown(lines)
    for line in text.splitlines():
        assert line.count("|") in (0, 5, 8)
    assert all(line in text for line in lines)
