"""Other libraries' worlds: Gymnasium environments from our domains, and exact MDPs from theirs."""

from __future__ import annotations

from deadweight.integrations.gymnasium_tables import mdp_from_gymnasium
from deadweight.integrations.registration import register

__all__ = ["mdp_from_gymnasium", "register"]
