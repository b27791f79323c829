"""Decision rules without a certificate, which a certified decision is compared with.

`capacity-only` looks at capacities alone. `sparse` takes each class alone: one probe per TP in the middle of its ladder, then the
TP with the most SLO-feasible requests/s per GPU, and as many replicas as the fleet decision gives it. The paper defines neither;
this is our reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleetsieve.allocation import Engine
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.brief import brief
from fleetsieve.instance import Cell, CellKey, Instance, Measurement, Slo
from fleetsieve.loop.cost import grid_cost_gpu_s


@dataclass(frozen=True)
class Decided:
    """A rule's plan as replicas per cell, the cells that it looked at, and what these cost in GPU-seconds."""

    replicas: Mapping[CellKey, int]
    looked: tuple[CellKey, ...]
    cost_gpu_s: float

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class DecisionRule:
    """A named rule: `decide(instance, rows, engine)` takes the whole table and looks at what it wants of it."""

    name: str
    decide: Callable[[Instance, Sequence[Measurement], Engine], Decided]


def capacity_only(instance: Instance, rows: Sequence[Measurement], engine: Engine) -> Decided:
    """The optimal plan of the whole table with every SLO dropped."""
    blind = replace(instance, classes=tuple(replace(c, slo=Slo()) for c in instance.classes))
    keys = {row.key for row in rows}
    looked = [cell for cell in instance.cells if cell.key in keys and not cell.excluded]
    return _decided(blind, rows, looked, engine)


def sparse(instance: Instance, rows: Sequence[Measurement], engine: Engine) -> Decided:
    """One probe per arm, in the middle of what can be probed of it; each class keeps the TP that is best alone."""
    table = {row.key: row for row in rows}
    probes, kept = [], []
    for workload in instance.classes:
        ladders = (cells for arm, cells in instance.arms.items() if arm.class_name == workload.name)
        open_to = ([cell for cell in cells if cell.key in table and not cell.excluded] for cells in ladders)
        middles = [_middle(cells) for cells in open_to if cells]
        probes += middles
        envelope = Envelope.of(instance, [table[cell.key] for cell in middles])
        usable = [cell for cell in middles if envelope[cell.key].committable]
        if usable:
            kept.append(max(usable, key=lambda cell: (envelope[cell.key].capacity_rps.lo / cell.gpus, -cell.key.tp)))
    return _decided(instance, [table[cell.key] for cell in kept], probes, engine)


def _middle(cells: Sequence[Cell]) -> Cell:
    return cells[(len(cells) - 1) // 2]


def _decided(instance: Instance, rows: Iterable[Measurement], looked: Sequence[Cell], engine: Engine) -> Decided:
    envelope = Envelope.of(instance, rows)
    plan = engine.optimise(envelope.conservative, eta=instance.certificate.fairness_slack).allocation
    chosen = {
        key: n for key, n in (plan.replica_counts if plan is not None else {}).items() if isinstance(key, CellKey)
    }
    keys = tuple(cell.key for cell in looked)
    return Decided(chosen, keys, grid_cost_gpu_s(instance, looked))


RULES: Mapping[str, DecisionRule] = {
    rule.name: rule for rule in (DecisionRule("capacity-only", capacity_only), DecisionRule("sparse", sparse))
}
"""Every rule under its name."""
