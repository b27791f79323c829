"""Break points against independent solves: none missed, none invented; on random instances and on the public grid."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sensitivity.drawn import axes_of, drawn, faults, small_seeds

from fleetsieve.answers.sensitivity import DemandAxis, SloAxis, study, study_two
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
from fleetsieve.files import read_instance

SHARED = Path(__file__).resolve().parents[3] / "shared" / "instances"
GRID = SHARED / "h100-vllm-llama70b"
SEEDS = {"slo": 40, "success": 12, "gpus": 4, "epsilon": 4, "demand": 3, "scale": 2}
"""Random instances per kind of axis; benchmarks/sensitivity.py takes 500."""

SLOW = ("epsilon", "demand", "scale")


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEEDS)
def test_intervals_are_those_of_plain_solves(kind: str) -> None:
    breaks = 0
    for seed in small_seeds(SEEDS[kind]) if kind in SLOW else range(SEEDS[kind]):
        instance, rows = drawn(seed)
        draw = random.Random(seed)
        found = study(instance, rows, axes_of(instance, draw)[kind])
        wrong, _ = faults(instance, rows, found, draw, 8)
        assert not wrong, f"seed {seed}: {wrong[:3]}"
        breaks += len(found.breaks)
    assert breaks >= SEEDS[kind] / 4  # else the comparison says nothing


@pytest.mark.skipif(not GRID.is_dir(), reason="the public grids are not beside this checkout")
class TestThePublicGrid:
    """The public figures: best per GPU is TP8 at a TPOT of 20 ms, TP4 at 25 ms, TP2 at 50 ms."""

    AXIS = SloAxis("1k1k", "tpot_p99_s", 0.015, 0.060)

    @pytest.fixture
    def grid(self):
        read = read_instance(GRID)
        strict = replace(read.instance.certificate, eta=0.0)
        return read.instance, read.measurements, strict

    @pytest.mark.slow
    def test_the_tpot_threshold_moves_the_tp(self, grid):
        instance, rows, strict = grid
        found = study(replace(instance, certificate=strict), rows, self.AXIS)
        assert [round(1e3 * at, 3) for at in found.breaks] == [15.777, 20.598, 24.224, 30.626]
        tps = [
            got.configuration.name.tp
            for s in found.stretches
            for got in s.decision.plan.classes
            if got.class_name == "1k1k"
        ]
        assert tps == [8, 8, 4, 2, 2]
        for engine, count in ((Frontier(), 100), (Milp(), 3)):
            wrong, _ = faults(found.instance, rows, found, random.Random(1), count, engine)
            assert not wrong

    def test_with_slack_the_near_tie_stays(self, grid):
        instance, rows, _ = grid
        found = study(instance, rows, self.AXIS)
        assert [round(1e3 * at, 3) for at in found.breaks] == [15.777, 20.598, 30.626]

    def test_a_map_of_two_slos_agrees_with_its_strips(self, grid):
        instance, rows, _ = grid
        other = SloAxis("8k1k", "tpot_p99_s", 0.02, 0.1)
        start = time.perf_counter()
        mapped = study_two(instance, rows, self.AXIS, other)
        assert time.perf_counter() - start < 30.0
        area = sum((r.x.hi - r.x.lo) * (r.y.hi - r.y.lo) for r in mapped.regions)
        assert area == pytest.approx((0.060 - 0.015) * (0.1 - 0.02))
        today = next(r for r in mapped.regions if r.x.holds(0.025) and r.y.holds(0.05))
        assert today.stretch.decision.placed == study(instance, rows, self.AXIS).stretch_at(0.025).decision.placed

    def test_a_demand_is_exact_and_carries_today(self, grid):
        instance, rows, _ = grid
        found = study(instance, rows, DemandAxis("1k1k", 0.5, 2.0))
        assert all(s.exact for s in found.stretches)
        wrong, _ = faults(instance, rows, found, random.Random(2), 60)
        assert not wrong
