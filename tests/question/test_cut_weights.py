"""Weights for cut episodes, by sums over all episodes where the log shows what being cut depends on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deadweight as dw
from deadweight.answers.candidates import gather
from deadweight.answers.intervals import centred_influences
from deadweight.cli import run
from deadweight.errors import EstimationError, OptionError
from deadweight.estimators.windowed import ModelSteps
from deadweight.log.interface import in_memory
from deadweight.question.asked import Options, weigh_cuts
from deadweight.question.question import ask

STEPS = 3
GAMMA = 0.9
END, UNKNOWN = 2, -1
HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
PI_B = np.full((2, 2), 0.5)
PI_E = np.array([[0.2, 0.8], [0.9, 0.1]])
REWARDS = [[1.0, 3.0], [-2.0, 4.0]]
# Where a step leads: each as often as it is listed.
LEADS = [[(0, 1), (1, 2)], [(0, 0), (1, 2)]]
NAMES = ("IS", "PDIS", "WIS", "WPDIS", "DM", "DR", "WDR", "C-SPDIS", "C-WSPDIS", "WDRSIS", "BLEND")
Chance = Callable[[int, int, int], Fraction]
Row = tuple[int, int, float]


def mdp() -> dw.TabularMDP:
    P = np.zeros((2, 2, 3))
    for s in range(2):
        for a in range(2):
            for after in LEADS[s][a]:
                P[s, a, after] += 0.5
    return dw.TabularMDP(P, REWARDS, [0.5, 0.5])


def by_state(s: int, a: int, t: int) -> Fraction:
    return (QUARTER, HALF)[s]


def by_pair(s: int, a: int, t: int) -> Fraction:
    return (Fraction(0), HALF, 3 * QUARTER, QUARTER)[2 * s + a]


def by_step(s: int, a: int, t: int) -> Fraction:
    return (QUARTER, 3 * QUARTER)[t]


def by_state_and_step(s: int, a: int, t: int) -> Fraction:
    return (QUARTER, HALF, Fraction(0), 3 * QUARTER)[2 * s + t]


# --- all episodes, each as often as it is likely ----------------------------------------------------------


def hidden(chance: Chance, rows: list[Row], s: int, share: Fraction) -> Iterator[tuple[Fraction, list, int]]:
    """Being cut hides what the step led to, so that it may have been the end. (share, rows, next)."""
    for a in range(2):
        now = [*rows, (s, a, REWARDS[s][a])]
        cut = chance(s, a, len(rows)) if len(now) < STEPS else Fraction(0)
        if cut:
            yield share * HALF * cut, now, UNKNOWN
        for after in LEADS[s][a]:
            rest = share * QUARTER * (1 - cut)
            if after == END or len(now) == STEPS:
                yield rest, now, after
            else:
                yield from hidden(chance, now, after, rest)


def shown(chance: Chance, rows: list[Row], s: int, share: Fraction) -> Iterator[tuple[Fraction, list, int]]:
    """Who goes on may be cut, and the log says where: the chance is that of the next state."""
    for a in range(2):
        now = [*rows, (s, a, REWARDS[s][a])]
        for after in LEADS[s][a]:
            rest = share * QUARTER
            if after == END or len(now) == STEPS:
                yield rest, now, after
                continue
            cut = chance(after, a, len(rows))
            if cut:
                yield rest * cut, now, after
            if cut < 1:
                yield from shown(chance, now, after, rest * (1 - cut))


def whole_log(episodes: Any, chance: Chance) -> dw.Trajectories:
    """Sample means of this log are expectations: every episode is there as often as it is likely."""
    found = [one for s in range(2) for one in episodes(chance, [], s, HALF) if one[0]]
    size = np.lcm.reduce([share.denominator for share, _, _ in found])
    chosen = [(rows, last) for share, rows, last in found for _ in range(int(share * size))]
    assert sum(share for share, _, _ in found) == 1
    return dw.Trajectories.from_episodes(
        [rows for rows, _ in chosen],
        terminated=[last == END for _, last in chosen],
        next_states=[[-1] * (len(rows) - 1) + [last if last != END else -1] for rows, last in chosen],
    ).with_time_limit(STEPS, says_ends=True)


CASES = [
    (hidden, by_state, ("state", "pair", "state-step")),
    (hidden, by_pair, ("pair",)),
    (hidden, by_step, ("step", "state-step")),
    (hidden, by_state_and_step, ("state-step",)),
    (shown, by_state, ("state", "pair", "state-step")),
]


@pytest.mark.parametrize(("episodes", "chance", "ways"), CASES)
@pytest.mark.parametrize("name", NAMES)
def test_the_expectation_over_all_episodes_is_the_value(
    episodes: Any, chance: Chance, ways: tuple[str, ...], name: str
) -> None:
    log = whole_log(episodes, chance)
    truth = dw.policy_value(mdp(), PI_E, STEPS, GAMMA)
    drop = {} if name == "BLEND" else {"drop": [1]}
    for way in ways:
        found = dw.estimate(name, log, PI_E, PI_B, gamma=GAMMA, cut_weights=way, interval=None, **drop)
        assert found.value == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize(("episodes", "chance", "ways"), CASES)
def test_the_baseline_too_and_only_with_the_right_groups(
    episodes: Any, chance: Chance, ways: tuple[str, ...]
) -> None:
    log, truth = whole_log(episodes, chance), dw.policy_value(mdp(), PI_B, STEPS, GAMMA)
    for way in (None, "all", "step", "state", "pair", "state-step"):
        value = dw.estimate("BEHAVIOUR", log, PI_E, PI_B, gamma=GAMMA, cut_weights=way).value
        assert (value == pytest.approx(truth, rel=1e-10)) == (way in ways)
    chosen = dw.evaluate(log, PI_E, PI_B, ["WPDIS"], cut_weights="auto").conventions["cut_weights"]
    assert chosen["by"] in ways
    assert chosen["scores"][chosen["by"]] == min(chosen["scores"].values())
    assert chosen["n_cut"] == np.count_nonzero(~log.terminated & (log.lengths < STEPS))


def test_rows_stand_for_one_over_the_chance_of_being_seen() -> None:
    log = whole_log(hidden, by_step)
    weighted = weigh_cuts(in_memory(log), "step", "absorb")[0][0]
    assert weighted.discounting is not None
    assert weighted.discounting.standing is not None
    steps = np.arange(log.n_steps) - np.repeat(log.offsets[:-1], log.lengths)
    np.testing.assert_allclose(weighted.discounting.standing.rows, np.array([1, 4 / 3, 16 / 3])[steps])
    np.testing.assert_allclose(
        weighted.discounting.standing.outcomes, np.array([4 / 3, 16 / 3, 16 / 3])[steps]
    )
    np.testing.assert_allclose(weighted.rewards, log.rewards * weighted.discounting.standing.rows)


@pytest.mark.parametrize("name", ["LIN", "WPDIS", "DM", "WIN2", "WIN3", "BEHAVIOUR"])
def test_the_influence_is_the_derivative_by_the_weight_of_an_episode(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the chance of being cut, and the model's shares of states, held fixed: as influences take them."""
    log = random_log()
    question = ask(log, PI_E, PI_B, GAMMA, Options(cut_weights="state"))
    found = gather(question)
    _hold_shares(ModelSteps(question), monkeypatch)
    place, copies, n = found.names.index(name), 100, log.n_episodes
    influence = centred_influences(question, found.influences[place])
    weighted, many = question.parts[0], np.tile(np.arange(n), copies)

    def value(chosen: Any) -> float:
        return float(gather(question.about(weighted.select(chosen))).values[place])

    base = value(many)
    for episode in (0, 7):
        moved = value(np.concatenate([many, [episode]])) - base
        assert moved == pytest.approx(influence[episode] / (n * copies + 1), rel=5e-3, abs=1e-7)


