"""deadweight: off-policy evaluation without the dead weight."""

from deadweight import domains, theory
from deadweight._version import __version__
from deadweight.behaviour import estimate_behaviour
from deadweight.estimate import estimate, evaluate
from deadweight.estimators.names import ESTIMATORS
from deadweight.evaluation import Evaluation
from deadweight.integrations.registration import register_when_imported
from deadweight.mdp import TabularMDP, policy_value, q_values
from deadweight.model import fit_mdp
from deadweight.options import PUBLISHED
from deadweight.policies import TabularPolicy
from deadweight.results import Estimate
from deadweight.simulate import simulate
from deadweight.states import StateSet
from deadweight.trajectories import Trajectories

__all__ = [
    "ESTIMATORS",
    "PUBLISHED",
    "Estimate",
    "Evaluation",
    "StateSet",
    "TabularMDP",
    "TabularPolicy",
    "Trajectories",
    "__version__",
    "domains",
    "estimate",
    "estimate_behaviour",
    "evaluate",
    "fit_mdp",
    "policy_value",
    "q_values",
    "simulate",
    "theory",
]

register_when_imported()
