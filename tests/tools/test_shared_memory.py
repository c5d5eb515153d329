"""What a user gives is copied and what is handed out cannot be written to: no answer changes later."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import deadweight as dw
from deadweight.diagnostics import state_report, weights
from deadweight.domains import deterministic_lift
from deadweight.errors import DeadweightError
from deadweight.log.columns import Features

N, STEPS, A = 30, 4, 2
ROWS = N * STEPS
NAMES = ["WPDIS", "WSPDIS", "DM"]
UNIFORM = np.full((3, A), 0.5)
TARGET = np.array([[0.2, 0.8], [0.5, 0.5], [0.7, 0.3]])
RNG = np.random.default_rng(3)
COLUMNS: dict[str, Any] = {
    "states": RNG.integers(0, 3, ROWS),
    "actions": RNG.integers(0, A, ROWS),
    "rewards": RNG.normal(size=ROWS),
    "offsets": np.arange(N + 1) * STEPS,
    "propensities": RNG.uniform(0.3, 0.7, ROWS),
    "target_probs": RNG.uniform(0.3, 0.7, ROWS),
    "terminated": RNG.random(N) < 0.5,
    "durations": RNG.uniform(0.5, 2.0, ROWS),
    "features": RNG.normal(size=(ROWS, 2)),
    "last_features": RNG.normal(size=(N, 2)),
    "behaviour_ids": np.array(["v1", "v2", "v3"], dtype=object)[RNG.integers(0, 3, N)],
}
COLUMNS["next_states"] = np.append(COLUMNS["states"][1:], 0)
TEXT = {name: np.array(["a", "b", "c"])[COLUMNS[name]] for name in ("states", "actions", "next_states")}
FIXED = {name: {**COLUMNS, **TEXT}[name] for name in COLUMNS}


@dataclass
class Given:
    """Arrays of the caller's, and what is asked with an object that was made of them."""

    make: Callable[[dict[str, Any]], Any]
    ask: Callable[[Any], Any]
    arrays: dict[str, Any] = field(default_factory=dict)


def _of_log(log: dw.Trajectories) -> Any:
    """All that a log says: its rows, and estimates that rest on each of its columns."""
    table = TARGET if log.state_labels.dtype != object else None
    said = [
        dw.estimate(name, log, table, UNIFORM, gamma=0.9).to_dict() for name in NAMES if table is not None
    ]
    arrays = [getattr(log, name) for name in ("rewards", "offsets", "terminated", "durations", "next_states")]
    arrays += [log.features, log.last_features, log.behaviour_ids, log.propensities, log.target_probs]
    plain = [None if one is None else one.tolist() for one in arrays]
    return list(log), said, plain, dw.estimate("WIS", log, None, None).to_dict()


def _log(arrays: dict[str, Any]) -> dw.Trajectories:
    return dw.Trajectories(**arrays)


def _counted() -> dw.Trajectories:
    wanted = ("states", "actions", "rewards", "offsets", "propensities")
    return dw.Trajectories(**{name: COLUMNS[name] for name in wanted})


def _described() -> dw.Trajectories:
    wanted = ("actions", "rewards", "offsets", "propensities", "features")
    return dw.Trajectories(None, **{name: COLUMNS[name] for name in wanted})


def _estimated(**options: Any) -> Any:
    return dw.evaluate(_counted(), TARGET, None, NAMES, gamma=0.9, **options).to_dict()


def _by_row(pi_e: Any = None, **options: Any) -> Any:
    given = dw.RowPolicy(np.full((ROWS, A), 0.5)) if pi_e is None else pi_e
    return dw.estimate("WDR", _described(), given, np_half(), **options).to_dict()


def np_half() -> dw.RowPolicy:
    return dw.RowPolicy(np.full((ROWS, A), 0.5))


LIFT = deterministic_lift(5)
DENSE = LIFT.mdp.P.toarray().reshape(LIFT.mdp.n_states, LIFT.mdp.n_actions, -1)


