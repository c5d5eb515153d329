"""Estimators as objects: relatives, names, and an added one wherever a name goes."""

from __future__ import annotations

import importlib
import json
import os
import pickle  # noqa: TID251 - what travels to workers is pickled
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deadweight as dw
from deadweight import testing
from deadweight.errors import OptionError, UnknownEstimator
from deadweight.estimators.estimator import BUILT_IN, HEADLINES, estimator_of
from deadweight.estimators.product import Terms

MODULE = """
import numpy as np
import deadweight as dw
from deadweight.estimators.product import Terms

def terms(block, gamma, finished):
    return [Terms(block.running, 2.0 * block.rewards)]

TWICE = dw.Estimator("TWICE", terms=terms, words="twice the rewards")
BROKEN = "no estimator"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with an estimator, installed into a folder."""
    (tmp_path / "twice_package.py").write_text(MODULE)
    info = tmp_path / "twice_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: twice-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[deadweight.estimators]\nTWICE = twice_package:TWICE\nBAD = twice_package:BROKEN\n"
        "GONE = twice_package:NOTHING\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("twice_package", None)


LOG = testing.example_log(cut=False)
PI_E, PI_B = testing.example_policies()


def wrong(block, gamma, finished):
    """Terms that depend on the block that an episode happens to be in."""
    return [Terms(block.running, block.rewards + block.steps.n)]


def test_relatives_of_the_built_in_ones() -> None:
    relatives = {
        "WSIS": ("WSIS", "SIS", "WSIS", "WIS", "C-WSIS", "WSIS", "WDRSIS"),
        "IS": ("WIS", "IS", "SIS", "IS", "C-SIS", "IS", "DRSIS"),
        "C-SPDIS": ("C-WSPDIS", "C-SPDIS", "C-SPDIS", "PDIS", "C-SPDIS", "SPDIS", "DRSIS"),
        "WDR": ("WDR", "DR", "WDRSIS", "WDR", None, "WDR", "C-WSPDIS"),
        "SSDRE": (None, "SSDRE", "SSDRE", "SDRE", None, "SSDRE", None),
        "DM": (None, "DM", None, "DM", None, "DM", None),
    }
    names = ("weighted", "unweighted", "state_based", "plain", "corrected", "uncorrected", "counterpart")
    for name, expected in relatives.items():
        found = [getattr(BUILT_IN[name], relative) for relative in names]
        assert tuple(None if one is None else one.name for one in found) == expected, name


def test_every_built_in_name_is_its_object() -> None:
    for name, made in BUILT_IN.items():
        assert made.name == name
        assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301
        assert {one.name for one in made.variants} <= set(BUILT_IN)
    assert [name for name, made in BUILT_IN.items() if made.is_naive] == ["BEHAVIOUR"]
    ranks = sorted((made.about.rank, name) for name, made in BUILT_IN.items() if made.about.rank is not None)
    assert [name for _, name in ranks][:4] == ["C-WSPDIS", "C-WSIS", "WDRSIS", "WDR"]
    assert [rank for rank, _ in ranks] == list(range(len(HEADLINES)))


def test_an_estimator_is_no_truth_value() -> None:
    """`if made.weighted:` would always hold."""
    with pytest.raises(TypeError, match="is_weighted"):
        bool(BUILT_IN["IS"].weighted)


def test_an_object_goes_where_its_name_goes() -> None:
    for name in ("WPDIS", "C-WSIS"):
        expected = dw.estimate(name, LOG, PI_E, PI_B, drop=[1])
        assert dw.estimate(BUILT_IN[name], LOG, PI_E, PI_B, drop=[1]).to_dict() == expected.to_dict()
    path = dw.epsilon_path(BUILT_IN["WSPDIS"], LOG, PI_E, PI_B)
    assert path.estimate.tolist() == dw.epsilon_path("WSPDIS", LOG, PI_E, PI_B).estimate.tolist()


