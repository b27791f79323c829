"""The default policy on measured public grids: the right answer for a third of the cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetsieve.allocation import evaluate
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Verdict
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.loop.cost import grid_cost_gpu_s
from fleetsieve.loop.policies import DecisionGap
from fleetsieve.loop.sieve import Sieve
from fleetsieve.probes import Replay

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "instances"
GRIDS = ["b200-vllm-llama70b", "h100-vllm-llama70b", "h200-trt-llama70b", "h200-vllm-llama70b", "llmpilot-h100"]


@pytest.mark.slow
@pytest.mark.parametrize("name", GRIDS)
def test_decision_gap_certifies_the_true_optimum_cheaply(name: str) -> None:
    if not (SHARED / name).is_dir():
        pytest.skip("needs public measured grids, which are not part of this project")
    folder = read_instance(SHARED / name)
    instance, table = folder.instance, Replay(folder.measurements)
    sieve = Sieve.start(instance, policy=DecisionGap(), engine=Frontier(), looks=table.looks)
    while not sieve.finished:
        key = sieve.ask().key
        sieve = sieve.tell(table.measure(key, sum(row.key == key for row in sieve.measurements)))

    found = sieve.certificate
    assert found.verdict is Verdict.FEASIBLE
    assert sieve.spent_gpu_s <= 0.35 * grid_cost_gpu_s(instance, instance.cells)

    truth = Envelope.of(instance, folder.measurements).conservative
    best = Frontier().optimise(truth, eta=0.0).allocation
    plan = evaluate(truth, found.conservative.replica_counts)
    assert best is not None
    assert plan.shortfall - best.shortfall <= found.epsilon
    assert best.min_fulfilment - plan.min_fulfilment <= found.epsilon
    assert (best.goodput_rps - plan.goodput_rps) / truth.total_demand_rps <= found.epsilon
