"""The table of domains."""

from __future__ import annotations

from deadweight.cli.domains import domains, ranges
from deadweight.cli.request import Request


def test_the_table_has_every_domain_with_its_exact_values(capsys):
    domains(Request())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == (1 + 6 + 12 + 4 + 4) + 2 + (1 + 4)
    by_name = {line.split("  ")[0]: line.split() for line in lines}
    assert by_name["stochastic lift 17"][-4:] == ["1-6,", "8-13", "-3.2916043506", "-9.7716049360"]
    assert "1303.4370280648" in by_name["inventory 10, round, published"]
    assert by_name["taxi 5, H = 1000"][5:8] == ["2,000", "6", "1,000"]
    sepsis = by_name["sepsis-like"]
    assert sepsis[1:4] == ["6", "3", "20"]
    value, error = float(sepsis[4]), float(sepsis[6])
    assert 0 < error < 0.005
    assert abs(value - 0.854) < 2 * error


def test_ranges():
    assert ranges([]) == "none"
    assert ranges([0, 2, 3, 4, 9]) == "0, 2-4, 9"
