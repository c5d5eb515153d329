"""Whatever a fresh stream is asked first, the answer is that of the log in memory.

A stream that nobody has asked does not know yet whether a time limit cut its episodes. No question may sum
them as if it knew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deadweight as dw
from deadweight.diagnostics import state_report, support, weights
from deadweight.errors import DataError, DeadweightError, EstimationError
from deadweight.estimators.product import Terms
from deadweight.io import stream as io_stream
from deadweight.io.schema import LogProblem, Mending
from deadweight.io.stream import Stream, open_stream
from deadweight.log.interface import as_log
from deadweight.log.trajectories import EndsUnknownError
from deadweight.sums.blocks import Block
from deadweight.sums.executors import Executor, executor_for
from deadweight.sums.old_policies import old_policies
from deadweight.sums.reduction import fingerprint, per_episode
from deadweight.sums.weighting import WeightedBlock
from deadweight.tools.progress import Progress

N_STATES, N_ACTIONS, LIMIT = 5, 2, 8
IDS = ["spring", "autumn"]
OPEN = range(0, 90, 9)  # episodes of which nobody knows what they earned, in some logs
pytestmark = pytest.mark.filterwarnings("ignore::deadweight.errors.Assumption")


# --- logs ------------------------------------------------------------------------------------------------


def table_of(seed: int = 0, episodes: int = 90) -> dict[str, np.ndarray]:
    """A log of a problem that goes on until it ends by chance, and is cut after LIMIT steps; sorted."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(N_STATES, 0.5), (N_STATES, N_ACTIONS))
    worth = rng.normal(size=(N_STATES, N_ACTIONS))
    stops = rng.uniform(0.0, 0.2, N_STATES)
    pi_b = policies()[1]
    rows: list[tuple[float, ...]] = []
    for episode in range(episodes):
        s = rng.integers(N_STATES)
        for step in range(LIMIT):
            a = rng.choice(N_ACTIONS, p=pi_b[s])
            reward, ends = worth[s, a] + 0.5 * rng.normal(), rng.random() < stops[s]
            after = rng.choice(N_STATES, p=moves[s, a])
            rows.append((episode, step, s, a, reward, ends, after))
            if ends:
                break
            s = after
    columns = list(zip(*rows, strict=True))
    kinds = (int, int, int, int, float, bool, int)
    names = ("episode", "step", "state", "action", "reward", "terminated", "next_state")
    found = {name: np.array(column, kind) for name, column, kind in zip(names, columns, kinds, strict=True)}
    found["behaviour_prob"] = pi_b[found["state"], found["action"]]
    return found


def policies() -> tuple[np.ndarray, np.ndarray]:
    """Two policies with full support."""
    rng = np.random.default_rng(1)
    pi_e, pi_b = (rng.dirichlet(np.full(N_ACTIONS, spread), N_STATES) for spread in (3.0, 6.0))
    return pi_e, pi_b


@dataclass(frozen=True)
class Kind:
    """A log on disk, and what is said of it when it is opened."""

    columns: tuple[str, ...] = ()
    time_limit: Any = "infer"
    open_episodes: str = ""
    shuffled: bool = False
    gamma: float = 1.0

    def write(self, path: Path, seed: int = 0) -> Path:
        table = table_of(seed)
        is_last = np.append(np.diff(table["episode"]) != 0, True)
        table["truncated"] = is_last & ~table["terminated"]
        table["behaviour_id"] = np.array(IDS)[table["episode"] ** 2 % 7 % 2]
        table["duration"] = np.random.default_rng(3).choice([0.25, 1.0, 2.0], len(table["step"]))
        reward = table["reward"].copy()
        if self.open_episodes:
            reward[np.isin(table["episode"], OPEN)] = np.nan
        table["reward"] = reward
        names = ("episode", "step", "state", "action", "reward", "behaviour_prob", *self.columns)
        rows = pa.table({name: pa.array(table[name], from_pandas=True) for name in names})
        if self.shuffled:
            rows = rows.take(np.random.default_rng(0).permutation(rows.num_rows))
        pq.write_table(rows, path, row_group_size=70)
        return path

    @property
    def mending(self) -> Mending:
        return Mending(None, 0.0, self.open_episodes) if self.open_episodes else Mending()

    def stream(self, path: Path, executor: Executor | None = None) -> Stream:
        """A stream that nobody has asked anything."""
        log = open_stream(
            path, part_rows=100, time_limit=self.time_limit, mending=self.mending, executor=executor
        )
        assert len(log) > 2
        return log

    def memory(self, path: Path) -> dw.Trajectories:
        """The log in memory, its episodes in the order in which the stream has them."""
        mended = {"fill_reward": 0.0, "open_episodes": self.open_episodes} if self.open_episodes else {}
        log = dw.read(path, time_limit=self.time_limit, **mended)
        if not self.shuffled:
            return log
        place = {reward: k for k, reward in enumerate(log.rewards[log.offsets[:-1]].tolist())}
        parts = self.stream(path)
        firsts = [reward for part in parts for reward in part.rewards[part.offsets[:-1]].tolist()]
        return log.select([place[reward] for reward in firsts])


