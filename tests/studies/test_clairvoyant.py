"""The clairvoyant floor against brute force over all sets of cells, and its relaxation against the certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Verdict, certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
from fleetsieve.files import read_instance
from fleetsieve.instance import (
    Cell,
    CellKey,
    CertificateSettings,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    MeasureSettings,
    Pool,
    Reading,
    Slo,
    WorkloadClass,
)
from fleetsieve.loop.cost import grid_cost_gpu_s
from fleetsieve.studies.clairvoyant import clairvoyant
from fleetsieve.studies.relaxation import Relaxation

PUBLIC = Path(__file__).resolve().parents[3] / "shared" / "instances"
Table = Mapping[CellKey, Measurement]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Instance, Table]:
    """Two classes of three or four cells, measured exactly; ladders that are not always monotone, some floors and server starts."""
    classes, cells, rows = [], [], {}
    for name in ("chat", "code"):
        demand = draw(st.integers(2, 20)) / 2
        floor = draw(st.sampled_from([None, None, 0.3, 0.8]))
        classes.append(WorkloadClass(name, demand, Slo(1.0), floor_rps=floor * demand if floor else None))
        places = [(tp, n) for tp in (1, 2) for n in (4, 8)]
        for tp, n in places[: 3 if name == "chat" else draw(st.integers(3, 4))]:
            key = CellKey(name, tp, f"c{n}")
            cells.append(Cell(key, tp, LoadKind.CONCURRENCY, float(n)))
            rate, tail = draw(st.integers(1, 16)) / 4, draw(st.sampled_from([0.2, 0.5, 0.9, 1.2, 3.0]))
            rows[key] = Measurement(key, throughput_rps=Reading(rate), ttft_p99_s=Reading(tail))
    instance = Instance(
        "small",
        Fleet((Pool("default", draw(st.integers(2, 6))),)),
        tuple(classes),
        tuple(cells),
        certificate=CertificateSettings(draw(st.sampled_from([0.02, 0.05, 0.2])), draw(st.sampled_from([None, 0.0]))),
        measure=MeasureSettings(startup_s=draw(st.sampled_from([0.0, 120.0]))),
    )
    return instance, rows


def certifies(instance: Instance, table: Table, cells: frozenset[CellKey]) -> bool:
    envelope = Envelope.of(instance, [table[key] for key in sorted(cells)])
    return certify(envelope, Frontier()).verdict is not Verdict.UNDECIDED


def subsets(table: Table) -> list[frozenset[CellKey]]:
    keys = sorted(table)
    return [frozenset(s) for s in chain.from_iterable(combinations(keys, k) for k in range(len(keys) + 1))]


@pytest.mark.slow
@given(tables())
@settings(max_examples=30, deadline=None)
def test_the_floor_is_that_of_brute_force(drawn: tuple[Instance, Table]) -> None:
    instance, table = drawn
    certifying = [cells for cells in subsets(table) if certifies(instance, table, cells)]
    relaxed = Relaxation(instance, table)
    failing = [cells for cells in subsets(table) if not relaxed.holds(cells)]
    assert not any(small <= large for large in failing for small in certifying)
    floor = clairvoyant(instance, table.values())
    if frozenset(table) not in certifying:
        assert not floor.exact
        return
    costs = [grid_cost_gpu_s(instance, [instance.cell_by_key[key] for key in cells]) for cells in certifying]
    assert floor.exact
    assert floor.lower_gpu_s == floor.upper_gpu_s == pytest.approx(min(costs))
    assert frozenset(floor.cells) in certifying


@pytest.mark.slow
@given(tables(), st.data())
@settings(max_examples=60, deadline=None)
def test_what_the_relaxation_grants_it_grants_to_more(drawn: tuple[Instance, Table], data: st.DataObject) -> None:
    instance, table = drawn
    relaxed = Relaxation(instance, table)
    small = data.draw(st.frozensets(st.sampled_from(sorted(table))))
    more = data.draw(st.frozensets(st.sampled_from(sorted(table))))
    if relaxed.holds(small):
        assert relaxed.holds(small | more)


def test_the_floor_of_a_bundled_grid_is_exact_and_certifies() -> None:
    read = read_instance("sim-chat-code-16gpu")
    floor = clairvoyant(read.instance, read.measurements)
    assert floor.exact
    table = {row.key: row for row in read.measurements}
    assert certifies(read.instance, table, frozenset(floor.cells))
    assert not any(certifies(read.instance, table, frozenset(floor.cells) - {key}) for key in floor.cells)


def test_no_time_gives_bounds_and_says_so() -> None:
    read = read_instance("sim-chat-code-16gpu")
    floor = clairvoyant(read.instance, read.measurements, time_limit_s=0.0)
    assert not floor.exact
    assert floor.lower_gpu_s == 0.0
    assert floor.upper_gpu_s == grid_cost_gpu_s(read.instance, read.instance.cells)
    assert "time limit" in floor.reason


def test_where_nodes_matter_only_the_upper_bound_is_claimed() -> None:
    read = read_instance("paper-h100-31b")
    pool = replace(read.instance.fleet.pools[0], gpus=9, gpus_per_node=3)
    instance = replace(read.instance, fleet=Fleet((pool,)))
    floor = clairvoyant(instance, read.measurements, engine=Milp(), time_limit_s=20.0)
    assert not floor.exact
    assert floor.lower_gpu_s == 0.0


@pytest.mark.slow
@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public measured grids are not beside this checkout")
def test_the_floor_of_a_public_grid_is_exact() -> None:
    read = read_instance(PUBLIC / "h100-vllm-llama70b")
    floor = clairvoyant(read.instance, read.measurements)
    assert floor.exact
    assert floor.upper_gpu_s == 7800.0
