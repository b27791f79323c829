"""What one look is expected to cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_fleet import CELLS, INSTANCE

from fleetsieve.instance import Cell, CellKey, LoadKind, MeasureSettings, ServerKey
from fleetsieve.loop.cost import cost_gpu_s, grid_cost_gpu_s

WIDE = CELLS[3]
RATED = Cell(CellKey("chat", 2, "r2"), 2, LoadKind.RATE, 2.0)
SETTINGS = MeasureSettings(warmup_s=30.0, window_s=270.0)


def cost(cell: Cell, running: ServerKey | None = None, **settings: float) -> float:
    return cost_gpu_s(replace(INSTANCE, measure=replace(SETTINGS, **settings)), cell, running)


def test_warm_up_and_window_on_every_gpu() -> None:
    assert cost(WIDE) == 2 * 300.0


@pytest.mark.parametrize(
    ("running", "start"),
    [
        (None, 100.0),
        (ServerKey(1), 100.0),
        (ServerKey(2, "other"), 100.0),
        (ServerKey(2, variant="fp8"), 100.0),
        (ServerKey(2), 0.0),
    ],
)
def test_a_start_unless_the_server_is_up(running: ServerKey | None, start: float) -> None:
    assert cost(WIDE, running, startup_s=100.0) == 2 * (300.0 + start)


def test_a_window_lasts_until_the_requests_are_sent() -> None:
    assert cost(RATED, min_requests=1000) == 2 * (30.0 + 500.0)
    assert cost(RATED, min_requests=10) == 2 * 300.0
    assert cost(RATED, min_requests=1000, max_window_s=400.0) == 2 * (30.0 + 400.0)
    assert cost(WIDE, min_requests=1000) == 2 * 300.0


def test_a_cost_of_its_own_replaces_warm_up_and_window() -> None:
    own = replace(WIDE, cost_gpu_s=77.0)
    assert cost(own, ServerKey(2), startup_s=100.0, min_requests=1000) == 77.0
    assert cost(own, None, startup_s=100.0) == 77.0 + 200.0


def test_pipeline_stages_cost_too() -> None:
    assert cost(replace(WIDE, gpus=4)) == 4 * 300.0


def test_the_grid_starts_each_server_once_in_any_order() -> None:
    whole = sum(300.0 * cell.gpus for cell in CELLS) + 100.0 * (1 + 2)
    assert grid_cost_gpu_s(INSTANCE, CELLS) == whole
    assert grid_cost_gpu_s(INSTANCE, reversed(CELLS)) == whole
    assert grid_cost_gpu_s(INSTANCE, ()) == 0.0


def test_starts_that_a_run_measured_count_where_none_is_stated() -> None:
    """Each server once, on its GPUs; one whose TP was never started as the others took, and what is stated goes first."""
    silent = replace(INSTANCE, measure=SETTINGS)
    looks = sum(300.0 * cell.gpus for cell in CELLS)
    assert grid_cost_gpu_s(silent, CELLS) == grid_cost_gpu_s(silent, CELLS, {}) == looks
    assert grid_cost_gpu_s(silent, CELLS, {1: 20.0, 2: 30.0}) == looks + 1 * 20.0 + 2 * 30.0
    assert grid_cost_gpu_s(silent, CELLS, {1: 20.0, 4: 40.0}) == looks + 1 * 20.0 + 2 * 30.0
    assert grid_cost_gpu_s(INSTANCE, CELLS, {1: 20.0}) == grid_cost_gpu_s(INSTANCE, CELLS)
