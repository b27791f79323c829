"""Named assumptions about unmeasured cells: one file each, one protocol, one audit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fleetsieve.bounds.assumptions.capacity_monotone import CapacityMonotone
from fleetsieve.bounds.assumptions.capacity_star import CapacityStar
from fleetsieve.bounds.assumptions.ceiling import Ceiling
from fleetsieve.bounds.assumptions.interior_knee import InteriorKnee
from fleetsieve.bounds.assumptions.memory_monotone import MemoryMonotone
from fleetsieve.bounds.assumptions.offered_ceiling import OfferedCeiling
from fleetsieve.bounds.assumptions.protocol import CAPACITY, MEMORY, Assumption, ClassView, Contradiction, Limit
from fleetsieve.bounds.assumptions.roofline import Roofline
from fleetsieve.bounds.assumptions.tail_monotone import TailMonotone
from fleetsieve.bounds.assumptions.tail_monotone_tp import TailMonotoneTp
from fleetsieve.errors import UsageError
from fleetsieve.extensions import ASSUMPTION, installed, is_outside, load, origin_of, settings_of
from fleetsieve.instance import TAIL_METRICS, Instance

__all__ = [
    "CAPACITY",
    "DEFAULTS",
    "MEMORY",
    "SETTINGS",
    "Assumption",
    "ClassView",
    "Contradiction",
    "Limit",
    "assumptions_of",
    "settings_taken",
    "statement",
]

Settings = Mapping[str, float | bool]


def _tail_monotone(settings: Settings) -> Assumption:
    slack = {m: float(settings.get(f"slack_{m}", settings.get("slack", d))) for m, d in TailMonotone().slack.items()}
    return TailMonotone(slack)


_BUILDERS: Mapping[str, tuple[bool, tuple[str, ...], Callable[[Settings], Assumption]]] = {
    "offered_ceiling": (True, (), lambda s: OfferedCeiling()),
    "tail_monotone": (True, ("slack", *(f"slack_{m}" for m in TAIL_METRICS)), _tail_monotone),
    "capacity_monotone": (True, ("slack",), lambda s: CapacityMonotone(float(s.get("slack", 0.02)))),
    "capacity_star": (True, ("slack",), lambda s: CapacityStar(float(s.get("slack", 0.05)))),
    "memory_monotone": (True, (), lambda s: MemoryMonotone()),
    "roofline": (True, (), lambda s: Roofline()),
    "ceiling": (False, ("factor",), lambda s: Ceiling(float(s.get("factor", 1.5)))),
    "interior_knee": (False, ("k",), lambda s: InteriorKnee(float(s.get("k", 2.0)))),
    "tail_monotone_tp": (False, ("slack",), lambda s: TailMonotoneTp(float(s.get("slack", 0.05)))),
}

DEFAULTS: Mapping[str, bool] = {name: on for name, (on, _, _) in _BUILDERS.items()}
"""Every known assumption, and whether it is on by default."""

SETTINGS: Mapping[str, tuple[str, ...]] = {name: settings for name, (_, settings, _) in _BUILDERS.items()}
"""The numbers that each assumption takes beside `enabled`."""


def settings_taken(name: str) -> tuple[str, ...]:
    """The numbers that the assumption `name` takes beside `enabled`: a bundled one, one of a package, or `module:Class`.

    Raises:
        UsageError: when there is none, which names those that are known, or when it cannot be imported.
    """
    if name in SETTINGS:
        return SETTINGS[name]
    if not is_outside(ASSUMPTION, name):
        known = ", ".join((*_BUILDERS, *installed(ASSUMPTION)))
        raise UsageError(f"unknown assumption {name!r}", f"known: {known}; or module:Class for one of your own")
    return settings_of(ASSUMPTION, name)


def assumptions_of(instance: Instance) -> tuple[Assumption, ...]:
    """The assumptions that an instance switches on, in the fixed order of DEFAULTS, then those from outside by name.

    Raises:
        UsageError: for a name, or a setting of a name, that is not known; the message lists the known ones. For one from outside
            that cannot be loaded, or has the name of another.
    """
    for name, settings in instance.assumptions.items():
        known = ("enabled", *settings_taken(name))
        for key in settings:
            if key not in known:
                raise UsageError(f"unknown setting {key!r} of assumption {name}", f"known: {', '.join(known)}")
    chosen = []
    for name, (default, _, build) in _BUILDERS.items():
        settings = instance.assumptions.get(name, {})
        if settings.get("enabled", default if not settings else True):
            chosen.append(build(settings))
    for name in sorted(set(instance.assumptions) - set(_BUILDERS)):
        settings = instance.assumptions[name]
        if settings.get("enabled", True):
            chosen.append(_from_outside(name, settings, {*_BUILDERS, *(other.name for other in chosen)}))
    return tuple(chosen)


def _from_outside(name: str, settings: Settings, taken: Collection[str]) -> Assumption:
    numbers = {key: float(value) for key, value in settings.items() if key != "enabled"}
    made: Assumption = load(ASSUMPTION, name, **numbers)
    if made.name in taken:
        raise UsageError(
            f"assumption {name!r} calls itself {made.name!r}, as another does", "give it a name of its own"
        )
    return made


def statement(assumption: Assumption) -> str:
    """What is assumed, in one sentence for a certificate; one from outside with where it comes from."""
    origin = origin_of(assumption)
    return assumption.describe() + (f" (from outside FleetSieve: {origin})" if origin else "")