def test_lin_takes_no_part_where_rows_stand_for_many_others() -> None:
    """Its standard error is right for what it is: a sum of ratios, not a sum of ratios times such numbers."""
    shares = [
        dw.estimate("BLEND", random_log(), PI_E, PI_B, gamma=GAMMA, cut_weights=cuts).shares
        for cuts in ("state", None)
    ]
    assert ["LIN" in one for one in shares] == [False, True]


def _hold_shares(known: ModelSteps, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModelSteps.__init__

    def hold(self: ModelSteps, question: Any) -> None:
        made(self, question)
        self.ratios, self.alive = known.ratios, known.alive

    monkeypatch.setattr(ModelSteps, "__init__", hold)


def random_log(episodes: int = 15, seed: int = 0) -> dw.Trajectories:
    """Some episodes of the problem, cut by state."""
    whole = dw.simulate(mdp(), PI_B, episodes, seed, 4)
    rng = np.random.default_rng(seed)
    rows = [list(one) for one in whole]
    lengths = [next((t + 1 for t in range(len(one)) if rng.random() < 0.3), len(one)) for one in rows]
    ended = [t == len(one) and bool(end) for t, one, end in zip(lengths, rows, whole.terminated, strict=True)]
    return dw.Trajectories.from_episodes([one[:t] for t, one in zip(lengths, rows, strict=True)], ended)


# --- what is said, and what is refused ----------------------------------------------------------------------


def test_a_log_without_cuts_is_left_alone() -> None:
    lift = dw.domains.deterministic_lift(5)
    log = lift.sample(20, seed=0)
    plain, weighed = (dw.evaluate(log, lift.pi_e, lift.pi_b, cut_weights=way) for way in (None, "auto"))
    assert weighed.conventions["cut_weights"] is None
    assert plain.to_dict() == weighed.to_dict()
    whole = [[(0, 0, 1.0), (0, 1, 2.0)]] * 5 + [[(0, 1, 1.0)]] * 5
    last = dw.Trajectories.from_episodes(whole, terminated=[False] * 5 + [True] * 5)
    found = dw.estimate("WIS", last, [[0.5, 0.5]], [[0.5, 0.5]], cut_weights="auto")
    assert last.time_limit == 2, "cut at the last step of all: nothing that counts was cut off"
    assert not {"truncated", "cut-weighted"} & set(found.flags)
    assert found.value == 2.0


def test_the_table_says_what_was_done() -> None:
    log = whole_log(hidden, by_state)
    ev = dw.evaluate(log, PI_E, PI_B, cut_weights="state", return_range=(-10, 20))
    assert all("cut-weighted" in one.flags and "truncated" not in one.flags for one in ev.estimates.values())
    told = dict(ev.background.conventions)["Cut episodes"]
    assert "by the chance of being cut by state (one row for at most 4)" in told
    assert "In groups" not in told


def test_groups_of_which_all_were_cut_are_said() -> None:
    cut, whole = [(0, 0, 1.0), (1, 0, 1.0)], [(0, 0, 1.0), (2, 0, 1.0), (2, 0, 0.0)]
    log = dw.Trajectories.from_episodes([cut] * 9 + [whole], terminated=[False] * 9 + [True])
    found = weigh_cuts(in_memory(log), "state", "absorb")[1]
    assert found is not None
    assert found.blind == pytest.approx(9 / 20)
    assert "In groups with 45.0% of the rows all were cut" in found.sentence


@pytest.mark.parametrize("name", ["MIS", "TMIS", "SDRE", "CIS"])
def test_what_takes_steps_together_says_so(name: str) -> None:
    with pytest.raises(EstimationError, match="with cut_weights they do not count alike"):
        dw.estimate(name, whole_log(hidden, by_state), PI_E, PI_B, cut_weights="state", mode="policy")


def test_refusals() -> None:
    log = whole_log(hidden, by_state)
    with pytest.raises(OptionError, match="cut_weights must be one of auto, all"):
        dw.estimate("WIS", log, PI_E, PI_B, cut_weights="hour")
    with pytest.raises(OptionError, match="needs finished='absorb'"):
        dw.estimate("WIS", log, PI_E, PI_B, cut_weights="state", finished="leave")
    for kind in ("guaranteed", "bernstein"):
        with pytest.raises(OptionError, match="only estimated"):
            dw.estimate("WIS", log, PI_E, PI_B, cut_weights="all", interval=kind, return_range=(-99, 99))
    features = dw.Trajectories(None, [0, 1], [0.0, 1.0], [0, 1, 2], [0.5, 0.5], features=[[0.5], [0.1]])
    with pytest.raises(EstimationError, match="has rows for states"):
        dw.estimate("WIS", features, dw.RowPolicy([[0.5, 0.5], [0.5, 0.5]]), cut_weights="all")


def test_the_other_verbs_weigh_cuts_as_well() -> None:
    log, other = random_log(200), np.full((2, 2), 0.5)
    both = dw.compare(log, {"new": PI_E, "even": other}, PI_B, cut_weights="state")
    alone = dw.evaluate(log, PI_E, PI_B, cut_weights="state", background=False)
    assert both["new"].headline.value == alone.headline.value
    assert both["new"]["BEHAVIOUR"].value == alone["BEHAVIOUR"].value != log.rewards.sum() / log.n_episodes
    path = dw.epsilon_path("WSPDIS", log, PI_E, PI_B, cut_weights="state")
    assert path.estimate[0] == pytest.approx(alone["WPDIS"].value, rel=1e-12)


def test_durations_and_cuts_go_together() -> None:
    """All rows take 2: the same as a discount of gamma squared."""
    log = random_log(60)
    columns = (log.states, log.actions, log.rewards, log.offsets)
    twice = np.full(log.n_steps, 2.0)
    timed = dw.Trajectories(*columns, terminated=log.terminated, durations=twice)
    for name in ("WPDIS", "WDR", "BLEND", "BEHAVIOUR"):
        ours = dw.estimate(name, timed, PI_E, PI_B, gamma=GAMMA, cut_weights="state")
        theirs = dw.estimate(name, log, PI_E, PI_B, gamma=GAMMA**2, cut_weights="state")
        np.testing.assert_allclose([ours.value, *ours.interval], [theirs.value, *theirs.interval], rtol=1e-8)


def test_on_the_command_line(tmp_path: Path, capsys: Any) -> None:
    log = random_log(200)
    rows = [
        f"{i},{t},{s},{a},{r},{int(t == len(one) - 1 and not end)}"
        for i, (one, end) in enumerate(zip(log, log.terminated, strict=True))
        for t, (s, a, r) in enumerate(one)
    ]
    (tmp_path / "log.csv").write_text("episode,step,state,action,reward,truncated\n" + "\n".join(rows))
    np.save(tmp_path / "new.npy", PI_E)
    arguments = ["evaluate", str(tmp_path / "log.csv"), "--target", str(tmp_path / "new.npy")]
    arguments += ["--behaviour", "counts", "--cut-weights", "state"]
    assert run(arguments) == 0
    assert "Cut episodes: " in capsys.readouterr().out
    assert run([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["conventions"]["cut_weights"]["by"] == "state"
    assert run([*arguments[:-1], "hour"]) == 2
    assert "cut_weights must be one of" in capsys.readouterr().err
