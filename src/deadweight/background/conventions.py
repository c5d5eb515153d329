"""The conventions of a report: choices that change the numbers, in words."""

from __future__ import annotations

from deadweight.background.headline_path import PATH_OF
from deadweight.log.labels import visible
from deadweight.question.core import Question
from deadweight.results import Estimate

FINISHED = {
    "absorb": "stay in every normaliser with their last weight",
    "leave": "leave the normaliser of later steps",
    "survivors": "are left out; steps count by the share of episodes that reach them",
}
UNSEEN = {
    "pool": "behave like the average logged action in that state",
    "terminate": "earn nothing and end the episode",
    "mean": "earn the mean reward of the log",
}
INTERVALS = {
    "auto": "sampling error by Student's t with effective degrees of freedom, plus the estimated bias of "
    "dropping, plus the distance between weights and model",
    "blend": "two and a half standard errors, the noise of the fitted model in them; or about two and what "
    "the estimates in the mix contradict each other by beyond noise, if that is more",
    "student-t": "Student's t with effective degrees of freedom; no allowance for bias",
    "bootstrap": "bootstrap of whole episodes, percentile",
    "bca": "bootstrap of whole episodes, bias-corrected and accelerated",
    "bernstein": "empirical Bernstein bound with the given return range",
    "guaranteed": "betting bound with the given return range, valid in any sample",
}
# A rule in words, with labels in it at times.
LONGEST_RULE = 400
# Kinds of interval that draw random numbers.
RANDOM = ("bootstrap", "bca")


def conventions(question: Question, headline: Estimate, shown: str) -> list[tuple[str, str]]:
    """(what, which) of every choice behind the numbers; `shown` says what is dropped in figures."""
    options, kind = question.options, headline.interval_kind
    found = [
        ("Discount (gamma)", f"{question.discount:g}"),
        ("Finished episodes", f"{options.finished}: they {FINISHED[options.finished]}"),
        ("Ends of episodes", _ends(question)),
        ("Actions never logged in a state", _unseen(question)),
        ("States dropped", _beside(headline) + visible(shown, LONGEST_RULE)),
    ]
    if kind is None:
        found.append(("Interval", "none was asked for"))
    else:
        found.append(("Interval", f"{kind}, {100 * headline.level:.3g} % confidence: {INTERVALS[kind]}"))
    if kind in RANDOM:
        found.append(("Seed of the bootstrap", str(options.seed)))
    else:
        found.append(("Seed", "not used: no step of this evaluation is random"))
    if question.cut_weights is not None:
        found.append(("Cut episodes", question.cut_weights.sentence))
    if options.return_range is not None:
        found.append(("Possible returns", "{:g} to {:g}".format(*options.return_range)))
    return found


def _beside(headline: Estimate) -> str:
    """A blend drops nothing; what the other rows drop is shown by one of them."""
    return "" if headline.blend is None else f"none in {headline.name}; in {PATH_OF} "


def _ends(question: Question) -> str:
    if question.time_limit is not None:
        return f"cut by a time limit of {question.time_limit:,} steps; values are those of so many steps"
    if question.has_end:
        return "none was cut; a model is solved until its values settle"
    over = "of its own" if question.model_horizon > question.horizon else "of the longest episode"
    return f"a model is solved over the {question.model_horizon:,} steps {over}"


def _unseen(question: Question) -> str:
    if question.options.model is not None:
        return "follow the model that was given"
    return f"{question.options.unseen}: in the model they {UNSEEN[question.options.unseen]}"
