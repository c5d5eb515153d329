"""Results where people work: notebooks, frame libraries, progress, and Python's logging."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import deadweight as dw
from deadweight.errors import OptionError
from deadweight.tools import progress as progress_bar
from deadweight.tools.progress import Pass

LIFT = dw.domains.deterministic_lift(7)
LOG = LIFT.sample(200, seed=0)
EV = dw.evaluate(LOG, LIFT.pi_e, LIFT.pi_b, ["BEHAVIOUR", "WIS", "WSPDIS"])
PATH = dw.epsilon_path("WSPDIS", LOG, LIFT.pi_e, LIFT.pi_b)
STATES = dw.diagnostics.state_report(LOG, LIFT.pi_e, LIFT.pi_b)
TABLE = {"episode": [1, 1], "step": [0, 0], "state": ["<b>", "y"], "action": [0, 0], "reward": [1, 2]}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("result", [EV, PATH, STATES], ids=["table", "path", "states"])
def test_frames_in_the_library_that_is_asked_for(result, library: str) -> None:
    made = result.to_frame(library)
    assert type(made).__module__.partition(".")[0] == library
    assert len(made) == len(result)
    with pytest.raises(OptionError, match="polars"):
        result.to_frame("excel")


def test_the_library_in_use_is_taken() -> None:
    program = (
        "import sys, polars, deadweight as dw\n"
        "lift = dw.domains.deterministic_lift(5)\n"
        "ev = dw.evaluate(lift.sample(20), lift.pi_e, lift.pi_b, ['WIS'], interval=None)\n"
        "print(type(ev.to_frame()).__module__, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["polars.dataframe.frame", "False"]


@pytest.mark.parametrize(
    "result",
    [EV, EV["WIS"], EV.verdict, PATH, STATES, dw.doctor(TABLE), dw.negligible.lift(LIFT.mdp)],
    ids=lambda one: type(one).__name__,
)
def test_results_show_themselves_in_a_notebook(result) -> None:
    shown = result._repr_html_()
    assert shown.startswith("<")
    assert "<b>" not in shown


@pytest.mark.parametrize(
    "result", [EV, EV["WIS"], EV.verdict, PATH, STATES], ids=lambda one: type(one).__name__
)
def test_results_can_be_drawn(result) -> None:
    assert result.plot().axes


@pytest.mark.parametrize("workers", [1, 2])
def test_whoever_watches_is_told_of_every_pass_to_its_end(workers: int) -> None:
    seen: list[dw.basics.progress.Progress] = []
    with dw.progress(seen.append):
        dw.estimate("WIS", LOG, LIFT.pi_e, LIFT.pi_b, workers=workers)
    passes = {one.number: one for one in seen}
    assert list(passes) == list(range(1, len(passes) + 1))
    assert len(passes) >= 2
    assert all(last.rows == last.of == LOG.n_steps for last in passes.values())
    before = len(seen)
    dw.estimate("WIS", LOG, LIFT.pi_e, LIFT.pi_b)
    assert len(seen) == before


def test_a_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with dw.progress():
        dw.estimate("WIS", LOG, LIFT.pi_e, LIFT.pi_b)
    assert capsys.readouterr().out == ""


def test_what_is_printed_beside_a_bar_goes_where_it_should(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_bar, "PATIENCE", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, a terminal
    monkeypatch.setenv("TERM", "xterm")
    with dw.progress():
        dw.evaluate(LOG, LIFT.pi_e, LIFT.pi_b, ["WIS"], interval=None)
        before = capsys.readouterr().err
        sys.stdout.write("the result\n")
    assert "pass 1, summing" in before
    after = capsys.readouterr()
    assert after.out == "the result\n"
    assert after.err == "", "the bar has gone before"
    with dw.progress():
        Pass(10).done(5)
        sys.stdout.write("more\n")
    assert capsys.readouterr().out == "more\n", "also while there is a bar"


def test_numbers_do_not_depend_on_who_watches() -> None:
    with dw.progress(lambda now: None):
        watched = dw.evaluate(LOG, LIFT.pi_e, LIFT.pi_b, ["BEHAVIOUR", "WIS", "WSPDIS"])
    assert watched.to_dict() == EV.to_dict()


def test_passes_and_verdicts_are_lines_of_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="deadweight"):
        dw.evaluate(LOG, LIFT.pi_e, LIFT.pi_b, ["BEHAVIOUR", "WIS"])
    said = [record.getMessage() for record in caplog.records if record.name == "deadweight"]
    assert any(f"{LOG.n_steps} rows" in line for line in said)
    assert "evaluated 200 episodes: better, by WIS" in said
