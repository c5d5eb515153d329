"""A corpus of broken logs: each entry turns a sound table into one with a single thing wrong, and has the
code that the doctor must give. The sound table itself has no finding."""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

Frame = pd.DataFrame
N_EPISODES, LENGTHS = 60, (3, 4, 5, 6)


THIRD = Decimal("0." + 30 * "3")


def sound() -> Frame:
    """60 episodes of 3 to 6 steps, three states, two actions, everything logged and consistent."""
    return _sound().copy()


@functools.cache
def _sound() -> Frame:
    rng = np.random.default_rng(0)
    parts = []
    for i in range(N_EPISODES):
        n = LENGTHS[i % len(LENGTHS)]
        cut = i % 7 == 0
        states = rng.integers(0, 3, n + 1)
        actions = rng.integers(0, 2, n)
        parts.append(
            Frame(
                {
                    "episode": f"stay-{i:03}",
                    "step": np.arange(n),
                    "state": np.array(["home", "icu", "ward"])[states[:-1]],
                    "action": np.array(["treat", "wait"])[actions],
                    "reward": rng.normal(size=n).round(3),
                    "behaviour_prob": 0.5,
                    "target_prob": np.array([0.7, 0.3])[actions],
                    "terminated": [*[False] * (n - 1), not cut],
                    "truncated": [*[False] * (n - 1), cut],
                    "next_state": [*np.array(["home", "icu", "ward"])[states[1:-1]], "icu" if cut else None],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _place_by_place(frame: Frame) -> Frame:
    """States that tell the step, so that nothing that is done at the last one is ever done before."""
    frame = pd.concat([frame, frame.assign(episode=frame.episode + "b")])
    return frame.assign(state=frame.state + frame.step.astype(str), next_state=None)


def put(column: str, value: Any, rows: Any = 17) -> Callable[[Frame], Frame]:
    """The same value in some rows of a column."""

    def change(frame: Frame) -> Frame:
        values = frame[column].astype(object).copy()
        values.iloc[rows] = value
        return frame.assign(**{column: values})

    return change


def new(**columns: Callable[[Frame], Any]) -> Callable[[Frame], Frame]:
    """Columns computed anew."""
    return lambda frame: frame.assign(**columns)


def without(*columns: str) -> Callable[[Frame], Frame]:
    return lambda frame: frame.drop(columns=list(columns))


def chain(*changes: Callable[[Frame], Frame]) -> Callable[[Frame], Frame]:
    def change(frame: Frame) -> Frame:
        for one in changes:
            frame = one(frame)
        return frame

    return change


def _last(frame: Frame) -> Any:
    return ~frame.episode.duplicated(keep="last")


def _number(frame: Frame) -> Any:
    return frame.episode.str[5:].astype(int)


def _repeat_id(frame: Frame) -> Frame:
    return frame.assign(episode=frame.episode.replace("stay-007", "stay-006"))


def _long_episode(frame: Frame) -> Frame:
    rest = frame[_number(frame) >= 20].assign(episode="stay-000")
    rest["step"] = np.arange(len(rest)) + 3
    rest = rest.assign(terminated=False, truncated=False, next_state=None)
    rest.iloc[-1, rest.columns.get_loc("terminated")] = True
    first = frame.assign(terminated=lambda f: f.terminated & (f.episode != "stay-000"))
    first["truncated"] = first.truncated & (first.episode != "stay-000")
    first.loc[first.episode == "stay-000", "next_state"] = None
    return pd.concat([first, rest], ignore_index=True)


def _single_step(frame: Frame) -> Frame:
    """Episodes of 5 or 6 steps, and one of which only the first is left."""
    frame = frame[_number(frame) % 4 >= 2]
    first = frame.episode == frame.episode.iloc[0]
    kept = frame[~first | (frame.step == 0)]
    return kept.assign(terminated=_last, truncated=False, next_state=None)


def _columns_named(old: str, fresh: str) -> Callable[[Frame], Frame]:
    return lambda frame: frame.rename(columns={old: fresh})


def _many_states(frame: Frame) -> Frame:
    return frame.assign(state=[f"s{i}" for i in range(len(frame))], next_state=None)


def _two_of_each_state(frame: Frame) -> Frame:
    return frame.assign(
        state=[f"s{i // 2}" for i in range(len(frame))], action=range(len(frame)), next_state=None
    )


def _half(frame: Frame) -> Any:
    return np.where(frame.action == "treat", 0.9, 0.1)


NO_FLAGS = without("terminated", "truncated", "next_state")
NO_NEXT = without("next_state")

# Each: name, code, change. Codes DW1xx are errors on opening; the others are findings of the doctor.
CORPUS: list[tuple[str, str, Callable[[Frame], Any]]] = [
    ("not a table", "DW103", lambda frame: 3),
    ("columns of unequal length", "DW103", lambda frame: {**frame.to_dict("list"), "step": [0, 1]}),
    ("no rows", "DW104", lambda frame: frame.iloc[:0]),
    ("no reward column", "DW105", without("reward")),
    ("no columns", "DW105", lambda frame: Frame({"x": [1]})),
    ("episode in the index", "DW105", lambda frame: frame.set_index("episode")),
    ("two columns of one name", "DW108", lambda frame: pd.concat([frame, frame[["state"]]], axis=1)),
    ("episode missing", "DW301", put("episode", None)),
    ("state missing", "DW302", put("state", None)),
    ("action missing", "DW303", put("action", None)),
    ("step missing", "DW304", put("step", None)),
    ("reward missing", "DW305", put("reward", np.nan)),
    ("reward missing everywhere", "DW305", put("reward", np.nan, slice(None))),
    ("episode open", "DW317", put("reward", np.nan, slice(3, 7))),
    ("step is a word", "DW306", put("step", "third")),
    ("reward is a word", "DW307", put("reward", "high")),
    (
        "reward with a decimal comma",
        "DW336",
        new(reward=lambda f: f.reward.astype(str).str.replace(".", ",")),
    ),
    ("reward with a comma that may stand between thousands", "DW307", new(reward=lambda f: "1,234")),
    ("reward infinite", "DW308", put("reward", np.inf)),
    ("reward enormous", "DW308", put("reward", 1e300)),
    ("1 and '1'", "DW309", chain(put("state", 1, [3]), put("state", "1", [8]), NO_NEXT)),
    ("text and numbers", "DW310", chain(put("state", 4), NO_NEXT)),
    ("lists as states", "DW311", chain(new(state=lambda f: [[1, 2]] * len(f)), NO_NEXT)),
    ("flag is a word", "DW312", put("terminated", "maybe")),
    ("decimals of thirty digits", "DW313", chain(new(state=lambda f: [THIRD] * len(f)), NO_NEXT)),
    ("id used twice", "DW201", chain(_repeat_id, NO_FLAGS)),
    ("row twice", "DW202", lambda frame: pd.concat([frame, frame.iloc[[20]]], ignore_index=True)),
    (
        "row twice, rows in any order",
        "DW202",
        lambda frame: pd.concat([frame.sample(frac=1, random_state=0), frame.iloc[[20]]], ignore_index=True),
    ),
    ("durations with holes", "DW314", new(duration=lambda f: np.where(f.step == 1, np.nan, 2.0))),
    ("durations in words", "DW315", new(duration=lambda f: np.where(f.step == 1, "a night", "2"))),
    ("no time at all", "DW316", new(duration=lambda f: np.where(f.step == 1, 0.0, 2.0))),
    ("step twice", "DW203", chain(lambda f: pd.concat([f, f.iloc[[20]].assign(reward=9.0)]), NO_NEXT)),
    ("next_state as numbers", "DW204", put("next_state", 3)),
    ("next_state wrong", "DW205", put("next_state", "nowhere", 0)),
    ("policy changes inside", "DW206", new(behaviour_id=lambda f: np.where(f.step == 1, "v1", "v2"))),
    ("two old policies", "DW249", new(behaviour_id=lambda f: np.where(_number(f) % 2, "v1", "v2"))),
    (
        "the second pays more",
        "DW250",
        new(
            behaviour_id=lambda f: np.where(_number(f) % 2, "v1", "v2"),
            reward=lambda f: f.reward + 5.0 * (_number(f) % 2),
        ),
    ),
    (
        "acts and pays by a number that no state has",
        "DW253",
        new(
            behaviour_prob=lambda f: np.where(_number(f) % 2, 0.8, 0.3),
            reward=lambda f: f.reward + 5.0 * (_number(f) % 2),
        ),
    ),
    (
        "some episodes twice",
        "DW254",
        lambda f: pd.concat([f, f[_number(f) < 5].assign(episode=f.episode + "b")], ignore_index=True),
    ),
    ("gap", "DW221", lambda frame: frame.drop(index=1)),
    ("late start", "DW222", lambda frame: frame.drop(index=0)),
    (
        "dates as steps",
        "DW223",
        new(step=lambda f: pd.Timestamp("2026-01-01") + pd.to_timedelta(f.step, "h")),
    ),
    ("seconds as steps", "DW223", new(step=lambda f: 1_700_000_000 + 60 * f.step)),
    ("half steps", "DW224", new(step=lambda f: f.step / 2)),
    ("terminated inside", "DW225", put("terminated", True, 0)),
    ("truncated inside", "DW226", put("truncated", True, 0)),
    ("both flags", "DW227", new(truncated=lambda f: _last(f))),
    ("neither flag", "DW228", new(terminated=lambda f: False)),
    (
        "no flag on the last row",
        "DW229",
        chain(new(terminated=lambda f: f.terminated.where(~_last(f), None))),
    ),
    ("negative steps", "DW230", new(step=lambda f: f.step - 1)),
    ("few episodes", "DW241", lambda frame: frame[frame.episode < "stay-009"]),
    ("one episode", "DW241", lambda frame: frame[frame.episode == "stay-009"]),
    ("row number as episode", "DW242", chain(new(episode=lambda f: np.arange(len(f))), NO_FLAGS)),
    ("one very long episode", "DW243", _long_episode),
    ("an episode of one step", "DW244", _single_step),
    ("time limit", "DW248", chain(lambda f: pd.concat([f, f.assign(episode=f.episode + "b")]), NO_FLAGS)),
    ("one length that may be a limit", "DW245", chain(_place_by_place, NO_FLAGS)),
    ("nothing after truncation", "DW246", NO_NEXT),
    ("all truncated", "DW247", new(terminated=lambda f: False, truncated=_last)),
    ("done at a cap", "DW251", new(terminated=_last, truncated=lambda f: False)),
    ("case of labels", "DW331", chain(put("state", "Ward "), NO_NEXT)),
    ("state called NA", "DW332", chain(put("state", "NA", [3, 5, 9]), NO_NEXT)),
    ("state -1", "DW333", chain(new(state=lambda f: f.step - 1), NO_NEXT)),
    ("continuous states", "DW334", chain(new(state=lambda f: f.reward), NO_NEXT)),
    ("continuous actions", "DW335", new(action=lambda f: f.reward)),
    ("rewards as text", "DW336", new(reward=lambda f: f.reward.astype(str))),
    ("two propensities", "DW337", new(propensity=lambda f: 0.5)),
    ("done instead of terminated", "DW338", chain(_columns_named("terminated", "done"))),
    ("no propensities", "DW339", lambda frame: frame.drop(columns="behaviour_prob")),
    ("propensity is a word", "DW401", put("behaviour_prob", "half")),
    ("propensity missing", "DW402", put("behaviour_prob", None)),
    ("log-propensities", "DW403", new(behaviour_prob=lambda f: np.log(0.5))),
    ("propensities in per cent", "DW404", new(behaviour_prob=lambda f: 50)),
    ("propensity 1.3", "DW405", put("behaviour_prob", 1.3)),
    ("propensity negative", "DW405", put("behaviour_prob", -0.5)),
    ("propensity 0", "DW406", put("behaviour_prob", 0.0)),
    ("propensity as good as 0", "DW406", put("behaviour_prob", 5e-324)),
    ("target is a word", "DW411", put("target_prob", "half")),
    ("target missing", "DW412", put("target_prob", None)),
    ("log-targets", "DW413", new(target_prob=lambda f: np.log(f.target_prob))),
    ("targets in per cent", "DW414", new(target_prob=lambda f: 100 * f.target_prob)),
    ("target 2", "DW415", put("target_prob", 2.0)),
    ("propensity 1 everywhere", "DW421", new(behaviour_prob=lambda f: 1.0)),
    ("propensity 1 once", "DW422", put("behaviour_prob", 1.0)),
    ("propensity of the other action", "DW423", new(behaviour_prob=_half)),
    ("propensities sum to 1.4", "DW424", new(behaviour_prob=lambda f: 0.7)),
    ("propensities vary", "DW425", new(behaviour_prob=lambda f: np.where(f.index % 2 == 0, 0.4, 0.6))),
    ("tiny propensity", "DW426", put("behaviour_prob", 1e-5)),
    ("target 0 everywhere", "DW427", new(target_prob=lambda f: 0.0)),
    ("target is behaviour", "DW428", new(target_prob=lambda f: 0.5)),
    ("ratio of 50,000", "DW429", put("behaviour_prob", 1e-5)),
    ("no weight", "DW430", new(target_prob=lambda f: np.where(f.episode == "stay-000", 0.5, 0.0))),
    ("one action", "DW511", new(action=lambda f: "wait")),
    ("action 1 never logged", "DW512", new(action=lambda f: 2 * (f.action == "wait"))),
    ("action in one state only", "DW513", put("action", "discharge")),
    ("no choice", "DW514", new(action=lambda f: f.state, behaviour_prob=lambda f: 1.0)),
    ("a state a row", "DW515", _many_states),
    ("more pairs than steps", "DW516", _two_of_each_state),
    ("one state", "DW517", chain(new(state=lambda f: "home"), NO_NEXT)),
    ("constant rewards", "DW601", new(reward=lambda f: -1.0)),
    ("constant returns", "DW602", new(reward=lambda f: np.where(_last(f), 1.0, 0.0))),
    ("outlier", "DW603", put("reward", 5000.0)),
    ("reward -999", "DW604", put("reward", -999.0)),
    ("reward at the end", "DW605", new(reward=lambda f: np.where(_last(f), f.reward, 0.0))),
    ("running total", "DW606", new(reward=lambda f: f.reward.abs().add(0.01).groupby(f.episode).cumsum())),
]
