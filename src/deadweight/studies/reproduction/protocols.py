"""Protocols: what the authors' code does, what the equations say, and every step between the two.

A protocol is a set of switches. `published` has them all on, `corrected` all off; `published-D3-D4` leaves
two of them out and `corrected+D1` adds one, so that the effect of each can be seen on its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from deadweight.errors import OptionError, did_you_mean
from deadweight.studies.reproduction.spec import Column, Experiment

DISCREPANCIES: Mapping[str, str] = MappingProxyType(
    {
        "D1": "Lift: every size is scored against the value of size 17.",
        "D2": "Stochastic lift: the reference pays -1, not the bound, for a reversed move into a bound.",
        "D3": "INCRIS and the covariance test weigh Var(X) against the squared covariance, not Var(X) / n.",
        "D4": "INCRIS: no limit on the window in the lift domains; the text says 10 everywhere.",
        "D5": "Inventory: the reward takes next-state for demand probabilities; demand is rounded up for the "
        "reference value and rounded in the episodes, so that they belong to different MDPs.",
        "D6": "The doubly robust model takes the cut at the horizon for termination.",
        "D7": "SDRE: longest episode times a mean reward even where episodes terminate; SSDRE keeps w in "
        "dropped states.",
        "D8": "Thresholds of the Q gap are absolute: 50 in inventory management is above every gap and drops "
        "all states.",
        "D9": "WDRSIS never drops the ratio of the first step.",
        "D10": "An unseen action ends the episode with reward 0; the Q test of taxi has yet another model.",
        "D11": "Taxi: the error is that of the reward a step times the squared horizon.",
        "E1": "INCRIS: episodes that have ended enter with A = B = 1.",
        "E2": "Taxi: the reference value is the mean of sampled returns, not the exact one.",
    }
)
"""D1 to D11 change printed numbers or the way to them; E1 and E2 are lesser conventions of the same kind."""

RELATIVE_EPSILON = 0.05
"""Without D8: the threshold as a share of the range of Q at the last step, over the pairs that were seen.

There Q is the mean reward, so the threshold does not grow with the horizon. The range at the first step
would: for taxi with H = 1000 it is 920, made by states that the fitted model cannot leave, and 5 % of it
drops all steps but 3 in 10,000.
"""

BASES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"published": frozenset(DISCREPANCIES), "corrected": frozenset()}
)


@dataclass(frozen=True)
class Protocol:
    """A base, and the switches that are on.

    Example:
      >>> one = protocol("published-D3")
      >>> one.has("D3"), one.has("D4"), one.name
      (False, True, 'published-D3')
    """

    base: str
    switches: frozenset[str]

    @property
    def name(self) -> str:
        """The base and what was changed, in order."""
        changed = [
            switch for switch in DISCREPANCIES if (switch in self.switches) != (switch in BASES[self.base])
        ]
        sign = "-" if self.base == "published" else "+"
        return "".join([self.base, *(sign + switch for switch in changed)])

    def has(self, switch: str) -> bool:
        """Whether a quirk is repeated."""
        return switch in self.switches

    @property
    def with_extras(self) -> bool:
        """Whether estimators that the paper left out are made as well."""
        return self.base == "corrected"

    def options(self, experiment: Experiment) -> dict[str, Any]:
        """Options of `deadweight.evaluate`."""
        return {
            "window": None if self.has("D4") and experiment.lift else 10,
            "variance": "sample" if self.has("D3") else "estimator",
            "ended_ratios": "one" if self.has("E1") else "absorb",
            "mode": "published" if self.has("D7") else None,
            "drop_first": not self.has("D9"),
            "unseen": "terminate" if self.has("D10") else "pool",
            "solve": "longest",
        }


PUBLISHED = Protocol("published", BASES["published"])
CORRECTED = Protocol("corrected", BASES["corrected"])


def protocol(name: str) -> Protocol:
    """The protocol of a name such as "published", "corrected", "published-D3" or "corrected+D1+D2"."""
    base, *changes = re.split(r"(?=[+-])", name)
    if base not in BASES:
        raise OptionError(
            f"There is no protocol {name!r}.{did_you_mean(base, BASES)}",
            fix="Use published or corrected, or change switches one by one: published-D3, corrected+D1+D2.",
        )
    switches = set(BASES[base])
    for change in changes:
        sign, switch = change[0], change[1:]
        if switch not in DISCREPANCIES:
            raise OptionError(
                f"There is no discrepancy {switch!r}.", fix=f"They are: {', '.join(DISCREPANCIES)}."
            )
        (switches.add if sign == "+" else switches.discard)(switch)
    return Protocol(base, frozenset(switches))


def touching(experiment: Experiment, column: Column) -> tuple[str, ...]:
    """The discrepancies that bear on a column: what a difference to the paper may come from."""
    name, found = column.estimator, []
    if experiment.name == "stochastic-lift":
        found += ["D1", "D2"]
    if "INCRIS" in name:
        found += ["D3", "E1", *(["D4"] if experiment.lift else [])]
    if column.rule == "covariance":
        found += ["D3"]
    if experiment.name == "inventory":
        found += ["D5"]
    if experiment.name == "taxi":
        found += ["E2"]
    if "SDRE" in name:
        found += ["D7"]
    if column.rule == "q":
        found += ["D8"]
    if "DR" in name and "SDRE" not in name:
        found += [*(["D9"] if "SIS" in name else []), "D10", *([] if experiment.lift else ["D6"])]
    if column.rule == "q" and experiment.name == "taxi":
        found += ["D10"]
    return tuple(switch for switch in DISCREPANCIES if switch in found)
