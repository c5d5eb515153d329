"""The thresholds of BLEND, of flags and of verdicts: what each one decides, and what set it.

They have their one place here. The table in docs/headline.md is this file as a page, and a test compares the
two: under each number stands what it decides and, after "Set by", the study or the reason.
"""

# --- BLEND: which estimates take part, how they are mixed, and how wide the interval is ---------------------

FEW_EPISODES = 10.0
"""Effective episodes: fewer carry no conclusion, and products of ratios are left out. Set by `study
headline`"""
MOST_LACKING = 0.5
"""Of the mean of whole weights, which should be 1: where more is lacking WDR is left out. Set by `study
headline` (taxi, with counted probabilities)"""
TWICE = 12.0
"""Effective episodes: the variance of what a product of ratios adds is doubled there. Set by `study
headline`"""
BIASED = 3.0
"""Standard errors: a difference is bias, all of it. Set by `study headline`"""
SUSPECTED = 1.5
"""Standard errors: the same once the model alone is found wrong; what is beyond counts. Set by `study
headline`"""
SHARED = 3.0
"""Times the bias that folds show: the least bias of what saw its own episodes, beside cross-fitted WDR. Set
by `study headline` (pairs seen once)"""
WIDTH = 2.5
"""Standard errors: half-width at 95 % without a contradiction; 2.1 beside one. Set by `study headline`"""
BACKED = 1.0
"""Standard errors by which LIN must lie on the same side of the mean return as the mix. Set by `study
headline` (fatigue)"""
SPARSE_BIAS = 0.3
"""Standard errors: a log is sparse if the bias that folds show is more. Set by `study compare`"""
SPARSE_UNSEEN = 0.7
"""Standard errors: a log is sparse if the effect of what was hardly seen is more. Set by `study compare`"""
CONTRADICTING = 1.64
"""Standard errors: what differs by more contradicts. Set by `study headline`"""
SHOWN_WRONG = 0.5
"""Of its contradiction is left to what is shown to be wrong. Set by `study headline`"""
SKEWED = 3.0
"""Skewness of influences from which the two sides of an interval differ. Set by `study headline` (heavy
tails)"""

# --- The words of BLEND and of a verdict --------------------------------------------------------------------

MUCH = 0.5
"""Of the half-width is for missing episodes: flag `missing-weight`. Set by a convention of words"""
WORTH_A_WORD = 0.1
"""Of the half-width: by so much the longer side is longer (`heavy-reward`), or a contradiction is put in
words. Set by a convention of words"""
SMALL_SHARE = 0.01
"""Of a mix: an estimate with a smaller share is not worth a word, nor its flags. Set by a convention of
words"""
MOST_TIMES = 1000
"""Times the log: more episodes are no advice. Set by a convention of words"""
ROUNDING = 1e-9
"""Of the values compared: smaller differences are rounding. Set by double precision"""

# --- Trust: may the model be used, and may it drop anything -------------------------------------------------

MISFIT = 4.0
"""Standard errors between the model's value of the old policy and the mean return: `model-misfit`. Set by
`study ends`"""
LEAST_ERROR = 0.1
"""Of the standard error of the mean return: that difference is taken to have no smaller one. Set by a
convention"""
RESIDUAL = 3.0
"""Standard errors of mean Bellman residuals of given values from 0: `model-unproven`. Set by a
convention"""
CONFOUNDED = 4.0
"""Standard errors of the slope of the model's errors on the logged probability of an action:
`confounded-model`. Set by `deadweight_studies/doubts.py`"""
LEAST_Z = 0.5
"""Standard errors: a calibration slope below has not shown that the model knows anything. Set by `study
automatic`"""
ENOUGH_UNPROVEN = 30.0
"""Effective episodes hold a drop without such a proof. Set by `study automatic`"""
SURE_BY_FIT = (1.25, 2.0)
"""Standard error of WDR over that of WPDIS, and z of the slope: below and above, a model of features may
drop. Set by a convention"""
SURE_BY_NOISE = (0.9, 1.0)
"""The same for a model that does take noise away. Set by a convention"""
CONTRADICTED = 3.0
"""Standard errors of the undropped estimate: a windowed one that is further away does not check a drop. Set
by `study automatic`"""
NEXT_TO_NOTHING = 0.01
"""Of all possible memory: labels that surely have less tell nothing of what follows. Set by `study
automatic`"""
SURE_OF_MEMORY = 3.0
"""Standard errors that make it sure. Set by `study automatic`"""
TELLS_PAY = 4.0
"""Standard errors: less, and such labels tell nothing of what is paid either: `model-unproven`. Set by
`study automatic`"""

# --- Weights and probabilities ------------------------------------------------------------------------------

NEARLY_ALL = 0.95
"""Of the logged steps: a drop of more leaves no weights to speak of, `all-dropped`. Set by a convention"""
FAR_FROM_ONE = 5.0
"""Standard errors of the mean weight from 1, so many because weights are skewed: `mean-weight`. Set by
`study doubts`"""
LIGHT_TAIL = 0.5
"""Pareto k: below, a sample shows the variance of its weights. Set by their fourth moment"""
HEAVY_TAIL = 0.7
"""Pareto k: above, a mean of such weights should not be trusted, `heavy-tail`. Set by Vehtari et al.
(2024)"""
FAR_ABOVE_MEAN = 10.0
"""Times the mean weight: unless the largest is more, the shape of the tail does not matter. Set by a
convention"""
SURELY_INFINITE = 2.054
"""Standard errors of a spectral radius above 1, 2 % of the logs of a task just below: `infinite-variance`.
Set by [coverage](coverage.md#the-flag-infinite-variance)"""
MISCALIBRATED = 4.0
"""Standard errors between what was done and what was stated, over all states: `behaviour-miscalibrated`.
Set by `study doubts`"""
MISCALIBRATED_ROWS = 3.0
"""Standard errors of the mean ratio of rows from 1: the same flag. Set by a convention"""
FALSE_ALARMS = 1e-3
"""Of logs with the true probabilities in which some pair is taken to contradict them: the same flag. Set by
`study doubts`"""
UNSEEN_SHARE = 0.05
"""Of the choices of the new policy: unless so many were never made, `no-support` is not said. Set by a
convention"""
OFTEN = 30
"""Visits of a state: an action never taken there is no accident of a short log. Set by a convention"""
HALF = 0.5
"""Of a mix: what rests on the model with so much of it has the flags of the model. Set by a convention"""

# --- Episodes that are no independent draws of one kind -----------------------------------------------------

DRIFTED = 4.0
"""Standard errors between old policies of one log: `mixed-worlds` (DW250). Set by `study mixtures`"""
ALIKE = 3.3
"""Standard errors of the lag-1 correlation of episodes: `maybe-clustered`. Set by
`deadweight_studies/doubts.py`"""
DRIFT = 1e-3
"""Probability that ten blocks of the log earn alike: `drift`. Set by `deadweight_studies/doubts.py`"""
FEWEST = 50
"""Episodes: nothing is said of the order of fewer. Set by `deadweight_studies/doubts.py`"""
COPIED = 5.0
"""Standard deviations: more equal episodes than the model expects, `copies`. Set by
`deadweight_studies/doubts.py`"""
