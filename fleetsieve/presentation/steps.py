"""A run as it happens: one line a step on standard error, and its end on standard output."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from fleetsieve.instance import Measurement, Status
from fleetsieve.loop.steps import Step
from fleetsieve.presentation.terminal import literal, say, say_text


def show_start(console: Console, name: str, policy: str, cells: int, grid_gpu_s: float) -> None:
    """What begins, and how the lines of the steps read."""
    say(console, f"{name}: {cells} cells may be measured, {grid_gpu_s:,.0f} GPU-seconds in all; policy {policy}")
    say(console, "step, share of these GPU-seconds spent so far, cell (reason): result and effect", "dim")


def show_step(console: Console, step: Step, grid_gpu_s: float) -> None:
    """One line: which cell, why it, what it changed, what was spent so far."""
    spent = step.sieve.spent_gpu_s
    share = f" {spent / grid_gpu_s:4.0%}" if grid_gpu_s > 0.0 else ""
    head = literal(f"{step.number:>3}{share}  {step.experiment.key}", "bold")
    say_text(console, Text.assemble(head, literal(f" ({step.experiment.reason}): {step.changed}")))


def cost_line(rows: Sequence[Measurement], cells: int, spent_gpu_s: float, grid_gpu_s: float) -> str:
    """What a run spent, of what one measurement of each of its `cells` costs."""
    share = f" ({spent_gpu_s / grid_gpu_s:.1%})" if grid_gpu_s > 0.0 else ""
    seen = len({row.key for row in rows})
    repeated = f" in {len(rows)} measurements" if len(rows) > seen else ""
    return f"{seen} of {cells} cells measured{repeated}, {spent_gpu_s:,.0f} of the full grid's {grid_gpu_s:,.0f} GPU-seconds{share}"


def measured_line(row: Measurement) -> str:
    """What one measurement showed: its cell, how it ended, the figures, the cost."""
    if row.status is not Status.OK:
        return f"{row.key}: {row.status} ({row.source})"
    figures = {
        "requests/s": row.throughput_rps.value,
        "success": row.success_rate.value,
        "ttft p99 s": row.ttft_p99_s.value,
        "e2e p99 s": row.e2e_p99_s.value,
        "tpot p99 s": row.tpot_p99_s.value,
    }
    text = ", ".join(f"{name} {value:.4g}" for name, value in figures.items() if value is not None)
    cost = f", {row.cost_gpu_s:,.0f} GPU-seconds" if row.cost_gpu_s is not None else ""
    return f"{row.key} seed {row.seed}: {text}; {row.requests} requests{cost}"
