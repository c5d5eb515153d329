"""The answer in sentences: what was found, what it rests on, and what it would take to be sure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deadweight.basics.arithmetic import two_digits
from deadweight.improving.recipe import Learnt, Recipe
from deadweight.log.labels import visible
from deadweight.results.improvement import Change, Gate
from deadweight.typing import Labels

# More than so many times the episodes there are, and nobody would wait for them.
MOST_TIMES = 1_000
JUDGED = {
    "halves": "Learnt on one half of the episodes and judged on the other, both ways and for "
    "two random halvings, such changes gained",
    "strict": "On the half of the episodes that it was not learnt from, the policy gained",
    "none": "On the episodes that it was learnt from, the policy gains",
}
MEANING = {
    "halves": "This certifies the recipe at half the size of the log, not the policy itself: the policy that "
    "is learnt from all episodes has not been judged on any that it has not seen.",
    "strict": "This certifies the policy itself. Half of the log was spent on that, so that fewer changes "
    "are found.",
    "none": "Nothing is certified: a policy looks better on the episodes it was learnt from than it is.",
}

STATE = (
    "See first whether the states show everything that rewards and transitions depend on: what was done "
    "before, say, or how much was given so far."
)


def made(changes: Sequence[Change], n_states: int) -> str:
    """What the policy does."""
    pays = "another action pays by more than the log leaves open"
    if len(changes) == n_states:
        return f"In every visited state ({n_states:,}) {pays}."
    where = f"In {len(changes):,} of {n_states:,} visited states"
    return f"{where} {pays}; everywhere else the policy stays what it was."


def not_made(changes: Sequence[Change], n_states: int) -> str:
    """What it could do."""
    return (
        f"In {len(changes):,} of {n_states:,} visited states another action seems to pay by more than the "
        "log leaves open."
    )


def measured(gate: Gate) -> str:
    """What the gate found."""
    return (
        f"{JUDGED[gate.kind]} {gate.gain:+.4g} for each episode, at least {gate.lower:+.4g} with "
        f"{gate.level:.0%} confidence."
    )


def shipped(gate: Gate, interval: tuple[float, float]) -> str:
    """What the policy gains that is shipped."""
    low, high = interval
    more = ", and for what half of the episodes could not teach" if gate.kind == "halves" else ""
    return (
        f"The policy itself is expected to gain between {low:+.4g} and {high:+.4g} ({gate.level:.0%} "
        f"confidence): that allows for errors of the model, as far as the log shows them{more}."
    )


def after_shipping(gate: Gate) -> str:
    """What to do with a policy that is improved."""
    trial = "Read the list of changes, veto what cannot be right, and try the policy on new episodes"
    return f"{trial}." if gate.kind == "strict" else f"{trial}: evaluating it on this log proves nothing."


def nothing_found(recipe: Recipe) -> str:
    """No state in which a change pays."""
    return (
        f"In no state does another action pay by more than {recipe.caution:g} standard errors, among those "
        f"that were tried there at least {recipe.min_visits} times."
    )


def closed(gate: Gate) -> str:
    """Why the gate is closed."""
    if not any(gate.changed):
        return "Half of the episodes are too few to find any of them again: there is nothing to judge."
    return f"{measured(gate)} That is not enough to be sure that they gain anything."


def vetoed(gate: Gate) -> str:
    """Why an open gate is closed again."""
    return (
        "That is what a model of single steps says. A second look at the same episodes, which follows what "
        f"an action does many steps later, finds {gate.linear:+.4g}, at least {gate.linear_lower:+.4g} with "
        f"{gate.level:.0%} confidence: what is done has effects that the states do not show, and such "
        "changes may do harm."
    )


def too_few(n: int, needed: int) -> str:
    """A log that cannot be halved."""
    return f"A log of {n:,} episodes is too short to be halved; {needed} are the least."


def needed(gate: Gate, n: int) -> str:
    """How many episodes would open the gate."""
    if not any(gate.changed):
        return (
            f"With about {two_digits(2 * n):,} episodes each half would be as large as this log, and could "
            "be judged."
        )
    if not gate.gain > 0:
        return (
            "More episodes of the same kind need not help: on episodes that they were not learnt from the "
            "changes did not pay."
        )
    episodes = math.ceil(n * ((gate.gain - gate.lower) / gate.gain) ** 2)
    if episodes > MOST_TIMES * n:
        return "The gain is so small that no log of reasonable size would show it."
    return (
        f"About {two_digits(episodes):,} episodes would do, if the gain is what it seems; this log has {n:,}."
    )


def closest(learnt: Learnt, recipe: Recipe, states: Labels, actions: Labels) -> str:
    """Which action is nearest to being taken, and how often it would have to be tried."""
    error, above = recipe.caution * learnt.std_error, learnt.advantage
    # An action that would have to be tried a thousand times as often is not close to anything.
    close = (above > 0) & (learnt.visits > 0) & (error <= np.sqrt(MOST_TIMES) * above)
    if not close.any():
        return "No action looks better anywhere than what is done already."
    worth = np.where(close, above * learnt.visits.sum(axis=1, keepdims=True), 0.0)
    s, a = divmod(int(np.argmax(worth)), worth.shape[1])
    tries = max(learnt.visits[s, a] * (error[s, a] / above[s, a]) ** 2, recipe.min_visits)
    state, action = visible(str(states[s])), visible(str(actions[a]))
    return (
        f"The most promising one is {action} in state {state}: worth {learnt.advantage[s, a]:+.3g} ± "
        f"{learnt.std_error[s, a]:.2g} for each visit after {int(learnt.visits[s, a]):,} tries; about "
        f"{two_digits(math.ceil(tries)):,} tries would settle it, if it is what it seems."
    )
