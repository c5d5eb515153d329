"""deadweight: off-policy evaluation without the dead weight."""

from deadweight import diagnostics, domains, negligible, theory
from deadweight._version import __version__
from deadweight.doctor import doctor
from deadweight.estimate import estimate, evaluate
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.names import ESTIMATORS
from deadweight.inference import confidence_sequence
from deadweight.io import from_minari, read, read_policy, record
from deadweight.log.state_sets import StateSet
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.simulate import simulate
from deadweight.mdp.tabular import TabularMDP, policy_value, q_values
from deadweight.negligible import EpsilonPath, epsilon_path
from deadweight.policy.behaviour import cross_fitted_propensities, estimate_behaviour
from deadweight.policy.policies import TabularPolicy
from deadweight.question.options import PUBLISHED
from deadweight.results import Estimate, Evaluation, Verdict
from deadweight.results.saved import load
from deadweight.values.model import fit_mdp

__all__ = [
    "ESTIMATORS",
    "PUBLISHED",
    "EpsilonPath",
    "Estimate",
    "Estimator",
    "Evaluation",
    "StateSet",
    "TabularMDP",
    "TabularPolicy",
    "Trajectories",
    "Verdict",
    "__version__",
    "confidence_sequence",
    "cross_fitted_propensities",
    "diagnostics",
    "doctor",
    "domains",
    "epsilon_path",
    "estimate",
    "estimate_behaviour",
    "evaluate",
    "fit_mdp",
    "from_minari",
    "load",
    "negligible",
    "policy_value",
    "q_values",
    "read",
    "read_policy",
    "record",
    "simulate",
    "theory",
]


def __dir__() -> list[str]:
    """What is public; the rooms of the house are not."""
    return sorted(__all__)