KINDS = {
    "inferred": Kind(),
    "given": Kind(time_limit=LIMIT),
    "without a limit": Kind(time_limit=None),
    "terminated": Kind(("terminated", "next_state")),
    "truncated": Kind(("truncated",)),
    "scattered": Kind(shuffled=True),
    "ids": Kind(("behaviour_id",)),
    "durations": Kind(("duration",), gamma=0.9),
    "open": Kind(open_episodes="cut"),
}


@dataclass(frozen=True)
class Logs:
    """One kind of log on disk and in memory."""

    kind: Kind
    path: Path
    memory: dw.Trajectories

    def stream(self, executor: Executor | None = None) -> Stream:
        return self.kind.stream(self.path, executor)


def logs_of(kind: str, folder: Path) -> Logs:
    path = KINDS[kind].write(folder / "log.parquet")
    return Logs(KINDS[kind], path, KINDS[kind].memory(path))


@pytest.fixture(scope="module", params=list(KINDS))
def logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return logs_of(request.param, tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def inferred(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return logs_of("inferred", tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Executor]:
    executor = executor_for(2)
    yield executor
    executor.close()


# --- answers ---------------------------------------------------------------------------------------------

Question = Callable[[Any, float], Any]


def same(found: Any, expected: Any, place: str = "") -> None:
    """All numbers of two answers to nine digits, and everything else as it is."""
    found, expected = as_plain(found), as_plain(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key, value in expected.items():
            # Whoever has not asked for the time limit says none.
            if not (key == "time_limit" and found[key] is None):
                same(found[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            same(one, other, f"{place}[{k}]")
    elif isinstance(expected, Real):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True), place
    else:
        assert found == expected, place


def as_plain(answer: Any) -> Any:
    if hasattr(answer, "to_dict"):
        return answer.to_dict()
    if is_dataclass(answer) and not isinstance(answer, type):
        return asdict(answer)
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    return list(answer) if isinstance(answer, tuple) else answer


def answered(question: Question, log: Any, gamma: float) -> Any:
    """The answer, or what is refused."""
    try:
        return question(log, gamma)
    except DeadweightError as error:
        return f"{type(error).__name__}: {error}"


def ends(block: Block) -> np.ndarray:
    """Sums of a user's own, of which nobody knows that they depend on how episodes end."""
    return np.asarray(block.log.terminated[block.rows], dtype=float)


def terms_of_ended(block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
    """A user's own estimator: rewards count in episodes that ended by themselves."""
    ended = block.steps.log.terminated[block.steps.rows]
    return [Terms(block.running, block.rewards * ended[:, None], counted=block.members(finished))]


ENDED = dw.Estimator("ENDED", terms=terms_of_ended, words="weighted rewards of episodes that ended")


def estimated(name: str, **asked: Any) -> Question:
    return lambda log, gamma: dw.estimate(name, log, *policies(), gamma=gamma, **asked)


def evaluated(*names: str, **asked: Any) -> Question:
    return lambda log, gamma: dw.evaluate(log, *policies(), list(names) or None, gamma=gamma, **asked)


def improved(**asked: Any) -> Question:
    lenient = {"caution": 1.0, "min_visits": 5, "evaluation": False}
    return lambda log, gamma: dw.improve(log, policies()[1], gamma=gamma, **{**lenient, **asked})


def compared(log: Any, gamma: float) -> Any:
    pi_e, pi_b = policies()
    return dw.compare(log, {"new": pi_e, "other": pi_e[::-1]}, pi_b, gamma=gamma)


def census(log: Any, gamma: float) -> Any:
    known = as_log(log).census
    return [known.n, known.horizon, known.terminated, known.cut_early]


VERBS: dict[str, Question] = {
    "evaluate": evaluated(),
    "evaluate without a model": evaluated("WIS", "PDIS", interval=None),
    "evaluate with folds": evaluated("DR", "WDR", cross_fit=3, background=False),
    "evaluate with a bootstrap": evaluated("WIS", "WPDIS", interval="bootstrap", background=False),
    "evaluate by logged propensities": lambda log, gamma: dw.evaluate(log, policies()[0], gamma=gamma),
    "compare": compared,
    "improve": improved(evaluation=True),
    "improve without a gate": improved(gate=False),
    "improve strictly": improved(gate="strict"),
    "improve on what is counted": lambda log, gamma: dw.improve(log, gamma=gamma, evaluation=False),
    "epsilon_path": lambda log, gamma: dw.epsilon_path("C-WSPDIS", log, *policies(), gamma=gamma),
    "drop by a gap": estimated("WSPDIS", drop="q-gap:0.5"),
    "state_report": lambda log, gamma: state_report(log, *policies()),
    "weights": lambda log, gamma: weights(log, *policies(), drop=[1]),
    "fingerprint": lambda log, gamma: fingerprint(as_log(log)),
    "census": census,
    "sizes": lambda log, gamma: [as_log(log).n_episodes, as_log(log).horizon, as_log(log).cut_early],
    "labels": lambda log, gamma: as_log(log).labels.visited(),
    "an estimator of a user's own": lambda log, gamma: dw.evaluate(
        log, *policies(), [ENDED, ENDED.weighted.state_based], drop=[1], interval=None
    ),
    "sums of a user's own": lambda log, gamma: per_episode(as_log(log), ends),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb(verb: str, logs: Logs) -> None:
    question, gamma = VERBS[verb], logs.kind.gamma
    same(answered(question, logs.stream(), gamma), answered(question, logs.memory, gamma))


@pytest.mark.parametrize("drop", [None, [1]], ids=["no drop", "drop"])
@pytest.mark.parametrize("name", [*dw.ESTIMATORS, "BLEND"])
def test_every_estimator(name: str, drop: Any, inferred: Logs) -> None:
    mode = {"mode": "policy"} if "SDRE" in name else {}
    question = estimated(name, drop=drop, **mode)
    same(question(inferred.stream(), 1.0), question(inferred.memory, 1.0))
    plain = estimated(name, drop=drop, interval=None, **mode)
    same(plain(inferred.stream(), 1.0), plain(inferred.memory, 1.0))


def test_estimators_of_each_family_on_all_logs(logs: Logs) -> None:
    for name in ("BEHAVIOUR", "WPDIS", "INCRIS", "CIS", "MIS", "STMIS", "DM", "WDRSIS", "C-WSPDIS", "BLEND"):
        question = estimated(name, drop=[1], interval=None)
        same(
            answered(question, logs.stream(), logs.kind.gamma),
            answered(question, logs.memory, logs.kind.gamma),
            name,
        )


@pytest.mark.parametrize(
    "verb", ["evaluate", "improve on what is counted", "compare", "census", "an estimator of a user's own"]
)
def test_by_two_workers(verb: str, inferred: Logs, two_workers: Executor) -> None:
    question = VERBS[verb]
    same(question(inferred.stream(two_workers), 1.0), question(inferred.memory, 1.0))


def test_marginals_by_two_workers(inferred: Logs, two_workers: Executor) -> None:
    """They ask how episodes end in the middle of a pass, in another process."""
    question = estimated("MIS", interval=None)
    same(question(inferred.stream(two_workers), 1.0), question(inferred.memory, 1.0))


@pytest.mark.parametrize("seed", range(8))
def test_the_same_policy_is_shipped(seed: int, tmp_path: Path) -> None:
    path = Kind().write(tmp_path / "log.parquet", seed)
    stream, memory = (improved()(log, 1.0) for log in (Kind().stream(path), Kind().memory(path)))
    same(stream.policy.probs, memory.policy.probs)
    same(stream, memory)


def test_several_old_policies(tmp_path: Path) -> None:
    logs = logs_of("ids", tmp_path)
    tables = dict(zip(IDS, policies(), strict=True))
    questions: list[Question] = [
        lambda log, gamma: dw.evaluate(log, policies()[0], tables),
        lambda log, gamma: dw.estimate("MIS", log, policies()[0], {IDS[0]: tables[IDS[0]]}, interval=None),
        lambda log, gamma: dw.improve(log, tables, evaluation=False),
        lambda log, gamma: [asdict(one) for one in old_policies(log)],
    ]
    for question in questions:
        same(question(logs.stream(), 1.0), question(logs.memory, 1.0))


@pytest.mark.parametrize("kind", ["inferred", "given", "terminated"])
def test_propensities_from_counts(kind: str, tmp_path: Path) -> None:
    logs = logs_of(kind, tmp_path)
    memory = logs.memory.with_propensities(dw.cross_fitted_propensities(logs.memory))
    same(np.concatenate([part.propensities for part in logs.stream().counted()]), memory.propensities)
    for ask in (dw.evaluate, lambda log, pi_e: dw.estimate("DM", log, pi_e)):
        same(ask(logs.stream().counted(), policies()[0]), ask(memory, policies()[0]))


IN_MEMORY: dict[str, Callable[[Any], Any]] = {
    "q_gap": lambda log: dw.negligible.q_gap(log, policies()[0], 0.5),
    "covariance": lambda log: dw.negligible.covariance(log, *policies(), epsilon=0.01),
    "return_test": lambda log: dw.negligible.return_test(log),
    "estimate_behaviour": lambda log: dw.estimate_behaviour(log),
    "fit_behaviour": lambda log: dw.fit_behaviour(log),
    "cross_fitted_propensities": lambda log: dw.cross_fitted_propensities(log),
    "mixture_propensities": lambda log: dw.mixture_propensities(log, {}),
    "fit_mdp": lambda log: dw.fit_mdp(log),
    "cut_bounds": lambda log: dw.cut_bounds(log, *policies(), ["WIS"], remaining=(0, 1)),
    "support": lambda log: support(log, *policies()),
    "confidence_sequence": lambda log: dw.confidence_sequence(log, *policies(), return_range=(-9, 9)),
    "doctor": lambda log: dw.doctor(log),
    "drop by covariance": lambda log: dw.estimate("SIS", log, *policies(), drop="covariance:0.01"),
    "cut_weights": lambda log: dw.estimate("WIS", log, *policies(), cut_weights="auto"),
    "bootstrap of a model": lambda log: dw.estimate("DM", log, *policies(), interval="bootstrap"),
    "drop by returns": lambda log: dw.estimate("SIS", log, *policies(), drop="return-test:0.05"),
}


@pytest.mark.parametrize("verb", IN_MEMORY)
def test_what_needs_the_log_in_memory_refuses(verb: str, inferred: Logs) -> None:
    said = "in memory|one piece|Expected a table"
    with pytest.raises((DataError, EstimationError, LogProblem), match=said):
        IN_MEMORY[verb](inferred.stream())


# --- what is known of the ends ---------------------------------------------------------------------------


def test_parts_say_how_their_episodes_end(logs: Logs) -> None:
    memory = logs.memory
    asked_whole, in_slices, by_number = logs.stream(), logs.stream(), logs.stream()
    numbers = range(-len(by_number), 0)
    for parts in (list(asked_whole), in_slices[:], [by_number[k] for k in numbers]):
        same(np.concatenate([part.terminated for part in parts]), memory.terminated)
        assert {part.time_limit for part in parts} == {memory.time_limit}
    assert logs.stream()[1].time_limit == memory.time_limit
    assert logs.stream().time_limit == memory.time_limit


def test_one_question_after_another(logs: Logs) -> None:
    """In any order, of a view of a log and then of the log itself."""
    gamma = logs.kind.gamma
    names = ["sizes", "evaluate without a model", "census", "improve on what is counted", "state_report"]
    expected = {name: answered(VERBS[name], logs.memory, gamma) for name in names}
    for order in (names, names[::-1]):
        stream = logs.stream()
        view = stream.viewed(without=["behaviour_prob"])
        for log in (view, stream):
            for name in order:
                same(answered(VERBS[name], log, gamma), expected[name], name)


def test_the_limit_is_looked_for_once_and_only_where_nothing_says_it(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    original = io_stream.count_ends
    monkeypatch.setattr(io_stream, "count_ends", lambda log: looked.append(log) or original(log))
    stream, gamma = logs.stream(), logs.kind.gamma
    for name in ("evaluate without a model", "labels", "fingerprint"):
        VERBS[name](stream, gamma)
    if not logs.kind.open_episodes:  # where some were cut, it matters whether the limit did it
        assert not looked, "these do not depend on how episodes end"
    for name in ("improve", "evaluate", "census"):
        VERBS[name](stream, gamma)
    _ = stream.time_limit, stream[0], list(stream)
    unsaid = logs.kind.time_limit == "infer" and not {"terminated", "truncated"} & set(logs.kind.columns)
    assert len(looked) == unsaid


def test_looking_for_a_limit_counts_the_episodes_as_well(inferred: Logs, tmp_path: Path) -> None:
    """So that `improve` takes no more passes than where the limit is given."""
    given = logs_of("given", tmp_path)
    passes = []
    for logs in (inferred, given):
        told: list[Progress] = []
        with dw.progress(told.append):
            improved()(logs.stream(), 1.0)
        passes.append(told[-1].number)
    assert passes[0] == passes[1]


def test_a_log_whose_ends_are_not_settled_says_nothing_of_them() -> None:
    log = dw.Trajectories([0, 0], [0, 1], [1.0, 2.0], [0, 1, 2], durations=[1.0, 2.0]).without_ends()
    for derived in (log, log.with_propensities([0.5, 0.5]), log.discounted(0.5)):
        for ask in ("terminated", "time_limit", "ends", "n_cut_early"):
            with pytest.raises(EndsUnknownError):
                getattr(derived, ask)
        assert derived.n_episodes == 2
    with pytest.raises(EndsUnknownError):
        log.select([0])
