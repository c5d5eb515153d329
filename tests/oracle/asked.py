"""All that the library says of a case, verb by verb, as plain trees of dicts, lists, text and numbers."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from oracle.logs import Case

import deadweight as dw

Tree = Any
"""Dicts with text for keys, lists, text, booleans, whole numbers, floats and None."""

# Parts of names that need labels, all others, and those that are asked for by themselves.
WITH_LABELS = ("INCRIS", "MIS", "CIS", "SDRE")
BY_ROW = tuple(name for name in dw.ESTIMATORS if not any(part in name for part in WITH_LABELS))
RATIOS = ("BEHAVIOUR", "IS", "WIS", "PDIS", "WPDIS")
ALONE = ("WPDIS", "WSPDIS", "C-WSPDIS", "WDR", "LIN", "DM", "WINCRIS", "BLEND")
PATHS = ("WSIS", "C-WSPDIS", "WDRSIS")
ALSO = ("std_error", "bias", "ess_steps", "influence")


def tree(value: Any) -> Tree:
    """A value as plain data: what has `to_dict` by that, arrays as lists, other objects by their fields."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return tree(value.item())
    if isinstance(value, np.ndarray | list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [tree(item) for item in items]
    if isinstance(value, Mapping):
        return {str(key): tree(item) for key, item in value.items()}
    if hasattr(value, "to_dict"):
        return tree(value.to_dict())
    if dataclasses.is_dataclass(value):
        return {one.name: tree(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return repr(value)


@contextmanager
def _there(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def outputs(case: Case) -> dict[str, Tree]:
    """What each verb says, by its name; an error is what it says as well, and so are its warnings."""
    said = {}
    with tempfile.TemporaryDirectory() as scratch, _there(Path(scratch)):
        log = case.folder(Path("log")) if case.streamed else case.log
        for name, ask in VERBS.items():
            said[name] = _said(ask, case, log)
    return said


def _said(ask: Callable[[Case, Any], Tree], case: Case, log: Any) -> Tree:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = tree(ask(case, log))
        except dw.errors.DeadweightError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
    remarks = [f"{one.category.__name__}: {one.message}" for one in caught]
    return {"answer": answer, "warnings": remarks} if remarks else answer


def _evaluate(case: Case, log: Any) -> Tree:
    ev = dw.evaluate(log, case.pi_e, case.pi_b, **case.options)
    ev.report("page.html", title="A log")
    ev.save("evaluation.json")
    return {
        "dict": ev,
        "printed": str(ev),
        "explained": {name: ev[name].explain() for name in ev.estimates},
        "html": ev._repr_html_(),
        "page": Path("page.html").read_text().replace(dw.__version__, "VERSION"),
        "loaded": dw.load("evaluation.json").to_dict() == ev.to_dict(),
    }


def _table(case: Case, log: Any) -> Tree:
    """All names in one table, with all that is made only where somebody asks."""
    options = {**case.options, "interval": "student-t", "also": ALSO, "background": False}
    said: dict[str, Tree] = {}
    for names in ([*dw.ESTIMATORS, "BLEND"], [*BY_ROW, "BLEND"], [*RATIOS]):  # one that is refused is enough
        try:
            ev = dw.evaluate(log, case.pi_e, case.pi_b, names, **options)
        except dw.errors.DeadweightError as error:
            said[f"{len(names)} names"] = str(error)
        else:
            return said | {name: _whole(ev[name]) for name in names}
    return said


def _one(case: Case, log: Any, name: str, **options: Any) -> Tree:
    try:
        return dw.estimate(name, log, case.pi_e, case.pi_b, **{**case.options, **options}).to_dict()
    except dw.errors.DeadweightError as error:
        return {"error": type(error).__name__, "message": str(error)}


def _whole(estimate: dw.Estimate) -> Tree:
    also = {name: _or_reason(estimate, name) for name in ("influence", "ess_steps", "bounds", "blend")}
    return {"dict": estimate, "explained": estimate.explain(), **also}


def _or_reason(holder: Any, name: str) -> Tree:
    try:
        return getattr(holder, name)
    except dw.errors.DeadweightError as error:
        return str(error)


def _alone(case: Case, log: Any) -> Tree:
    return {name: _one(case, log, name) for name in ALONE} | {
        "without interval": _one(case, log, "WPDIS", interval=None),
        "cross-fitted": _one(case, log, "LIN", cross_fit=2),
    }


def _path(case: Case, log: Any) -> Tree:
    options = {key: one for key, one in case.options.items() if key not in ("drop", "interval", "level")}

    def path(name: str) -> Tree:
        try:
            return dw.epsilon_path(name, log, case.pi_e, case.pi_b, **options).to_dict()
        except dw.errors.DeadweightError as error:
            return str(error)

    return {name: path(name) for name in PATHS}


def _compare(case: Case, log: Any) -> Tree:
    if case.other is None:
        return None
    options = {key: one for key, one in case.options.items() if key != "interval"}
    found = dw.compare(log, {"new": case.pi_e, "other": case.other}, case.pi_b, resamples=200, **options)
    found.report("compared.html")
    page = Path("compared.html").read_text().replace(dw.__version__, "VERSION")
    return {"dict": found, "printed": str(found), "page": page}


def _improve(case: Case, log: Any) -> Tree:
    options = {key: one for key, one in case.options.items() if key not in ("drop", "interval")}
    found = dw.improve(log, case.pi_b, **options)
    return {"dict": found, "printed": str(found), "policy": found.policy.probs}


def _doctor(case: Case, log: Any) -> Tree:
    target = dw.TabularPolicy(case.pi_e) if isinstance(case.pi_e, np.ndarray) else case.pi_e
    features = list(case.log.feature_names) if case.log.features is not None else None
    found = dw.doctor(case.table if log is case.log else log, target=target, features=features)
    return {"dict": found, "printed": str(found)}


def _looks(case: Case, log: Any) -> Tree:
    """Diagnostics and the ways to find negligible states."""
    gamma = {"gamma": case.options["gamma"]} if "gamma" in case.options else {}
    if log is not case.log:
        return None
    asked: dict[str, Callable[[], Any]] = {
        "weights": lambda: dw.diagnostics.weights(log, case.pi_e, case.pi_b),
        "support": lambda: dw.diagnostics.support(log, case.pi_e, case.pi_b),
        "states": lambda: str(dw.diagnostics.state_report(log, case.pi_e, case.pi_b, **gamma)),
        "q_gap": lambda: dw.negligible.q_gap(log, case.pi_e, 0.4, case.pi_b, **gamma),
        "covariance": lambda: dw.negligible.covariance(log, case.pi_e, case.pi_b, max_size=1, **gamma),
        "return_test": lambda: dw.negligible.return_test(log, **gamma),
        "cut_bounds": lambda: dw.cut_bounds(log, case.pi_e, case.pi_b, ["WPDIS", "DM"], remaining=(0, 2)),
        "sequence": lambda: dw.confidence_sequence(log, case.pi_e, case.pi_b, return_range=(-50.0, 50.0)),
    }
    return {name: _called(ask) for name, ask in asked.items()}


def _called(ask: Callable[[], Any]) -> Tree:
    try:
        return tree(ask())
    except (dw.errors.DeadweightError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def _commands(case: Case, log: Any) -> Tree:
    """What the command line prints; only of one old policy, and of policies that are tables or columns."""
    tables = {"target": _policy_file(case, case.pi_e), "behaviour": _policy_file(case, case.pi_b)}
    if None in tables.values():
        return None
    source = "log" if case.streamed else "log.csv"
    if not case.streamed:
        pc.write_csv(case.table, source)
    options = []
    for name, table in tables.items():
        if table:
            pc.write_csv(table, f"{name}.csv")
            options += [f"--{name}", f"{name}.csv"]
    gamma = [f"--gamma={case.options.get('gamma', 1.0)}"]
    asked = {
        "evaluate": ["evaluate", source, *options, *gamma, "--gate", "better"],
        "json": ["evaluate", source, *options, *gamma, "--json"],
        "doctor": ["doctor", source, *options[:2]],
    }
    if tables["target"]:
        asked["states"] = ["states", source, *options, *gamma]
    return {name: _command(arguments) for name, arguments in asked.items()}


def _policy_file(case: Case, policy: Any) -> pa.Table | bool | None:
    """A policy as a table: False where columns of the log stand for it, None where it is no table."""
    if policy is None:
        return False
    probs = getattr(policy, "probs", policy)
    if not isinstance(probs, np.ndarray):
        return None
    states, actions = (getattr(policy, name, None) for name in ("state_labels", "action_labels"))
    rows = np.arange(probs.shape[0]) if states is None else np.asarray(states)
    columns = np.arange(probs.shape[1]) if actions is None else np.asarray(actions)
    return pa.table(
        {
            "state": pa.array(np.repeat(rows, len(columns))),
            "action": pa.array(np.tile(columns, len(rows))),
            "prob": pa.array(probs.ravel()),
        }
    )


def _command(arguments: Sequence[str]) -> Tree:
    from deadweight.cli import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(arguments)
        except SystemExit as stop:
            code = stop.code
    text = out.getvalue().replace(dw.__version__, "VERSION")
    printed: Tree = text
    with contextlib.suppress(json.JSONDecodeError):
        printed = json.loads(text)
    return {"code": code, "out": printed, "err": err.getvalue()}


VERBS: dict[str, Callable[[Case, Any], Tree]] = {
    "evaluate": _evaluate,
    "table": _table,
    "alone": _alone,
    "path": _path,
    "compare": _compare,
    "improve": _improve,
    "doctor": _doctor,
    "looks": _looks,
    "commands": _commands,
}
