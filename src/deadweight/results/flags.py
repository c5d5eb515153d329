"""Flags: codes of what a reader of an estimate must know, and their sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deadweight.results.estimate import About

FLAGS = {
    "zero-weights": "All weights were zero in at least one normaliser, which counts as 0: the log hardly "
    "ever does what the evaluation policy would do.",
    "low-ess": "Fewer than ten effective episodes carry the weights: a handful of episodes decide the "
    "estimate.",
    "all-dropped": "Nearly every logged step is dropped: only the ratios of the few others, if any, tell the "
    "evaluation policy from the behaviour policy.",
    "none-dropped": "No logged step is dropped: the estimate is the plain estimator.",
    "truncated": "Some episodes were cut before they ended: returns count only what was logged.",
    "no-support": "The evaluation policy takes actions in visited states where the behaviour policy never "
    "does: their effect cannot be seen in this log.",
    "unchecked": "The interval could not be checked against a model, which takes the evaluation policy's "
    "probabilities of all actions and not too many states: it may be too narrow.",
    "model-misfit": "The fitted model does not give back the mean return of the log itself, by more than "
    "chance: what rests on the model is not to be trusted.",
    "model-unsettled": "In the fitted model the evaluation policy may go on for ever: the model is solved "
    "over the steps of the longest episode instead.",
    "contradicted": "One of the estimates that it was compared with differs from it by more than noise "
    "explains: the interval is wider by as much.",
    "overflow": "The product of ratios left the range of floating-point numbers: use a self-normalised (W) "
    "estimator.",
}

# Where a flag means something else for some estimators.
OF_CORRECTED = {
    "all-dropped": "Nearly every logged step is dropped: how the evaluation policy differs from the "
    "behaviour policy is told by the model, hardly by the weights.",
}
OF_DOUBLY_ROBUST = {
    "low-ess": "Fewer than ten effective episodes carry the weights: a handful of episodes decide how the "
    "model's value is corrected.",
}
OF_PRODUCTS = {
    "all-dropped": "Nearly every logged step is dropped: only the ratios of the few others, if any, keep the "
    "estimate from being the naive average return.",
}


def remark(flag: str, made: About) -> str:
    """What a flag says about this estimator."""
    said = FLAGS[flag]
    if made.product:
        said = OF_PRODUCTS.get(flag, said)
    if made.kind == "corrected" or made.contains_correction:
        said = OF_CORRECTED.get(flag, said)
    return OF_DOUBLY_ROBUST.get(flag, said) if made.contains_correction else said


def remarks(flagged: Iterable[tuple[About, Iterable[str]]]) -> list[tuple[str, list[str], str]]:
    """Flag, estimators and sentence, of estimators with their flags: one entry for each sentence."""
    found: dict[tuple[str, str], list[str]] = {}
    for made, flags in flagged:
        for flag in flags:
            found.setdefault((flag, remark(flag, made)), []).append(made.name)
    order = list(FLAGS)
    ranked = sorted(found.items(), key=lambda entry: order.index(entry[0][0]))
    return [(flag, names, said) for (flag, said), names in ranked]
