"""The command `deadweight`: one file a command, wired together in `app`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main() -> None:
    """Run the command line and exit with its code; see `run`. A signal that stops it ends the process."""
    from deadweight.cli.failures import ended_by_signals

    sys.exit(ended_by_signals(lambda: run(sys.argv[1:])))


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code.

    0: done; 1: the doctor found errors, or a gate is closed; 2: bad usage or input, one message; 3: a defect
    of deadweight. Whatever happens there is no traceback.
    """
    from deadweight.cli.failures import failed, refuse
    from deadweight.cli.output import outlets, program
    from deadweight.errors import OutputError

    as_json = "--json" in arguments
    with outlets() as output:
        try:
            from deadweight.cli.app import app

            _refuse_unwritable(arguments)
            # Never in its own mode: typer would exit with 1 on an interrupt, or when a pipe is closed.
            found = app(list(arguments), prog_name=program(), standalone_mode=False)
            code = found if isinstance(found, int) else 0
        except BaseException as error:
            code = failed(error, as_json)
        output.flush()
        if output.is_full:
            reason = output.problem.strerror if output.problem else ""
            lost = OutputError(
                f"Standard output could not be written: {reason}.", fix="Make room, or write elsewhere."
            )
            code = refuse(lost, as_json=False)
    return code


def _refuse_unwritable(arguments: Sequence[str]) -> None:
    """Refuse characters that no file name and no label can have: half of a surrogate pair."""
    from deadweight.errors import OptionError

    for argument in arguments:
        try:
            os.fsencode(argument)
        except UnicodeEncodeError:
            raise OptionError(
                f"An argument has a character that cannot be written: {argument!r}.", fix="Type it anew."
            ) from None