def _csr(arrays: dict[str, Any]) -> dw.TabularMDP:
    P = sparse.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=LIFT.mdp.P.shape)
    return dw.TabularMDP(P, arrays["R"], arrays["d0"], horizon=6)


def _of_mdp(mdp: dw.TabularMDP) -> Any:
    return dw.policy_value(mdp, LIFT.pi_e), dw.policy_value(mdp, LIFT.pi_b), mdp.r.tolist()


def _of_states(states: dw.StateSet) -> Any:
    evidence = {name: values.tolist() for name, values in states.evidence.items()}
    return _estimated(drop=states), str(states), list(states.labels), evidence


GIVEN: dict[str, Given] = {
    "log": Given(_log, _of_log, COLUMNS),
    "log of text": Given(_log, _of_log, FIXED),
    "log of 32 bits": Given(
        _log,
        _of_log,
        {**COLUMNS, "states": COLUMNS["states"].astype(np.int32), "rewards": COLUMNS["rewards"].astype("f4")},
    ),
    "log of whole floats": Given(_log, _of_log, {**COLUMNS, "states": COLUMNS["states"].astype(float)}),
    "log of objects": Given(_log, _of_log, {**COLUMNS, **{name: TEXT[name].astype(object) for name in TEXT}}),
    "log of views": Given(
        lambda arrays: dw.Trajectories(
            **{name: one[:] if isinstance(one, np.ndarray) else one for name, one in arrays.items()}
        ),
        _of_log,
        COLUMNS,
    ),
    "log of read-only views": Given(
        lambda arrays: dw.Trajectories(**{name: _read_only(one) for name, one in arrays.items()}),
        _of_log,
        COLUMNS,
    ),
    "log of lists": Given(
        _log,
        _of_log,
        {name: one.tolist() for name, one in COLUMNS.items() if name != "features"}
        | {"features": COLUMNS["features"].tolist()},
    ),
    "propensities": Given(
        lambda arrays: _counted().with_propensities(arrays["p"]),
        lambda log: dw.estimate("WPDIS", log, TARGET, None).to_dict(),
        {"p": COLUMNS["propensities"]},
    ),
    "policy": Given(
        lambda arrays: dw.TabularPolicy(**arrays),
        lambda policy: (str(policy), dw.estimate("WPDIS", _counted(), policy, None).to_dict()),
        {"probs": TARGET, "states": np.arange(3), "actions": np.arange(A)},
    ),
    "policy by row": Given(
        lambda arrays: dw.RowPolicy(**arrays),
        lambda policy: (str(policy), _by_row(policy)),
        {
            "probs": np.stack([COLUMNS["propensities"], 1 - COLUMNS["propensities"]], axis=1),
            "actions": np.arange(A),
            "last": np.full((N, A), 0.5),
        },
    ),
    "policy of features": Given(
        lambda arrays: dw.FeaturePolicy(lambda x: arrays["answer"][: len(x)], arrays["actions"]).on(
            _described()
        ),
        lambda policy: (str(policy), _by_row(policy)),
        {
            "answer": np.stack([COLUMNS["propensities"], 1 - COLUMNS["propensities"]], axis=1),
            "actions": np.arange(A),
        },
    ),
    "given q": Given(
        lambda arrays: dw.GivenQ(**arrays),
        lambda q: _by_row(model=q),
        {"q": RNG.normal(size=(ROWS, A)), "last": RNG.normal(size=(N, A))},
    ),
    "mdp": Given(
        lambda arrays: dw.TabularMDP(**arrays, horizon=6),
        _of_mdp,
        {"P": DENSE, "R": np.array(LIFT.mdp.r), "d0": np.array(LIFT.mdp.d0)},
    ),
    "sparse mdp": Given(
        _csr,
        _of_mdp,
        {
            **{name: np.array(getattr(LIFT.mdp.P, name)) for name in ("data", "indices", "indptr")},
            "R": np.array(LIFT.mdp.r),
            "d0": np.array(LIFT.mdp.d0),
        },
    ),
    "states": Given(
        lambda arrays: dw.StateSet(arrays["mask"], arrays["labels"], evidence={"gap": arrays["gap"]}),
        _of_states,
        {"mask": np.array([True, False, True]), "labels": np.arange(3), "gap": np.arange(3.0)},
    ),
    "drop of flags": Given(
        lambda arrays: dw.evaluate(_counted(), TARGET, None, NAMES, drop=arrays["drop"]),
        lambda ev: ev.to_dict(),
        {"drop": RNG.random(ROWS) < 0.5},
    ),
    "drop of states": Given(
        lambda arrays: dw.evaluate(_counted(), TARGET, None, NAMES, drop=arrays["drop"]),
        lambda ev: ev.to_dict(),
        {"drop": [0, 2]},
    ),
    "table of numpy columns": Given(
        lambda arrays: dw.read(arrays, time_limit=None),
        lambda log: (list(log), dw.estimate("WPDIS", log, TARGET, None).to_dict(), log.rows.tolist()),
        {
            "episode": np.repeat(np.arange(N), STEPS),
            "step": np.tile(np.arange(STEPS), N),
            "state": COLUMNS["states"],
            "action": COLUMNS["actions"],
            "reward": COLUMNS["rewards"],
            "propensity": COLUMNS["propensities"],
        },
    ),
}
TABLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": lambda columns: pytest.importorskip("pandas").DataFrame(columns, copy=False),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "pyarrow": lambda columns: pa.table({name: pa.array(one) for name, one in columns.items()}),
}
for _name, _frame in TABLES.items():
    GIVEN[f"table of {_name}"] = Given(
        lambda arrays, frame=_frame: dw.read(frame(arrays), time_limit=None),
        GIVEN["table of numpy columns"].ask,
        GIVEN["table of numpy columns"].arrays,
    )


