"""Text that is safe on a terminal: what a log, a policy or a file is called may hold anything.

A label with an escape sequence could move the cursor, colour the screen or plant a link; one with a
bidirectional control could show a word that is not there. Every command prints through `printable`.
"""

from __future__ import annotations

import re

# Neither letters, marks, digits, signs nor plain spaces: what `str.isprintable` refuses, found quickly.
MAYBE_NOT_PRINTABLE = re.compile(r"[^ -~]")


def printable(text: str, keep: str = "\n") -> str:
    r"""The text with every character that is not printable shown as an escape, except those in `keep`.

    >>> print(printable("ward\x1b]8;;http://x\x07 \u202egnp.exe\u2028"))
    ward\x1b]8;;http://x\x07 \u202egnp.exe\u2028
    >>> printable("Größe 4\n")
    'Größe 4\n'
    """
    return MAYBE_NOT_PRINTABLE.sub(lambda found: _shown(found[0], keep), text)


def _shown(character: str, keep: str) -> str:
    if character in keep or character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
