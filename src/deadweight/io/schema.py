"""The columns of a log: which there are, which must be there, and how a user's own names are matched to them.

A table has one row for each step. Every message speaks the user's column names; everything behind this file
speaks ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from deadweight.errors import MOST_COMPARED, did_you_mean
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
# What a column is called that holds what we call otherwise: words of its name.
MEANS = {
    "episode": "stay icustay hadm admission encounter patient subject case session user customer trajectory "
    "traj run game",
    "step": "t time timestamp timestep date datetime visit turn round minute hour day week month",
    "state": "s obs observation bin cluster context",
    "action": "a act treatment intervention decision arm choice",
    "reward": "r outcome payoff return revenue profit",
}
ONLY_COUNTS = ("id", "no", "nr", "number", "key", "uuid")
ABOUT_ANOTHER = ("next", "previous", "prev", "last", "prob", "probability", "logp", "missing")
YOURS = "<your column>"
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
    text: Collection[str] = (),
) -> dict[str, str]:
    """Our name -> the user's name of every column that is there; `text` are those known to hold text.

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
        meant = f" Did you mean {alike[0]!r}?" if (alike := _alike(missing[0], free)) else ""
        pairs = {**renames, **{ours: _proposal(ours, free, text) for ours in missing}}
        option = ",".join(f"{ours}={theirs}" for ours, theirs in pairs.items())
        python = ", ".join(f"{ours!r}: {theirs!r}" for ours, theirs in pairs.items())
        raise LogProblem(
            "DW105",
            f"{source[0].upper() + source[1:]} needs the columns {', '.join(required)}; missing: "
            f"{', '.join(missing)}." + meant + f" Found: {listed(found)}." + hint,
            fix=remedy
            or "Say which of your columns is which"
            + (
                ", each <...> by a name of yours"
                if "<" in option
                else ", if these names mean what they seem to"
            )
            + f": --columns '{option}' (in Python columns={{{python}}}); add what is not there."
            + (NUMBERS if missing == ["state"] else "")
            + (A_POLICY if {"state", "action"} <= {*names} and {"prob", "probability"} & {*found} else ""),
        )
    return names


def _proposal(ours: str, free: Sequence[str], text: Collection[str]) -> str:
    """The one column that may well be ours, by its name and type; else words that are no column.

    >>> free = ["age", "stay_id", "hour", "armId", "outcome"]
    >>> [_proposal(ours, free, text=["outcome"]) for ours in ("episode", "step", "action", "reward")]
    ['stay_id', 'hour', 'armId', '<your column>']
    """
    known = [str(name) for name in free if not (ours == "reward" and name in text)][:MOST_COMPARED]
    able = [name for name in known if name.isprintable() and not set(name) & set(",='\"<>")]
    plausible = [name for name in able if _means(name) == ours] or _alike(ours, able)
    if len(plausible) == 1:
        return plausible[0]
    return f"<{' or '.join(plausible[:3])}>" if plausible else YOURS


def _means(name: str) -> str | None:
    """Our name of what a column's name says, by its words.

    >>> _means("ICUSTAY_ID"), _means("Day of stay"), _means("action_prob"), _means("age")
    ('episode', 'step', None, None)
    """
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+", name)]
    words = [word.removesuffix("s") if len(word) > 3 else word for word in words]
    if set(words) & set(ABOUT_ANOTHER):
        return None
    named = [ours for ours in MEANS if ours in words]
    if named:
        return named[0] if len(named) == 1 else None
    words = words[: words.index("of")] if "of" in words else words
    ids = [word for word in words if word in ONLY_COUNTS]
    things = [word.removesuffix("id") for word in words if word not in ONLY_COUNTS]
    if not things:
        return "episode" if "id" in ids else None
    return next((ours for ours, others in MEANS.items() if things[-1] in others.split()), None)


def _alike(ours: str, free: Sequence[str]) -> list[str]:
    """The column that may be ours with a slip of the pen; few slip at the first letter: `ward` is no slip."""
    import difflib  # only a message needs it

    by_lower = {name.lower(): name for name in map(str, free[:MOST_COMPARED]) if name[:1].lower() == ours[0]}
    return [by_lower[one] for one in difflib.get_close_matches(ours, list(by_lower), n=1, cutoff=0.82)]


def labels_in(names: Mapping[str, str]) -> list[str]:
    """The user's columns of labels."""
    return [names[ours] for ours in AS_WRITTEN if ours in names]


def listed(found: Sequence[str], most: int = 20) -> str:
    """The first of these names, for messages."""
    text = ", ".join(show(name) for name in found[:most]) or "no column at all"
    return text + (f" and {len(found) - most} more" if len(found) > most else "")
