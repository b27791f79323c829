"""The rules without a certificate: what they look at, what they choose, and where that is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop.small_fleet import CELLS, INSTANCE, row
from policies.small_fleets import CHAT, LADDER, LADDER_ROWS, fleet, looked

from fleetsieve.allocation import evaluate
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.instance import CellKey, Instance, Measurement, Slo, Status
from fleetsieve.loop.cost import grid_cost_gpu_s
from fleetsieve.studies.decision_rules import RULES, Decided
from fleetsieve.studies.judging import Truth

TABLE = [row(c.key) for c in CELLS]
PAPER = read_instance("paper-h100-31b")


def decided(name: str, instance: Instance, rows: list[Measurement]) -> Decided:
    found = RULES[name].decide(instance, rows, Frontier())
    assert found.cost_gpu_s == grid_cost_gpu_s(instance, [instance.cell_by_key[key] for key in found.looked])
    assert set(found.replicas) <= set(found.looked)
    return found


def test_the_names() -> None:
    assert {name: rule.name for name, rule in RULES.items()} == {"capacity-only": "capacity-only", "sparse": "sparse"}


def test_capacity_alone_picks_the_chat_configuration_that_misses_its_slo() -> None:
    rows = list(PAPER.measurements)
    blind = decided("capacity-only", PAPER.instance, rows)
    forbidden = CellKey("Chat", 4, "c128")
    assert {key.class_name: key for key in blind.replicas}["Chat"] == forbidden
    truth = Truth.of(PAPER.instance, rows)
    assert forbidden not in truth.best.replica_counts
    assert not truth.envelope[forbidden].committable


def test_the_sparse_rule_gives_the_published_choice_of_the_paper() -> None:
    rows = list(PAPER.measurements)
    found = decided("sparse", PAPER.instance, rows)
    published = {CellKey("Chat", 8, "c128"): 1, CellKey("Code", 4, "peak"): 2}
    assert found.replicas == published
    plan = evaluate(Truth.of(PAPER.instance, rows).envelope.conservative, published)
    assert (f"{plan.min_fulfilment:.3f}", f"{plan.goodput_rps:.2f}") == ("0.939", "27.27")


def test_capacity_only_is_the_best_plan_without_slos() -> None:
    free = replace(INSTANCE, classes=tuple(replace(c, slo=Slo()) for c in INSTANCE.classes))
    best = (
        Frontier().optimise(Envelope.of(free, TABLE).conservative, eta=INSTANCE.certificate.fairness_slack).allocation
    )
    found = decided("capacity-only", INSTANCE, TABLE)
    assert best is not None
    assert found.replicas == best.replica_counts
    assert sorted(found.looked) == sorted(c.key for c in CELLS)


def test_sparse_probes_the_middle_of_each_ladder_and_keeps_one_degree_per_class() -> None:
    found = decided("sparse", INSTANCE, TABLE)
    assert sorted(found.looked) == [CellKey(name, tp, "c8") for name in ("chat", "code") for tp in (1, 2)]
    # Per GPU the narrow degree serves more (0.3 x 8^0.7 x tp^-0.2), and 0.88 s is within the limits.
    assert {key.tp for key in found.replicas} == {1}
    assert sum(found.replicas.values()) <= 8


def test_sparse_takes_the_lower_middle_of_an_even_ladder() -> None:
    instance, rows = fleet([CHAT], LADDER_ROWS, LADDER)
    assert {key.load for key in decided("sparse", instance, rows).looked} == {"c4"}


def test_sparse_leaves_out_a_degree_that_misses_its_slo_or_failed() -> None:
    slow = [replace(r, ttft_p99_s=replace(r.ttft_p99_s, value=9.0)) if r.key.tp == 1 else r for r in TABLE]
    assert {key.tp for key in decided("sparse", INSTANCE, slow).replicas} == {2}
    failed = [replace(r, status=Status.CRASHED) if r.key.tp == 1 else r for r in TABLE]
    assert {key.tp for key in decided("sparse", INSTANCE, failed).replicas} == {2}


def test_sparse_probes_nothing_that_was_never_measured_or_is_excluded() -> None:
    gone = [r for r in TABLE if r.key.tp != 1]
    assert {key.tp for key in decided("sparse", INSTANCE, gone).looked} == {2}
    vetoed = replace(INSTANCE, cells=tuple(replace(c, excluded=c.key.tp == 1) for c in CELLS))
    assert {key.tp for key in decided("sparse", vetoed, TABLE).looked} == {2}
    assert {key.tp for key in decided("capacity-only", vetoed, TABLE).looked} == {2}


def test_sparse_probes_the_middle_of_what_can_be_probed() -> None:
    key = CellKey("chat", 1, "c8")
    vetoed = replace(INSTANCE, cells=tuple(replace(c, excluded=c.key == key) for c in CELLS))
    assert CellKey("chat", 1, "c4") in decided("sparse", vetoed, TABLE).looked
    assert CellKey("chat", 1, "c4") in decided("sparse", INSTANCE, [r for r in TABLE if r.key != key]).looked


@pytest.mark.parametrize("name", RULES)
def test_a_class_that_no_probe_serves_gets_nothing(name: str) -> None:
    instance, rows = fleet([CHAT], [looked(c, 0.0) for c in LADDER], LADDER)
    assert decided(name, instance, rows).replicas == {}
    assert decided(name, instance, []).looked == ()
