"""deadweight: off-policy evaluation without the dead weight.

A public name is imported when it is first asked for, so that `import deadweight` and `deadweight --help` do
not wait for what they do not use. `_PLACES` says where each name lives; type checkers read the imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deadweight._version import __version__ as __version__

if TYPE_CHECKING:
    from deadweight import diagnostics as diagnostics
    from deadweight import domains as domains
    from deadweight import negligible as negligible
    from deadweight import testing as testing
    from deadweight import theory as theory
    from deadweight.answers.betting import confidence_sequence as confidence_sequence
    from deadweight.estimators.estimator import ESTIMATORS as ESTIMATORS
    from deadweight.estimators.estimator import Estimator as Estimator
    from deadweight.io.doctor import doctor as doctor
    from deadweight.io.environments import from_minari as from_minari
    from deadweight.io.environments import record as record
    from deadweight.io.open import read as read
    from deadweight.io.policy_files import read_policy as read_policy
    from deadweight.log.behaviour import cross_fitted_propensities as cross_fitted_propensities
    from deadweight.log.behaviour import estimate_behaviour as estimate_behaviour
    from deadweight.log.labels import StateSet as StateSet
    from deadweight.log.policies import FeaturePolicy as FeaturePolicy
    from deadweight.log.policies import RowPolicy as RowPolicy
    from deadweight.log.policies import TabularPolicy as TabularPolicy
    from deadweight.log.trajectories import Trajectories as Trajectories
    from deadweight.mdp.problem import simulate as simulate
    from deadweight.mdp.tabular import TabularMDP as TabularMDP
    from deadweight.mdp.tabular import policy_value as policy_value
    from deadweight.mdp.tabular import q_values as q_values
    from deadweight.negligible.path import EpsilonPath as EpsilonPath
    from deadweight.negligible.path import epsilon_path as epsilon_path
    from deadweight.question.asked import PUBLISHED as PUBLISHED
    from deadweight.question.learned_behaviour import fit_behaviour as fit_behaviour
    from deadweight.question.understanding import mixture_propensities as mixture_propensities
    from deadweight.question.understanding import policy as policy
    from deadweight.results.comparison import Comparison as Comparison
    from deadweight.results.comparison import CutBounds as CutBounds
    from deadweight.results.estimate import Estimate as Estimate
    from deadweight.results.evaluation import Evaluation as Evaluation
    from deadweight.results.evaluation import Verdict as Verdict
    from deadweight.results.improvement import Improvement as Improvement
    from deadweight.tools.progress import progress as progress
    from deadweight.values.linear import LinearQ as LinearQ
    from deadweight.values.model import fit_mdp as fit_mdp
    from deadweight.values.rows import GivenQ as GivenQ
    from deadweight.values.rows import RegressorQ as RegressorQ
    from deadweight.verbs.compare import compare as compare
    from deadweight.verbs.cut_bounds import cut_bounds as cut_bounds
    from deadweight.verbs.estimate import estimate as estimate
    from deadweight.verbs.estimate import evaluate as evaluate
    from deadweight.verbs.improve import improve as improve
    from deadweight.verbs.load import load as load

_ROOMS = ("diagnostics", "domains", "negligible", "testing", "theory")
_PLACES = {
    "Comparison": "results.comparison",
    "CutBounds": "results.comparison",
    "ESTIMATORS": "estimators.estimator",
    "EpsilonPath": "negligible.path",
    "Estimate": "results.estimate",
    "Estimator": "estimators.estimator",
    "Evaluation": "results.evaluation",
    "FeaturePolicy": "log.policies",
    "GivenQ": "values.rows",
    "Improvement": "results.improvement",
    "LinearQ": "values.linear",
    "PUBLISHED": "question.asked",
    "RegressorQ": "values.rows",
    "RowPolicy": "log.policies",
    "StateSet": "log.labels",
    "TabularMDP": "mdp.tabular",
    "TabularPolicy": "log.policies",
    "Trajectories": "log.trajectories",
    "Verdict": "results.evaluation",
    "compare": "verbs.compare",
    "confidence_sequence": "answers.betting",
    "cross_fitted_propensities": "log.behaviour",
    "cut_bounds": "verbs.cut_bounds",
    "doctor": "io.doctor",
    "epsilon_path": "negligible.path",
    "estimate": "verbs.estimate",
    "estimate_behaviour": "log.behaviour",
    "evaluate": "verbs.estimate",
    "fit_behaviour": "question.learned_behaviour",
    "fit_mdp": "values.model",
    "from_minari": "io.environments",
    "improve": "verbs.improve",
    "load": "verbs.load",
    "mixture_propensities": "question.understanding",
    "policy": "question.understanding",
    "policy_value": "mdp.tabular",
    "progress": "tools.progress",
    "q_values": "mdp.tabular",
    "read": "io.open",
    "read_policy": "io.policy_files",
    "record": "io.environments",
    "simulate": "mdp.problem",
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
