"""Hypothesis strategies that mirror the domain: fleet decisions, and instances whose truth is known.

Rates are multiples of 1/100 requests/s, fulfilments and priorities small fractions. So two values of a stage are either exactly
equal or far further apart than any tolerance, and an exact brute force and floating-point engines agree on what is a tie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool
from hypothesis import strategies as st

from fleetsieve.allocation import STAGES
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.instance import (
    Cell,
    CellKey,
    CertificateSettings,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    Pool,
    Reading,
    Slo,
    Status,
    WorkloadClass,
)

ETAS = st.sampled_from([0.0, 0.0, 0.02, 0.05, 0.1])


@dataclass(frozen=True)
class Shape:
    """How large and how degenerate drawn fleet decisions are."""

    classes: tuple[int, int] = (1, 3)
    gpus: tuple[int, int] = (1, 12)
    sizes: tuple[int, ...] = (1, 2, 4, 8)
    cells: int = 3
    capacities: st.SearchStrategy[float] = field(default_factory=lambda: rates(0, 600))
    demands: st.SearchStrategy[float] = field(default_factory=lambda: rates(1, 2000))
    nodes: tuple[int | None, ...] = (None,)
    pools: int = 1


def rates(least: int, most: int) -> st.SearchStrategy[float]:
    """Requests/s in hundredths, from `least` to `most` hundredths."""
    return st.integers(least, most).map(lambda hundredths: hundredths / 100)


def tied_rates(*choices: float) -> st.SearchStrategy[float]:
    """Few distinct rates, 0 among them: ties everywhere."""
    return st.sampled_from([0.0, *choices])


TIED = Shape(capacities=tied_rates(1.0, 1.5, 2.0, 3.0), demands=tied_rates(2.0, 3.0, 4.0, 6.0, 6.0))
TYPICAL = Shape(classes=(1, 4), gpus=(1, 24), cells=4)
WIDE = Shape(classes=(3, 5), gpus=(16, 64), cells=4, demands=rates(500, 9000))
LARGE = Shape(classes=(6, 9), gpus=(100, 300), cells=4, capacities=rates(50, 600), demands=rates(5000, 30000))
THREES = Shape(gpus=(1, 20), sizes=(1, 2, 3, 4, 6))
NODED = Shape(gpus=(1, 20), sizes=(1, 2, 4, 8), nodes=(8,))


@st.composite
def problems(draw: st.DrawFn, shape: Shape) -> FleetProblem:
    """A fleet decision: floors on some classes, zero demands and capacities, classes that nothing serves."""
    pools = [
        GpuPool(f"pool{k}", draw(st.integers(*shape.gpus)), draw(st.sampled_from(shape.nodes)))
        for k in range(draw(st.integers(1, shape.pools)))
    ]
    classes, configurations = [], []
    for i in range(draw(st.integers(*shape.classes))):
        floor = draw(st.none() | st.integers(0, 20).map(lambda t: t / 20))
        demand = draw(st.just(0.0) | shape.demands if draw(st.integers(0, 9)) == 0 else shape.demands)
        priority = draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 3.0]))
        classes.append(ClassDemand(f"class{i}", demand, priority, floor, draw(st.integers(0, 9)) > 0))
        for k in range(draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, shape.cells))):
            pool = draw(st.sampled_from(pools)).name
            size, capacity = draw(st.sampled_from(shape.sizes)), draw(shape.capacities)
            configurations.append(Configuration((f"class{i}", k), f"class{i}", size, capacity, pool))
    return FleetProblem(tuple(classes), tuple(draw(st.permutations(configurations))), tuple(pools))


@dataclass(frozen=True)
class Request:
    """What an engine is asked: `Engine.optimise(problem, stages, eta=eta, holds=holds)`."""

    problem: FleetProblem
    stages: tuple[str, ...] = STAGES
    eta: float = 0.0
    holds: Mapping[str, float] = field(default_factory=dict)


@st.composite
def requests(draw: st.DrawFn, shape: Shape, *, held: bool = False) -> Request:
    """A request to an engine: all stages; or, when `held`, with limits from outside and perhaps one stage alone."""
    problem = draw(problems(shape))
    if not held:
        return Request(problem, eta=draw(ETAS))
    stages = draw(st.sampled_from([STAGES, ("goodput",), ("min_fulfilment",), ("shortfall",), STAGES[1:]]))
    worst = sum(c.priority * (c.floor or 0.0) for c in problem.classes)
    holds = {}
    if draw(st.booleans()):
        holds["shortfall"] = draw(st.integers(0, 20)) / 20 * worst
    if draw(st.booleans()):
        holds["min_fulfilment"] = draw(st.integers(0, 20)) / 20
    return Request(problem, stages, draw(ETAS), holds)


@dataclass(frozen=True)
class Truth:
    """A realisation inside the bounds: the capacity of every cell, and whether it really meets its SLO."""

    capacity_rps: Mapping[CellKey, float]
    usable: Mapping[CellKey, bool]


@dataclass(frozen=True)
class Situation:
    """An instance, what was measured, and a truth that the bounds admit."""

    instance: Instance
    rows: tuple[Measurement, ...]
    truth: Truth

    def true_problem(self, *, counted: frozenset[str]) -> FleetProblem:
        """The fleet decision under the truth; `counted` are the classes in the minimum."""
        instance, truth = self.instance, self.truth
        demands = tuple(
            ClassDemand(c.name, c.demand_rps, c.priority, c.floor_fulfilment, c.name in counted)
            for c in instance.classes
        )
        configurations = tuple(
            Configuration(
                key, key.class_name, cell.gpus, truth.capacity_rps[key] * instance.fleet.max_utilisation, key.pool
            )
            for key, cell in sorted(instance.cell_by_key.items())
            if truth.usable[key]
        )
        return FleetProblem(demands, configurations, tuple(GpuPool(p.name, p.gpus) for p in instance.fleet.pools))

    @property
    def truly_servable(self) -> frozenset[str]:
        """The classes that some cell can serve under the truth."""
        gpus = self.instance.fleet.gpus
        return frozenset(
            key.class_name
            for key, cell in self.instance.cell_by_key.items()
            if self.truth.usable[key] and self.truth.capacity_rps[key] > 0.0 and cell.gpus <= gpus
        )


LIMIT_S = 1.0


@st.composite
def situations(draw: st.DrawFn, *, known: float, width: float, tight: bool = False, critical: float = 0.4) -> Situation:
    """An instance with measured intervals and a truth inside them.

    `known` is the share of measured cells, `width` the greatest relative width of a capacity's interval, `critical` the share
    of classes with a floor; `tight` asks for more than the fleet can serve, so that floors compete.
    """
    chance = st.integers(0, 99)
    gpus = draw(st.integers(4, 8) if tight else st.integers(2, 16))
    sizes = range(1, gpus + 1) if tight else [1, 2, 4]
    epsilon = draw(st.sampled_from([0.02, 0.05, 0.05, 0.15, 0.4]))
    classes, cells, rows, capacity, usable = [], [], [], {}, {}
    for i in range(draw(st.integers(2, 3) if tight else st.integers(1, 3))):
        name = f"class{i}"
        demand = draw(rates(100, 1500))
        floor = draw(st.integers(1, 20)) / 20 * demand if draw(chance) < 100 * critical else None
        classes.append(WorkloadClass(name, demand, Slo(LIMIT_S), draw(st.sampled_from([1.0, 2.0, 0.5])), floor))
        hopeless = draw(chance) < 6
        for k in range(draw(st.integers(1, 4))):
            key = CellKey(name, draw(st.sampled_from(sizes)), f"load{k}")
            rated = draw(chance) < (80 if tight else 30)
            true = draw(rates(0, 700)) * (key.tp / 3 if tight else 1.0)
            offered = true * (1.0 + draw(st.integers(0, 10)) / 10 * width) + 0.01 if rated else None
            cells.append(Cell(key, key.tp, LoadKind.RATE if rated else LoadKind.CONCURRENCY, offered))
            capacity[key] = true
            meets = draw(chance) < 75 and not hopeless
            if hopeless or draw(chance) < 100 * known:
                low = true * (1.0 - draw(st.integers(0, 10)) / 10 * width)
                high = true * (1.0 + draw(st.integers(0, 10)) / 10 * width)
                tail = draw(_tails(meets, straddles=draw(chance) < 12 and not hopeless))
                row = Measurement(key, throughput_rps=Reading(lo=low, hi=high), ttft_p99_s=tail)
                status = draw(st.sampled_from([Status.OK] * 17 + [Status.CRASHED, Status.TIMEOUT, Status.OOM]))
                rows.append(row if status is Status.OK or hopeless else Measurement(key, status=status))
            usable[key] = meets
    instance = Instance(
        "drawn",
        Fleet((Pool("default", gpus),), draw(st.sampled_from([1.0, 1.0, 0.8]))),
        tuple(classes),
        tuple(cells),
        certificate=CertificateSettings(epsilon, draw(st.sampled_from([None, 0.0]))),
        assumptions={"tail_monotone": {"enabled": False}},
    )
    return Situation(instance, tuple(rows), Truth(capacity, usable))


@st.composite
def trades(draw: st.DrawFn) -> Situation:
    """A critical class that may reach its floor only with GPUs that the others need, by a wide cell that is not measured.

    Here the shortfall that is guaranteed is above the one that is possible, and less of it is bought with fulfilment.
    """
    gpus = draw(st.integers(4, 8))
    classes = [WorkloadClass("chat", draw(rates(500, 1500)), Slo(LIMIT_S), 1.0, None)]
    classes[0] = replace(classes[0], floor_rps=classes[0].demand_rps * draw(st.sampled_from([0.6, 0.8, 1.0])))
    narrow = draw(st.integers(gpus // 2 + 1, gpus - 1))
    cells = [Cell(CellKey("chat", narrow, "narrow"), narrow), Cell(CellKey("chat", gpus, "wide"), gpus)]
    capacity = {cells[0].key: draw(rates(100, 450)), cells[1].key: draw(rates(450, 1500))}
    usable = {cells[0].key: True, cells[1].key: draw(st.integers(0, 3)) > 0}
    rows = []
    for name in ("code", "docs")[: draw(st.integers(1, 2))]:
        classes.append(WorkloadClass(name, draw(rates(50, 300)), Slo(LIMIT_S)))
        for k in range(draw(st.integers(1, 2))):
            key = CellKey(name, draw(st.integers(1, max(1, gpus - narrow))), f"load{k}")
            cells.append(Cell(key, key.tp))
            capacity[key], usable[key] = draw(rates(10, 300)), True
    for place, cell in enumerate(cells):
        if place != 1 and (place == 0 or draw(st.integers(0, 3)) > 0):
            rows.append(Measurement(cell.key, throughput_rps=Reading(capacity[cell.key]), ttft_p99_s=Reading(0.5)))
        else:
            offered = capacity[cell.key] * draw(st.sampled_from([1.0, 1.01, 1.3]))
            cells[place] = replace(cell, load_kind=LoadKind.RATE, offered=offered)
    instance = Instance("traded", Fleet((Pool("default", gpus),)), tuple(classes), tuple(cells))
    return Situation(instance, tuple(rows), Truth(capacity, usable))


def _tails(meets: bool, *, straddles: bool) -> st.SearchStrategy[Reading]:
    """The TTFT p99 of a cell whose truth meets the limit or not; an interval that straddles it says neither."""
    if straddles:
        return st.just(Reading(lo=0.9 * LIMIT_S, hi=1.1 * LIMIT_S))
    return st.sampled_from(
        [Reading(0.5), Reading(lo=0.2, hi=LIMIT_S)] if meets else [Reading(2.0), Reading(lo=1.01, hi=3.0)]
    )


def bounds_admit(envelope: Envelope, truth: Truth) -> bool:
    """Whether a truth lies inside the bounds of every cell."""
    for own in envelope.classes.values():
        for key, b in own.bounds.items():
            if truth.capacity_rps[key] not in b.capacity_rps:
                return False
            if (b.committable and not truth.usable[key]) or (truth.usable[key] and not b.possible):
                return False
    return True
