"""What has labels of states and actions, and so a number of each."""

from __future__ import annotations

from deadweight.typing import Labels


class Labelled:
    """Labels in the order of their indices. Integer labels may leave gaps: then some occur nowhere."""

    state_labels: Labels
    action_labels: Labels

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_labels)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.action_labels)
