"""Gates: an exit code for pipelines that go on only if the answer is the one they ask for.

What opens a gate is the command's own matter; what a gate says and returns is here. A gate that is closed
since there is no answer has an exit code of its own: more episodes, or a sound log, may open it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GATE_CLOSED = 1
NO_ANSWER = 4


@dataclass(frozen=True)
class Gate:
    """A gate with the answer that it was asked about.

    Attributes:
      asked: what it asks for; None where there is no gate, which is open.
      is_open: whether the answer is that.
      answer: "better", "worse" or "cannot tell".
      doubts: flags that keep it closed.
    """

    asked: str | None
    is_open: bool
    answer: str
    doubts: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 where it is open, 4 where it is closed since nobody can tell, 1 where the answer is another."""
        if self.is_open:
            return 0
        return NO_ANSWER if self.answer == "cannot tell" else GATE_CLOSED

    def words(self, least: float = 0.0) -> str:
        """What the gate does, for whoever reads the log of a pipeline; nothing where there is none.

        >>> Gate("better", False, "worse").words(0.5)
        'Gate better, by more than 0.5: closed, exit code 1.'
        """
        if self.asked is None:
            return ""
        by = {"better": "by more than", "worse": "by more than", "not-worse": "by no more than"}
        asked = f"{self.asked}, {by[self.asked]} {least:g}" if least and self.asked in by else self.asked
        doubt = f", because of {', '.join(self.doubts)}" if self.doubts and not self.is_open else ""
        return f"Gate {asked}: {'open' if self.is_open else 'closed'}{doubt}, exit code {self.exit_code}."

    @property
    def entry(self) -> dict[str, Any]:
        """What the JSON document says of it: nothing where none was asked for."""
        return {} if self.asked is None else {"gate": {"asked": self.asked, "open": self.is_open}}
