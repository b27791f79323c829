"""What a measurement costs: GPU-seconds, the only currency of the loop.

cost = (warm-up + window, + server start-up when one is needed) x g_q. A server stays up while the next cells use the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleetsieve.instance import Cell, Instance, LoadKind, Measurement, MeasureSettings, ServerKey, Status

SERVER_GONE = frozenset({Status.FAILED_START, Status.OOM, Status.TIMEOUT, Status.CRASHED})
"""Endings after which no server is up, so the next measurement pays for a start; one that timed out may be stuck and is stopped."""


def cost_gpu_s(instance: Instance, cell: Cell, running: ServerKey | None = None) -> float:
    """GPU-seconds that one measurement of `cell` is expected to cost while the server `running` is up (None: none is).

    A cost given for the cell overrides warm-up and window.
    """
    settings = instance.measure
    startup = 0.0 if running == cell.key.server else settings.startup_s * cell.gpus
    if cell.cost_gpu_s is not None:
        return cell.cost_gpu_s + startup
    return (settings.warmup_s + expected_window_s(settings, cell)) * cell.gpus + startup


def expected_window_s(settings: MeasureSettings, cell: Cell) -> float:
    """How long the window of a measurement is expected to last, in seconds.

    At a known open-loop rate it lasts until `min_requests` have been sent, at most `max_window_s`; a closed loop may continue
    longer.
    """
    window = settings.window_s
    if settings.min_requests is not None and cell.load_kind is LoadKind.RATE and cell.offered:
        window = max(window, settings.min_requests / cell.offered)
    return window if settings.max_window_s is None else min(window, settings.max_window_s)


def grid_cost_gpu_s(
    instance: Instance, cells: Iterable[Cell], measured_starts_s: Mapping[int, float] | None = None
) -> float:
    """GPU-seconds of one measurement of each of `cells`, server by server, so that each server starts once.

    A start takes the `startup_s` of [measure]. Where that is not stated (0), it takes what starts of its TP took in a live run, by
    `measured_starts_s`; the mean of those of other TPs where its own was never started; nothing where none was.
    """
    running: ServerKey | None = None
    total = 0.0
    starts_s = (measured_starts_s or {}) if instance.measure.startup_s == 0.0 else {}
    for cell in sorted(cells, key=lambda c: (c.key.server, c.key)):
        total += cost_gpu_s(instance, cell, running)
        if starts_s and running != cell.key.server:
            total += starts_s.get(cell.key.tp, sum(starts_s.values()) / len(starts_s)) * cell.gpus
        running = cell.key.server
    return total


def row_cost_gpu_s(instance: Instance, row: Measurement, running: ServerKey | None = None) -> float:
    """GPU-seconds that a measured row cost: its own figure, else what its cell is expected to cost."""
    return (
        row.cost_gpu_s if row.cost_gpu_s is not None else cost_gpu_s(instance, instance.cell_by_key[row.key], running)
    )


def server_after(instance: Instance, row: Measurement) -> ServerKey | None:
    """The server that a measurement leaves up; None when it took it down."""
    return None if row.status in SERVER_GONE else row.key.server


def rows_cost_gpu_s(instance: Instance, rows: Iterable[Measurement]) -> float:
    """GPU-seconds of rows that were measured one after another."""
    total, running = 0.0, None
    for row in rows:
        total += row_cost_gpu_s(instance, row, running)
        running = server_after(instance, row)
    return total
