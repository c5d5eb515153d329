"""The columns of a log: which there are, which must be there, and how a user's own names are matched to them.

A table has one row for each step. Every message speaks the user's column names; everything behind this file
speaks ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deadweight.errors import did_you_mean
from deadweight.io.findings import LogProblem, show

NUMBERS = (
    " States may be described by numbers: --features a,x_* of evaluate and doctor, features=['a', 'x_*'] in "
    "Python."
)
A_POLICY = " If this is a policy, it goes after --target, and the log comes first."
REQUIRED = ("episode", "step", "state", "action", "reward")
OPTIONAL = (
    *("behaviour_prob", "target_prob", "terminated", "truncated"),
    *("next_state", "behaviour_id", "duration"),
)
ALIASES = {"behaviour_prob": ("propensity", "behavior_prob"), "prob": ("probability",)}
LABELS = ("episode", "state", "action")
AS_WRITTEN = (*LABELS, "next_state", "behaviour_id")
FLAGS = ("terminated", "truncated")


def _spelt(name: str, found: Sequence[str]) -> str:
    """A column as a table spells it: the name itself or, if there is one only, that with blanks or capitals.

    >>> _spelt("state", [" State "]), _spelt("state", ["State", "STATE"]), _spelt("state", ["state", "State"])
    (' State ', 'state', 'state')
    """
    alike = [one for one in found if str(one).strip().casefold() == str(name).strip().casefold()]
    return alike[0] if name not in found and len(alike) == 1 else name


def match_columns(
    found: Sequence[str],
    renames: Mapping[str, str] | None = None,
    required: Sequence[str] = REQUIRED,
    optional: Sequence[str] = OPTIONAL,
    source: str = "the table",
    hint: str = "",
    remedy: str = "",
) -> dict[str, str]:
    """Our name -> the user's name of every column that is there.

    >>> match_columns(["stay", "t", "state", "action", "reward"], {"episode": "stay", "step": "t"})["episode"]
    'stay'
    """
    renames = {ours: _spelt(theirs, found) for ours, theirs in (renames or {}).items()}
    known = (*required, *optional)
    for ours, theirs in renames.items():
        if ours not in known:
            raise LogProblem(
                "DW107",
                f"Columns are renamed as our name = your name; {show(ours)} is not one of ours."
                + ("" if ours in found else did_you_mean(str(ours), known)),
                fix=f"The other way round: {theirs}={ours}."
                if theirs in known and ours in found
                else f"Our names: {', '.join(known)}.",
            )
        if theirs not in found:
            raise LogProblem(
                "DW107",
                f"Column {show(theirs)}, named for {ours}, is not in {source}."
                + did_you_mean(str(theirs), found)
                + f" Found: {listed(found)}.",
                fix=f"Name the column that holds the {ours}.",
            )
    names = {}
    for ours in known:
        candidates = [renames[ours]] if ours in renames else [ours, *ALIASES.get(ours, ())]
        present = [name for name in (_spelt(one, found) for one in candidates) if name in found]
        if present:
            names[ours] = present[0]
    missing = [ours for ours in required if ours not in names]
    if missing:
        free = [name for name in found if name not in names.values()]
        first = repr(str(free[0])) if free else "'your name'"
        raise LogProblem(
            "DW105",
            f"{source[0].upper() + source[1:]} needs the columns {', '.join(required)}; missing: "
            f"{', '.join(missing)}." + did_you_mean(missing[0], free) + f" Found: {listed(found)}." + hint,
            fix=remedy
            or "Say which of your columns is which, for example --columns "
            f"'{_example(renames, missing, free)}' (in Python columns={{{missing[0]!r}: {first}, ...}}); add "
            "what is not there."
            + (NUMBERS if missing == ["state"] else "")
            + (A_POLICY if {"state", "action"} <= {*names} and {"prob", "probability"} & {*found} else ""),
        )
    return names


def _example(given: Mapping[str, str], missing: Sequence[str], free: Sequence[str]) -> str:
    """The option as it would be if the columns stood in our order, for the user to put right.

    >>> _example({"episode": "stay"}, ["step", "state"], ["day"])
    'episode=stay,step=day,state=...'
    """
    theirs = [*(name if name.isidentifier() else "..." for name in map(str, free)), *["..."] * len(missing)]
    pairs = [*given.items(), *zip(missing, theirs, strict=False)]
    return ",".join(f"{ours}={name}" for ours, name in pairs)


def labels_in(names: Mapping[str, str]) -> list[str]:
    """The user's columns of labels."""
    return [names[ours] for ours in AS_WRITTEN if ours in names]


def listed(found: Sequence[str], most: int = 20) -> str:
    """The first of these names, for messages."""
    text = ", ".join(show(name) for name in found[:most]) or "no column at all"
    return text + (f" and {len(found) - most} more" if len(found) > most else "")
