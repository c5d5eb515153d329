"""The command `deadweight`: one file a command, wired together in `app`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line: a user's mistake is one message and exit code 2, never a traceback."""
    from deadweight.cli.app import app
    from deadweight.errors import DeadweightError

    try:
        app()
    except DeadweightError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of a pipe has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