def _read_only(given: Any) -> Any:
    view = given[:]
    view.flags.writeable = False
    return view


def _spoilt(array: Any) -> None:
    """Write other values of the same type into all that can be written to."""
    if isinstance(array, list):
        array[:] = [0] * len(array)
    elif array.dtype.kind in "OU":
        array[...] = "b"
    else:
        array[...] = np.roll(array, 1, axis=0) if array.dtype.kind == "b" else 1 - array


@pytest.mark.parametrize("name", GIVEN)
def test_what_was_given_may_be_written_to_afterwards(name: str) -> None:
    given = GIVEN[name]
    own = {key: one.copy() for key, one in given.arrays.items()}
    made = given.make(own)
    before = given.ask(made)
    untouched = {key: np.array(one) for key, one in own.items()}
    for key, one in own.items():
        assert np.array_equal(np.array(one), untouched[key]), f"{key} was written to"
        _spoilt(one)
        assert _same(given.ask(made), before), f"{key} is shared"


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, default=str) == json.dumps(other, default=str)


def test_a_mapped_file_may_be_written_to_afterwards(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "rewards", dtype=np.float64, mode="w+", shape=(ROWS,))
    mapped[:] = COLUMNS["rewards"]
    log = dw.Trajectories(**{**COLUMNS, "rewards": mapped})
    before = _of_log(log)
    mapped[:] = 0.0
    assert _same(_of_log(log), before)


