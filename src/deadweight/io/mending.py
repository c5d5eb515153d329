"""Mending: what the user lets us change in a table while it is read, and nothing else.

Three things in real tables keep a log from being read though somebody knows what they mean: dates written in
the way of a country, rewards left blank where nothing was earned, and episodes without any reward, whose
outcome nobody knows yet. None is guessed. The user says it once (`time_format=`, `fill_reward=`,
`open_episodes=`). Dates are read as their column comes from its file, blanks where episodes are whole
(`LogTable`), so that a log that is read in parts is mended in the same way as one that is read whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from deadweight.errors import OptionError
from deadweight.io.columns import decoded, is_text, trimmed
from deadweight.io.findings import LogProblem, show

# Ways to write a day and a time that are tried where a step is text, to name the ones that fit.
DAYS = (
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%d %b %Y",
    "%b %d %Y",
    "%d-%b-%Y",
)
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p")
FORMATS = (*(day + clock for day in DAYS for clock in CLOCKS), "%H:%M", "%H:%M:%S")
UNIT = "us"
OPEN_EPISODES = ("cut", "drop", "zero")
OpenEpisodes = Literal["cut", "drop", "zero"]


@dataclass(frozen=True)
class Mending:
    """What may be changed while a table is read.

    Attributes:
      time_format: how the step column writes its dates, as for `strptime`: "%d.%m.%Y %H:%M"; None leaves it.
      fill_reward: the reward of a row whose reward is blank; None refuses such rows.
      open_episodes: what episodes are whose reward is blank in every row: "cut" at their last row, with
        rewards of 0; "drop" leaves them out; "zero" says that they ended and earned nothing. None refuses
        them, unless a flag says that they were cut.
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

    def columns(self, arrow: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
        """Arrow columns by the user's names, mended."""
        ours = {theirs: name for name, theirs in names.items()}
        return {theirs: self.column(ours.get(theirs, ""), column) for theirs, column in arrow.items()}

    def column(self, name: str, column: Any) -> Any:
        """One column by our name, with the dates of steps read."""
        if name == "step" and self.time_format is not None:
            return _times(column, self.time_format)
        return column

    def types(self, types: Mapping[str, Any]) -> dict[str, Any]:
        """The Arrow types that columns have after it, by our names."""
        import pyarrow as pa

        changed = dict(types)
        if self.time_format is not None and is_text(types["step"]):
            changed["step"] = pa.timestamp(UNIT)
        return changed


NOTHING = Mending()


def fitting_formats(column: Any) -> list[str]:
    """The usual ways to write dates that fit every cell of a column of text.

    >>> import pyarrow as pa
    >>> fitting_formats(pa.array(["31.12.2025 08:00", "01.01.2026 09:30"]))
    ['%d.%m.%Y %H:%M']
    """
    column = decoded(column)
    if not is_text(column.type):
        return []
    text, _ = trimmed(column)
    distinct = text.unique().drop_null()
    return [form for form in FORMATS if len(distinct) and not _parsed(distinct, form).null_count]


def _times(column: Any, form: str) -> Any:
    """A column of text as times; one of another type is left alone."""
    import pyarrow.compute as pc

    column = decoded(column)
    if not is_text(column.type):
        return column
    text, _ = trimmed(column)
    times = _parsed(text, form)
    wrong = np.flatnonzero(np.asarray(pc.and_(pc.is_null(times), pc.is_valid(text))))
    if wrong.size:
        row = int(wrong[0])
        example = next((f" It could be {one!r}." for one in fitting_formats(column)), "")
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
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.strptime(text, format=form, unit=UNIT, error_is_null=True)
    except pa.ArrowInvalid as error:
        raise OptionError(
            f"{form!r} is not a format of dates: {error}.", fix="For example '%d.%m.%Y %H:%M'."
        ) from None
