"""A second opinion: another model than the default is held against the default, on the same log."""

from __future__ import annotations

import numpy as np
import pytest

import deadweight as dw
from deadweight.answers.blend import Mixture, half_width
from deadweight.answers.candidates import SECOND_OPINION, Candidates
from deadweight.verbs.verdict import judge

WALK = dw.domains.navigation()
LOG = WALK.sample(60, seed=0)
STRAIGHT = dw.LinearQ(basis="linear")


def parts_of(model: object) -> dict[str, object]:
    found = dw.estimate("BLEND", LOG, WALK.pi_e, WALK.pi_b, model=model)
    return {part.name: part for part in found.blend.parts}


def test_it_is_what_the_default_says_and_has_no_share() -> None:
    default = dw.estimate("DM", LOG, WALK.pi_e, WALK.pi_b)
    found = dw.estimate("BLEND", LOG, WALK.pi_e, WALK.pi_b, model=STRAIGHT)
    (second,) = (part for part in found.blend.parts if part.name == SECOND_OPINION)
    assert second.value == pytest.approx(default.value, rel=1e-12)
    assert second.std_error == pytest.approx(default.std_error, rel=1e-10)
    assert second.share == 0.0
    assert second.beyond == pytest.approx(abs(found.value - default.value), rel=1e-10)
    assert found.contradiction >= second.beyond > 0
    assert SECOND_OPINION not in found.shares


@pytest.mark.parametrize("model", [None, dw.LinearQ(), dw.LinearQ(size=120, ridge=2.0)])
def test_the_default_is_not_asked_twice(model: dw.LinearQ | None) -> None:
    assert SECOND_OPINION not in parts_of(model)


def test_values_that_are_given_have_a_check_of_their_own() -> None:
    assert SECOND_OPINION not in parts_of(dw.GivenQ(np.zeros((LOG.n_steps, LOG.n_actions))))


def made(second: float, error_of_weights: float = 1.0) -> Candidates:
    """Weights and a model that agree on 0, and the default's model elsewhere, all of them independent."""
    names = ("WDR", "LIN", "DM", "BEHAVIOUR", "WPDIS", "WIS", SECOND_OPINION)
    errors = np.array([error_of_weights, error_of_weights, 0.1, 0.1, 1.0, 1.0, 0.1])
    values = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, second])
    return Candidates(names, values, np.diag(errors**2), np.full(7, 1e9), 10**6, 1e9)


def test_all_of_the_distance_counts() -> None:
    """Between independent models 0.05 is noise, and no estimate contradicts; the interval allows for it."""
    found = Mixture(made(0.05)).at(0.95)
    assert found.against is None
    assert found.contradiction == pytest.approx(0.05)
    assert found.half_width == pytest.approx(half_width(found.std_error, 0.05), rel=1e-4)
    far = Mixture(made(1.0)).at(0.95)
    assert far.against == SECOND_OPINION
    assert far.contradiction == pytest.approx(1.0)


def test_half_of_it_where_weights_show_that_the_default_is_wrong() -> None:
    found = Mixture(made(10.0)).at(0.95)
    assert found.contradiction == pytest.approx(5.0)


def test_it_is_said() -> None:
    near, far = (judge(Mixture(made(second)).at(0.95), 0.3, 100, known=True) for second in (0.2, 1.0))
    near_said, far_said = " ".join(near.reasons), " ".join(far.reasons)
    assert "DM by default (the model that is used if none is chosen, alone) says something else" in near_said
    assert "than noise explains" not in near_said
    assert "DM by default (the model that is used if none is chosen, alone) differs" in far_said
    assert "DM by default contradicts the other estimates" in far.next_step
