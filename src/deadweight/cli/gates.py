"""Gates: an exit code for pipelines that go on only if the answer is the one they ask for.

What opens a gate is the command's own matter; what a gate says and returns is here.
"""

from __future__ import annotations

from typing import Any

GATE_CLOSED = 1


def gate_words(gate: str, opens: bool, least: float = 0.0) -> str:
    """What a gate does, for whoever reads the log of a pipeline.

    >>> gate_words("better", False, 0.5)
    'Gate better, by more than 0.5: closed, exit code 1.'
    """
    by = {"better": "by more than", "worse": "by more than", "not-worse": "by no more than"}.get(gate)
    asked = f"{gate}, {by} {least:g}" if least and by else gate
    return f"Gate {asked}: " + ("open, exit code 0." if opens else f"closed, exit code {GATE_CLOSED}.")


def gate_entry(gate: str | None, opens: bool) -> dict[str, Any]:
    """What the JSON document says of a gate: nothing where none was asked for."""
    return {} if gate is None else {"gate": {"asked": gate, "open": opens}}
