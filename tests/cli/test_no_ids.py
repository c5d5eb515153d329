"""No verb but the doctor names an episode: an id may be a person's, and results are passed on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doctor.broken_logs import CORPUS, sound

import deadweight as dw
from deadweight.cli import run

ID = "Jane-Doe-"
VERBS = {
    "evaluate": ("--target", "{policy}", "--estimators", "WIS,WSIS,DM", "--report", "{folder}/page.html"),
    "compare": ("--target", "a={policy}", "--target", "b={policy}", "--report", "{folder}/page.html"),
    "improve": ("--out", "{folder}/new.csv", "--report", "{folder}/page.html"),
    "states": ("--target", "{policy}"),
}


def _log(folder: Path, change: Callable[[pd.DataFrame], Any], suffix: str) -> Path | None:
    """The table with recognisable ids; None where no file can hold it."""
    frame = change(sound())
    if not isinstance(frame, pd.DataFrame) or "episode" not in frame:
        return None
    ids = frame.episode.map(lambda one: str(one).replace("stay-", ID) if isinstance(one, str) else one)
    path = folder / f"log.{suffix}"
    try:
        table = pa.Table.from_pandas(frame.assign(episode=ids), preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError):
        frame.assign(episode=ids).to_csv(folder / "log.csv", index=False)
        return folder / "log.csv"
    if suffix == "csv":
        frame.assign(episode=ids).to_csv(path, index=False)
    else:
        pq.write_table(table, path, row_group_size=40)
    return path


def _everything(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says and writes, apart from its input."""
    given = {path: path.read_bytes() for path in folder.iterdir() if path.name.startswith(("log", "policy"))}
    run([word.format(folder=folder, policy=folder / "policy.csv") for word in words])
    captured = capsys.readouterr()
    written = [path.read_text(encoding="utf-8") for path in folder.iterdir() if path not in given]
    return "\n".join([captured.out, captured.err, *written])


def _policy(folder: Path) -> None:
    rows = [f"{s},{a},{p}" for s in ("home", "icu", "ward") for a, p in (("treat", 0.7), ("wait", 0.3))]
    (folder / "policy.csv").write_text("\n".join(["state,action,prob", *rows]))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("change", [pytest.param(f, id=name) for name, _, f in CORPUS])
def test_what_is_found_in_a_log_names_rows(
    change: Callable[[pd.DataFrame], Any], suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = _log(tmp_path, change, suffix)
    if log is None:
        pytest.skip("no table in a file")
    _policy(tmp_path)
    for more in ((), ("--stream",) if suffix == "parquet" else ("--behaviour", "counts")):
        words = ("evaluate", str(log), "--estimators", "WIS", "--interval", "none", "--json", *more)
        assert ID[:-1].lower() not in _everything(tmp_path, capsys, *words).lower()


def _many_flags(frame: pd.DataFrame) -> pd.DataFrame:
    """Long, short, late, rich and repeated episodes, gaps."""
    frame = frame.drop(columns=["next_state"])
    frame.loc[3, "reward"] = 1e6
    frame.loc[5:6, "step"] += 3
    frame.loc[9, "behaviour_prob"] = 1e-4
    frame.loc[frame.episode == "stay-010", "step"] += 2
    copies = frame[frame.episode == "stay-011"]
    frame.loc[frame.episode == "stay-012", "episode"] = "Stay-011 "
    return pd.concat([frame, copies.assign(episode="stay-900"), frame[:1].assign(episode="stay-901")])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("json_too", [True, False], ids=["json", "words"])
def test_no_verb_says_or_writes_an_id(
    verb: str, json_too: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = _log(tmp_path, _many_flags, "csv")
    assert log is not None
    _policy(tmp_path)
    words = [verb, str(log), *VERBS[verb], *(["--json"] if json_too else [])]
    text = _everything(tmp_path, capsys, *words)
    assert ("DW" if verb != "states" else "variance") in text  # there is something to say
    assert ID.lower() not in text.lower()


def test_rows_of_warnings_are_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = _log(tmp_path, _many_flags, "csv")
    assert run(["evaluate", str(log), "--estimators", "WIS", "--json"]) == 0
    rows = [row for found in json.loads(capsys.readouterr().out)["warnings"] for row in found["rows"]]
    assert rows
    assert all(row.keys() == {"row"} for row in rows)


def test_the_doctor_names_episodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = _log(tmp_path, _many_flags, "csv")
    for words in ((), ("--json",)):
        run(["doctor", str(log), *words])
        assert ID in capsys.readouterr().out


def test_saved_results_and_reports_have_no_ids(tmp_path: Path) -> None:
    log, _ = _log(tmp_path, _many_flags, "csv"), _policy(tmp_path)
    policy = dw.read_policy(tmp_path / "policy.csv")
    found = dw.read(log)
    results = {
        "evaluation": dw.evaluate(found, policy),
        "comparison": dw.compare(found, {"a": policy, "b": policy}),
        "improvement": dw.improve(found),
    }
    for name, result in results.items():
        result.save(tmp_path / f"{name}.json")
        result.report(tmp_path / f"{name}.html")
        for path in tmp_path.glob(f"{name}.*"):
            assert ID.lower() not in path.read_text(encoding="utf-8").lower()
        assert ID.lower() not in f"{result} {result!r} {result.to_dict()}".lower()
