"""The domains as Gymnasium environments: importing this module registers them.

    gymnasium.make("deadweight.envs:deadweight/StochasticLift-v0", size=11)

imports it by itself. It needs the extra `gymnasium`.
"""

from __future__ import annotations

from deadweight.mdp.gymnasium_worlds import ENVIRONMENTS, register

register()


__all__ = ["ENVIRONMENTS", "register"]
