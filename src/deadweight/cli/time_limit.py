"""The option `--time-limit`, and the line on stderr that says what was taken for granted without it."""

from __future__ import annotations

from deadweight.cli.output import say
from deadweight.errors import OptionError
from deadweight.sums.ends import TimeLimit


def parse_time_limit(text: str) -> TimeLimit:
    """What `--time-limit` says.

    >>> parse_time_limit("200"), parse_time_limit("none"), parse_time_limit("infer")
    (200, None, 'infer')
    """
    word = text.strip().lower()
    if word == "infer":
        return "infer"
    if word == "none":
        return None
    if not (word.isdecimal() and word.isascii() and int(word) >= 1):
        raise OptionError(
            f"--time-limit takes a number of steps, none or infer; found {text!r}.",
            fix="For example --time-limit 200 if episodes of 200 steps were cut, or --time-limit none.",
        )
    return int(word)


def assume(assumption: str) -> None:
    """Say what was taken for granted."""
    say(f"Assumption: {assumption}")
