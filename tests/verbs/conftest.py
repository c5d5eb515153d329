"""One log and four policies: what the comparisons of these tests are about."""

from __future__ import annotations

import pytest
from deadweight_studies.problems import random_problem

import deadweight as dw


@pytest.fixture(scope="module")
def problem():
    return random_problem(8, 3, 12, seed=1)


@pytest.fixture(scope="module")
def log(problem):
    return problem.sample(300, seed=3)


@pytest.fixture(scope="module")
def policies(problem):
    old, good = problem.pi_b.probs, problem.pi_e.probs
    bad = good[:, ::-1]
    return {
        "good": good,
        "half": 0.5 * old + 0.5 * good,
        "bad": 0.4 * old + 0.6 * bad / bad.sum(axis=1, keepdims=True),
        "same": old,
    }


@pytest.fixture(scope="module")
def found(log, policies, problem):
    return dw.compare(log, policies, problem.pi_b)
