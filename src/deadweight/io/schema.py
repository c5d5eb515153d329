"""The columns of a log, how a user's names are matched to them, what is mended, and findings about them.

A table has one row for each step. Every message speaks the user's column names; everything behind this file
speaks ours. A check is a small function with a code that never changes its meaning. Checks of severity
"error" (`requirements.py`) say what `read` refuses; the doctor runs them too and adds "warning" (the log can
be evaluated, but look first) and "info".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from deadweight.errors import MOST_COMPARED, DataError, OptionError, did_you_mean, first_few
from deadweight.io.columns import decoded, is_text, pa, pc, trimmed
from deadweight.log.labels import plain
from deadweight.typing import AnyArray

Severity = Literal["error", "warning", "info"]
MOST_SHOWN = 5
LONGEST_LABEL = 60

Subject = TypeVar("Subject")


class LogProblem(DataError):
    """A table that is not a log; `code` is that of the doctor's finding."""

    def __init__(self, code: str, problem: str, *, fix: str = "") -> None:
        super().__init__(f"{code}: {problem}", fix=fix)
        self.code, self.problem = code, problem


def not_parquet(path: str, reason: str) -> LogProblem:
    """A file whose bytes are not what its name says."""
    return LogProblem(
        "DW102",
        f"{path!r} is not a readable Parquet file, or was cut short: {reason}",
        fix="Copy or write the file again.",
    )


def unfit_files(reason: str, which: str = "The files") -> LogProblem:
    """Files that cannot be put one below the other."""
    return LogProblem(
        "DW102", f"{which} do not fit together: {reason}", fix="Write them with the same columns and types."
    )


NO_ROWS: AnyArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Found:
    """What a check found: a sentence, a remedy, and the rows (of the user's table) that it is about."""

    problem: str
    fix: str
    rows: AnyArray = field(default_factory=lambda: NO_ROWS)
    columns: tuple[str, ...] = ()  # those that other checks had better not look at


def about(
    rows: AnyArray, problem: Callable[[AnyArray], str], fix: str, columns: tuple[str, ...] = ()
) -> Found | None:
    """What is wrong with these rows (numbers, or a mask of all rows); None where there is no such row."""
    numbers = np.flatnonzero(rows) if rows.dtype == bool else rows
    return Found(problem(numbers), fix, numbers, columns) if numbers.size else None


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """A check; not run without the columns that it needs, nor after an error in one of them."""

    code: str
    severity: Severity
    title: str
    needs: tuple[str, ...]
    run: Callable[[Subject], Found | None]


class Checks(list[Check[Subject]]):
    """Checks in the order in which they are run."""

    def add(
        self, code: str, severity: Severity, title: str, *needs: str, each: Collection[str] = ()
    ) -> Callable[[Callable[..., Found | None]], Callable[..., Found | None]]:
        """Decorate a check; with `each`, one that is run for each of these columns and takes its name."""

        def enter(run: Callable[..., Found | None]) -> Callable[..., Found | None]:
            for name in each:
                self.append(Check(code, severity, title, (*needs, name), partial(run, name=name)))
            if not each:
                self.append(Check(code, severity, title, needs, run))
            return run

        return enter


@dataclass(frozen=True)
class Finding:
    """One finding of the doctor, in the user's own labels.

    Attributes:
      code: such as "DW202".
      severity: "error", "warning" or "info".
      title: what kind of thing it is.
      problem: what was expected and found, and where.
      fix: what to do.
      count: how many rows are concerned; 0 where it is not about rows.
      rows: the first few of them, each with row (counting from 0) and, where readable, episode and step.
      all_rows: the numbers of all of them.
    """

    code: str
    severity: Severity
    title: str
    problem: str
    fix: str
    count: int = 0
    rows: tuple[dict[str, Any], ...] = ()
    all_rows: AnyArray = field(default_factory=lambda: NO_ROWS, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        columns = ("code", "severity", "title", "problem", "fix", "count")
        return {name: getattr(self, name) for name in columns} | {"rows": [dict(row) for row in self.rows]}


def show(label: Any) -> str:
    """A label as it may safely stand in a message: quoted if text, control characters escaped, not too long.

    >>> show("a\\nb"), show(3), show(np.float64(0.5))
    ("'a\\\\nb'", '3', '0.5')
    """
    value = plain(label)
    simple = isinstance(value, (str, bytes, int, float, bool)) or value is None
    text = repr(value) if simple else ascii(str(value))
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 4] + "..." + text[-1]


