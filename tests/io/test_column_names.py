"""What is proposed for columns that are missing: only what is plausible by name and type."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deadweight as dw
from deadweight.cli import run
from deadweight.errors import DataError
from deadweight.io.stream import open_stream

YOUR = "<your column>"
TABLES = {
    "stay_id,hour,cluster,treatment,payoff": (
        "episode=stay_id,step=hour,state=cluster,action=treatment,reward=payoff"
    ),
    "userId,timeStep,obs,armId,rewards": "episode=userId,step=timeStep,state=obs,action=armId,reward=rewards",
    "ICUSTAY_ID,s,a,r,t": "episode=ICUSTAY_ID,step=t,state=s,action=a,reward=r",
    "Patient ID,Day of stay,Decision,Revenue": (
        f"episode=Patient ID,step=Day of stay,state={YOUR},action=Decision,reward=Revenue"
    ),
    "age,sex,weight": ",".join(f"{ours}={YOUR}" for ours in ("episode", "step", "state", "action", "reward")),
    "patient,session,age": (
        f"episode=<patient or session>,step={YOUR},state={YOUR},action={YOUR},reward={YOUR}"
    ),
    "episode,step,state,age,sex": f"action={YOUR},reward={YOUR}",
    "episode,step,state,reaction,ward": f"action={YOUR},reward={YOUR}",
    "episode,step,state,fraction,award": f"action={YOUR},reward={YOUR}",
    "episode,step,state,acton,rewrad": "action=acton,reward=rewrad",
    "episode,step,action_prob,action_taken,next_reward,last_state": (
        f"state={YOUR},action=action_taken,reward={YOUR}"
    ),
    "episode,step,stage,action,reward": f"state={YOUR}",
    'episode,step,"it\'s a state",action,reward': f"state={YOUR}",
    "episode,step,state_a=b,action,reward": f"state={YOUR}",
}


@pytest.mark.parametrize("header", TABLES)
def test_what_is_proposed(tmp_path: Path, header: str) -> None:
    (tmp_path / "log.csv").write_text(header + "\n" + ",".join("1" * len(header.split(","))) + "\n")
    with pytest.raises(DataError, match="DW105") as caught:
        dw.read(tmp_path / "log.csv")
    assert f"--columns '{TABLES[header]}'" in caught.value.fix


def test_the_order_of_the_columns_does_not_matter() -> None:
    names = ["stay_id", "hour", "cluster", "treatment", "payoff", "age", "sex"]
    fixes = set()
    for first in range(len(names)):
        with pytest.raises(DataError, match="DW105") as caught:
            dw.read({name: [1] for name in (*names[first:], *names[:first])})
        fixes.add(caught.value.fix)
    assert len(fixes) == 1


def test_what_is_proposed_can_be_pasted_and_a_placeholder_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{i},{t},s{t},{i % 2},{i}.5\n" for i in range(20) for t in range(2))
    (tmp_path / "log.csv").write_text("stay_id,hour,cluster,treatment,payoff\n" + rows)
    assert run(["doctor", str(tmp_path / "log.csv")]) == 2
    option = capsys.readouterr().err.split("--columns '")[1].split("'")[0]
    assert run(["doctor", str(tmp_path / "log.csv"), "--columns", option]) == 0
    (tmp_path / "log.csv").write_text("age,sex,weight,height,town\n" + rows)
    capsys.readouterr()
    assert run(["doctor", str(tmp_path / "log.csv")]) == 2
    said = capsys.readouterr().err
    assert "Found: 'age', 'sex', 'weight', 'height', 'town'." in said
    option = said.split("--columns '")[1].split("'")[0]
    assert run(["doctor", str(tmp_path / "log.csv"), "--columns", option]) == 2
    assert "DW107" in capsys.readouterr().err


def test_a_reward_of_text_is_not_proposed(tmp_path: Path) -> None:
    columns = {"episode": [1], "step": [0], "state": [0], "action": [0], "outcome": ["died"]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    pd.DataFrame(columns).to_csv(tmp_path / "log.csv", index=False)
    sources = (
        tmp_path / "log.parquet",
        tmp_path / "log.csv",
        pa.table(columns),
        pd.DataFrame(columns),
        pl.DataFrame(columns),
        pl.LazyFrame(columns),
    )
    for source in sources:
        with pytest.raises(DataError, match="DW105") as caught:
            dw.read(source)
        assert f"--columns 'reward={YOUR}'" in caught.value.fix, type(source)
    with pytest.raises(DataError, match="DW105") as caught:
        open_stream(tmp_path / "log.parquet")
    assert f"--columns 'reward={YOUR}'" in caught.value.fix
    with pytest.raises(DataError, match="DW105") as caught:
        dw.read({**columns, "outcome": [1.0]})
    assert "--columns 'reward=outcome'" in caught.value.fix


def test_what_was_said_already_stays() -> None:
    with pytest.raises(DataError, match="DW105") as caught:
        dw.read({"who": [1], "hour": [0], "s": [0], "a": [0], "r": [1.0]}, columns={"episode": "who"})
    assert "--columns 'episode=who,step=hour,state=s,action=a,reward=r'" in caught.value.fix
    assert "columns={'episode': 'who', 'step': 'hour', " in caught.value.fix
