r"""Do labels of states tell anything of which label follows, or of what is paid?

Labels by chance do not, and a model of them is one of the average step: it sees no advantage of any action,
at a small standard error. Take two steps of one pair (s, a). Where labels mean nothing both lead to the same
label as often as any two steps do, q_2 = sum of p(s')^2; where a pair decides its successor, always. So

.. math:: m = \frac{C - N q_2}{N (1 - q_2)}

with C the number of such twins among the N pairs of steps of one (s, a) is 0 for labels by chance and 1 for a
deterministic table. C less its mean is a U-statistic; what of it is linear in the steps is nearly all in the
p that comes from the same steps, and cancels where pairs were seen equally often. Counts of transitions are
all it takes. A log is called forgetful only if m is surely next to nothing: a short log leaves it open.

Contexts that come by chance have no memory either, and yet they may decide what an action pays. Then rewards
of one pair, less the mean of its action in the fold, are alike in episodes of different folds f and g:

.. math:: z = \sum_{s,a} \sum_{f<g} D_f D_g \Big/ \sqrt{\sum_{s,a} \sum_{f<g} D_f^2 D_g^2}, \qquad
   D_f(s,a) = \sum_{i \in f} (r_i - \bar r_{f,a})

Labels that mean nothing have z around 0, whatever the rewards are like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deadweight.basics.arithmetic import divide, sums_by
from deadweight.question.core import Question
from deadweight.values.crossfit import FOLDS
from deadweight.values.model import Counts

# So many standard errors show that labels tell what is paid.
SURE_Z = 4.0
# Labels that surely have less than this share of all possible memory have none.
NEXT_TO_NOTHING = 0.01
# Standard errors that make it sure.
SURE = 3.0


def memory(counts: Counts) -> tuple[float, float]:
    """m and its standard error if labels were by chance; both infinite where no steps can be compared."""
    pairs, after = np.divmod(counts.transitions.keys, counts.n_states + 1)
    goes_on = after < counts.n_states
    number = counts.transitions.sums[0][goes_on]
    visits = sums_by(pairs[goes_on], number)
    compared = float((visits * (visits - 1)).sum()) / 2
    successors = sums_by(after[goes_on], number)
    if compared == 0.0:
        return math.inf, math.inf
    p = successors / successors.sum()
    twice, thrice = float((p**2).sum()), float((p**3).sum())
    most = compared * (1.0 - twice)
    if most <= 0.0:
        return math.inf, math.inf
    twins = float((number * (number - 1)).sum()) / 2
    uneven = visits - 1 - 2 * compared / visits.sum()
    linear = float((visits * np.square(uneven)).sum()) * (thrice - twice**2)
    variance = compared * (twice - 2 * thrice + twice**2) + linear
    return (twins - compared * twice) / most, math.sqrt(max(variance, 0.0)) / most


def is_forgetful(counts: Counts) -> bool:
    """Whether labels surely tell nothing of what follows them."""
    found, error = memory(counts)
    return found + SURE * error < NEXT_TO_NOTHING


def labels_are_noise(question: Question) -> bool:
    """Whether labels surely tell nothing of what follows, and do not show that they tell what is paid."""
    if question.options.model is not None or question.n < FOLDS:
        return False
    return question.made_once(labels_are_noise, lambda: _are_noise(question))


def _are_noise(question: Question) -> bool:
    if not is_forgetful(question.counts):
        return False
    without = question.facts.counts_without(FOLDS, question.shape)[1]
    return pay(question.counts, without) < SURE_Z


def pay(counts: Counts, without: Sequence[Counts]) -> float:
    """How surely labels tell what is paid beyond what actions do, in standard errors.

    Args:
      counts: of all episodes.
      without: of all episodes but those of each fold.
    """
    keys, sums = counts.pairs.keys, counts.pairs.sums
    action = keys % counts.n_actions
    of_folds = np.empty((len(without), len(keys)))  # D_f
    for one, others in zip(of_folds, without, strict=True):
        number, rewards = sums.copy()
        at = np.searchsorted(keys, others.pairs.keys)
        number[at] -= others.pairs.sums[0]
        rewards[at] -= others.pairs.sums[1]
        one[:] = rewards - number * divide(sums_by(action, rewards), sums_by(action, number))[action]
    of_folds /= max(float(np.abs(of_folds).max()), np.finfo(float).tiny)
    squares = np.square(of_folds)
    alike = np.square(of_folds.sum(axis=0)) - squares.sum(axis=0)
    variance = np.square(squares.sum(axis=0)) - np.square(squares).sum(axis=0)
    # Both are twice the sums over f < g.
    spread = math.sqrt(2.0 * max(float(variance.sum()), 0.0))
    return float(alike.sum()) / spread if spread > 0.0 else 0.0
