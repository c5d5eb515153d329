"""Flags: codes of what a reader of an estimate must know, their sentences, and what they do to a verdict.

A flag of the headline is a reason of the verdict. Those of `GRAVE` lead the reasons and keep gates closed;
`FIRST` says what to do before anybody acts on a verdict that has a doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deadweight.results.estimate import About

FLAGS = {
    "zero-weights": "All weights were zero in at least one normaliser, which counts as 0: the log hardly "
    "ever does what the new policy would do.",
    "low-ess": "Fewer than ten effective episodes carry the weights: a handful of episodes decide the "
    "estimate.",
    "all-dropped": "Nearly every logged step is dropped: only the ratios of the few others, if any, tell the "
    "new policy from the old one.",
    "none-dropped": "No logged step is dropped: the estimate is the plain estimator.",
    "truncated": "Some episodes were cut before they ended: returns count only what was logged. To see what "
    "the rest may do: --cut-weights auto, --cut-range (cut_weights, cut_bounds in Python).",
    "cut-weighted": "Some episodes were cut before they ended, and rows that were seen stand for what was "
    "cut off: right only if nothing but what those weights look at decided who was cut.",
    "no-support": "The new policy takes actions in visited states where the log has none of them: "
    "their effect cannot be seen in it.",
    "mixed-worlds": "The old policies of this log worked under different conditions: their episodes start "
    "differently, or the same actions in the same states bring something else. Put together they may "
    "show a difference between policies where only the conditions differ.",
    "confounded-model": "The old policy looked at something that the states leave out (a week, a version, a "
    "severity), and it matters: where it was more or less likely to act as it did, something else followed. "
    "A model takes that for an effect of the action.",
    "copies": "More episodes are equal, in all of their states, actions and rewards, than chance allows: "
    "some stand in the log more than once. The interval counts them as different ones, and is too narrow.",
    "behaviour-filled": "An old policy was not given, and was counted from its own episodes: where it was "
    "hardly seen its probabilities are rough.",
    "behaviour-miscalibrated": "The old policy that was given, logged or learnt is not the one that made "
    "this log: it would take actions more, or less, often than was done, by more than chance. Its "
    "probabilities are wrong, and so are weights.",
    "low-ess-undropped": "With all ratios kept fewer than ten effective episodes would be left: nothing in "
    "the log can tell whether the drop is right.",
    "heavy-tail": "A few of the largest weights are so much larger than the rest that the ones which matter "
    "most may not be in the log: the estimate may be off by more than its interval says.",
    "mean-weight": "Its weights must average 1, and they are further away from it than weights of these two "
    "policies can be by chance: the old policy's probabilities are wrong, or the episodes that matter most "
    "are not in the log.",
    "infinite-variance": "In the fitted model its weights have infinite variance: do not trust their "
    "standard error, nor the interval, however long the log is.",
    "late-reward": "All reward comes at the end of episodes of different lengths: weights by step depend "
    "on a handful of long episodes there. WIS weighs whole episodes.",
    "unchecked": "The interval could not be checked against a model, which takes the new policy's "
    "probabilities of all actions and not too many states: it may be too narrow.",
    "model-misfit": "The fitted model does not give back the mean return of the log itself, by more than "
    "chance: do not trust what is based on the model.",
    "model-unproven": "Held against what the log earned, the action values behind it, given or learned, are "
    "wrong or predict nothing: do not trust what is based on them.",
    "missing-weight": "Episodes that the new policy would often have are missing in the log: the weights of "
    "those that it has add up to too little. More than half of the interval's width is for what the missing "
    "ones may hold.",
    "heavy-reward": "A few episodes count for far more than the rest, so that one more of them, or one less, "
    "would move the estimate a lot: the interval is wider on the side where such episodes may be missing.",
    "model-unstable": "The model of the features left the range of possible values and had to be held back "
    "by a stronger penalty: what is based on it is rough.",
    "model-unsettled": "In the fitted model the new policy may go on for ever: the model is solved "
    "over the steps of the longest episode instead.",
    "trained-on-log": "The policy was learnt from this very log, on which it looks better than it is: judge "
    "it on other episodes.",
    "contradicted": "One of the estimates that check it lies further away than its own sampling error: the "
    "interval is wider by that distance.",
    "undetermined": "Its interval is more than a thousand times as wide as the logged returns lie apart, or "
    "without an end: this log does not determine the value.",
    "maybe-clustered": "Episodes that follow one another in the log are alike, by more than chance: several "
    "may belong to one person or site. The interval takes all of them as independent, and is too narrow if "
    "they are not.",
    "drift": "What is earned changes along the log, by more than chance: the answer is about all of that "
    "time together, and what comes next may be different.",
    "overflow": "The product of ratios left the range of floating-point numbers: use a self-normalised (W) "
    "estimator.",
}

GRAVE = (
    "mixed-worlds",
    "confounded-model",
    "copies",
    "mean-weight",
    "behaviour-miscalibrated",
    "model-misfit",
    "model-unstable",
)
"""On a headline: something is wrong with the log or with what was given, and no gate opens."""
WITHHOLDING = ("mixed-worlds", "confounded-model", "copies")
"""The grave flags with which no number of a table can carry a verdict."""
LEADING = (*GRAVE, "model-unproven", "no-support")
"""They come before the numbers of a verdict; other flags come after them."""
_PROBABILITIES = (
    "check that the old policy's probabilities are those with which the logged actions were drawn."
)
_STATES = "check how episodes end (terminated, time_limit), and what the states leave out."
_ALIKE = "log more episodes, best with an old policy that acts more like the new one."
FIRST = {
    "mixed-worlds": "evaluate the episodes of one old policy alone, or add what changed between them (week, "
    "site) to the state.",
    "confounded-model": "put what the old policy looked at (a week, a version, a severity) into the state.",
    "copies": "find out how episodes came into the log twice (files that were read twice, a join), and leave "
    "them out; if people with habits of their own made it, say who (behaviour_id).",
    "mean-weight": _PROBABILITIES,
    "behaviour-miscalibrated": _PROBABILITIES,
    "model-misfit": _STATES,
    "model-unstable": "try other features, or a model of your own (model=).",
    "model-unproven": _STATES,
    "no-support": "check that actions are spelt as in the log; where they are, nobody has tried them there.",
    "trained-on-log": "judge the policy on episodes that it was not learnt from.",
    "overflow": "use a self-normalised (W) estimator, or BLEND.",
    "undetermined": _ALIKE,
    "zero-weights": _ALIKE,
    "low-ess": _ALIKE,
    "missing-weight": _ALIKE,
    "heavy-reward": "see which episodes those are, and whether such returns are what is to be averaged.",
    "maybe-clustered": "check whether several episodes belong to one person or site: intervals take episodes "
    "as independent.",
    "drift": "find out what has changed along the log (a season, patients, prices), and evaluate its latest "
    "part alone.",
    "contradicted": "find out why estimates differ: do the states show everything that rewards and "
    "transitions depend on, and are the logged probabilities right?",
    "model-unsettled": _STATES,
    "late-reward": "compare with WIS, which weighs whole episodes.",
    "behaviour-filled": "give the policy of every old policy, or log its probabilities.",
    "infinite-variance": "log with an old policy that acts more like the new one; more of the same log does "
    "not help.",
    "heavy-tail": _ALIKE,
    "low-ess-undropped": "check that the states show everything that rewards and transitions depend on: too "
    "few effective episodes are left to notice if they do not.",
    "all-dropped": "compare with an estimate that keeps its ratios, such as WPDIS.",
    "unchecked": "give the new policy's probabilities of all actions, so that a model can check it.",
    "truncated": "see what cut episodes could still have earned (--cut-range; cut_bounds in Python).",
    "cut-weighted": "see what cut episodes could still have earned (--cut-range; cut_bounds in Python).",
}
"""By flag, the gravest first, what to do about it; a flag that is not here casts no doubt."""

# Where a flag means something else for some estimators.
OF_CORRECTED = {
    "all-dropped": "Nearly every logged step is dropped: how the new policy differs from the "
    "old one is told by the model, hardly by the weights.",
}
OF_DOUBLY_ROBUST = {
    "low-ess": "Fewer than ten effective episodes carry the weights: a handful of episodes decide how the "
    "model's value is corrected.",
    "model-unproven": "Held against what the log earned, the action values behind it, given or learned, are "
    "wrong or predict nothing: with all ratios kept the estimate allows for that, with a drop it does not.",
}
OF_MIXES = {
    "contradicted": "One of the estimates behind it differs from it by more than noise explains: the "
    "interval allows for that.",
    "low-ess-undropped": "With all ratios kept fewer than ten effective episodes are left: weights alone "
    "carry no conclusion here.",
    "heavy-tail": "Weights with all ratios kept have a share in it, and a few of them are far larger than "
    "the rest: the ones that matter most may not be in the log.",
    "mean-weight": "Weights with all ratios kept have a share in it; they must average 1 and do not: the old "
    "policy's probabilities are wrong, or the episodes that matter most are not in the log.",
    "infinite-variance": "Weights with all ratios kept have a share in it, and in the fitted model their "
    "variance is infinite: do not trust the standard error of that share.",
    "no-support": "The new policy takes actions where the log has none of them: what they bring there is not "
    "known. See whether they are spelt as in the log.",
    "model-misfit": "The fitted model does not give back the mean return of the log itself, by more than "
    "chance: it has been left out of this estimate.",
    "confounded-model": "The old policy looked at something that the states leave out (a week, a version, a "
    "severity), and it matters: where it was more or less likely to act as it did, something else followed. "
    "The fitted model has been left out of this estimate.",
    "model-unproven": "The action values, given or learned, do not fit what the log earned, or predict "
    "nothing of it: the answer is based on weights.",
    "model-unstable": "The model of the features, which has half of the shares or more, left the range "
    "of possible values and had to be held back by a stronger penalty: this estimate is rough.",
}
OF_PRODUCTS = {
    "all-dropped": "Nearly every logged step is dropped: only the ratios of the few others, if any, keep the "
    "estimate from being the naive average return.",
}


# Flags that nothing has any more, in results that earlier versions have saved.
FORMER = {
    "model-useless": "Labels of states tell neither what follows nor what is paid, or no model fitted to "
    "other episodes is seen to foretell what is earned and too few effective episodes are left to check "
    "it: the interval also holds all that weights alone leave open.",
}


def remark(flag: str, about: About) -> str:
    """What a flag says about this estimator."""
    sentence = FORMER[flag] if flag in FORMER else FLAGS[flag]
    if about.kind == "mix":
        return OF_MIXES.get(flag, sentence)
    if about.product:
        sentence = OF_PRODUCTS.get(flag, sentence)
    if about.kind == "corrected" or about.contains_correction:
        sentence = OF_CORRECTED.get(flag, sentence)
    return OF_DOUBLY_ROBUST.get(flag, sentence) if about.contains_correction else sentence


def doubts_of(flags: Iterable[str]) -> list[str]:
    """The flags that cast doubt on an estimate, the gravest first."""
    return sorted(set(flags) & set(FIRST), key=list(FIRST).index)


def advice(flag: str) -> str:
    """What to do about a flag, as a sentence."""
    return FIRST[flag][0].upper() + FIRST[flag][1:]


def remarks(flagged: Iterable[tuple[About, Iterable[str]]]) -> list[tuple[str, list[str], str]]:
    """Flag, estimators and sentence, of estimators with their flags: one entry for each sentence."""
    names: dict[tuple[str, str], list[str]] = {}
    for about, flags in flagged:
        for flag in flags:
            names.setdefault((flag, remark(flag, about)), []).append(about.name)
    order = [*FLAGS, *FORMER]
    ranked = sorted(names.items(), key=lambda entry: order.index(entry[0][0]))
    return [(flag, named, sentence) for (flag, sentence), named in ranked]
