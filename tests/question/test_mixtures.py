"""Several old policies as one: by an identity, by enumeration, and where one of them is blind."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from deadweight_studies.ends import table_without_flags
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import deadweight as dw
from deadweight.cli.app import app
from deadweight.errors import DataError, PolicyError, SupportError
from deadweight.mdp.problem import simulate
from deadweight.sums.old_policies import old_policies


def random_policies(count, states=4, actions=3, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.ones(actions), states) for _ in range(count)]


def mixed(mdp, policies, sizes, seed=0):
    """One log of several old policies, ids v0, v1, ..."""
    logs = [simulate(mdp, p, n, seed + j) for j, (p, n) in enumerate(zip(policies, sizes, strict=True))]
    lengths = np.concatenate([log.lengths for log in logs])
    return dw.Trajectories(
        np.concatenate([log.states for log in logs]),
        np.concatenate([log.actions for log in logs]),
        np.concatenate([log.rewards for log in logs]),
        np.concatenate([[0], np.cumsum(lengths)]),
        terminated=np.concatenate([log.terminated for log in logs]),
        behaviour_ids=np.repeat([f"v{j}" for j in range(len(sizes))], sizes),
    )


def small_mdp(seed=0, states=4, actions=3, horizon=6):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(states), (states, actions)) * 0.95
    return dw.TabularMDP(P, rng.normal(size=(states, actions)), np.full(states, 1 / states), horizon)


def plain_loop(log, tables, shares):
    """The definition, one step after the other, with products instead of logarithms."""
    found = np.empty(log.n_steps)
    for lo, hi in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        past = np.array(shares, dtype=float)
        for row in range(lo, hi):
            now = np.array([table[log.states[row], log.actions[row]] for table in tables])
            found[row] = (past * now).sum() / past.sum()
            past = past * now
    return found


def test_the_product_of_the_mixture_is_the_mixture_of_the_products():
    policies = random_policies(3)
    log = mixed(small_mdp(horizon=12), policies, (40, 10, 25))
    b = dw.mixture_propensities(log, {f"v{j}": p for j, p in enumerate(policies)})
    shares = np.array([40, 10, 25]) / 75
    products = np.multiply.reduceat(b, log.offsets[:-1])
    own = [np.multiply.reduceat(p[log.states, log.actions], log.offsets[:-1]) for p in policies]
    assert_allclose(products, shares @ np.stack(own), rtol=1e-12)
    assert_allclose(b, plain_loop(log, policies, shares), rtol=1e-12)


def test_a_policy_that_has_become_tiny_can_grow_again():
    # Steps that one policy takes with 1e-12 and the other with near 1, forty of each: 1e-480 on the way.
    one, other = np.array([[1e-12, 1 - 1e-12]]), np.array([[1 - 1e-12, 1e-12]])
    actions = [0] * 40 + [1] * 41
    log = dw.Trajectories(
        np.zeros(82, dtype=int), [*actions, 0], np.zeros(82), [0, 81, 82], behaviour_ids=["x", "y"]
    )
    b = dw.mixture_propensities(log, {"x": one, "y": other})
    total = np.logaddexp(*(np.log(0.5) + np.log(p[0, actions]).sum() for p in (one, other)))
    assert_allclose(np.log(b[:81]).sum(), total, rtol=1e-12)
    assert np.isfinite(b).all()
    assert b[80] == pytest.approx(0.5), "by then both are as likely again"


def test_estimates_are_exact_in_expectation_over_all_trajectories():
    # Two steps, two actions, one state: every trajectory of every old policy with its probability.
    first, second = np.array([[0.9, 0.1]]), np.array([[0.3, 0.7]])
    target = np.array([[0.2, 0.8]])
    truth = 2 * 0.8
    expected = 0.0
    for actions in itertools.product((0, 1), repeat=2):
        log = dw.Trajectories(
            [0, 0, 0, 0], [*actions, *actions], [*actions, *actions], [0, 2, 4], behaviour_ids=["a", "b"]
        )
        value = dw.estimate("PDIS", log, target, {"a": first, "b": second}, interval=None).value
        chance = 0.5 * sum(np.prod(p[0, list(actions)]) for p in (first, second))
        expected += chance * value
    assert expected == pytest.approx(truth, rel=1e-12)


def test_one_old_policy_that_lacks_support_is_no_harm():
    # v0 never takes action 2, which the new policy loves; its own propensities leave that out for good.
    mdp = small_mdp(seed=5, horizon=3)
    blind, seeing = random_policies(2, seed=5)
    blind = np.where(np.arange(3) == 2, 0.0, blind) / blind[:, :2].sum(axis=1, keepdims=True)
    target = np.tile([0.1, 0.1, 0.8], (4, 1))
    truth = dw.policy_value(mdp, target)
    log = mixed(mdp, [blind, seeing], (4000, 4000))
    by_mixture = dw.estimate("PDIS", log, target, {"v0": blind, "v1": seeing}, interval="student-t")
    own = np.where(
        np.repeat(log.behaviour_ids == "v0", log.lengths),
        blind[log.states, log.actions],
        seeing[log.states, log.actions],
    )
    by_own = dw.estimate("PDIS", log.with_propensities(own), target, interval="student-t")
    assert abs(by_mixture.value - truth) < 4 * by_mixture.std_error
    assert abs(by_own.value - truth) > 8 * by_own.std_error


def test_a_missing_policy_is_counted_and_flagged():
    policies = random_policies(2)
    log = mixed(small_mdp(), policies, (300, 200))
    counted = dw.estimate_behaviour(log.select(log.behaviour_ids == "v1"))
    filled = dw.estimate("WPDIS", log, policies[0], {"v0": policies[0]}, interval=None)
    told = dw.estimate("WPDIS", log, policies[0], {"v0": policies[0], "v1": counted}, interval=None)
    assert filled.value == told.value
    assert "behaviour-filled" in filled.flags
    assert "behaviour-filled" not in told.flags
    assert (
        "counted" in " ".join(filled.explain()) if not isinstance(filled.explain(), str) else filled.explain()
    )
    ev = dw.evaluate(log, policies[0], {"v0": policies[0]}, interval=None)
    assert "behaviour-filled" not in ev["BEHAVIOUR"].flags


def test_ids_may_be_numbers_and_written_as_text():
    log = dw.Trajectories([0, 0], [0, 1], [1.0, 0.0], [0, 1, 2], behaviour_ids=[1, 2])
    policies = {1: [[0.9, 0.1]], 2: [[0.2, 0.8]]}
    as_text = {str(key): policy for key, policy in policies.items()}
    assert_allclose(dw.mixture_propensities(log, policies), dw.mixture_propensities(log, as_text))


def test_two_keys_that_mean_one_id_are_refused():
    log = dw.Trajectories([0, 0], [0, 1], [1.0, 0.0], [0, 1, 2], behaviour_ids=[1, 2])
    one, two = [[0.9, 0.1]], [[0.2, 0.8]]
    for policies in ({1: one, "1": two, 2: two}, {"1": two, 1: one, 2: two}):
        with pytest.raises(PolicyError, match=r"for the id 1 twice, as (1 and '1'|'1' and 1)\."):
            dw.estimate("WIS", log, two, policies)
        with pytest.raises(PolicyError, match="twice"):
            dw.mixture_propensities(log, policies)


@pytest.mark.parametrize(
    ("policies", "error", "told"),
    [
        ({"v3": np.full((4, 3), 1 / 3)}, PolicyError, "'v3', which made no episode"),
        ({"v0": np.eye(4, 3) + np.array([[0], [0], [0], [1]]) * [1, 0, 0]}, SupportError, "'v0' gives"),
        ({"v0": np.full((2, 3), 1 / 3)}, PolicyError, "'v0' does not fit"),
    ],
)
def test_what_does_not_fit_is_refused(policies, error, told):
    log = mixed(small_mdp(), random_policies(2), (30, 20))
    with pytest.raises(error, match=told) as caught:
        dw.evaluate(log, np.full((4, 3), 1 / 3), policies)
    assert caught.value.fix


def test_a_log_without_ids_says_so():
    log = simulate(small_mdp(), random_policies(1)[0], 10, 0)
    with pytest.raises(DataError, match="which episodes each of them made"):
        dw.evaluate(log, np.full((4, 3), 1 / 3), {"v0": np.full((4, 3), 1 / 3)})
    with pytest.raises(DataError, match="one old policy for each episode"):
        dw.Trajectories([0, 0], [0, 0], [0.0, 0.0], [0, 2], behaviour_ids=["a", "b"])


def frame(log):
    import pandas as pd

    return pd.DataFrame(
        {
            **table_without_flags(log),
            "behaviour_id": np.repeat(log.behaviour_ids, log.lengths),
        }
    )


def test_ids_come_with_a_table(tmp_path):
    log = mixed(small_mdp(), random_policies(2), (30, 20))
    table = frame(log)
    for source in (table, tmp_path / "log.csv", tmp_path / "log.parquet"):
        if source is not table:
            getattr(table, f"to_{source.suffix[1:]}")(source, index=False)
        again = dw.read(source if source is table else str(source), time_limit=None)
        assert list(again.behaviour_ids) == list(log.behaviour_ids)
    assert list(log.select([0, 45]).behaviour_ids) == ["v0", "v1"]


def test_a_policy_that_changes_within_an_episode_is_an_error():
    table = frame(mixed(small_mdp(), random_policies(2), (30, 20)))
    table.loc[1, "behaviour_id"] = "v1"
    with pytest.raises(DataError, match="DW206"):
        dw.read(table)
    table.loc[1, "behaviour_id"] = None
    assert [one.code for one in dw.doctor(table).errors] == ["DW206"]


def test_old_policies_that_met_the_same_world_do_not_drift():
    log = mixed(small_mdp(), random_policies(3), (400, 300, 500))
    found = old_policies(log)
    assert [one.id for one in found] == ["v0", "v1", "v2"]
    assert sum(one.share for one in found) == pytest.approx(1.0)
    assert not any(one.drifted for one in found)


def test_a_world_that_has_changed_is_seen():
    policies = random_policies(2)
    before, after = small_mdp(), small_mdp()
    changed = dw.TabularMDP(after.P, after.r + 0.5, after.d0, 6)
    early, late = simulate(before, policies[0], 400, 0), simulate(changed, policies[1], 400, 1)
    log = dw.Trajectories(
        np.concatenate([early.states, late.states]),
        np.concatenate([early.actions, late.actions]),
        np.concatenate([early.rewards, late.rewards]),
        np.concatenate([early.offsets, early.n_steps + late.offsets[1:]]),
        behaviour_ids=np.repeat(["early", "late"], 400),
    )
    found = {one.id: one for one in old_policies(log)}
    assert found["late"].drifted
    assert found["late"].steps_z > 0
    assert re.search("bring more", found["late"].drift)
    said = {one.code: one for one in dw.doctor(frame(log))}
    assert {"DW249", "DW250"} <= set(said)
    assert "No verdict" in said["DW250"].fix


def test_old_policies_are_listed_by_their_ids():
    """Weeks came as 5, 6, 9, 11, 0, in the order of the table."""
    weeks = [5, 6, 9, 11, 0]
    table = {
        "episode": range(10),
        "step": [0] * 10,
        "state": [0] * 10,
        "action": [0, 1] * 5,
        "reward": [1.0] * 10,
    }
    said = {one.code: one.problem for one in dw.doctor(table | {"behaviour_id": weeks * 2})}
    assert re.findall(r"(\d+) 2 episodes", said["DW249"]) == ["0", "5", "6", "9", "11"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, policies = tmp_path_factory.mktemp("mixtures"), random_policies(3)
    log = mixed(small_mdp(), policies[:2], (300, 200))
    frame(log).to_csv(folder / "log.csv", index=False)
    for j, policy in enumerate(policies):
        np.save(folder / f"{j}.npy", policy)
    return folder, log, policies


def command(folder, behaviour, *more):
    words = ["evaluate", str(folder / "log.csv"), "--target", str(folder / "2.npy")]
    words += ["--behaviour", behaviour, "--time-limit", "6", "--estimators", "WPDIS,DM", *more]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def test_the_command_takes_a_file_for_each_id(files):
    folder, log, policies = files
    found = command(folder, f"v0={folder / '0.npy'}, v1={folder / '1.npy'}", "--json")
    assert found.exit_code == 0
    ours = json.loads(found.stdout)["estimates"]["WPDIS"]
    told = dw.estimate("WPDIS", log, policies[2], {"v0": policies[0], "v1": policies[1]})
    assert ours["value"] == pytest.approx(told.value, rel=1e-12)
    filled = command(folder, f"v1={folder / '1.npy'}", "--json")
    assert "behaviour-filled" in json.loads(filled.stdout)["estimates"]["WPDIS"]["flags"]


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ("v0={0}/0.npy,v9={0}/1.npy", "'v9', which made no episode"),
        ("v0={0}/0.npy,{0}/1.npy", "id=FILE"),
        ("v0={0}/0.npy,v0={0}/1.npy", "twice"),
        ("v0={0}/absent.npy", "absent.npy"),
    ],
)
def test_the_command_says_what_does_not_fit(files, behaviour, told):
    words = ["evaluate", str(files[0] / "log.csv"), "--target", str(files[0] / "2.npy")]
    words += ["--behaviour", behaviour.format(files[0])]
    found = CliRunner().invoke(app, words)
    assert told in str(found.exception)


def test_the_report_shows_the_old_policies(files, tmp_path):
    _, log, policies = files
    ev = dw.evaluate(log, policies[2], {"v0": policies[0], "v1": policies[1]}, ["WPDIS"])
    rows = ev.background.data.old_policies
    assert [(one.id, one.episodes) for one in rows] == [("v0", 300), ("v1", 200)]
    assert all(0 < one.ess <= one.episodes for one in rows)
    assert all(one.drift == "" for one in rows)
    assert "The old policies that made the log" in ev.report(tmp_path / "r.html").read_text()
    assert dw.load(ev.save(tmp_path / "r.json")).background.data.old_policies == rows


def test_old_policies_may_be_functions_of_features():
    rng = np.random.default_rng(0)
    x, actions = rng.normal(size=(60, 1)), rng.integers(2, size=60)
    log = dw.Trajectories(
        None, actions, x[:, 0], np.arange(0, 61, 3), features=x, behaviour_ids=["a", "b"] * 10
    )

    def steep(features):
        p = 1 / (1 + np.exp(-2 * features[:, 0]))
        return np.stack([1 - p, p], axis=1)

    flat = dw.RowPolicy(np.full((60, 2), 0.5))
    b = dw.mixture_propensities(log, {"a": steep, "b": flat})
    tables = [steep(x), np.full((60, 2), 0.5)]
    rows = np.arange(60)
    by_row = log.with_propensities(b)
    assert_allclose(
        np.multiply.reduceat(b, log.offsets[:-1]),
        sum(0.5 * np.multiply.reduceat(t[rows, actions], log.offsets[:-1]) for t in tables),
        rtol=1e-12,
    )
    told = dw.estimate("WPDIS", by_row, steep, interval=None).value
    assert dw.estimate("WPDIS", log, steep, {"a": steep, "b": flat}, interval=None).value == told
    assert not any(one.drifted for one in old_policies(log))


def test_a_missing_policy_of_features_is_asked_for_by_its_id():
    log = dw.Trajectories(
        None, [0, 1], [1.0, 2.0], [0, 1, 2], features=[[0.0], [1.0]], behaviour_ids=["a", "b"]
    )
    even = dw.FeaturePolicy(lambda x: np.full((len(x), 2), 0.5))
    with pytest.raises(PolicyError, match="no policy for b, and it cannot be counted"):
        dw.estimate("WIS", log, even, {"a": even})
