"""Policies as anything: every form of the same probabilities gives the same bits, or one clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import PolicyError, SupportError

STATES, ACTIONS = ["icu", "ward", "home"], ["wait", "treat"]
PROBS = np.array([[0.125, 0.875], [0.75, 0.25], [1.0, 0.0]])
BEHAVIOUR = np.array([[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]])


def draw(seed: int = 0, n: int = 40) -> dw.Trajectories:
    """States of which a feature says all; the reward depends on both."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, n)
    s = rng.integers(0, 3, lengths.sum())
    a = (rng.random(s.size) < BEHAVIOUR[s, 1]).astype(int)
    return dw.Trajectories(
        [STATES[i] for i in s],
        [ACTIONS[i] for i in a],
        s * 0.5 + a + rng.normal(size=s.size),
        np.concatenate([[0], np.cumsum(lengths)]),
        features=np.stack([s.astype(float), rng.normal(size=s.size)], axis=1),
        propensities=BEHAVIOUR[s, a],
    )


LOG = draw()
# The log numbers its labels in alphabetical order.
CODES = [["home", "icu", "ward"].index(label) for label in STATES]
ROWS = PROBS[[["icu", "ward", "home"].index(row[0]) for episode in LOG for row in episode]]


class Classifier:
    """A fitted classifier, whose classes are in another order than the log's actions."""

    classes_ = np.array(["wait", "treat"])

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return PROBS[x[:, 0].astype(int)]


def by_state(state: str) -> dict[str, float]:
    return dict(zip(ACTIONS, PROBS[STATES.index(state)], strict=True))


TABLE = {
    "state": np.repeat(STATES, 2),
    "action": ACTIONS * 3,
    "prob": PROBS.ravel(),
}


def frame(library: str) -> Any:
    module = pytest.importorskip(library)
    if library == "pyarrow":
        return module.table(TABLE)
    if library == "duckdb":
        pyarrow_table = pytest.importorskip("pyarrow").table(TABLE)
        return module.from_arrow(pyarrow_table)
    return module.DataFrame(TABLE)


FORMS: dict[str, Any] = {
    "tabular": dw.TabularPolicy(PROBS, STATES, ACTIONS),
    "dict": {state: by_state(state) for state in STATES},
    "dict with an action": {"icu": by_state("icu"), "ward": by_state("ward"), "home": "wait"},
    "callable": by_state,
    "classifier": Classifier(),
    "columns": TABLE,
    "rows": dw.RowPolicy(ROWS, actions=ACTIONS),
    "rows in another order": dw.RowPolicy(ROWS[:, ::-1], actions=ACTIONS[::-1]),
    "features": dw.FeaturePolicy(lambda x: PROBS[x[:, 0].astype(int)], actions=ACTIONS),
    "array": PROBS[np.argsort(CODES)][:, ::-1],
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found = dw.evaluate(LOG, FORMS["tabular"], background=False)
    return {name: (one.value, one.std_error, one.interval) for name, one in found.estimates.items()}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_bits_on_labels(form: str, expected: dict[str, Any]) -> None:
    found = dw.evaluate(LOG, FORMS[form], background=False)
    assert {
        name: (one.value, one.std_error, one.interval) for name, one in found.estimates.items()
    } == expected


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "duckdb"])
def test_tables_of_every_library(library: str) -> None:
    found = dw.estimate("WPDIS", LOG, frame(library))
    assert found.value == dw.estimate("WPDIS", LOG, FORMS["tabular"]).value


BY_FEATURES = dw.Trajectories(
    None,
    [step[1] for episode in LOG for step in episode],
    LOG.rewards,
    LOG.offsets,
    features=LOG.features,
    propensities=LOG.propensities,
)


@pytest.mark.parametrize(
    "form", ["rows", "rows in another order", "features", "classifier", "callable", "array"]
)
@pytest.mark.parametrize("name", ["IS", "WIS", "PDIS", "WPDIS", "INCRIS", "WINCRIS", "BEHAVIOUR"])
def test_every_form_gives_the_same_bits_on_features(form: str, name: str) -> None:
    # Columns without names are in the order of the log's actions, which is alphabetical.
    given = {
        **FORMS,
        "callable": lambda x: PROBS[x[:, 0].astype(int)][:, ::-1],
        "array": ROWS[:, ::-1],
    }[form]
    found = dw.estimate(name, BY_FEATURES, given)
    labelled = dw.estimate(name, LOG, FORMS["tabular"])
    assert (found.value, found.std_error) == (labelled.value, labelled.std_error)


@pytest.mark.parametrize("name", ["SIS", "WSIS", "SPDIS", "WSPDIS", "SINCRIS", "WSINCRIS"])
def test_one_flag_a_step_drops_on_features_as_on_labels(name: str) -> None:
    flags = np.random.default_rng(5).random(LOG.n_steps) < 0.4
    found = dw.estimate(name, BY_FEATURES, FORMS["rows"], drop=flags, interval=None)
    labelled = dw.estimate(name, LOG, FORMS["tabular"], drop=flags, interval=None)
    assert found.value == pytest.approx(labelled.value, rel=1e-12)
    assert found.dropped == []
    assert found.dropped_share == flags.mean()


