"""Every estimator as plain loops: the independent oracle of the test-suite. It never imports the library."""

from .corrected import corrected_is, corrected_per_decision, missing_advantage
from .influence import correction_slots, doubly_robust_slots, is_slots, per_decision_slots, std_error
from .log import Log, cumulative, dropped_steps, kept_ratios, ratios, returns
from .marginal import cis, mis, tmis
from .model import direct, fit_model, fitted_q, q_values
from .negligible import anova_p, covariance_test, q_gap_set, q_gaps, return_p_values, return_test_set
from .products import behaviour, episode_weights, ess, ess_steps, is_, kish, per_decision
from .robust import doubly_robust, linear, summed_weights
from .stationary import density_ratio, sdre
from .windows import incremental

__all__ = [
    "Log",
    "anova_p",
    "behaviour",
    "cis",
    "corrected_is",
    "corrected_per_decision",
    "correction_slots",
    "covariance_test",
    "cumulative",
    "density_ratio",
    "direct",
    "doubly_robust",
    "doubly_robust_slots",
    "dropped_steps",
    "episode_weights",
    "ess",
    "ess_steps",
    "fit_model",
    "fitted_q",
    "incremental",
    "is_",
    "is_slots",
    "kept_ratios",
    "kish",
    "linear",
    "mis",
    "missing_advantage",
    "per_decision",
    "per_decision_slots",
    "q_gap_set",
    "q_gaps",
    "q_values",
    "ratios",
    "return_p_values",
    "return_test_set",
    "returns",
    "sdre",
    "std_error",
    "summed_weights",
    "tmis",
]