# --- Columns, and how they are matched

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


def _spelt(name: str, header: Sequence[str]) -> str:
    """A column as a table spells it: the name itself or the only one like it but for blanks and capitals."""
    alike = [column for column in header if str(column).strip().casefold() == str(name).strip().casefold()]
    return alike[0] if name not in header and len(alike) == 1 else name


def match_columns(
    header: Sequence[str],
    renames: Mapping[str, str] | None = None,
    required: Sequence[str] = REQUIRED,
    optional: Sequence[str] = OPTIONAL,
    source: str = "the table",
    hint: str = "",
    remedy: str = "",
    text: Collection[str] = (),
) -> dict[str, str]:
    """Our name -> the user's name of every column that is there; `text` are those known to hold text."""
    renames = {ours: _spelt(theirs, header) for ours, theirs in (renames or {}).items()}
    known = (*required, *optional)
    for ours, theirs in renames.items():
        _require_rename(ours, theirs, known, header, source)
    names = {}
    for ours in known:
        candidates = [renames[ours]] if ours in renames else [ours, *ALIASES.get(ours, ())]
        present = [name for name in (_spelt(alias, header) for alias in candidates) if name in header]
        if present:
            names[ours] = present[0]
    missing = [ours for ours in required if ours not in names]
    if missing:
        free = [name for name in header if name not in names.values()]
        meant = f" Did you mean {alike[0]!r}?" if (alike := _alike(missing[0], free)) else ""
        pairs = {**renames, **{ours: _proposal(ours, free, text) for ours in missing}}
        is_policy = {"state", "action"} <= {*names} and {"prob", "probability"} & {*header}
        raise LogProblem(
            "DW105",
            f"{source[0].upper() + source[1:]} needs the columns {', '.join(required)}; missing: "
            f"{', '.join(missing)}." + meant + f" Found: {listed(header)}." + hint,
            fix=remedy
            or _which_is_which(pairs)
            + (NUMBERS if missing == ["state"] else "")
            + (A_POLICY if is_policy else ""),
        )
    return names


def _require_rename(ours: str, theirs: str, known: Sequence[str], header: Sequence[str], source: str) -> None:
    """Refuse a renaming from a name that is not ours, or to a column that is not there."""
    if ours not in known:
        raise LogProblem(
            "DW107",
            f"Columns are renamed as our name = your name; {show(ours)} is not one of ours."
            + ("" if ours in header else did_you_mean(str(ours), known)),
            fix=f"The other way round: {theirs}={ours}."
            if theirs in known and ours in header
            else f"Our names: {', '.join(known)}.",
        )
    if theirs not in header:
        raise LogProblem(
            "DW107",
            f"Column {show(theirs)}, named for {ours}, is not in {source}."
            + did_you_mean(str(theirs), header)
            + f" Found: {listed(header)}.",
            fix=f"Name the column that holds the {ours}.",
        )


def _which_is_which(pairs: Mapping[str, str]) -> str:
    """The remedy that names these columns, ours -> theirs or a proposal."""
    option = ",".join(f"{ours}={theirs}" for ours, theirs in pairs.items())
    python = ", ".join(f"{ours!r}: {theirs!r}" for ours, theirs in pairs.items())
    how = ", each <...> by a name of yours" if "<" in option else ", if these names mean what they seem to"
    return (
        f"Say which of your columns is which{how}: --columns '{option}' (in Python columns={{{python}}}); "
        "add what is not there."
    )


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
    return [by_lower[name] for name in difflib.get_close_matches(ours, list(by_lower), n=1, cutoff=0.82)]


def labels_in(names: Mapping[str, str]) -> list[str]:
    """The user's columns of labels."""
    return [names[ours] for ours in AS_WRITTEN if ours in names]


def listed(header: Sequence[str], most: int = 20) -> str:
    """The first of these names, for messages."""
    return first_few([show(name) for name in header], most) or "no column at all"


# --- Mending

# Ways to write a day and a time that are tried where a step is text, to name the ones that fit.
DAYS = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d"),
    *("%d %b %Y", "%b %d %Y", "%d-%b-%Y"),
)
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p")
FORMATS = (*(day + clock for day in DAYS for clock in CLOCKS), "%H:%M", "%H:%M:%S")
UNIT = "us"
OPEN_EPISODES = ("cut", "drop", "zero")
OpenEpisodes = Literal["cut", "drop", "zero"]


