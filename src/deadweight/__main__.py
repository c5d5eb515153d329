"""`python -m deadweight`: the same as the command."""

from __future__ import annotations

from deadweight.cli import main

if __name__ == "__main__":
    main()
