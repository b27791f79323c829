"""A measured cell that is named in place of another serves as much, for every number of replicas of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from draws import draws
from hypothesis import event, given, settings
from hypothesis import strategies as st
from policies.small_fleets import cell, fleet, looked
from strategies import Situation, situations

from fleetsieve.allocation import evaluate
from fleetsieve.bounds.envelope import Envelope, class_configurations, fits
from fleetsieve.certificate.replacing import replacing
from fleetsieve.errors import SolveFailed
from fleetsieve.instance import CellKey, Fleet, LoadKind, Measurement, Pool, Slo, WorkloadClass


def replacement(envelope: Envelope, key: CellKey) -> CellKey | None:
    own = envelope.classes[key.class_name]
    usable = class_configurations(envelope.instance, own, lower=True)
    return replacing(envelope, own, own.bounds[key], usable)


def most_served(envelope: Envelope, key: CellKey, gpus: int) -> float:
    """The most that replicas of a measured cell serve of its class on so many GPUs, by evaluating every count of them."""
    problem = envelope.conservative
    served = 0.0
    for count in range(1, gpus // envelope[key].cell.gpus + 1):
        try:
            plan = evaluate(problem, {key: count})
        except SolveFailed:
            break  # nodes cannot host as many
        served = max(served, next(got.served_rps for got in plan.classes if got.class_name == key.class_name))
    return served


@pytest.mark.slow
@settings(max_examples=draws(250), deadline=None)
@given(situations(known=0.7, width=0.3), st.sampled_from([None, 2, 4, 8]))
def test_every_witness_serves_as_much_for_every_number_of_replicas(drawn: Situation, gpus_per_node: int | None) -> None:
    pool = drawn.instance.fleet.pools[0]
    whole = pool.gpus // gpus_per_node * gpus_per_node if gpus_per_node else pool.gpus
    if whole == 0:
        return
    shape = Fleet((replace(pool, gpus=whole, gpus_per_node=gpus_per_node),), drawn.instance.fleet.max_utilisation)
    envelope = Envelope.of(replace(drawn.instance, fleet=shape), drawn.rows)
    for c in envelope.instance.cells:
        found = replacement(envelope, c.key) if fits(c, shape.pools[0]) else None
        event("replaced" if found is not None else "not replaced")
        demand = envelope.classes[c.key.class_name].view.workload.demand_rps
        for n in range(1, whole // c.gpus + 1) if found is not None else ():
            hoped = min(demand, n * envelope[c.key].capacity_rps.hi * shape.max_utilisation)
            assert most_served(envelope, found, n * c.gpus) >= hoped * (1.0 - 1e-12), (c.key, found, n)


def rag(*rates: tuple[int, str, float], demand_rps: float, gpus: int) -> Envelope:
    """TP4 cells that were measured, and TP8 r9 that was not."""
    cells = [replace(cell("rag", tp, load, rate), load_kind=LoadKind.RATE) for tp, load, rate in rates]
    wide = replace(cell("rag", 8, "r9", 9.0), load_kind=LoadKind.RATE)
    rows: list[Measurement] = [looked(c, c.offered) for c in cells]
    instance, _ = fleet([WorkloadClass("rag", demand_rps, Slo(1.0))], rows, [*cells, wide], Pool("default", gpus, 8))
    return Envelope.of(instance, rows)


def test_a_witness_that_serves_less_with_fewer_replicas_is_not_named() -> None:
    """On 16 GPUs four replicas of r2 serve all 6 requests/s, on 8 GPUs two of them serve 4."""
    envelope = rag((4, "r2", 2.0), (4, "r3", 3.0), demand_rps=6.0, gpus=16)
    assert replacement(envelope, CellKey("rag", 8, "r9")) == CellKey("rag", 4, "r3")