@dataclass(frozen=True)
class Mending:
    """What the user lets us change in a table while it is read, and nothing else.

    Three things in real tables keep a log from being read though somebody knows what they mean: dates written
    in the way of a country, rewards left blank where nothing was earned, and episodes whose outcome nobody
    knows yet. None is guessed. Dates are read as their column comes from its file, blanks where episodes are
    whole (`LogTable`), so that a log that is read in parts is mended like one that is read whole.

    Attributes:
      time_format, fill_reward, open_episodes: as for `deadweight.read`.
      without_behaviour: leave out what the table has of the old policy's probabilities: it comes from
        elsewhere, and whatever is wrong with those columns does not matter.
      anonymous: speak of rows by their numbers alone, not by episodes and steps: episodes may be people, and
        what is said may be passed on.
    """

    time_format: str | None = None
    fill_reward: float | None = None
    open_episodes: OpenEpisodes | None = None
    without_behaviour: bool = False
    anonymous: bool = False

    def __post_init__(self) -> None:
        if self.time_format is not None and "%" not in self.time_format:
            raise OptionError(
                f"A time format says where day, month and hour stand; found {self.time_format!r}.",
                fix="For example --time-format '%d.%m.%Y %H:%M' for 31.12.2025 08:00.",
            )
        if self.fill_reward is not None and not math.isfinite(self.fill_reward):
            raise OptionError(
                f"Blank rewards can be filled with a finite number only; found {self.fill_reward}.",
                fix="For example fill_reward=0 (--fill-reward 0).",
            )
        if self.open_episodes is not None and self.open_episodes not in OPEN_EPISODES:
            raise OptionError(
                f"open_episodes is 'cut', 'drop' or 'zero'; found {self.open_episodes!r}.",
                fix="For example open_episodes='cut': they were cut at their last row.",
            )

    @property
    def of_rewards(self) -> bool:
        """Whether it says what blank rewards are."""
        return self.fill_reward is not None or self.open_episodes is not None

    def kept(self, names: Mapping[str, str]) -> dict[str, str]:
        """Our name -> theirs of the columns that are read."""
        left_out = "behaviour_prob" if self.without_behaviour else None
        return {ours: theirs for ours, theirs in names.items() if ours.partition(":")[0] != left_out}

    def column(self, name: str, column: Any) -> Any:
        """One column by our name, with the dates of steps read."""
        if name == "step" and self.time_format is not None:
            return _times(column, self.time_format)
        return column

    def types(self, types: Mapping[str, Any]) -> dict[str, Any]:
        """The Arrow types that columns have after it, by our names."""
        changed = dict(types)
        if self.time_format is not None and is_text(types["step"]):
            changed["step"] = pa.timestamp(UNIT)
        return changed


NOTHING = Mending()


def fitting_formats(column: Any) -> list[str]:
    """The usual ways to write dates that fit every cell of a column of text."""
    column = decoded(column)
    if not is_text(column.type):
        return []
    text, _ = trimmed(column)
    distinct = text.unique().drop_null()
    return [form for form in FORMATS if len(distinct) and not _parsed(distinct, form).null_count]


def _times(column: Any, form: str) -> Any:
    """A column of text as times; one of another type is left alone."""
    column = decoded(column)
    if not is_text(column.type):
        return column
    text, _ = trimmed(column)
    times = _parsed(text, form)
    wrong = np.flatnonzero(np.asarray(pc.and_(pc.is_null(times), pc.is_valid(text))))
    if wrong.size:
        row = int(wrong[0])
        example = next((f" It could be {form!r}." for form in fitting_formats(column)), "")
        raise LogProblem(
            "DW306",
            f"The time format {form!r} does not fit {show(text[row].as_py())} in row {row:,} "
            f"({wrong.size:,} of {len(text):,} rows do not fit).{example}",
            fix="%d day, %m month, %Y year, %H hour, %M minute, %S second: --time-format '%d.%m.%Y %H:%M' "
            "reads 31.12.2025 08:00.",
        )
    return times


def _parsed(text: Any, form: str) -> Any:
    """The times of a column of text, null where the format does not fit."""
    try:
        return pc.strptime(text, format=form, unit=UNIT, error_is_null=True)
    except pa.ArrowInvalid as error:
        raise OptionError(
            f"{form!r} is not a format of dates: {error}.", fix="For example '%d.%m.%Y %H:%M'."
        ) from None
