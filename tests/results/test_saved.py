"""Saved results: the same numbers again, to the bit, from a file that cannot run anything."""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluations import ODD, lift
from results.graph import held

import deadweight as dw
from deadweight.errors import DataError, DeadweightError
from deadweight.results.saved import Result

SCHEMA_2 = Path(__file__).with_name("schema2")
LABELS: dict[str, list[Any]] = {
    "text": ["a", 'q"uote', "line\nbreak", "\u202e", "$float"],
    "whole numbers": [-5, 3, 10**12, 7, 2],
    "fractions": [0.1, 1 / 3, -2.5, 1e300, 5e-324],
    "booleans": [True, False, True, False, True],
    "tuples": [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")],
    "dates": [datetime.date(2024, 1, day) for day in range(1, 6)],
    "times": [datetime.datetime(2024, 1, day, 12, 30, 15, 123456) for day in range(1, 6)],
}


def same(one: Any, other: Any) -> bool:
    """Equality of plain data to the bit, NaN and arrays included."""
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and same(vars(one), vars(other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and same(one.tolist(), other.tolist())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return isinstance(other, float) and (one.hex() == other.hex() or (one != one and other != other))
    return type(one) is type(other) and one == other


def again(result: Any, path: Path) -> Any:
    return dw.load(result.save(path / "result.json"))


@pytest.mark.parametrize("name", ODD)
def test_a_table_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    found = ODD[name]()
    back = again(found, tmp_path)
    assert back.to_dict() == found.to_dict()
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()
    assert found.to_dict()["schema"] == 3
    assert str(back) == str(found)
    assert same(found, back)


def test_a_report_of_a_loaded_table_is_that_of_the_table(tmp_path: Path) -> None:
    found = lift()
    texts = [one.report(tmp_path / "out.html").read_text() for one in (found, again(found, tmp_path))]
    assert texts[0] == texts[1]


def test_every_kind_of_result_comes_back(tmp_path: Path) -> None:
    problem = dw.domains.stochastic_lift(7)
    log = problem.sample(100, seed=0)
    also = ["influence", "ess_steps"]
    estimate = dw.estimate("SINCRIS", log, problem.pi_e, problem.pi_b, drop=[1], also=also)
    path = dw.epsilon_path("WSIS", log, problem.pi_e, problem.pi_b)
    verdict = dw.evaluate(log, problem.pi_e, problem.pi_b, ["WIS"]).verdict
    for result in (estimate, path, verdict):
        back = again(result, tmp_path)
        assert same(result, back), type(result)
        assert back.to_dict() == result.to_dict()
    assert [one.states for one in again(path, tmp_path).sets] == [one.states for one in path.sets]
    assert isinstance(again(estimate, tmp_path).details["windows"], np.ndarray)


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind(kind: str, tmp_path: Path) -> None:
    states, n = LABELS[kind], 40
    log = dw.Trajectories.from_episodes([[(states[i % 5], i % 2, float(i % 3))] for i in range(n)])
    pi_e = np.tile([0.25, 0.75], (log.n_states, 1))
    found = dw.evaluate(
        log, pi_e, np.full_like(pi_e, 0.5), ["BEHAVIOUR", "WSIS"], drop=[states[0], states[1]]
    )
    assert found["WSIS"].dropped  # a list of booleans is a mask
    back = again(found, tmp_path)
    assert same(back["WSIS"].dropped, found["WSIS"].dropped)
    assert back.to_dict() == found.to_dict() == json.loads(json.dumps(found.to_dict()))


def test_a_label_that_json_cannot_hold_is_one_clear_error(tmp_path: Path) -> None:
    found = ODD["equal policies"]()
    odd = found["WSIS"].with_changes(dropped=[complex(1, 2)])
    with pytest.raises(DeadweightError, match=r"complex.*cannot be saved.*\n.*text, numbers, dates"):
        odd.save(tmp_path / "result.json")
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a result"),
        ("[1, 2]", "not a result"),
        ('{"a": 1}', "not a result"),
        ("state,action\n1,2\n", "not a result"),
        ('{"schema": 3, "type": "Path", "result": {}}', "not a result"),
        ('{"schema": 3, "type": "Interval", "result": {}}', "not a result"),
        ('{"schema": 1, "type": "Evaluation", "result": {}}', "not a result"),
        ('{"schema": 2, "type": "Evaluation", "result": {}}', "damaged"),
        ('{"schema": 2, "type": "Evaluation", "result": []}', "damaged"),
        (
            '{"schema": 2, "type": "Verdict", "result": {"a": {"$type": "Background", "fields": {}}}}',
            "damaged",
        ),
        ('{"schema": 4, "type": "Evaluation", "result": {}}', "newer version"),
        ('{"schema": 3, "type": "Evaluation", "result": {}}', "damaged"),
        ('{"schema": 3, "type": "Evaluation"}', "damaged"),
        (
            '{"schema": 3, "type": "Verdict", "result": {"answer": {"$type": "os.system", "fields": {}}}}',
            "damaged",
        ),
        ('{"schema": 3, "type": "Verdict", "result": {"answer": {"$call": "os.system"}}}', "damaged"),
        ('{"schema": 3, "type": "Verdict", "result": {"system": 1}}', "damaged.*has no system"),
    ],
)
def test_what_is_not_a_saved_result(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        dw.load(path)


def _nested(opening: str, closing: str, depth: int) -> str:
    """A saved table one field of which is nested so deeply."""
    inner = opening * depth + "1" + closing * depth
    return f'{{"schema":3,"type":"Evaluation","result":{{"conventions":{inner}}}}}'


ODD_JSON: dict[str, Callable[[str], str | bytes]] = {
    "deep lists": lambda text: _nested("[", "]", 900),
    "deeper lists": lambda text: _nested("[", "]", 2_000),
    "deep dicts": lambda text: _nested('{"a":', "}", 900),
    "deep tuples": lambda text: _nested('{"$tuple":[', "]}", 450),
    "deeper than JSON is read": lambda text: _nested("[", "]", 200_000),
    "deep and nothing else": lambda text: "[" * 200_000,
    "NaN": lambda text: text.replace('"longest":', '"longest":NaN,"was":', 1),
    "beyond floats": lambda text: text.replace('"longest":', '"longest":1e999,"was":', 1),
    "an integer of 5,000 digits": lambda text: text.replace(
        '"longest":', f'"longest":{"9" * 5000},"was":', 1
    ),
    "a key twice": lambda text: text.replace('"longest":', '"longest":1,"longest":', 1),
    "two documents": lambda text: text + text,
    "a list for the result": lambda text: '{"schema":3,"type":"Evaluation","result":[]}',
    "a schema that is no number": lambda text: text.replace('"schema":3', '"schema":"3"', 1),
    "a list for the type": lambda text: text.replace('"Evaluation"', '["Evaluation"]', 1),
    "a byte order mark": lambda text: "\ufeff" + text,
    "two bytes a letter": lambda text: text.encode("utf-16"),
    "compressed": lambda text: gzip.compress(text.encode()),
    "any bytes": lambda text: bytes(range(256)),
    "zeros": lambda text: bytes(100),
    "nothing": lambda text: "",
}


@pytest.mark.parametrize("name", ODD_JSON)
def test_odd_json_is_one_clear_error(name: str, tmp_path: Path) -> None:
    path = ODD["equal policies"]().save(tmp_path / "result.json")
    odd = ODD_JSON[name](path.read_text())
    path.write_bytes(odd if isinstance(odd, bytes) else odd.encode())
    with pytest.raises(DataError, match=r"is a damaged result|is not a result") as caught:
        dw.load(path)
    assert caught.value.__cause__ is None
    assert len(str(caught.value)) < 400 + len(str(path))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("deeper lists", "its parts are nested too deeply"),
        ("NaN", "NaN is not JSON"),
        ("beyond floats", "the number 1e999 is not JSON"),
        ("an integer of 5,000 digits", "5000 digits"),
        ("a key twice", "it has 'longest' twice"),
    ],
)
def test_what_is_odd_is_said(name: str, why: str, tmp_path: Path) -> None:
    path = ODD["equal policies"]().save(tmp_path / "result.json")
    path.write_text(str(ODD_JSON[name](path.read_text())))
    with pytest.raises(DataError, match=why):
        dw.load(path)