def test_an_added_estimator_is_half_of_twice_itself(module: Path, tmp_path: Path) -> None:
    twice = importlib.import_module("twice_package").TWICE
    table = [twice, twice.weighted, twice.weighted.state_based]
    ev = dw.evaluate(
        LOG, PI_E, PI_B, ["BEHAVIOUR", "PDIS", "WPDIS", "WSPDIS", *table], drop=[1], resamples=20
    )
    for name, other in (("TWICE", "PDIS"), ("WTWICE", "WPDIS"), ("WSTWICE", "WSPDIS")):
        assert ev[name].value == pytest.approx(2 * ev[other].value, rel=1e-12)
        assert ev[name].std_error == pytest.approx(2 * ev[other].std_error, rel=1e-12)
        assert (ev[name].ess, ev[name].bias) == (ev[other].ess, ev[other].bias)
    alone = dw.evaluate(
        LOG, PI_E, PI_B, [twice.weighted.corrected], drop=[1], interval="bootstrap", resamples=20
    )
    assert alone.headline.name == "C-WSTWICE"
    assert alone.verdict.answer in ("better", "worse", "cannot tell")
    assert "twice the rewards, self-normalised" in alone.report(tmp_path / "out.html").read_text(
        encoding="utf-8"
    )
    assert len(dw.epsilon_path(twice.state_based, LOG, PI_E, PI_B)) > 1
    assert pickle.loads(pickle.dumps(twice)).name == "TWICE"  # noqa: S301


def test_names_of_installed_packages(module: Path) -> None:
    found = estimator_of("TWICE")
    assert found is importlib.import_module("twice_package").TWICE or found.name == "TWICE"
    assert estimator_of("C-WSTWICE").name == "C-WSTWICE"
    assert dw.estimate("WTWICE", LOG, PI_E, PI_B).name == "WTWICE"
    with pytest.raises(UnknownEstimator, match=r"BAD.*must be an Estimator; found str"):
        estimator_of("BAD")
    with pytest.raises(UnknownEstimator, match=r"GONE.*cannot be loaded"):
        estimator_of("GONE")
    with pytest.raises(UnknownEstimator, match="Did you mean 'TWICE'"):
        estimator_of("TWICEE")


def test_the_command_line_knows_them(module: Path) -> None:
    import pandas

    lengths = np.diff(LOG.offsets)
    frame = pandas.DataFrame(
        {
            "episode": np.repeat(np.arange(LOG.n_episodes), lengths),
            "step": np.concatenate([np.arange(length) for length in lengths]),
            "state": LOG.states,
            "action": LOG.actions,
            "reward": LOG.rewards,
            "behaviour_prob": PI_B[LOG.states, LOG.actions],
        }
    )
    frame.to_csv(module / "log.csv", index=False)
    np.save(module / "pi.npy", PI_E)
    command = "evaluate log.csv --target pi.npy --estimators WPDIS,WTWICE --json"
    done = subprocess.run(
        [sys.executable, "-m", "deadweight", *command.split()],
        cwd=module,
        env={**os.environ, "PYTHONPATH": str(module)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    estimates = json.loads(done.stdout)["estimates"]
    assert estimates["WTWICE"]["value"] == pytest.approx(2 * estimates["WPDIS"]["value"], rel=1e-9)


def test_two_estimators_of_one_name() -> None:
    both = [dw.Estimator("SAME", terms=wrong), dw.Estimator("SAME", terms=wrong)]
    with pytest.raises(OptionError, match="Two different estimators are called 'SAME'"):
        dw.evaluate(LOG, PI_E, PI_B, both)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("A,B", wrong), "without commas"), (("", wrong), "without commas"), (("A",), "needs either")],
)
def test_an_estimator_that_makes_no_sense(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        dw.Estimator(*arguments)


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownEstimator, match="Did you mean 'WPDIS'"):
        estimator_of("WPDSI")
    with pytest.raises(UnknownEstimator, match="found int"):
        estimator_of(3)  # type: ignore[arg-type]


def test_the_check_finds_an_estimator_that_depends_on_its_block() -> None:
    with pytest.raises(AssertionError, match="WRONG in blocks of"):
        testing.check_estimator(dw.Estimator("WRONG", terms=wrong))


def test_the_check_finds_an_estimator_that_cannot_travel() -> None:
    from deadweight.estimators.product import PerDecision

    made = dw.Estimator("HERE", terms=lambda *given: PerDecision()(*given))
    with pytest.raises(AssertionError, match="HERE: It cannot be sent to another process"):
        testing.check_travels(made, LOG, PI_E, PI_B)


def test_a_drop_rule_is_a_function_of_the_question() -> None:
    def often(question):
        """States visited more often than the average one."""
        return question.visits > question.visits.mean()

    found = dw.evaluate(LOG, PI_E, PI_B, ["WSPDIS"], drop=often)
    counts = np.bincount(LOG.states, minlength=4)
    assert found["WSPDIS"].dropped == np.flatnonzero(counts > counts.mean()).tolist()
    assert found.conventions["drop"] == "often"
    bound = dw.estimate("SIS", LOG, PI_E, PI_B, drop=often, interval="guaranteed", return_range=(-50.0, 50.0))
    assert bound.bounds.split
