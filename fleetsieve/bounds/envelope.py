"""Bounds of every cell: what was measured, and what the named assumptions imply for the rest.

The envelope is the uncertainty set of the certificate. Each class is enveloped on its own (no assumption looks across classes),
so one new measurement, real or simulated, renews one class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from fleetsieve_models.problem import NOTHING, ClassDemand, Configuration, FleetProblem, GpuPool

from fleetsieve.bounds.assumptions import Assumption, ClassView, Contradiction, assumptions_of
from fleetsieve.bounds.cell_bounds import CellBounds, End, implied
from fleetsieve.bounds.statistics import KnownCell, Rules, rows_that_count, summarise_all
from fleetsieve.brief import counted, summary
from fleetsieve.instance import (
    ArmKey,
    Cell,
    CellKey,
    Instance,
    Measurement,
    Pool,
    WorkloadClass,
)
from fleetsieve.interval import Interval


@dataclass(frozen=True)
class ClassEnvelope:
    """The bounds of one class's cells, the assumptions that its data contradict, and why memory is too small for which cells."""

    view: ClassView
    bounds: Mapping[CellKey, CellBounds]
    contradictions: tuple[Contradiction, ...]
    beyond_memory: Mapping[CellKey, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ClassEnvelope of {self.sentence}"

    @property
    def sentence(self) -> str:
        """How many cells there are, and what is known of them: "chat: 12 cells, 3 measured, 2 to commit, 8 possible"."""
        found = self.bounds.values()
        counts = {"measured": sum(b.measured for b in found), "to commit": sum(b.committable for b in found)}
        counts["possible"] = sum(b.possible for b in found)
        shown = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        return f"{self.view.workload.name}: {counted(len(self.bounds), 'cell')}, {shown}"

    @cached_property
    def servable(self) -> bool:
        """Whether some cell that fits its pool may serve requests under the upper bounds."""
        return any(b.possible and self._serves(b, b.capacity_rps.hi) for b in self.bounds.values())

    @property
    def too_wide(self) -> bool:
        """Whether it is for want of GPUs on a node, or in the pool, that no cell can serve it."""
        return not self.servable and any(b.possible and b.capacity_rps.hi > 0.0 for b in self.bounds.values())

    @cached_property
    def committed_choice(self) -> bool:
        """Whether some measured cell can be committed and serves requests."""
        return any(b.committable and self._serves(b, b.capacity_rps.lo) for b in self.bounds.values())

    @cached_property
    def open(self) -> bool:
        """Whether the class demands something, may be servable, and has no cell that can be committed yet."""
        return self.view.workload.demand_rps > 0.0 and self.servable and not self.committed_choice

    def _serves(self, b: CellBounds, capacity_rps: float) -> bool:
        enough = capacity_rps > NOTHING * self.view.workload.demand_rps
        return enough and fits(b.cell, self.view.pools[b.cell.key.pool])

    @cached_property
    def closed(self) -> Mapping[CellKey, str]:
        """Cells that failures close for the upper bounds too, and why."""
        why = dict(self.beyond_memory)
        for key, known in self.view.known.items():
            if known.impossible:
                why[key] = "out of memory twice" if known.out_of_memory else "its server failed to start"
        return {key: why[key] for key in sorted(why)}


def fits(cell: Cell, pool: Pool) -> bool:
    """Whether one replica of the cell fits one node of the pool (or the pool, without nodes)."""
    return cell.gpus <= min(pool.gpus, pool.gpus_per_node or pool.gpus)


@dataclass(frozen=True)
class Envelope:
    """The bounds of every cell of an instance, and the two fleet problems at their ends."""

    instance: Instance
    classes: Mapping[str, ClassEnvelope]
    assumptions: tuple[Assumption, ...] = field(default=())

    def __repr__(self) -> str:
        return summary(
            f"Envelope of {self.instance.name}", [class_envelope.sentence for class_envelope in self.classes.values()]
        )

    @classmethod
    def of(cls, instance: Instance, measurements: Iterable[Measurement] = ()) -> Envelope:
        """The envelope of an instance given its measured rows (any order of cells; measurements of one cell in order).

        Raises:
            UsageError: for an assumption or a setting that is not known, or an assumption that bounds no quantity of a cell.
        """
        rows = rows_that_count(instance, measurements)
        rules = Rules.of(instance, rows)
        known = summarise_all(instance.cell_by_key, rows, rules, {c.name: c.slo for c in instance.classes})
        assumptions = assumptions_of(instance)
        pools = {pool.name: pool for pool in instance.fleet.pools}
        classes = {}
        for workload in instance.classes:
            arms = {arm: cells for arm, cells in instance.arms.items() if arm.class_name == workload.name}
            class_known = {key: k for key, k in known.items() if key.class_name == workload.name}
            view = ClassView(workload, arms, class_known, instance.facts, pools, rules)
            classes[workload.name] = envelop(view, assumptions)
        return cls(instance, classes, assumptions)

    def with_known(self, known: KnownCell) -> Envelope:
        """The envelope if `known` were what is known of its cell; only that cell's class is renewed."""
        class_envelope = self.classes[known.key.class_name]
        view = replace(class_envelope.view, known={**class_envelope.view.known, known.key: known})
        arm = self.instance.cell_by_key[known.key].arm
        renewed = (
            envelop(view, self.assumptions)
            if self.across_arms
            else _with_arm(class_envelope, view, arm, self.assumptions)
        )
        return replace(self, classes={**self.classes, known.key.class_name: renewed})

    def ends_with(self, known: KnownCell) -> list[End]:
        """The ends of the arm of a cell if `known` were what is known of it: all that `with_known` renews, where no assumption
        looks across arms.
        """
        view = _alone(self.classes[known.key.class_name].view, self.instance.cell_by_key[known.key].arm)
        view = replace(view, known={**view.known, known.key: known})
        (arm,) = view.arms
        return implied(view, self.assumptions).ends(view, arm)

    def assuming(self, assumptions: tuple[Assumption, ...]) -> Envelope:
        """The envelope of the same data under other assumptions."""
        classes = {name: envelop(class_envelope.view, assumptions) for name, class_envelope in self.classes.items()}
        return replace(self, classes=classes, assumptions=assumptions)

    def hoped(self, keys: Collection[CellKey]) -> Envelope:
        """The envelope if each of these cells met its SLO and had its upper capacity (cut at what its class demands)."""

        def best(class_envelope: ClassEnvelope, b: CellBounds) -> CellBounds:
            enough = class_envelope.view.workload.demand_rps / self.instance.fleet.max_utilisation
            return replace(b, committable=True, capacity_rps=Interval.point(min(b.capacity_rps.hi, enough)))

        return self._supposing(keys, best)

    def without(self, keys: Collection[CellKey]) -> Envelope:
        """The envelope if none of these cells could be used, except those that can be committed already."""
        return self._supposing(keys, lambda _, b: b if b.committable else replace(b, possible=False))

    def _supposing(
        self, keys: Collection[CellKey], change: Callable[[ClassEnvelope, CellBounds], CellBounds]
    ) -> Envelope:
        classes = {
            name: replace(
                class_envelope,
                bounds={
                    key: change(class_envelope, b) if key in keys else b for key, b in class_envelope.bounds.items()
                },
            )
            for name, class_envelope in self.classes.items()
        }
        return replace(self, classes=classes)

    @cached_property
    def across_arms(self) -> bool:
        """Whether an assumption lets one arm show something about another."""
        return any(a.across_arms for a in self.assumptions)

    def __getitem__(self, key: CellKey) -> CellBounds:
        return self.classes[key.class_name].bounds[key]

    @property
    def rules(self) -> Rules:
        """What the intervals of all cells were derived by."""
        return next((class_envelope.view.rules for class_envelope in self.classes.values()), Rules())

    @cached_property
    def unservable(self) -> tuple[str, ...]:
        """Classes with a demand that no cell can serve even under the upper bounds, in the order of the classes."""
        return tuple(c.name for c in self.instance.classes if c.demand_rps > 0.0 and not self.classes[c.name].servable)

    @cached_property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """Every contradiction found, class by class."""
        return tuple(c for class_envelope in self.classes.values() for c in class_envelope.contradictions)

    @cached_property
    def in_force(self) -> tuple[Assumption, ...]:
        """The assumptions that bound at least one cell."""
        used = {
            name
            for class_envelope in self.classes.values()
            for b in class_envelope.bounds.values()
            for name in b.origins.values()
        }
        return tuple(a for a in self.assumptions if a.name in used)

    @cached_property
    def conservative(self) -> FleetProblem:
        """θ-: lower capacities of the cells that can be committed."""
        return self._problem(lower=True)

    @cached_property
    def optimistic(self) -> FleetProblem:
        """θ+: upper capacities, cut at the class's demand, of the cells that are possible."""
        return self._problem(lower=False)

    def _problem(self, *, lower: bool) -> FleetProblem:
        demands = tuple(class_demand(self.classes[c.name]) for c in self.instance.classes)
        pools = tuple(
            GpuPool(p.name, p.gpus, p.gpus_per_node, p.price_per_gpu_h or 0.0) for p in self.instance.fleet.pools
        )
        configurations = [
            q for c in demands for q in class_configurations(self.instance, self.classes[c.name], lower=lower)
        ]
        return FleetProblem(demands, tuple(configurations), pools)


def class_demand(class_envelope: ClassEnvelope) -> ClassDemand:
    """What a class asks of the fleet."""
    return demand_of(class_envelope.view.workload, servable=class_envelope.servable)


def demand_of(c: WorkloadClass, *, servable: bool) -> ClassDemand:
    """What a class asks of the fleet; an unservable one is out of the minimum."""
    return ClassDemand(c.name, c.demand_rps, c.priority, c.floor_fulfilment, c.demand_rps <= 0.0 or servable)


def class_configurations(instance: Instance, class_envelope: ClassEnvelope, *, lower: bool) -> list[Configuration]:
    """The usable configurations of one class under its lower or upper bounds, in the fixed order of names.

    In the upper realisation a capacity is min(c, λ): exact for fulfilment and goodput, and no infinity reaches a model.
    """
    utilisation, demand = instance.fleet.max_utilisation, class_envelope.view.workload.demand_rps
    configurations = []
    for key in sorted(class_envelope.bounds):
        b = class_envelope.bounds[key]
        if b.committable if lower else b.possible:
            end = b.capacity_rps.lo if lower else b.capacity_rps.hi
            capacity = end * utilisation if lower else min(end * utilisation, demand)
            configurations.append(Configuration(key, key.class_name, b.cell.gpus, capacity, key.pool))
    return configurations


def envelop(view: ClassView, assumptions: Iterable[Assumption]) -> ClassEnvelope:
    """The bounds of one class: measured intervals, and for the rest the tightest that the assumptions allow.

    An assumption that measured data contradict is dropped for the arm and quantity concerned.
    """
    found = implied(view, assumptions)
    bounds = {cell.key: found.bounds(view, cell) for cells in view.arms.values() for cell in cells}
    return ClassEnvelope(view, bounds, found.contradictions, {key: why for key, (_, why) in found.exhausted.items()})


def _with_arm(
    class_envelope: ClassEnvelope, view: ClassView, arm: ArmKey, assumptions: Iterable[Assumption]
) -> ClassEnvelope:
    """`envelop(view)` where `view` differs from that of `class_envelope` in one arm only, and no assumption looks across arms."""
    renewed = envelop(_alone(view, arm), assumptions)
    return ClassEnvelope(
        view,
        {**class_envelope.bounds, **renewed.bounds},
        tuple(sorted((*(c for c in class_envelope.contradictions if c.arm != arm), *renewed.contradictions))),
        {key: why for key, why in class_envelope.beyond_memory.items() if key not in renewed.bounds}
        | dict(renewed.beyond_memory),
    )


def _alone(view: ClassView, arm: ArmKey) -> ClassView:
    """The view of one arm alone."""
    cells = view.arms[arm]
    known = {cell.key: view.known[cell.key] for cell in cells if cell.key in view.known}
    return replace(view, arms={arm: cells}, known=known)
