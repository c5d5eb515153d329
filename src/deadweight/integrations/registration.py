"""Names under which Gymnasium knows the domains, such as "deadweight/StochasticLift-v0".

Gymnasium knows an environment once it has been registered, and importing deadweight must not import
Gymnasium, which most users never need. So `import deadweight.envs` registers the names; Gymnasium does that
import itself where a name says so: `gymnasium.make("deadweight.envs:deadweight/StochasticLift-v0", size=11)`.
"""

from __future__ import annotations

from typing import Any

from deadweight.errors import MissingExtra

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "deadweight/DeterministicLift-v0": {"domain": "deterministic_lift", "size": 17},
    "deadweight/StochasticLift-v0": {"domain": "stochastic_lift", "size": 11},
    "deadweight/Inventory-v0": {"domain": "inventory"},
    "deadweight/Taxi-v0": {"domain": "taxi"},
}


def register() -> None:
    """Make the domains known to Gymnasium; doing so twice changes nothing."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra("Registering environments", "gymnasium") from None
    for name, options in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name, entry_point="deadweight.integrations.gymnasium_envs:DomainEnv", kwargs=options
            )
