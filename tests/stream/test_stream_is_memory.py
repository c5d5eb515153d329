"""A stream gives the numbers of the log in memory, however the files are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from stream.folders import N_STATES, policies, table_of, write

import deadweight as dw
from deadweight.diagnostics import state_report
from deadweight.diagnostics.weight_report import weights
from deadweight.errors import DropError, EstimationError
from deadweight.io.stream import Stream, open_stream
from deadweight.negligible import epsilon_path
from deadweight.results import Estimate

TOLERANCE = 1e-10
KINDS: dict[str, dict[str, Any]] = {
    "ended": {},
    "truncated with successors": {"truncated": True},
    "equal lengths": {"fixed": True},
    "text": {"text": True, "truncated": True},
}


def numbers(found: Estimate) -> list[float]:
    # What was not asked for is absent on both sides.
    steps = getattr(found, "ess_steps", None)
    steps = [] if steps is None else list(steps)
    optional = [found.ess, getattr(found, "bias", None), getattr(found, "std_error", None)]
    known = [np.nan if number is None else number for number in optional]
    return [found.value, *(found.interval or ()), *known, *steps]


def same(stream: Any, memory: Any) -> None:
    np.testing.assert_allclose(stream, memory, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.fixture(scope="module", params=list(KINDS))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Stream, Any]:
    folder = write(tmp_path_factory.mktemp("log") / "parts", table_of(**KINDS[request.param]))
    return open_stream(folder, part_rows=40), dw.read(folder)


@pytest.mark.parametrize("name", dw.ESTIMATORS)
@pytest.mark.parametrize(
    "options", [{}, {"finished": "survivors", "gamma": 0.9}], ids=["default", "survivors"]
)
def test_every_estimator(name: str, options: dict[str, Any], both: tuple[Stream, Any]) -> None:
    stream, memory = both
    if "SDRE" in name:
        options = {"mode": "policy"}
    drop = list(memory.state_labels[1:3])
    pi_e, pi_b = policies()
    found, expected = (dw.estimate(name, log, pi_e, pi_b, drop=drop, **options) for log in (stream, memory))
    same(numbers(found), numbers(expected))
    assert (found.flags, found.dropped, found.n_episodes) == (
        expected.flags,
        expected.dropped,
        expected.n_episodes,
    )
    same(found.dropped_share, expected.dropped_share)


@pytest.mark.parametrize("given", ["reward", "return"])
def test_conditional_on_more(given: str, both: tuple[Stream, Any]) -> None:
    found, expected = (dw.estimate("CIS", log, *policies(), given=given) for log in both)
    same(numbers(found), numbers(expected))


def test_the_default_table_with_the_automatic_drop(both: tuple[Stream, Any]) -> None:
    found, expected = (dw.evaluate(log, *policies()) for log in both)
    for name in expected:
        same(numbers(found[name]), numbers(expected[name]))
        assert found[name].dropped == expected[name].dropped
    assert found.verdict.answer == expected.verdict.answer
    same(found.verdict.interval, expected.verdict.interval)


@pytest.mark.parametrize("name", ["WSIS", "C-SIS", "WSPDIS", "WDRSIS", "SMIS"])
def test_the_path(name: str, both: tuple[Stream, Any]) -> None:
    found, expected = (epsilon_path(name, log, *policies()) for log in both)
    for column in ("epsilon", "n_dropped", "estimate", "std_error", "bias", "corrected", "ess"):
        same(getattr(found, column), getattr(expected, column))
    assert found.chosen == expected.chosen


def test_the_path_that_is_swept(tmp_path: Path) -> None:
    """Short episodes over many gaps: all levels at once, straight over the parts."""
    folder = write(tmp_path / "log", table_of(80, 3))
    found, expected = (
        epsilon_path("C-WSIS", log, *policies())
        for log in (open_stream(folder, part_rows=30), dw.read(folder))
    )
    assert len(expected) > 3
    same(found.corrected, expected.corrected)
    same(found.std_error, expected.std_error)


def test_the_state_report_and_the_weights(both: tuple[Stream, Any]) -> None:
    found, expected = (state_report(log, *policies(), drop="q-gap:0.5") for log in both)
    assert found.labels == expected.labels
    for column in ("visits", "chi2", "variance_cost", "bias", "gap", "dropped"):
        same(getattr(found, column), getattr(expected, column))
    drop = list(both[1].state_labels[:2])
    one, other = (weights(log, *policies(), drop=drop).to_dict() for log in both)
    for key, value in other.items():
        same(one[key], value)


@pytest.mark.parametrize("interval", ["student-t", "bootstrap", "bca", "guaranteed", "bernstein", None])
@pytest.mark.parametrize("name", ["WPDIS", "SPDIS", "WDRSIS"])
def test_every_interval_with_a_given_drop(interval: str | None, name: str, both: tuple[Stream, Any]) -> None:
    options = {"resamples": 50, "return_range": (-40.0, 40.0)}
    drop = list(both[1].state_labels[2:4])
    found, expected = (
        dw.estimate(name, log, *policies(), drop=drop, interval=interval, **options) for log in both
    )
    same(numbers(found), numbers(expected))


def test_logged_probabilities(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table_of(propensities=True))
    for policy in ((None, None), (policies()[0], None), (None, policies()[1])):
        found, expected = (
            dw.estimate("WPDIS", log, *policy) for log in (open_stream(folder, part_rows=50), dw.read(folder))
        )
        same(numbers(found), numbers(expected))


def test_labels_of_all_kinds(tmp_path: Path) -> None:
    """Gaps, sparse ids, negative numbers, floats and booleans become the same labels."""
    table = table_of()
    states = table["state"].to_numpy()
    cases: dict[str, Any] = {
        "gaps": states * 7,
        "dense beyond the footers": states + 1_001,
        "sparse": states * 1_000_003,
        "negative": states - 2,
        "floats": states.astype(float),
        "halves": states / 2,
        "flags": states > 2,
    }
    for case, column in cases.items():
        folder = write(tmp_path / case, table.set_column(2, "state", pa.array(column)))
        stream, memory = open_stream(folder, part_rows=50), dw.read(folder)
        assert stream.state_labels.tolist() == memory.state_labels.tolist(), case
        assert stream.state_labels.dtype == memory.state_labels.dtype, case
        parts = list(stream)
        np.testing.assert_array_equal(np.concatenate([part.states for part in parts]), memory.states, case)


def test_a_successor_that_no_episode_visits_is_a_label(tmp_path: Path) -> None:
    table = table_of(truncated=True)
    following = table["next_state"].to_numpy().copy()
    last = np.flatnonzero(np.diff(np.append(table["episode"].to_numpy(), -1)))
    cut = last[~table["terminated"].to_numpy(zero_copy_only=False)[last]]
    following[cut[0]], following[cut[1]] = 8, -1
    ended = np.setdiff1d(last, cut)
    following[ended[0]] = 999  # at a terminated step its value is ignored
    at = table.column_names.index("next_state")
    folder = write(tmp_path / "log", table.set_column(at, "next_state", pa.array(following)))
    stream, memory = open_stream(folder, part_rows=30), dw.read(folder)
    assert stream.state_labels.tolist() == memory.state_labels.tolist() == list(range(9))
    pi_e, pi_b = policies(n_states=9)
    same(dw.estimate("DM", stream, pi_e, pi_b).value, dw.estimate("DM", memory, pi_e, pi_b).value)


def test_a_policy_may_leave_out_a_state_that_is_only_a_gap(tmp_path: Path) -> None:
    table = table_of()
    folder = write(tmp_path / "log", table.set_column(2, "state", pa.array(table["state"].to_numpy() * 2)))
    probs, _ = policies()
    policy = dw.TabularPolicy(probs, states=[0, 2, 4, 6, 8, 10])
    stream, memory = open_stream(folder, part_rows=50), dw.read(folder)
    same(dw.estimate("WIS", stream, policy, policy).value, dw.estimate("WIS", memory, policy, policy).value)


def test_columns_by_the_users_names_and_from_folder_names(tmp_path: Path) -> None:
    table = table_of().rename_columns(["stay", "step", "state", "action", "reward", "unused"])
    whole = write(tmp_path / "whole", table)
    found = dw.estimate("WIS", open_stream(whole, {"episode": "stay"}, part_rows=50), *policies()).value
    same(found, dw.estimate("WIS", dw.read(whole, {"episode": "stay"}), *policies()).value)

    for action in range(3):
        folder = tmp_path / "hive" / f"action={action}"
        folder.mkdir(parents=True)
        write(folder, table.filter(pc.equal(table["action"], action)).drop_columns("action"), files=1)
    stream = open_stream(tmp_path / "hive", {"episode": "stay"}, part_rows=50)
    same(dw.estimate("WIS", stream, *policies()).value, found)


def test_what_needs_the_whole_log_says_so(both: tuple[Stream, Any]) -> None:
    stream, memory = both
    pi_e, pi_b = policies()
    with pytest.raises(EstimationError, match="needs a log in memory"):
        dw.estimate("SIS", stream, pi_e, pi_b, drop=np.zeros(memory.n_steps, dtype=bool))
    for rule in ("covariance:0.01", "return-test:0.05"):
        with pytest.raises(EstimationError, match="one piece"):
            dw.estimate("SIS", stream, pi_e, pi_b, drop=rule)
    with pytest.raises(EstimationError, match="one piece"):
        dw.estimate(
            "SIS", stream, pi_e, pi_b, drop="q-gap:1.0", interval="guaranteed", return_range=(-40, 40)
        )
    with pytest.raises(EstimationError, match="one piece"):
        dw.estimate("MIS", stream, pi_e, pi_b, interval="bootstrap")
    with pytest.raises(DropError, match="one flag for each state"):
        dw.estimate("SIS", stream, pi_e, pi_b, drop=np.zeros(N_STATES + 1, dtype=bool))


def test_folds_do_not_depend_on_parts(both: tuple[Stream, Any]) -> None:
    for name, options in (("DR", {"cross_fit": 2}), ("WDR", {"cross_fit": 3}), ("BLEND", {})):
        found, expected = (dw.estimate(name, log, *policies(), **options) for log in both)
        same(found.value, expected.value)
        same(found.std_error, expected.std_error)


def test_a_mask_of_states(both: tuple[Stream, Any]) -> None:
    mask = np.arange(N_STATES) < 2
    found, expected = (dw.estimate("WSIS", log, *policies(), drop=mask) for log in both)
    same(numbers(found), numbers(expected))
    assert found.dropped == expected.dropped
