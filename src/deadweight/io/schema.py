"""The columns of a log: which there are, which must be there, and how a user's own names are matched to them.

A table has one row a step. Every message speaks the user's column names; everything behind this file speaks
ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deadweight.errors import did_you_mean
from deadweight.io.findings import LogProblem, show

REQUIRED = ("episode", "step", "state", "action", "reward")
OPTIONAL = ("behaviour_prob", "target_prob", "terminated", "truncated", "next_state")
ALIASES = {"behaviour_prob": ("propensity", "behavior_prob")}
LABELS = ("episode", "state", "action")
AS_WRITTEN = (*LABELS, "next_state")
PROBABILITIES = ("behaviour_prob", "target_prob")
FLAGS = ("terminated", "truncated")


def match_columns(
    found: Sequence[str],
    renames: Mapping[str, str] | None = None,
    required: Sequence[str] = REQUIRED,
    optional: Sequence[str] = OPTIONAL,
    source: str = "the table",
    hint: str = "",
) -> dict[str, str]:
    """Our name -> the user's name of every column that is there.

    >>> match_columns(["stay", "t", "state", "action", "reward"], {"episode": "stay", "step": "t"})["episode"]
    'stay'
    """
    renames = dict(renames or {})
    known = (*required, *optional)
    for ours, theirs in renames.items():
        if ours not in known:
            raise LogProblem(
                "DW107",
                f"Columns are renamed as our name = your name; {show(ours)} is not one of ours."
                + did_you_mean(str(ours), known),
                fix=f"Our names: {', '.join(known)}.",
            )
        if theirs not in found:
            raise LogProblem(
                "DW107",
                f"Column {show(theirs)}, named for {ours}, is not in {source}."
                + did_you_mean(str(theirs), found)
                + f" Found: {_listed(found)}.",
                fix=f"Name the column that holds the {ours}.",
            )
    names = {}
    for ours in known:
        candidates = [renames[ours]] if ours in renames else [ours, *ALIASES.get(ours, ())]
        present = [name for name in candidates if name in found]
        if present:
            names[ours] = present[0]
    missing = [ours for ours in required if ours not in names]
    if missing:
        free = [name for name in found if name not in names.values()]
        raise LogProblem(
            "DW105",
            f"{source[0].upper() + source[1:]} needs the columns {', '.join(required)}; missing: "
            f"{', '.join(missing)}." + did_you_mean(missing[0], free) + f" Found: {_listed(found)}." + hint,
            fix=f"Add the column, or name yours: columns={{{missing[0]!r}: 'your name'}} "
            f"(--columns {missing[0]}=your_name).",
        )
    return names


def labels_in(names: Mapping[str, str]) -> list[str]:
    """The user's columns of labels."""
    return [names[ours] for ours in AS_WRITTEN if ours in names]


def _listed(found: Sequence[str], most: int = 20) -> str:
    text = ", ".join(show(name) for name in found[:most]) or "no column at all"
    return text + (f" and {len(found) - most} more" if len(found) > most else "")
