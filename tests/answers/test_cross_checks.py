"""Cross-checks of the automatic drop: their values by other ways, when they are believed, z by loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from deadweight_studies.automatic import NoiseLabels
from deadweight_studies.problems import previous_action, river

import deadweight as dw
from deadweight.answers.answering import Answers
from deadweight.answers.candidates import gather
from deadweight.answers.model_tests import CalibrationSlope
from deadweight.answers.rounds import Job, OfInfluences
from deadweight.answers.trust import CrossChecks, cross_checks_of, unseen_values
from deadweight.estimators.estimator import estimator_of
from deadweight.estimators.product import SelfNormalised
from deadweight.estimators.windowed import row_window, value_of_starts
from deadweight.negligible.path import path_of
from deadweight.question.asked import Options
from deadweight.question.question import ask

PAST = previous_action("small", 5, 2, horizon=4, seed=3, episodes=80)


def test_they_are_those_of_a_blend() -> None:
    question = ask(PAST.sample(0), PAST.pi_e, PAST.pi_b)
    found = cross_checks_of(question)
    evidence = gather(ask(PAST.sample(0), PAST.pi_e, PAST.pi_b))
    values = dict(zip(evidence.names, evidence.values, strict=True))
    undropped = dw.estimate("WDR", PAST.sample(0), PAST.pi_e, PAST.pi_b, interval=None)
    assert found.undropped == pytest.approx(undropped.value, rel=1e-12)
    assert found.windowed == pytest.approx((values["WIN3"], values["WIN2"]), rel=1e-12)


def test_a_path_takes_them_along_in_its_own_passes() -> None:
    by_itself, along = (ask(PAST.sample(0), PAST.pi_e, PAST.pi_b) for _ in range(2))
    path_of(along, estimator_of("C-WSPDIS"), 3)
    sums = set(along.sums)
    assert cross_checks_of(along) == cross_checks_of(by_itself)
    assert {key[0] for key in set(along.sums) - sums if isinstance(key, tuple)} <= {"fit"}  # nothing summed


def test_a_windowed_estimate_is_not_believed_if_the_undropped_one_is_far_from_it() -> None:
    found = CrossChecks(1.0, 0.1, 20.0, (1.29, 1.31))
    assert found.believed == (1.29,)
    # With half as many episodes as are enough it reaches four times as far.
    assert CrossChecks(1.0, 0.1, 5.0, (2.19, 2.21)).believed == (2.19,)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_calibration_slope_by_plain_loops(gamma: float) -> None:
    log = PAST.sample(1)
    question = ask(log, PAST.pi_e, PAST.pi_b, gamma)
    values = unseen_values(question)
    assert values is not None
    slope, answers, spreads = CalibrationSlope.of(question, values.q, 50), Answers(question, ()), []  # of 80
    answers.sum([slope])
    residuals = slope.residuals(answers.found(slope).value)
    OfInfluences([Job([], residuals, spreads.append)]).serve(question)
    tables = [field.values for field in values.q.fields]  # type: ignore[attr-defined]
    rows = []
    for i, (lo, hi) in enumerate(pairwise(log.offsets[:51])):
        for row in range(lo, hi):
            x = tables[i % 5][row - lo, log.states[row], log.actions[row]]
            y = sum(gamma ** (k - row) * log.rewards[k] for k in range(row, hi))
            rows.append((i, row - lo, x, y))
    episode, times, x, y = (np.array(column) for column in zip(*rows, strict=True))
    for t in range(int(times.max()) + 1):
        for column in (x, y):
            column[times == t] -= column[times == t].mean()
    b = (x * y).sum() / (x * x).sum()
    u = [(x * (y - b * x))[episode == i].sum() for i in range(50)]
    assert residuals.z(spreads[0]) == pytest.approx(b * (x * x).sum() / np.sqrt(np.square(u).sum()), rel=1e-9)


def test_labels_that_mean_nothing_drop_nothing() -> None:
    task = NoiseLabels("noise", river(6, horizon=10), 200, labels=8)
    dropped = 0
    for seed in range(4):
        log = task.sample(seed)
        heard = cross_checks_of(ask(log, task.pi_e, task.pi_b))
        found = dw.estimate("C-WSPDIS", log, task.pi_e, task.pi_b, interval=None)
        assert heard.allows == (heard.proven or heard.ess >= 30)
        assert heard.allows or found.dropped == []
        free = dw.estimate("C-WSPDIS", log, task.pi_e, task.pi_b, interval=None, drop="auto:free")
        dropped += (len(free.dropped) > 0) - (len(found.dropped) > 0)
    assert dropped >= 2  # z of noise is above 1/2 in one log of three


def test_a_given_model_is_judged_as_it_is() -> None:
    problem = river(5, horizon=8)
    log = problem.sample(60, seed=1)
    question = ask(log, problem.pi_e, problem.pi_b, options=Options(model=problem.mdp))
    assert unseen_values(question) is question.values
    assert cross_checks_of(question).allows


def test_windows_of_rows_by_plain_loops() -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 6, 25)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n = int(offsets[-1])
    log = dw.Trajectories(
        None, rng.integers(0, 2, n), rng.normal(size=n), offsets, features=rng.normal(size=(n, 1))
    )
    probs = rng.dirichlet([2.0, 2.0], n)
    behaviour = rng.dirichlet([3.0, 3.0], n)
    q = rng.normal(size=(n, 2))
    policies = [dw.RowPolicy(one, [0, 1]) for one in (probs, behaviour)]
    options = Options(model=dw.GivenQ(q))
    question = ask(log, *policies, 0.9, options)
    rho = probs[np.arange(n), log.actions] / behaviour[np.arange(n), log.actions]
    v = (probs * q).sum(axis=1)
    assert value_of_starts(question) == pytest.approx(v[offsets[:-1]].mean())
    for window in (1, 2, 9):
        total = 0.0
        for t in range(int(lengths.max())):
            top = bottom = 0.0
            for lo, hi in pairwise(offsets):
                if lo + t >= hi:
                    continue
                row = lo + t
                weight = np.prod(rho[max(lo, row - window + 1) : row + 1])
                after = v[row + 1] if row + 1 < hi else 0.0
                bottom += weight
                top += weight * (log.rewards[row] + 0.9 * after - q[row, log.actions[row]])
            total += 0.9**t * (lengths > t).mean() * top / bottom
        family = row_window(question, window)
        answers = Answers(question, ())
        answers.sum([SelfNormalised(family)])
        found = family.finish(answers.found(SelfNormalised(family)), weighted=True)
        assert found.value == pytest.approx(total, rel=1e-10)