OUTPUTS: dict[str, Callable[[], Any]] = {
    "log": lambda: dw.Trajectories(**COLUMNS),
    "log by row": _described,
    "some episodes": lambda: dw.Trajectories(**FIXED).select([0, 2]),
    "read": lambda: GIVEN["table of numpy columns"].make(GIVEN["table of numpy columns"].arrays),
    "read with features": lambda: dw.read(
        {**GIVEN["table of numpy columns"].arrays, "x": COLUMNS["rewards"]}, features=["x"], time_limit=None
    ),
    "policy": lambda: dw.TabularPolicy(TARGET, states=["a", "b", "c"], actions=[0, 1]),
    "policy by row": lambda: dw.RowPolicy(np.full((ROWS, A), 0.5), actions=[0, 1], last=np.full((N, A), 0.5)),
    "learned": lambda: dw.fit_behaviour(_described()),
    "given q": lambda: dw.GivenQ(np.zeros((ROWS, A)), np.zeros((N, A))),
    "mdp": lambda: LIFT.mdp,
    "fitted mdp": lambda: dw.fit_mdp(_counted()),
    "states": lambda: dw.StateSet(np.ones(3, dtype=bool), np.arange(3), evidence={"gap": np.zeros(3)}),
    "estimate": lambda: dw.estimate("WSPDIS", _counted(), TARGET, None, also=["influence"]),
    "evaluation": lambda: dw.evaluate(_counted(), TARGET, None, drop="auto", background=True),
    "path": lambda: dw.epsilon_path("WSPDIS", _counted(), TARGET, None),
    "comparison": lambda: dw.compare(_counted(), {"a": TARGET, "b": UNIFORM}, resamples=100),
    "improvement": lambda: dw.improve(_counted()),
    "sequence": lambda: dw.confidence_sequence(_counted(), TARGET, None, return_range=(-20.0, 20.0)),
    "bounds": lambda: dw.cut_bounds(dw.Trajectories(**COLUMNS), TARGET, None, remaining=(0.0, 4.0)),
    "state report": lambda: state_report(_counted(), TARGET, None, drop=[1]),
    "weights": lambda: weights(_counted(), TARGET, None),
}


def _arrays(thing: Any, path: str, seen: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    """All arrays that a user can reach from an object by its public names."""
    if id(thing) in seen or isinstance(thing, type | str | bytes | int | float | np.generic | None.__class__):
        return
    seen[id(thing)] = thing  # alive, so that nothing else gets its number
    if isinstance(thing, np.ndarray):
        yield path, thing
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _arrays(value, f"{path}[{key!r}]", seen)
    elif isinstance(thing, list | tuple) or type(thing).__name__ == "LevelSets":
        for place, value in enumerate(thing[:3]):
            yield from _arrays(value, f"{path}[{place}]", seen)
    elif type(thing).__module__.startswith(("deadweight", "scipy.sparse")):
        for name in ("data", "indices", "indptr") if sparse.issparse(thing) else dir(thing):
            if name.startswith("_"):
                continue
            try:
                value = getattr(thing, name)
            except DeadweightError:  # was not asked for
                continue
            if not callable(value):
                yield from _arrays(value, f"{path}.{name}", seen)


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_handed_out_cannot_be_written_to(name: str) -> None:
    handed = OUTPUTS[name]()
    reached = list(_arrays(handed, name, {}))
    again = dict(_arrays(handed, name, {}))  # what is made anew whenever it is read belongs to who reads it
    kept = [(path, array) for path, array in reached if np.shares_memory(array, again[path])]
    assert kept or name in ("evaluation", "bounds")
    assert not [path for path, array in kept if array.flags.writeable]


RESULTS = ("estimate", "evaluation", "path", "comparison", "improvement", "bounds", "weights")


def _emptied(value: Any) -> None:
    """Change all lists and dicts within."""
    for one in list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []:
        _emptied(one)
    if isinstance(value, dict | list):
        value.clear()


@pytest.mark.parametrize("name", RESULTS)
def test_dictionaries_of_results_are_the_callers(name: str) -> None:
    result = OUTPUTS[name]()
    before = json.dumps(result.to_dict())
    _emptied(result.to_dict())
    assert json.dumps(result.to_dict()) == before


def test_a_log_takes_over_checked_arrays_without_copying_them() -> None:
    log = dw.Trajectories(**COLUMNS)
    again = log.with_time_limit(9, says_ends=True)
    assert np.shares_memory(again.rewards, log.rewards)
    assert np.shares_memory(again.states, log.states)
    described = Features(COLUMNS["features"], COLUMNS["last_features"], ("a", "b"))
    assert np.shares_memory(described.values, COLUMNS["features"])
