"""Every broken log gives its own code; what the doctor calls an error is what `read` refuses."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from doctor.broken_logs import CORPUS, sound

from deadweight.errors import DataError
from deadweight.io.doctor import ON_THE_LOG, ON_THE_TABLE, ON_THE_TARGET, doctor
from deadweight.io.open import read
from deadweight.io.requirements import REQUIREMENTS
from deadweight.io.schema import LogProblem


def test_a_sound_log_has_no_finding():
    found = doctor(sound())
    assert [one.code for one in found] == []
    assert found.ok
    assert "No errors" in str(found)


@pytest.mark.parametrize(("code", "change"), [pytest.param(c, f, id=name) for name, c, f in CORPUS])
def test_each_broken_log_gives_its_code(code, change):
    broken = change(sound())
    if code < "DW200":
        with pytest.raises(LogProblem) as caught:
            doctor(broken)
        assert caught.value.code == code
        assert caught.value.fix
        with pytest.raises(DataError):
            read(broken)
        return
    found = doctor(broken)
    ours = [one for one in found if one.code == code]
    assert ours, f"{code} not among {[one.code for one in found]}"
    assert all(one.problem and one.fix and one.title for one in ours)
    json.dumps(found.to_dict(), allow_nan=False)
    if found.ok:
        read(broken)
    else:
        assert [one.code for one in found.errors] == [code], "one thing is wrong, so one error"
        with pytest.raises(DataError, match=code):
            read(broken)


def test_the_corpus_meets_every_check_of_the_log():
    checks = {check.code for check in (*REQUIREMENTS, *ON_THE_TABLE, *ON_THE_LOG)}
    assert len(checks) >= 60
    beside = {"DW252"}  # about what is said beside the table: tests/question/test_flags_and_limits.py
    assert checks - beside <= {code for _, code, _ in CORPUS}


def test_codes_have_one_meaning():
    titles: dict[str, str] = {}
    for check in (*REQUIREMENTS, *ON_THE_TABLE, *ON_THE_LOG, *ON_THE_TARGET):
        assert titles.setdefault(check.code, check.title) == check.title


def test_rows_are_the_users_own_whatever_the_order():
    frame = sound()
    frame.loc[17, "reward"] = None
    where = frame.loc[17, ["episode", "step"]].tolist()
    shuffled = frame.sample(frac=1, random_state=1).reset_index(drop=True)
    row = int(shuffled.index[shuffled.reward.isna()][0])
    finding = doctor(shuffled).errors[0]
    assert finding.count == 1
    assert finding.rows == ({"row": row, "episode": where[0], "step": where[1]},)
    assert f"row {row} (episode '{where[0]}', step {where[1]})" in finding.problem


def test_a_log_written_twice_is_told_from_ids_used_twice():
    rows = {
        "episode": [1, 1, 2],
        "step": [0, 1, 0],
        "state": [0, 1, 0],
        "action": 0,
        "reward": [1.0, 2.0, 3.0],
    }
    frame = pd.DataFrame(rows)
    other = frame.assign(reward=9.0)
    twice, several = (
        next(found for found in doctor(pd.concat([frame, second])) if found.code == "DW201")
        for second in (frame, other)
    )
    assert "equal to earlier ones" in twice.problem
    assert ".drop_duplicates()" in twice.fix
    assert "equal to earlier ones" not in several.problem
    assert several.fix.startswith("Make the ids unique")