def test_ratios_by_plain_loops() -> None:
    """PDIS and WIS with a drop, written out."""
    flags = np.random.default_rng(6).random(LOG.n_steps) < 0.3
    pdis, weights, returns = 0.0, [], []
    for lo, hi in zip(LOG.offsets[:-1], LOG.offsets[1:], strict=True):
        w, g = 1.0, 0.0
        for row in range(lo, hi):
            action = ["treat", "wait"].index(ACTIONS[0]) if LOG.actions[row] == 1 else 0
            p = ROWS[row, ACTIONS.index(["treat", "wait"][action])]
            w *= 1.0 if flags[row] else p / LOG.propensities[row]
            pdis += 0.9 ** (row - lo) * w * LOG.rewards[row] / LOG.n_episodes
            g += 0.9 ** (row - lo) * LOG.rewards[row]
        weights.append(w)
        returns.append(g)
    found = dw.estimate("SPDIS", BY_FEATURES, FORMS["rows"], drop=flags, gamma=0.9, interval=None)
    assert found.value == pytest.approx(pdis, rel=1e-12)
    found = dw.estimate("WSIS", BY_FEATURES, FORMS["rows"], drop=flags, gamma=0.9, interval=None)
    assert found.value == pytest.approx(np.dot(weights, returns) / np.sum(weights), rel=1e-12)


def test_a_row_policy_that_no_table_is_works_on_labels() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(LOG.n_steps)
    rows = dw.RowPolicy(np.stack([p, 1 - p], axis=1), actions=ACTIONS)
    taken = np.where(LOG.actions == 1, p, 1 - p)  # the log's action 1 is "wait"
    rho = taken / LOG.propensities
    first = LOG.offsets[:-1]
    whole = np.multiply.reduceat(rho, first)
    returns = np.add.reduceat(LOG.rewards, first)
    assert dw.estimate("IS", LOG, rows).value == pytest.approx((whole * returns).mean(), rel=1e-12)


def test_an_action_that_the_log_lacks_is_kept() -> None:
    given = {state: {"wait": 0.5, "treat": 0.25, "operate": 0.25} for state in STATES}
    assert "operate" in [*dw.policy(given, LOG).action_labels]
    rows = dw.RowPolicy(np.tile([0.5, 0.25, 0.25], (LOG.n_steps, 1)), actions=[*ACTIONS, "operate"])
    assert dw.estimate("PDIS", BY_FEATURES, rows).value == dw.estimate("PDIS", LOG, given).value


def test_a_policy_that_returns_actions() -> None:
    found = dw.estimate("PDIS", BY_FEATURES, lambda x: np.where(x[:, 1] > 0, "wait", "treat"))
    greedy = np.where(LOG.features[:, 1] > 0, "wait", "treat")
    rows = dw.RowPolicy(np.stack([greedy == "wait", greedy == "treat"], axis=1), actions=ACTIONS)
    assert found.value == dw.estimate("PDIS", BY_FEATURES, rows).value


def test_features_come_in_blocks() -> None:
    n = 150_000
    sizes = []

    def f(x: np.ndarray) -> np.ndarray:
        sizes.append(len(x))
        return np.full((len(x), 2), 0.5)

    log = dw.Trajectories(
        None, np.arange(n) % 2, np.zeros(n), np.arange(0, n + 1, 10), features=np.zeros((n, 1))
    )
    dw.FeaturePolicy(f).on(log)
    assert max(sizes) <= 65_536
    assert sum(sizes) == n


def test_policy_shows_what_was_understood() -> None:
    text = str(dw.policy(by_state, LOG))
    assert "TabularPolicy(3 states, 2 actions), from a function" in text
    assert "state 'home': wait 1" in text
    text = str(dw.policy(lambda x: PROBS[x[:, 0].astype(int)], BY_FEATURES))
    assert "RowPolicy" in text
    assert "row 0: " in text
    again = dw.policy(by_state, LOG)
    assert dw.estimate("WPDIS", LOG, again).value == dw.estimate("WPDIS", LOG, by_state).value


def bad(**change: Any) -> np.ndarray:
    rows = ROWS.copy()
    rows[7] = change["row"]
    return rows


def raising(x: np.ndarray) -> np.ndarray:
    if (x[:, 1] == LOG.features[11, 1]).any():
        raise ZeroDivisionError("a rate of zero")
    return np.full((len(x), 2), 0.5)


class Unfitted:
    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return x


class OtherClasses(Classifier):
    classes_ = np.array([0, 1])


class Listed(Classifier):
    classes_: Any = ("wait\0", "wait")  # as somebody writes it down: numpy cuts zero characters off


class Narrow(Classifier):
    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.ones((len(x), 1))


class Predictor:
    def predict(self, x: np.ndarray) -> np.ndarray:
        return x


