"""Variations of an instance that people ask about: other demands, floors, GPUs or TP degrees on the same measurements."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from fleetsieve.errors import UsageError
from fleetsieve.files.faults import close_match
from fleetsieve.files.spelling import respelled
from fleetsieve.files.toml_schema import MAX_GPUS
from fleetsieve.instance import MAX_DEMAND_RPS, Instance, WorkloadClass


def with_demand_scale(instance: Instance, scale: float) -> Instance:
    """The instance with every demand times `scale` >= 0; floors are rates and stay.

    Raises:
        UsageError: when the factor is no finite number >= 0, or a demand gets above `MAX_DEMAND_RPS`.
    """
    if not 0.0 <= scale < math.inf:
        raise UsageError(f"the demand scale is {scale}, not a finite number >= 0")
    classes = tuple(replace(c, demand_rps=c.demand_rps * scale) for c in instance.classes)
    scaled = replace(instance, classes=classes)
    for c in scaled.classes:
        if c.demand_rps > MAX_DEMAND_RPS:
            scaled_by = f" after scaling by {scale:g}" if scale != 1.0 else ""
            raise UsageError(
                f"the demand of {c.name} is {c.demand_rps:g} requests/s{scaled_by}, above {MAX_DEMAND_RPS:g}"
            )
    return scaled


def largest_demand_scale(instance: Instance) -> float:
    """The factor up to which all demands may be scaled together; inf where none is above 0."""
    largest_rps = max((c.demand_rps for c in instance.classes), default=0.0)
    return MAX_DEMAND_RPS / largest_rps if largest_rps > 0.0 else math.inf


def with_gpus(instance: Instance, gpus: int) -> Instance:
    """The instance on a fleet of `gpus` >= 1 GPUs.

    Raises:
        UsageError: when the fleet has several pools, or `gpus` is not in 1 to `MAX_GPUS`, as in a file.
    """
    pools = instance.fleet.pools
    if gpus < 1:
        raise UsageError(f"the number of GPUs is {gpus}, not at least 1")
    if gpus > MAX_GPUS:
        raise UsageError(f"the number of GPUs is {gpus}, above {MAX_GPUS}")
    if len(pools) != 1:
        raise UsageError(
            f"only a fleet of one pool can be given a number of GPUs; {instance.name} has {', '.join(p.name for p in pools)}"
        )
    return replace(instance, fleet=replace(instance.fleet, pools=(replace(pools[0], gpus=gpus),)))


def with_only_tp(instance: Instance, degrees: Collection[int]) -> Instance:
    """The instance with every cell of another tensor-parallel degree excluded.

    Raises:
        UsageError: when no cell has one of the degrees; those that there are are named.
    """
    known = sorted({cell.key.tp for cell in instance.cells})
    for tp in degrees:
        if tp not in known:
            raise UsageError(f"no cell has the TP degree {tp}", f"there are {', '.join(map(str, known))}")
    cells = tuple(replace(cell, excluded=cell.excluded or cell.key.tp not in degrees) for cell in instance.cells)
    return replace(instance, cells=cells)


def with_only_variant(instance: Instance, variants: Collection[str]) -> Instance:
    """The instance with every cell of another engine variant excluded ("default" is the one without a name).

    Raises:
        UsageError: when no cell has one of the variants; those that there are are named.
    """
    known = sorted({cell.key.variant for cell in instance.cells})
    for name in variants:
        if name not in known:
            raise UsageError(f"no cell has the variant {name!r}", f"there are {', '.join(known)}")
    cells = tuple(replace(cell, excluded=cell.excluded or cell.key.variant not in variants) for cell in instance.cells)
    return replace(instance, cells=cells)


def with_demands(instance: Instance, demand_rps: Mapping[str, float]) -> Instance:
    """The instance with the demand of some classes (requests/s >= 0) replaced."""
    return _replaced(instance, "demand", {name: {"demand_rps": value} for name, value in demand_rps.items()})


def with_floors(instance: Instance, floor_rps: Mapping[str, float]) -> Instance:
    """The instance with the floor of some classes (requests/s >= 0) replaced: they become critical."""
    return _replaced(instance, "floor", {name: {"floor_rps": value} for name, value in floor_rps.items()})


def _replaced(instance: Instance, what: str, changes: Mapping[str, Mapping[str, float]]) -> Instance:
    names = [c.name for c in instance.classes]
    changes = dict(zip(respelled(list(changes), names), changes.values(), strict=True))
    for name, change in changes.items():
        if name not in names:
            raise UsageError(
                f"a {what} is given for {name!r}, which is not a class{close_match(name, names)}",
                f"there are {', '.join(names)}",
            )
        for value in change.values():
            if not (math.isfinite(value) and value >= 0.0):
                raise UsageError(f"the {what} of {name} is {value}, not a finite number >= 0")
    changed: list[WorkloadClass] = [
        replace(c, demand_rps=change.get("demand_rps", c.demand_rps), floor_rps=change.get("floor_rps", c.floor_rps))
        for c in instance.classes
        for change in [changes.get(c.name, {})]
    ]
    return replace(instance, classes=tuple(changed))
