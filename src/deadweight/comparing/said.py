"""A comparison in words that a reader without statistics can follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from deadweight.results.comparison import Comparison, quoted
from deadweight.results.differences import SAME, UNSOUND
from deadweight.results.flags import GRAVE, remark

MOST_NAMED = 6
BEHAVIOUR_IN_WORDS = "the old policy"


def reasons(found: Comparison, trained: Sequence[str], sparse: Sequence[str]) -> tuple[str, ...]:
    """Why this is recommended, or nothing is; what may still be the best; what to beware of.

    Args:
      found: the comparison, without reasons.
      trained: policies that were learnt from the log.
      sparse: policies for which the log is sparse.
    """
    said = [_first(found), _recommended(found), _best(found)]
    if trained:
        said.append(
            f"{named(trained)} {'was' if len(trained) == 1 else 'were'} learnt from this log, and "
            f"{'looks' if len(trained) == 1 else 'look'} better on it than on others: nothing is claimed of "
            f"{'it' if len(trained) == 1 else 'them'}. Judge by episodes that were not used for learning."
        )
    same = [name for name, why in found.differences.unsound.items() if why == SAME]
    if same:
        said.append(
            f"{named(same)} {'does' if len(same) == 1 else 'do'} what the old policy does, with the "
            "same probabilities: there is no difference to find."
        )
    silent = [name for name in sparse if _says_more_alone(found, name)]
    if silent:
        said.append(
            f"Of {named(silent)} an evaluation alone would claim more. The log is sparse for "
            f"{'it' if len(silent) == 1 else 'them'}: estimates by episodes that no model was fitted to lie "
            "apart, and a comparison allows for all of that."
        )
    return (*said, *_doubts(found))


def _says_more_alone(found: Comparison, name: str) -> bool:
    """Whether a policy's own evaluation has a verdict that the comparison with the same baseline has not."""
    if found.baseline != BEHAVIOUR_IN_WORDS or found.difference(name).answer != "cannot tell":
        return False
    return found[name].verdict.answer != "cannot tell"


def _doubts(found: Comparison) -> Iterator[str]:
    """What is weak about the evaluation of some of the policies."""
    for flag in GRAVE:
        names = [name for name in found.with_flag(flag) if name not in found.differences.unsound]
        if names:
            yield f"Of {named(names)}: {remark(flag, found[names[0]].headline.about)}"
    by_reason: dict[str, list[str]] = {}
    for name, why in found.differences.unsound.items():
        if why not in UNSOUND:
            by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        yield f"Nothing is claimed of {named(names)}. {why}"


def _first(found: Comparison) -> str:
    top = found.ranking[0]
    headline = found.evaluations[top].headline
    said = (
        f"{quoted(top)} ranks first of {len(found.ranking)}: {headline.name} puts it at {headline.value:.4g} "
        "for each episode"
    )
    if found.baseline == top:
        return f"{said}; it is the one that the others are compared with."
    if found.baseline == f"{found.baseline_value:g}":  # a number, whose name is its value
        return f"{said}, against {found.baseline}, the value to beat."
    return f"{said}, against {found.baseline_value:.4g} for {_baseline(found)}."


def _recommended(found: Comparison) -> str:
    number = "both" if len(found.ranking) == 2 else f"all {len(found.ranking)}"
    together = f"with {found.level:.0%} confidence for {number} policies together"
    if found.recommendation is None:
        return f"No policy is shown to be better than {_baseline(found)}, {together}."
    chosen = found.recommendation
    low, high = found.difference(chosen).interval
    others = [name for name in found.better if name != chosen]
    more = f"; so {'is' if len(others) == 1 else 'are'} {named(others)}" if others else ""
    return (
        f"{quoted(chosen)} is better than {_baseline(found)}, by {low:.4g} to {high:.4g} for each episode, "
        f"{together}{more}."
    )


def _best(found: Comparison) -> str:
    kept = found.candidates
    lost = found.regret_bound[found.ranking[0]]
    if len(kept) == 1:
        others = [name for name in found.ranking if name != kept[0]]
        worse = f"{quoted(others[0])} is" if len(others) == 1 else "All others are"
        return f"{worse} shown to be worse than {quoted(kept[0])}."
    if not math.isfinite(lost):
        at_most = f"What may be lost by choosing {quoted(found.ranking[0])} cannot be told."
    else:
        at_most = (
            f"By choosing {quoted(found.ranking[0])} at most {lost:.4g} for each episode is lost against the "
            "best of them."
        )
    return f"The best of all is one of {len(kept)}: {named(kept)}. {at_most}"


def _baseline(found: Comparison) -> str:
    return quoted(found.baseline) if found.baseline in found.ranking else found.baseline


def named(names: Sequence[str]) -> str:
    """Some names in a sentence, the first few where there are many."""
    shown = [quoted(name) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        return f"{', '.join(shown)} and {len(names) - MOST_NAMED} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
