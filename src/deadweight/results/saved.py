"""The base of all results: parts that are there only if they were asked for, and files in JSON.

A result is computed when it is made. A part that takes a pass of its own over the log, and that nobody
asked for, is not in it; reading it raises `NotAsked`, which says how to ask.

A file is `{"schema": 3, "type": "Evaluation", "version": ..., "result": {...}}`. Numbers keep every bit;
what JSON does not have is an object with one key that begins with a dollar sign: `$float` (inf, nan),
`$tuple`, `$date`, `$datetime`, `$array`, `$type` (a part of a result), and `$dict` for a dictionary whose
keys are no text or look like one of these. Loading builds known classes from plain values and runs no code.
Files of schema 2 are read too: `_of_schema_2` says what was otherwise.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from deadweight._version import SCHEMA, __version__
from deadweight.errors import DataError, NotAsked, OutputError
from deadweight.tools.arithmetic import freeze_fields
from deadweight.tools.files import write_text

OLDEST = 2
"""Schema of the oldest files that can be loaded."""

ABSENT: Any = object()


def absent() -> Any:
    """The default of a field that is left out unless it is given; see `Result.ASK`."""
    return ABSENT


class Result:
    """Base of results.

    `ASK` says, for each field that may be absent, how to ask for it.
    """

    ASK: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        freeze_fields(self)
        for name in self.ASK:
            if self.__dict__.get(name) is ABSENT:
                del self.__dict__[name]

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for attributes that are not set.
        kind = type(self)
        if name in kind.ASK:
            raise NotAsked(f"This {kind.__name__} has no {name}: it was not asked for.", fix=kind.ASK[name])
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")

    def save(self, path: str | Path) -> Path:
        """Write the result to a JSON file, whole or not at all, for `deadweight.load`; returns the path."""
        document = {
            "schema": SCHEMA,
            "type": type(self).__name__,
            "version": __version__,
            "result": _fields(self),
        }
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
        try:
            write_text(Path(path), text + "\n")
        except OSError as error:
            raise OutputError(
                f"The result cannot be saved to {Path(path)}: {error.strerror or error}.",
                fix="Name a file in a folder that exists and may be written to.",
            ) from None
        return Path(path)

    def with_changes(self, **changes: Any) -> Self:
        """A copy in which some fields have other values."""
        return type(self)(**{**_present(self), **changes})


def finite(number: float | None) -> float | None:
    """The number for JSON, which has no infinity and no NaN: those are null."""
    return float(number) if number is not None and math.isfinite(number) else None


def json_label(label: Any) -> Any:
    """A label as JSON has it: a date as text, a tuple as a list, anything that JSON does not know as text.

    >>> json_label((1, datetime.date(2024, 5, 1)))
    [1, '2024-05-01']
    """
    if isinstance(label, float):
        return label if math.isfinite(label) else str(label)
    if label is None or isinstance(label, str | int):
        return label
    if isinstance(label, tuple | list):
        return [json_label(part) for part in label]
    return label.isoformat() if isinstance(label, datetime.date) else str(label)


# --- Files

T = TypeVar("T", bound=type)
DTYPES = {"f": "float64", "i": "int64", "u": "int64", "b": "bool", "O": "object"}
UNFIT = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
"""The exceptions of a result whose fields were changed in its file."""
LONGEST_REASON = 200
_KINDS: dict[str, type] = {}


def saved(kind: T) -> T:
    """Make a dataclass one that can be saved, whole or as a part of a result; used as a decorator."""
    _KINDS[kind.__name__] = kind
    return kind


def loaded(path: str | Path, kinds: Iterable[type[Result]]) -> Any:
    """A result of one of these kinds that its `save` has written; its parts are whatever can be saved."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror or error}.",
            fix='Give a file that `save` has written, such as dw.load("evaluation.json").',
        ) from None
    except ValueError:  # bytes that are no text, or a name that no file can have
        raise _foreign(path) from None
    try:
        document = json.loads(
            text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_each_key_once
        )
    except (ValueError, RecursionError) as error:
        raise _damaged(path, _why(error)) if text.startswith('{"schema":') else _foreign(path) from None
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        raise _foreign(path)
    if document["schema"] > SCHEMA:
        raise DataError(
            f"{path} was saved by a newer version of deadweight (schema {document['schema']}; this one knows "
            f"up to {SCHEMA}).",
            fix="Update deadweight.",
        )
    kind = {kind.__name__: kind for kind in kinds}.get(str(document.get("type")))
    if document["schema"] < OLDEST or kind is None:
        raise _foreign(path)
    try:
        values = document["result"]
        result = _built(kind, _of_schema_2(values) if document["schema"] == 2 else values)
        result.to_dict()  # raises if fields were changed in the file
        repr(result)
    except UNFIT as error:
        raise _damaged(path, _why(error)) from None
    return result