def test_a_name_that_no_file_can_have_is_one_clear_error() -> None:
    with pytest.raises(DataError, match="is not a result"):
        dw.load("result\0.json")


def test_a_file_that_was_cut_anywhere_is_one_clear_error(tmp_path: Path) -> None:
    path = ODD["equal policies"]().save(tmp_path / "result.json")
    text = path.read_text()
    for size in range(0, len(text) - 2, len(text) // 40):
        path.write_text(text[:size])
        with pytest.raises(DataError, match=r"result\.json"):
            dw.load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        dw.load(tmp_path / "nothing.json")
    with pytest.raises(DeadweightError, match="cannot be saved"):
        ODD["equal policies"]().save(tmp_path / "missing" / "result.json")


def test_every_result_and_every_part_of_one_can_be_saved() -> None:
    """Whoever adds a result, or a part, has to register it."""
    from deadweight.results.saved import _KINDS

    kinds = {type(thing) for thing in held(lift()) if dataclasses.is_dataclass(thing)}
    assert kinds <= set(_KINDS.values())
    assert {kind for kind in _KINDS.values() if issubclass(kind, Result)} == {
        *(dw.Comparison, dw.CutBounds, dw.Estimate, dw.Evaluation, dw.EpsilonPath, dw.Improvement, dw.Verdict)
    }


def test_a_table_is_loaded_where_no_log_ever_was(tmp_path: Path) -> None:
    found = ODD["a drop by rule"]()
    path = found.save(tmp_path / "result.json")
    code = "import sys, deadweight as dw; ev = dw.load(sys.argv[1]); print(ev); ev.report(sys.argv[2])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(tmp_path / "out.html")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(found)


def test_a_table_of_the_former_mix_can_be_read(tmp_path: Path) -> None:
    """Its mix had an estimate with a drop in it, other fields, and a flag that there is no more."""
    table = dw.load(SCHEMA_2 / "evaluation.json")
    document = json.loads((SCHEMA_2 / "evaluation.json").read_text())
    estimates = document["result"]["estimates"]
    estimate = next(one["fields"] for one in estimates.values() if one["fields"]["blend"] is not None)
    mix = estimate["blend"]["fields"]
    for later in ("missing", "undetectable", "skewness", "skewed", "baseline_skewed"):
        del mix[later]
    mix |= {"misfit": 0.25, "drops": True}
    mix["shares"]["WDRSIS"] = mix["shares"].pop("LIN")
    for part in mix["parts"]["$tuple"]:
        part["fields"]["name"] = part["fields"]["name"].replace("LIN", "WDRSIS")
    mix["parts"]["$tuple"].append(
        {
            "$type": "Part",
            "fields": {**mix["parts"]["$tuple"][0]["fields"], "name": "WDRSIS cross-fitted", "share": 0.0},
        }
    )
    estimate["flags"]["$tuple"].append("model-useless")
    (tmp_path / "former.json").write_text(json.dumps(document))
    found = dw.load(tmp_path / "former.json")
    blend, known = found["BLEND"].blend, table["BLEND"].blend
    assert (blend.value, blend.half_width) == (known.value, known.half_width)
    assert blend.half_widths == (known.half_width, known.half_width)
    assert found["BLEND"].flags == (*table["BLEND"].flags, "model-useless")
    again = dw.load(found.save(tmp_path / "again.json"))
    assert again.to_dict() == found.to_dict()
    assert "BLEND" in str(found)
    assert "WDRSIS cross-fitted" in found.report(tmp_path / "page.html").read_text()


@pytest.mark.parametrize("name", ["evaluation", "features", "comparison", "improvement"])
def test_a_file_of_schema_2_loads_and_is_shown_like_the_same_result_of_today(
    name: str, tmp_path: Path
) -> None:
    saved = json.loads((SCHEMA_2 / f"{name}.json").read_text())
    assert saved["schema"] == 2
    found = dw.load(SCHEMA_2 / f"{name}.json")
    back = again(found, tmp_path)
    assert back.to_dict() == found.to_dict()
    assert same(found, back)
    pages = [each.report(tmp_path / "page.html", reward="euros").read_text() for each in (found, back)]
    assert pages[0] == pages[1]
    assert str(found) in str(back)


def test_what_a_file_of_schema_2_says_of_states_and_weights_is_kept(tmp_path: Path) -> None:
    saved = json.loads((SCHEMA_2 / "evaluation.json").read_text())["result"]["background"]["fields"]
    background = dw.load(SCHEMA_2 / "evaluation.json").background
    rows = [row["fields"] for row in saved["states"]["fields"]["rows"]]
    assert [{"label": row.pop("state"), **row} for row in background.states.rows()] == rows
    assert background.n_dropped == saved["states"]["fields"]["n_dropped"] > 0
    shown = saved["weights"]["fields"]
    for side, report, counts in zip(
        ("before", "after"), background.weights.reports, background.weights.counts, strict=True
    ):
        summary = shown[side]["fields"]
        assert counts == summary["counts"]
        assert report.ess_steps.tolist() == summary["ess_steps"]
        assert (report.ess, report.zero_weight_share) == (summary["ess"], summary["zero_share"])
        assert report.n_episodes == shown["n_episodes"]
        assert report.dropped_mean is None
        assert np.isnan(report.kept_visits)


def test_a_page_of_a_file_of_schema_2_is_that_of_the_evaluation_made_again(tmp_path: Path) -> None:
    """The states as they are drawn: numbers of estimates may change with a release, these do not."""
    problem = dw.domains.stochastic_lift(7)
    made = dw.evaluate(problem.sample(200, seed=0), problem.pi_e, problem.pi_b)
    found = dw.load(SCHEMA_2 / "evaluation.json")
    pages = [each.report(tmp_path / "page.html").read_text() for each in (made, found)]
    sections = [re.search('<section id="states".*?</section>', page, re.DOTALL)[0] for page in pages]
    assert sections[0] == sections[1]
    assert sections[0].count("<tr>") == 1 + len(found.background.states)


def test_a_field_that_no_version_had_is_refused(tmp_path: Path) -> None:
    text = lift().save(tmp_path / "table.json").read_text()
    assert '"shared_bias":' in text
    (tmp_path / "strange.json").write_text(text.replace('"shared_bias":', '"shard_bias":', 1))
    with pytest.raises(DataError, match="Blend has no shard_bias"):
        dw.load(tmp_path / "strange.json")
