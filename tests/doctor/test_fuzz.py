"""No table, however strange, gives anything but findings or one clear error."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doctor.broken_logs import sound
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deadweight.errors import DataError, DeadweightError
from deadweight.io.doctor import doctor
from deadweight.io.open import read
from deadweight.io.policy_files import read_policy
from deadweight.io.schema import OPTIONAL, REQUIRED

RELAXED = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.integers(),
    st.floats(),
    st.floats(0, 1),
    st.text(max_size=5),
    st.sampled_from(["a", "A ", "", "NA", "1", "-1", "=1+1", "<b>", "a\nb", "true", "0,5", "2026-01-01"]),
    st.just("\ud800"),
    st.binary(max_size=3),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-5, max_value=5),
    st.datetimes(min_value=datetime.datetime(1980, 1, 1)),
    st.lists(st.integers(0, 2), max_size=2),
    st.just({"a": 1}),
)


def one_kind(n):
    """A column of one kind of value: most tables are not salad."""
    kinds = [
        st.integers(0, 3),
        st.floats(0, 1),
        st.floats(),
        st.sampled_from(["a", "b", "NA", ""]),
        st.booleans(),
        st.one_of(st.none(), st.integers(-2, 2)),
        st.decimals(places=1, min_value=0, max_value=1),
        st.datetimes(min_value=datetime.datetime(1980, 1, 1)),
        st.dates(),
        st.times(),
        st.timedeltas(),
        st.binary(max_size=2),
        st.integers(2**62, 2**64 - 1),
        st.lists(st.integers(0, 1), max_size=2),
        st.just(None),
        cells,
    ]
    return st.one_of(*(st.lists(kind, min_size=n, max_size=n) for kind in kinds))


@st.composite
def tables(draw):
    n = draw(st.integers(0, 12))
    optional = draw(st.lists(st.sampled_from(OPTIONAL), unique=True))
    return {name: draw(one_kind(n)) for name in (*REQUIRED, *optional)}


def survives(source):
    """The doctor finds things or refuses, and `read` refuses exactly when it finds errors."""
    try:
        found = doctor(source)
    except DataError:
        with pytest.raises(DataError, match=r"DW1\d\d: \S"):
            read(source)
        return
    json.dumps(found.to_dict(), allow_nan=False)
    assert str(found)
    if found.ok:
        log = read(source)
        assert log.n_steps == found.size["row"]
    else:
        with pytest.raises(DataError):
            read(source)


@RELAXED
@given(tables())
def test_any_dict_of_columns(table):
    survives(table)


@RELAXED
@given(tables())
def test_any_arrow_table(table):
    try:
        arrow = pa.table(table)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError):
        return
    survives(arrow)


@RELAXED
@given(st.data())
def test_a_sound_log_with_any_one_column(data):
    frame = sound().iloc[:12]
    name = data.draw(st.sampled_from((*REQUIRED, *OPTIONAL)))
    survives({**frame.to_dict("list"), name: data.draw(one_kind(12))})


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    content=st.one_of(
        st.binary(max_size=300), st.text(max_size=300).map(lambda t: t.encode(errors="replace"))
    )
)
@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.csv.gz", "log.txt"])
def test_any_bytes(tmp_path_factory, name, content):
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_bytes(content)
    survives(str(path))


def damaged(content, seed):
    """The file cut short, or with a few bytes changed."""
    chance = random.Random(seed)
    if seed % 2 == 0:
        return content[: chance.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(chance.randint(1, 20)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_parquet(tmp_path, seed):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(sound()), buffer)
    path = tmp_path / "log.parquet"
    path.write_bytes(damaged(buffer.getvalue(), seed))
    survives(str(path))


@pytest.mark.parametrize("seed", range(40))
def test_damaged_csv(tmp_path, seed):
    path = tmp_path / "log.csv"
    path.write_bytes(damaged(sound().to_csv(index=False).encode(), seed))
    survives(str(path))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".npy", ".npz", ".csv", ".parquet"]))
def test_any_policy_file(tmp_path_factory, content, suffix):
    path = tmp_path_factory.mktemp("fuzz") / f"policy{suffix}"
    path.write_bytes(content)
    with pytest.raises(DeadweightError):
        read_policy(path)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_policy_arrays(tmp_path, seed):
    buffer = io.BytesIO()
    np.savez(buffer, probs=np.full((3, 2), 0.5))
    path = tmp_path / "policy.npz"
    path.write_bytes(damaged(buffer.getvalue(), seed))
    with contextlib.suppress(DeadweightError):
        read_policy(path)


def test_numbers_beyond_every_type():
    frame = sound().iloc[:8].to_dict("list")
    for value in (10**400, 10**5000, 1j, decimal.Decimal("1e400"), 2**63, float("inf"), -(2**70)):
        for name in ("episode", "step", "state", "reward", "behaviour_prob"):
            survives({**frame, name: [value, *frame[name][1:]]})
