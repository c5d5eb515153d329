"""Options of the estimators, checked once where they enter.

An option that does not concern an estimator is ignored by it, so that one set of options can serve a whole
table; an option that does not exist is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from deadweight.errors import OptionError, did_you_mean
from deadweight.mdp.tabular import TabularMDP
from deadweight.question.cut_weights import WAYS
from deadweight.values.row_values import RowLearner

CHOICES: Mapping[str, tuple[str | None, ...]] = MappingProxyType(
    {
        "finished": ("absorb", "leave", "survivors"),
        "variance": ("estimator", "sample"),
        "ended_ratios": ("absorb", "one"),
        "mode": (None, "policy", "episodic", "corrected", "published", "literal"),
        "unseen_actions": ("renormalise", "zero"),
        "given": ("state", "reward", "return"),
        "unseen": ("pool", "terminate", "mean"),
        "solve": ("settled", "longest"),
        "cut_weights": (None, "auto", *WAYS),
    }
)

PUBLISHED: Mapping[str, Any] = MappingProxyType(
    {
        "finished": "absorb",
        "variance": "sample",
        "ended_ratios": "one",
        "drop_first": False,
        "mode": "published",
        "unseen_actions": "zero",
        "unseen": "terminate",
        "solve": "longest",
    }
)
"""The conventions of the authors' code. It leaves `window` alone: None in their lift tables, 10 elsewhere."""


@dataclass(frozen=True)
class Options:
    """All options with their defaults.

    Attributes:
      finished: what ended episodes do in per-step normalisers: "absorb" (stay with their last weight),
        "leave", or "survivors" (mean over the survivors times their share).
      window: most recent ratios that INCRIS may keep; None for no limit.
      variance: INCRIS compares the variance of the "estimator" (Var / n) or, as published, of the "sample".
      ended_ratios: ended episodes enter INCRIS with their own ratios ("absorb") or with A = B = "one".
      drop_first: DRSIS may drop the first step's ratio; False as published.
      cross_fit: folds of a cross-fitted DR model; 0 fits and evaluates on the same episodes. None: 0 where
        states have labels, 5 where features describe them.
      mode: of SDRE; None chooses by how the episodes end.
      unseen_actions: TMIS "renormalise"s pi_e over the actions seen, or counts unseen ones as "zero".
      given: what CIS conditions on.
      model: a `TabularMDP` to use instead of the fitted one, or, row by row, `LinearQ`, `RegressorQ` or
        `GivenQ`.
      unseen: what an unseen (s, a) does in the fitted model; see `fit_mdp`.
      solve: a model without a horizon of its own is solved until its values are "settled" if no episode was
        cut, over the longest episode's steps otherwise; or always over the "longest" episode's.
      cut_weights: rows that were seen stand for those that were cut off, by the chance of being cut: "all",
        "step", "state", "pair", "state-step" or "auto"; see `deadweight.question.cut_weights`. None: what was
        cut off counts as nothing.
      return_range: lowest and highest return that an episode can have, for intervals that hold in any sample.
      bias_trust: how many times the estimated biases the "auto" interval allows for.
      cross_check: the "auto" interval also allows for the distance between an estimate that leans on weights
        and one that leans on a model. It takes a fitted model.
      resamples: of the bootstrap.
      seed: of the bootstrap.
    """

    finished: str = "absorb"
    window: int | None = 10
    variance: str = "estimator"
    ended_ratios: str = "absorb"
    drop_first: bool = True
    cross_fit: int | None = None
    mode: str | None = None
    unseen_actions: str = "renormalise"
    given: str = "state"
    model: TabularMDP | RowLearner | None = None
    unseen: str = "pool"
    solve: str = "settled"
    cut_weights: str | None = None
    return_range: tuple[float, float] | None = None
    bias_trust: float = 1.0
    cross_check: bool = True
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                known = [choice for choice in choices if choice is not None]
                hint = did_you_mean(str(value), known)
                raise OptionError(
                    f"{name} must be one of {', '.join(known)}; found {value!r}.{hint}",
                    fix=f"For example {name}={known[0]!r}.",
                )
        if self.window is not None and not (_is_whole(self.window) and self.window >= 1):
            raise OptionError(
                f"window must be a whole number of at least 1, or None; found {self.window!r}.",
                fix="For example window=10.",
            )
        folds = self.cross_fit
        if folds is not None and not (_is_whole(folds) and (folds == 0 or folds >= 2)):
            raise OptionError(
                f"cross_fit must be 0, or 2 or more folds; found {self.cross_fit!r}.",
                fix="For example cross_fit=5.",
            )
        if self.model is not None and not isinstance(self.model, TabularMDP | RowLearner):
            raise OptionError(
                f"model must be a TabularMDP, LinearQ, RegressorQ or GivenQ; found "
                f"{type(self.model).__name__}.",
                fix="Values that are there already are GivenQ(q); a regressor goes into RegressorQ(it).",
            )
        if self.return_range is not None:
            object.__setattr__(self, "return_range", _checked_range(self.return_range))
        if not (isinstance(self.bias_trust, int | float) and 0 <= self.bias_trust < math.inf):
            raise OptionError(
                f"bias_trust must be a number of at least 0; found {self.bias_trust!r}.",
                fix="For example bias_trust=1.0.",
            )
        if not isinstance(self.cross_check, bool):
            raise OptionError(
                f"cross_check must be True or False; found {self.cross_check!r}.",
                fix="For example cross_check=True.",
            )
        if not (_is_whole(self.resamples) and self.resamples >= 1):
            raise OptionError(
                f"resamples must be a whole number of at least 1; found {self.resamples!r}.",
                fix="For example resamples=1000.",
            )
        if not _is_whole(self.seed):
            raise OptionError(f"seed must be a whole number; found {self.seed!r}.", fix="For example seed=0.")


# Arguments of the verbs, which a misspelt option may mean, and those of `deadweight.read`.
ARGUMENTS = ("estimators", "drop", "baseline", "gamma", "interval", "level", "also", "background", "workers")
READING = ("columns", "time_format", "fill_reward", "open_episodes", "time_limit", "features")


def read_options(given: Mapping[str, Any]) -> Options:
    """Options from keyword arguments."""
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            raise OptionError(
                f"There is no option {name!r}.{did_you_mean(name, [*known, *ARGUMENTS])}",
                fix=f"Read the log with it: deadweight.read(path, {name}=...)."
                if name in READING
                else f"Options are: {', '.join(known)}.",
            )
    return Options(**given)


def _checked_range(given: Any) -> tuple[float, float]:
    try:
        lowest, highest = (float(end) for end in given)
    except (TypeError, ValueError):
        lowest = highest = math.nan
    if not -math.inf < lowest < highest < math.inf:
        raise OptionError(
            f"return_range must be (lowest, highest), two finite numbers in that order; found {given!r}.",
            fix="Give the smallest and the largest return that an episode can possibly have.",
        )
    return lowest, highest


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
