"""deadweight: off-policy evaluation without the dead weight.

A public name is imported when it is first asked for, so that `import deadweight` and `deadweight --help` do
not wait for what they do not use. `_PLACES` says where each name lives; type checkers read the imports.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from deadweight._version import __version__ as __version__

if TYPE_CHECKING:
    from deadweight import diagnostics as diagnostics
    from deadweight import domains as domains
    from deadweight import negligible as negligible
    from deadweight import testing as testing
    from deadweight import theory as theory
    from deadweight.background.loading import load as load
    from deadweight.basics.progress import progress as progress
    from deadweight.comparing.compare_policies import compare as compare
    from deadweight.cut_bounds import cut_bounds as cut_bounds
    from deadweight.doctor import doctor as doctor
    from deadweight.estimate import estimate as estimate
    from deadweight.estimate import evaluate as evaluate
    from deadweight.estimators.estimator import Estimator as Estimator
    from deadweight.estimators.names import ESTIMATORS as ESTIMATORS
    from deadweight.improving.verb import improve as improve
    from deadweight.inference import confidence_sequence as confidence_sequence
    from deadweight.io import from_minari as from_minari
    from deadweight.io import read as read
    from deadweight.io import read_policy as read_policy
    from deadweight.io import record as record
    from deadweight.log.state_sets import StateSet as StateSet
    from deadweight.log.trajectories import Trajectories as Trajectories
    from deadweight.mdp.simulate import simulate as simulate
    from deadweight.mdp.tabular import TabularMDP as TabularMDP
    from deadweight.mdp.tabular import policy_value as policy_value
    from deadweight.mdp.tabular import q_values as q_values
    from deadweight.negligible import EpsilonPath as EpsilonPath
    from deadweight.negligible import epsilon_path as epsilon_path
    from deadweight.policy.behaviour import cross_fitted_propensities as cross_fitted_propensities
    from deadweight.policy.behaviour import estimate_behaviour as estimate_behaviour
    from deadweight.policy.policies import TabularPolicy as TabularPolicy
    from deadweight.policy.row_policies import FeaturePolicy as FeaturePolicy
    from deadweight.policy.row_policies import RowPolicy as RowPolicy
    from deadweight.question.learned_behaviour import fit_behaviour as fit_behaviour
    from deadweight.question.mixtures import mixture_propensities as mixture_propensities
    from deadweight.question.options import PUBLISHED as PUBLISHED
    from deadweight.question.understanding import policy as policy
    from deadweight.results import Estimate as Estimate
    from deadweight.results import Evaluation as Evaluation
    from deadweight.results import Verdict as Verdict
    from deadweight.results.comparison import Comparison as Comparison
    from deadweight.results.cut_bounds_data import CutBounds as CutBounds
    from deadweight.results.improvement import Improvement as Improvement
    from deadweight.values.given import GivenQ as GivenQ
    from deadweight.values.linear import LinearQ as LinearQ
    from deadweight.values.model import fit_mdp as fit_mdp
    from deadweight.values.regressor import RegressorQ as RegressorQ

_ROOMS = ("diagnostics", "domains", "negligible", "testing", "theory")
_PLACES = {
    "Comparison": "results.comparison",
    "CutBounds": "results.cut_bounds_data",
    "ESTIMATORS": "estimators.names",
    "EpsilonPath": "negligible",
    "Estimate": "results",
    "Estimator": "estimators.estimator",
    "Evaluation": "results",
    "FeaturePolicy": "policy.row_policies",
    "GivenQ": "values.given",
    "Improvement": "results.improvement",
    "LinearQ": "values.linear",
    "PUBLISHED": "question.options",
    "RegressorQ": "values.regressor",
    "RowPolicy": "policy.row_policies",
    "StateSet": "log.state_sets",
    "TabularMDP": "mdp.tabular",
    "TabularPolicy": "policy.policies",
    "Trajectories": "log.trajectories",
    "Verdict": "results",
    "compare": "comparing.compare_policies",
    "confidence_sequence": "inference",
    "cross_fitted_propensities": "policy.behaviour",
    "cut_bounds": "cut_bounds",
    "doctor": "doctor",
    "epsilon_path": "negligible",
    "estimate": "estimate",
    "estimate_behaviour": "policy.behaviour",
    "evaluate": "estimate",
    "fit_behaviour": "question.learned_behaviour",
    "fit_mdp": "values.model",
    "from_minari": "io",
    "improve": "improving.verb",
    "load": "background.loading",
    "mixture_propensities": "question.mixtures",
    "policy": "question.understanding",
    "policy_value": "mdp.tabular",
    "progress": "basics.progress",
    "q_values": "mdp.tabular",
    "read": "io",
    "read_policy": "io",
    "record": "io",
    "simulate": "mdp.simulate",
}
__all__ = sorted(["__version__", *_ROOMS, *_PLACES])


def __getattr__(name: str) -> Any:
    """Import what is asked for, and remember it."""
    if name in _ROOMS:
        value: Any = import_module(f"{__name__}.{name}")
    elif name in _PLACES:
        value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names; packages that are not public are left out."""
    return __all__


class _Front(ModuleType):
    """The package, on which a module never takes the place of a function of the same name.

    Python sets `deadweight.estimate` to the module of that name whenever somebody imports it; for everybody
    else `deadweight.estimate` is the function.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _PLACES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Front
