"""A whole evaluation on features: table, verdict, path, report, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import EstimationError


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def pi_b(x: np.ndarray) -> np.ndarray:
    return softmax(np.stack([0.5 * x[:, 0], 0.5 * x[:, 1], 0.0 * x[:, 0]], axis=1))


def pi_e(x: np.ndarray) -> np.ndarray:
    return softmax(np.stack([x[:, 0], 0.2 * x[:, 1], 0.5 + 0.0 * x[:, 0]], axis=1))


def simulate(policy, n: int, seed: int, length: int = 6, logged: bool = False) -> dw.Trajectories:
    """Four features that drift; only the first one decides what the first action earns."""
    rng = np.random.default_rng(seed)
    x, rows, actions, rewards, probs = rng.normal(size=(n, 4)), [], [], [], []
    for _ in range(length):
        p = policy(x)
        a = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1)
        rows.append(x)
        actions.append(a)
        probs.append(p[np.arange(n), a])
        rewards.append(np.tanh(x[:, 0]) * (a == 0) + 0.1 * rng.normal(size=n))
        x = 0.8 * x + 0.2 * (a[:, None] - 1) + 0.5 * rng.normal(size=(n, 4))
    return dw.Trajectories(
        None,
        np.stack(actions, axis=1).ravel(),
        np.stack(rewards, axis=1).ravel(),
        np.arange(0, n * length + 1, length),
        features=np.stack(rows, axis=1).reshape(-1, 4),
        feature_names=["lactate", "map", "age", "sofa"],
        propensities=np.stack(probs, axis=1).ravel() if logged else None,
        time_limit=length,
    )


LOG = simulate(pi_b, 300, 0)
TRUTH = simulate(pi_e, 200_000, 1).rewards.sum() / 200_000


@pytest.fixture(scope="module")
def evaluation() -> dw.Evaluation:
    return dw.evaluate(LOG, pi_e, pi_b)


def test_the_table_has_everything_and_is_near_the_truth(evaluation: dw.Evaluation) -> None:
    assert evaluation.headline.name == "BLEND"
    for name in ("DM", "WPDIS", "C-WSPDIS", "WDR", "WDRSIS", "BLEND"):
        one = evaluation[name]
        assert abs(one.value - TRUTH) < 4 * one.std_error, name
        assert one.interval[0] < TRUTH < one.interval[1], name
        assert one.dropped == [], name
    assert evaluation["WDR"].std_error < evaluation["WPDIS"].std_error
    assert evaluation.verdict.answer == "better"
    assert sum(evaluation["BLEND"].shares.values()) == pytest.approx(1.0)


def test_results_are_data(evaluation: dw.Evaluation, tmp_path: Path) -> None:
    evaluation.save(tmp_path / "e.json")
    assert dw.load(tmp_path / "e.json").to_dict() == evaluation.to_dict()
    assert (tmp_path / "e.json").stat().st_size < 100_000  # and nothing that grows with the steps
    evaluation.report(tmp_path / "r.html")
    assert "lactate" in (tmp_path / "e.json").read_text()


def test_workers_do_not_matter(evaluation: dw.Evaluation) -> None:
    again = dw.evaluate(LOG, pi_e, pi_b, workers=2, background=False)
    assert {name: one.value for name, one in again.estimates.items()} == {
        name: one.value for name, one in evaluation.estimates.items()
    }


def test_propensities_alone_will_do() -> None:
    log = simulate(pi_b, 300, 0, logged=True)
    found = dw.evaluate(log, pi_e, background=False)
    both = dw.evaluate(LOG, pi_e, pi_b, background=False)
    assert found["WPDIS"].value == both["WPDIS"].value
    assert found["WDR"].value == pytest.approx(both["WDR"].value, rel=1e-12)
    drop = np.random.default_rng(0).random(log.n_steps) < 0.3
    one = dw.estimate("C-WSPDIS", log, pi_e, drop=drop)
    other = dw.estimate("C-WSPDIS", LOG, pi_e, pi_b, drop=drop)
    assert abs(one.value - other.value) < 2 * other.std_error


def test_target_probs_alone_leave_the_names_without_a_model() -> None:
    log = simulate(pi_b, 300, 0, logged=True)
    p = pi_e(log.features)[np.arange(log.n_steps), log.actions]
    logged = dw.Trajectories(
        None,
        log.actions,
        log.rewards,
        log.offsets,
        propensities=log.propensities,
        target_probs=p,
        features=log.features,
    )
    found = dw.evaluate(logged)
    assert found["WPDIS"].value == pytest.approx(dw.estimate("WPDIS", log, pi_e).value, rel=1e-12)
    assert "WDR" not in found.estimates


@pytest.mark.parametrize("name", ["WSPDIS", "C-WSPDIS", "WDRSIS", "C-WSIS", "SIS"])
def test_the_path_goes_from_nothing_to_everything(name: str) -> None:
    path = dw.epsilon_path(name, LOG, pi_e, pi_b)
    assert len(path) <= 26
    assert path.n_dropped[0] == 0
    assert path.n_dropped[-1] == LOG.n_steps
    assert (np.diff(path.n_dropped) > 0).all()
    everything = dw.estimate(name, LOG, pi_e, pi_b, drop=np.ones(LOG.n_steps, dtype=bool))
    corrected = path.corrected[-1] if name.startswith(("C-", "WDR")) else path.estimate[-1]
    assert corrected == pytest.approx(everything.value, rel=1e-9)
    nothing = dw.estimate(name, LOG, pi_e, pi_b, drop=None)
    assert path.estimate[0] == pytest.approx(nothing.value, rel=1e-9)


@pytest.mark.parametrize("interval", ["student-t", "bootstrap", "bca", "bernstein", "guaranteed"])
def test_every_interval_is_there(interval: str) -> None:
    found = dw.estimate("SIS", LOG, pi_e, pi_b, interval=interval, return_range=(-6.0, 6.0), resamples=50)
    assert found.interval is not None
    assert found.interval[0] < found.interval[1]


@pytest.mark.parametrize("name", ["WDRSIS", "DM"])
def test_a_bootstrap_of_what_a_model_is_in(name: str) -> None:
    few = LOG.select(np.arange(40))
    found = dw.estimate(name, few, pi_e, pi_b, interval="bootstrap", resamples=5, model=dw.LinearQ(size=5))
    assert found.interval is not None


def test_one_episode_and_few_episodes() -> None:
    for n in (1, 2, 4):
        found = dw.evaluate(LOG.select(np.arange(n)), pi_e, pi_b)
        assert np.isfinite(found["WPDIS"].value)
        assert found.verdict.answer == "cannot tell"


def test_rows_that_no_features_describe_leave_the_names_without_a_model() -> None:
    """Labels, and a policy that depends on more than these."""
    log = dw.Trajectories(
        np.arange(LOG.n_steps) % 3, LOG.actions, LOG.rewards, LOG.offsets, time_limit=LOG.horizon
    )
    rows_e, rows_b = dw.RowPolicy(pi_e(LOG.features)), dw.RowPolicy(pi_b(LOG.features))
    found = dw.evaluate(log, rows_e, rows_b)
    assert found["WPDIS"].value == pytest.approx(dw.estimate("WPDIS", LOG, pi_e, pi_b).value, rel=1e-12)
    assert "WDR" not in found.estimates
    with pytest.raises(EstimationError, match="no action values"):
        dw.estimate("WDR", log, rows_e, rows_b)


def test_labels_and_features_together() -> None:
    """Features serve policies and models that ask for them; labels make tables otherwise."""
    both = dw.Trajectories(
        np.arange(LOG.n_steps) % 3,
        LOG.actions,
        LOG.rewards,
        LOG.offsets,
        features=LOG.features,
        time_limit=LOG.horizon,
    )
    for name in ("WDR", "C-WSPDIS"):
        found = dw.estimate(name, both, dw.FeaturePolicy(pi_e), dw.FeaturePolicy(pi_b))
        assert found.value == dw.estimate(name, LOG, pi_e, pi_b).value
    table = dw.TabularPolicy([[0.2, 0.3, 0.5]] * 3)
    uniform = dw.TabularPolicy(np.full((3, 3), 1 / 3))
    assert dw.estimate("WDRSIS", both, table, uniform, drop=[0, 1]).dropped == [0, 1]
    linear = dw.estimate("WDR", both, table, uniform, model=dw.LinearQ(size=5))
    assert linear.value != dw.estimate("WDR", both, table, uniform).value
