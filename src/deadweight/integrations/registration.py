"""Names under which Gymnasium knows the domains: `gymnasium.make("deadweight/StochasticLift-v0", size=11)`.

Gymnasium finds environments of a package that has been imported; importing deadweight must not import
Gymnasium, which most users never need. So the names are registered at once if Gymnasium is there, and
otherwise at the moment when it is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
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


class _WhenImported(MetaPathFinder):
    """Waits for the import of Gymnasium, registers the domains after it, and is gone."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Pass every import on; wrap the one of Gymnasium."""
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_then_register(module: Any) -> None:
                run(module)
                register()

            spec.loader.exec_module = run_then_register  # type: ignore[method-assign]
        return spec


def register_when_imported() -> None:
    """Register now if Gymnasium has been imported, else as soon as it is."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())