def _foreign(path: str | Path) -> DataError:
    return DataError(
        f"{path} is not a result that deadweight has saved.",
        fix="The method save of a result makes such files. Logs are read by deadweight.read.",
    )


def _damaged(path: str | Path, why: str) -> DataError:
    return DataError(f"{path} is a damaged result: {why}.", fix="Save it again, or take an older copy.")


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its parts are nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return "it is not whole"
    return (str(error) or type(error).__name__)[:LONGEST_REASON]


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _finite(word: str) -> float:
    number = float(word)
    return number if math.isfinite(number) else _no_number(f"the number {word}")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for key, value in pairs:
        if key in known:
            raise ValueError(f"it has {key!r} twice")
        known[key] = value
    return known


def _present(thing: Any) -> dict[str, Any]:
    """The fields of a dataclass that are there."""
    there = vars(thing)
    return {field.name: there[field.name] for field in dataclasses.fields(thing) if field.name in there}


def _fields(thing: Any) -> dict[str, Any]:
    return {name: _encoded(value) for name, value in _present(thing).items()}


def _encoded(value: Any) -> Any:
    """The value as JSON has it, see `_decoded`."""
    if isinstance(value, np.generic):
        value = value.item()
    encode = next((encode for kinds, encode in _ENCODERS if isinstance(value, kinds)), None)
    if encode is not None:
        return encode(value)
    if _KINDS.get(type(value).__name__) is type(value):
        return {"$type": type(value).__name__, "fields": _fields(value)}
    raise OutputError(
        f"A result with a {type(value).__name__} in it ({value!r:.60}) cannot be saved as JSON.",
        fix="Use labels that are text, numbers, dates, or tuples of these.",
    )


def _encoded_array(array: Any) -> dict[str, Any]:
    items = [_encoded(item) for item in array.ravel().tolist()]
    return {"$array": DTYPES.get(array.dtype.kind, "object"), "shape": list(array.shape), "values": items}


def _encoded_mapping(entries: Mapping[Any, Any]) -> dict[str, Any]:
    if all(isinstance(key, str) and not key.startswith("$") for key in entries):
        return {key: _encoded(item) for key, item in entries.items()}
    return {"$dict": [[_encoded(key), _encoded(item)] for key, item in entries.items()]}


# By kind of value, of which the first that fits counts: a bool is an int, and a datetime a date.
_ENCODERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((type(None), bool, str), lambda value: value),
    (int, int),
    (float, lambda number: float(number) if math.isfinite(number) else {"$float": repr(float(number))}),
    (list, lambda items: [_encoded(item) for item in items]),
    (tuple, lambda items: {"$tuple": [_encoded(item) for item in items]}),
    (np.ndarray, _encoded_array),
    (Mapping, _encoded_mapping),
    (datetime.datetime, lambda moment: {"$datetime": moment.isoformat()}),
    (datetime.date, lambda day: {"$date": day.isoformat()}),
)


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next((key for key in value if key.startswith("$")), None)
    if tag is None:
        return {key: _decoded(item) for key, item in value.items()}
    return _TAGS[tag](value)


