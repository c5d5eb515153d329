"""Columns with names of the user's choice: features of states, and probabilities of each action.

Features are asked for by name or by wildcard; `next_<name>` holds what follows the last row of a cut episode.
Columns `target_prob_<action>` and `behaviour_prob_<action>` are whole policies, row by row. Inside they have
keys such as "feature:lactate", which no column of ours can have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from deadweight.errors import OptionError, did_you_mean
from deadweight.io.findings import LogProblem, show
from deadweight.io.schema import listed

FEATURE, AFTER = "feature:", "next:"
ACTION_PREFIXES = {"target_prob": "target_prob_", "behaviour_prob": "behaviour_prob_"}
WILD = "*?["


def checked_patterns(features: Sequence[str] | str | None) -> list[str] | None:
    """Names and wildcards of features as the user gave them, or None.

    >>> checked_patterns("lactate")
    ['lactate']
    """
    if features is None:
        return None
    patterns = [features] if isinstance(features, str) else list(features)
    if not patterns or not all(isinstance(one, str) and one for one in patterns):
        raise OptionError(
            f"features must name columns, for example ['lactate', 'x_*']; found {features!r}.",
            fix="Leave it out for a log whose states are labels.",
        )
    return patterns


def match_features(
    patterns: Sequence[str], found: Sequence[str], used: Mapping[str, str], source: str
) -> dict[str, str]:
    """ "feature:<name>" -> column, in the order of the patterns, and "next:<name>" -> column.

    A wildcard passes by the columns that the log uses otherwise, and those of successors and probabilities.

    >>> match_features(["x_*"], ["x_1", "reward", "x_2", "next_x_1", "next_x_2"], {"reward": "reward"}, "t")
    {'feature:x_1': 'x_1', 'feature:x_2': 'x_2', 'next:x_1': 'next_x_1', 'next:x_2': 'next_x_2'}
    """
    taken = {theirs: ours for ours, theirs in used.items()}
    names: list[str] = []
    for pattern in patterns:
        if pattern in found:
            _refuse_own(pattern, taken)
            matching = [pattern]
        else:
            matching = [name for name in found if fnmatchcase(name, pattern) and _is_free(name, found, taken)]
        if not matching:
            raise LogProblem(
                "DW110",
                f"No column of {source} fits the feature {show(pattern)}."
                + ("" if set(pattern) & set(WILD) else did_you_mean(pattern, found))
                + f" Found: {listed(found)}.",
                fix="Name columns of the table; * stands for any characters, as in x_*.",
            )
        names += [name for name in matching if name not in names]
    after = [name for name in names if f"next_{name}" in found]
    if after and len(after) < len(names):
        lacking = next(name for name in names if name not in after)
        raise LogProblem(
            "DW110",
            f"What follows a cut episode takes all features: {source} has {show('next_' + after[0])} and no "
            f"{show('next_' + lacking)}.",
            fix="Add the columns that are missing, or remove those that are there.",
        )
    return {FEATURE + name: name for name in names} | {AFTER + name: f"next_{name}" for name in after}


def match_actions(found: Sequence[str]) -> dict[str, str]:
    """ "target_prob:<action>" -> column and the like, of probabilities for each action.

    >>> match_actions(["target_prob_wait", "target_prob_treat", "target_prob"])
    {'target_prob:wait': 'target_prob_wait', 'target_prob:treat': 'target_prob_treat'}
    """
    keys: dict[str, str] = {}
    for ours, prefix in ACTION_PREFIXES.items():
        columns = [name for name in found if name.startswith(prefix) and len(name) > len(prefix)]
        keys |= {f"{ours}:{name[len(prefix) :]}": name for name in columns}
        follow = [f"next_{name}" for name in columns]
        if columns and all(name in found for name in follow):
            keys |= {f"next_{ours}:{name[len('next_' + prefix) :]}": name for name in follow}
    return keys


def _refuse_own(name: str, taken: Mapping[str, str]) -> None:
    ours = taken.get(name)
    if ours is not None and ours != "state":
        raise LogProblem(
            "DW110",
            f"A feature describes the state before the action; column {show(name)} is the {ours} of the log.",
            fix="Leave it out. If earlier values of it matter, write them into a column of their own.",
        )


def _is_free(name: str, found: Sequence[str], taken: Mapping[str, str]) -> bool:
    """Whether a wildcard may take this column."""
    if name in taken or name.startswith(tuple(ACTION_PREFIXES.values())):
        return False
    return not (name.startswith("next_") and name[len("next_") :] in found)
