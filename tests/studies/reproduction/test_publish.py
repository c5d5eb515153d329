"""What is written: tables in three forms, figures, and a ledger of every cell and claim."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from deadweight_studies.reproduction.claims import CLAIMS
from deadweight_studies.reproduction.publish import draw, found_in, publish
from deadweight_studies.reproduction.run import open_store
from deadweight_studies.reproduction.spec import FIGURES, TABLES
from deadweight_studies.reproduction.tables import (
    HEADER,
    Cell,
    Mean,
    as_csv,
    as_latex,
    cells,
    summary,
    verdict,
)


def stores(work):
    return {name: open_store(work, name) for name in work.experiments}


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.00674, 0.0, "exact"),
        (0.0068, 0.0001, "within error"),
        (0.0068, 0.00001, "differs"),
        (0.0068, float("nan"), "differs"),
        (0.9, 0.5, "differs"),
    ],
)
def test_verdicts(value, error, expected):
    assert verdict(Mean(value, error), 0.0067, 50, 50) == expected


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (["differs"] * 3, "Of the paper's 3 numbers 0 are exact, 0 within Monte-Carlo error, 3 differ."),
        (["exact", "differs"], "Of the paper's 2 numbers 1 is exact, 0 within Monte-Carlo error, 1 differs."),
        (["exact"] * 2, "Of the paper's 2 numbers 2 are exact, 0 within Monte-Carlo error, 0 differ."),
        (["within error"], "Of the paper's 1 number 0 are exact, 1 within Monte-Carlo error, 0 differ."),
    ],
)
def test_a_count_has_the_verb_that_fits_it(verdicts, said):
    assert summary([Cell(3, "IS", "mse", Mean(0.5, 0.0), 0.5, found) for found in verdicts]) == said


def test_single_precision_is_exact_enough():
    assert verdict(Mean(27675.6672, 0.0), 27675.6630, 20, 20) == "exact"


def test_files_of_everything(made_up, tmp_path):
    _, corrected = made_up
    shown = publish("all", corrected, stores(corrected))
    assert set(shown) == set(TABLES)
    names = {path.name for path in tmp_path.iterdir() if path.is_file()}
    expected = {f"table-{n}.{kind}" for n in range(1, 8) for kind in ("csv", "md", "tex")}
    expected |= {f"figure-{n}.{kind}" for n in (1, 2, 3) for kind in ("svg", "pdf")}
    assert names == expected | {"ledger.md", "ledger.csv"}

    lines = list(csv.DictReader((tmp_path / "table-2.csv").open()))
    assert tuple(lines[0]) == HEADER
    assert {line["protocol"] for line in lines} == {"published", "corrected"}
    extras = {line["estimator"] for line in lines if line["paper"] == ""}
    assert extras >= {"BEHAVIOUR", "DM", "MIS", "TMIS", "C-WSPDIS", "WDRSIS (auto)", "Cramer-Rao"}
    ledger = list(csv.DictReader((tmp_path / "ledger.csv").open()))
    assert len(ledger) == 48 + 60 + 40 + 40 + 24 + 24 + 24
    assert all(line["published"] and line["corrected"] for line in ledger)
    page = (tmp_path / "ledger.md").read_text()
    assert all(claim.text in page for claim in CLAIMS)
    assert "deadweight reproduce table-1 --protocol corrected --runs 3" in page


def test_appendix_d_has_the_names_of_the_contract(made_up):
    published, _ = made_up
    found = found_in(published, stores(published))["published"]
    labels = [cell.estimator for cell in cells(TABLES["table-7"], found["stochastic-lift"])][:4]
    assert labels == ["WDR", "WDRSIS (lift)", "WDRSIS (covariance)", "WDRSIS (Q)"]


def test_claims_are_judged_with_numbers(made_up):
    _, corrected = made_up
    for experiments in found_in(corrected, stores(corrected)).values():
        for claim in CLAIMS:
            finding = claim.check(experiments[claim.experiment])
            assert finding.verdict in ("holds", "partly", "fails", "")
            assert finding.numbers


def test_figures_are_the_same_bytes_again(made_up, tmp_path):
    published, _ = made_up
    found = found_in(published, stores(published))
    for folder in ("a", "b"):
        draw(FIGURES["figure-2"], tmp_path / folder, list(found.values()))
    for name in ("figure-2.svg", "figure-2.pdf"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert b"deadweight reproduce figure-2" in (tmp_path / "a" / "figure-2.svg").read_bytes()


def test_marks_are_the_papers(made_up):
    published, _ = made_up
    results = found_in(published, stores(published))["published"]["deterministic-lift"]
    table = TABLES["table-5"]
    numbers = {"IS": 3.0, "SIS (lift)": 1.0, "SIS (covariance)": 2.0, "SIS (Q)": 1.0}
    made = [
        replace(
            cell, measured=Mean(numbers[cell.estimator], 0.0), mark={1.0: 1}.get(numbers[cell.estimator], 0)
        )
        for cell in cells(table, results)
    ]
    text = as_latex(table, [(results, made)])
    assert r"7 & 3.0000 & \underline{\textbf{1.0000}} & 2.0000 & \underline{\textbf{1.0000}} \\" in text
    assert list(csv.reader(io.StringIO(as_csv(table, [(results, made)]))))[1][:4] == [
        "table-5",
        "7",
        "IS",
        "published",
    ]


def test_ties_share_a_mark_and_use_up_the_next():
    from deadweight_studies.reproduction.tables import _marked

    row = [
        Cell(7, name, name, Mean(value, 0.0), None, "")
        for name, value in zip("abcd", (1.0, 2.0, 1.0, 3.0), strict=True)
    ]
    assert [cell.mark for cell in _marked(row, 2)] == [1, 0, 1, 0]
    assert [cell.mark for cell in _marked(row, 3)] == [1, 3, 1, 0]