def _decoded_array(value: dict[str, Any]) -> Any:
    if value["$array"] not in DTYPES.values():
        raise ValueError(f"an array of {value['$array']}")
    items = [_decoded(item) for item in value["values"]]
    array = np.empty(len(items), dtype=value["$array"])
    array[:] = items
    return array.reshape(value["shape"])


def _decoded_float(value: dict[str, Any]) -> float:
    if value["$float"] not in ("inf", "-inf", "nan"):
        raise ValueError(f"a number {value['$float']!r}")
    return float(value["$float"])


_TAGS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "$float": _decoded_float,
    "$tuple": lambda value: tuple(_decoded(item) for item in value["$tuple"]),
    "$dict": lambda value: {_decoded(key): _decoded(item) for key, item in value["$dict"]},
    "$date": lambda value: datetime.date.fromisoformat(value["$date"]),
    "$datetime": lambda value: datetime.datetime.fromisoformat(value["$datetime"]),
    "$array": _decoded_array,
    "$type": lambda value: _built(_KINDS[value["$type"]], value["fields"]),
}


def _built(kind: type, values: dict[str, Any]) -> Any:
    """A dataclass from its fields, all of which must be its own."""
    strange = set(values) - {field.name for field in dataclasses.fields(kind) if field.init}
    if strange:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(strange))}")
    return kind(**{name: _decoded(item) for name, item in values.items()})


def _of_schema_2(value: Any) -> Any:
    """The value as schema 3 has it, where reports and results share their parts.

    In schema 2 the background of an evaluation had rows of its own for states and for weights, and a mix
    could have two fields that say nothing any more.
    """
    if isinstance(value, list):
        return [_of_schema_2(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _of_schema_2(item) for key, item in value.items()}
    if value.get("$type") == "Blend":
        for name in ("misfit", "drops"):
            value["fields"].pop(name, None)
    elif value.get("$type") == "Background":
        parts = value["fields"]
        parts["weights"] = _weights_of_schema_2(parts["weights"]["fields"])
        if parts["states"] is not None:
            listed = parts["states"]["fields"]
            parts |= {"states": _states_of_schema_2(listed["rows"]), "n_dropped": listed["n_dropped"]}
    return value


def _states_of_schema_2(rows: list[dict[str, Any]]) -> dict[str, Any]:
    states = [row["fields"] for row in rows]
    kinds = dict.fromkeys(("visits", "chi2", "variance_cost", "bias", "gap"), "float64") | {"dropped": "bool"}
    columns = {name: _array([row[name] for row in states], kind) for name, kind in kinds.items()}
    return {"$type": "StateReport", "fields": {"labels": [row["label"] for row in states], **columns}}


def _weights_of_schema_2(shown: dict[str, Any]) -> dict[str, Any]:
    summaries = [shown[name]["fields"] for name in ("before", "after") if shown[name] is not None]
    nan = {"$float": "nan"}
    unknown = {"zero_ratio_share": nan, "kept_visits": nan, "dropped_visits": nan}
    reports = [
        {
            **{name: summary[name] for name in ("ess", "largest_share", "pareto_k", "mean", "mean_z")},
            **dict.fromkeys(("dropped_mean", "dropped_mean_z")),
            "zero_weight_share": summary["zero_share"],
            "ess_steps": _array(summary["ess_steps"], "float64"),
            "n_episodes": shown["n_episodes"],
            **unknown,
        }
        for summary in summaries
    ]
    parts = {
        "steps": shown["steps"],
        "edges": shown["edges"],
        "reports": [{"$type": "WeightReport", "fields": report} for report in reports],
        "counts": [summary["counts"] for summary in summaries],
    }
    return {"$type": "WeightsContent", "fields": parts}


def _array(values: list[Any], kind: str) -> dict[str, Any]:
    return {"$array": kind, "shape": [len(values)], "values": values}