@pytest.mark.parametrize(
    ("log", "given", "match"),
    [
        (LOG, {"icu": "wait"}, "has 1 state and none for states home, ward"),
        (LOG, {s: {"wait": 0.4} for s in STATES}, "state icu sums to 0.4"),
        (LOG, {s: [0.5, 0.5] for s in STATES}, r"state 'icu' it gives \[0.5, 0.5\]"),
        (LOG, {s: {"wait": "often"} for s in STATES}, "numbers as probabilities"),
        (LOG, lambda state: 1 / 0, "failed in state 'home': ZeroDivisionError"),
        (LOG, "policy", "must be a policy; found the text"),
        (LOG, 3.0, "must be a policy; found a float"),
        (LOG, Unfitted(), "no classes_"),
        (LOG, Predictor(), "has predict and no predict_proba"),
        (LOG, dict.fromkeys(STATES, "operate"), "never seen: operate. Those of the log are treat, wait"),
        (BY_FEATURES, lambda x: np.full(len(x), "operate"), "never seen: operate"),
        (BY_FEATURES, OtherClasses(), "text is not a number"),
        (BY_FEATURES, Narrow(), "has 2 actions and returned 1 column"),
        (BY_FEATURES, lambda x: np.full((len(x), 2), "often"), "returned 'often' in its first cell"),
        (BY_FEATURES, lambda x: np.tile([np.inf, 0.0], (len(x), 1)), "found inf in row 0, action treat"),
        (BY_FEATURES, raising, r"rows 0 to .*row 11\): ZeroDivisionError: a rate of zero"),
        (BY_FEATURES, lambda x: np.full((len(x), 2), 0.4), "row 0 sums to 0.8"),
        (BY_FEATURES, lambda x: np.full((len(x), 2), np.nan), "found nan in row 0"),
        (BY_FEATURES, lambda x: np.full((len(x), 3), 1 / 3), "2 actions.*3 columns"),
        (BY_FEATURES, lambda x: np.full((3, 2), 0.5), r"returned shape \(3, 2\)"),
        (BY_FEATURES, dw.TabularPolicy(PROBS), "table over states"),
        (BY_FEATURES, dw.RowPolicy(ROWS[1:]), "a row for each of the"),
        (BY_FEATURES, dw.RowPolicy(np.full((len(ROWS), 3), 1 / 3)), "2 actions, and pi_e has 3 columns"),
    ],
    ids=lambda value: None,
)
def test_one_clear_error(log: dw.Trajectories, given: Any, match: str) -> None:
    with pytest.raises(PolicyError, match=match):
        dw.estimate("WPDIS", log, given)


@pytest.mark.parametrize("row", [[0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], [np.inf, 0.0]])
def test_a_bad_row_is_named(row: list[float]) -> None:
    with pytest.raises(PolicyError, match="row 7"):
        dw.RowPolicy(bad(row=row))


def test_blocks_of_different_kinds_are_refused() -> None:
    n = 70_000
    log = dw.Trajectories(None, np.arange(n) % 2, np.zeros(n), [0, n], features=np.zeros((n, 1)))
    with pytest.raises(PolicyError, match="some rows and one action a row for others"):
        dw.FeaturePolicy(lambda x: np.full((len(x), 2), 0.5) if len(x) > 9_999 else np.zeros(len(x))).on(log)


def test_features_are_needed_for_a_function_of_features() -> None:
    log = dw.Trajectories(["a"], [0], [1.0], [0, 1])
    with pytest.raises(PolicyError, match="needs features"):
        dw.estimate("WPDIS", log, dw.FeaturePolicy(lambda x: x), [[1.0]])


def test_a_behaviour_policy_that_never_does_what_was_logged() -> None:
    behaviour = np.where(LOG.actions[:, None] == np.arange(2), 0.0, 1.0)
    with pytest.raises(SupportError, match=r"logged in episode 0, step 0 \(row 0\)"):
        dw.estimate("WPDIS", BY_FEATURES, FORMS["rows"], dw.RowPolicy(behaviour))


def test_a_log_of_features_without_an_old_policy_is_sent_to_fit_behaviour() -> None:
    bare = dw.Trajectories(None, BY_FEATURES.actions, LOG.rewards, LOG.offsets, features=LOG.features)
    with pytest.raises(dw.errors.DataError, match="No behaviour policy") as caught:
        dw.evaluate(bare, lambda x: np.full((len(x), 2), 0.5))
    assert "pi_b=deadweight.fit_behaviour(log)" in caught.value.fix
    assert "estimate_behaviour" not in caught.value.fix
    labelled = dw.Trajectories(LOG.states, LOG.actions, LOG.rewards, LOG.offsets, features=LOG.features)
    with pytest.raises(dw.errors.DataError, match="No behaviour policy") as caught:
        dw.evaluate(labelled, np.full((3, 2), 0.5))
    assert "estimate_behaviour(log)" in caught.value.fix


def test_classes_in_a_tuple_are_the_actions_as_they_are() -> None:
    features, offsets = np.array([[0.0], [1.0], [0.0], [1.0]]), [0, 2, 4]
    log = dw.Trajectories(None, ["wait\0", "wait"] * 2, np.ones(4), offsets, features=features)
    assert list(dw.policy(Listed(), log).action_labels) == ["wait\0", "wait"]
