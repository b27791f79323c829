"""A plan, a certificate and a sizing for a person to read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetsieve.allocation import Allocation
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, Verdict, verdict_sentence
from fleetsieve.certificate.sentence import gap_text, rests_on_bounds
from fleetsieve.instance import DEFAULT_POOL, TAIL_METRICS, CellKey, Instance, Measurement
from fleetsieve.interval import Interval, lower_text, upper_text
from fleetsieve.loop.cost import grid_cost_gpu_s, rows_cost_gpu_s
from fleetsieve.presentation.terminal import is_wide, literal, say, show_table

if TYPE_CHECKING:
    from fleetsieve.answers.sizing import Sizing
    from fleetsieve.engines.solving import Need

STYLES = {Verdict.FEASIBLE: "bold green", Verdict.UNDECIDED: "bold yellow", Verdict.INFEASIBLE: "bold red"}


def show_certificate(console: Console, c: Certificate, *, bounds: str, explanation: str, spent: str) -> None:
    """The plan(s), the verdict, what it rests on, the gap and what was spent.

    `bounds` is "both", "conservative" or "optimistic": which plans are shown. "both" leaves out the optimistic one where it is the
    same, and where the verdict is certified-feasible: cells that are not measured are then of no use.
    """
    if bounds != "optimistic":
        title = "plan (conservative: measured cells, lower bounds)"
        show_table(console, rich_plan_table(c.conservative, c.envelope, title, lower=True, wide=is_wide(console)))
    hoped = c.optimistic
    differs = hoped is not None and hoped.replica_counts != c.conservative.replica_counts
    useful = bounds == "both" and differs and c.verdict is not Verdict.FEASIBLE
    if hoped is not None and (bounds == "optimistic" or useful):
        title = "best that the bounds allow (optimistic)"
        show_table(console, rich_plan_table(hoped, c.envelope, title, lower=False, wide=is_wide(console)))
    say(console, verdict_sentence(c), STYLES[c.verdict])
    if explanation:
        say(console, f"why: {explanation}")
    stages = "shortfall/min fulfilment/goodput" if c.gap.shortfall else "min fulfilment/goodput"
    say(console, f"gap: {gap_text(c.gap)} ({stages}; certifies at {c.epsilon:g})")
    say(console, f"spent: {spent}")
    show_rests_on(console, rests_on_bounds(c.envelope))


def show_sizing(console: Console, s: Sizing, *, bounds: str, spent: str) -> None:
    """The fewest GPUs for full service, under the bounds asked for."""
    ends = {"conservative": (s.conservative, "fewest GPUs, measured cells at lower bounds"),
            "optimistic": (s.optimistic, "fewest GPUs that the bounds allow")}  # fmt: skip
    for end, (need, title) in ends.items():
        if bounds in ("both", end) and need.optimum.allocation is not None:
            table = rich_plan_table(
                need.optimum.allocation, s.envelope, title, lower=end == "conservative", wide=is_wide(console)
            )
            show_table(console, table)
            say(console, _needs(need))
    from fleetsieve.answers.sizing import sizing_sentence  # it imports the solver

    say(console, sizing_sentence(s), STYLES[s.verdict])
    say(console, f"spent: {spent}")
    show_rests_on(console, rests_on_bounds(s.envelope))


def _needs(need: Need) -> str:
    pools = ", ".join(f"{count} of {pool}" for pool, count in need.gpus.items() if pool != DEFAULT_POOL)
    price = f"; {need.price_per_h:g} per hour" if need.price_per_h else ""
    total = need.optimum.allocation.gpus_used if need.optimum.allocation is not None else 0
    return f"in all {total} GPUs{f' ({pools})' if pools else ''}{price}"


def show_rests_on(console: Console, statements: Iterable[str]) -> None:
    """What a verdict is conditional on, one line each."""
    say(console, "rests on:")
    for statement in statements:
        say(console, f"  - {statement}")


def rich_plan_table(plan: Allocation, envelope: Envelope, title: str, *, lower: bool, wide: bool = True) -> Table:
    """One row per class: configuration, replicas, GPUs, served of demand, fulfilment, tail against SLO.

    Guaranteed figures (`lower`) are rounded down, hoped-for ones up. `wide` puts all tails of a class on one line.
    """
    padding = (0, 1) if wide else (0, 0)
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=padding)
    pooled = len(envelope.instance.fleet.pools) > 1
    for name in ("class", "TP", "load", *(["pool"] if pooled else [])):
        table.add_column(name, justify="right" if name == "TP" else "left", overflow="fold")
    for name in ("replicas", "GPUs", "served of demand, rps", "fulfilment"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("p99 tail (SLO), s", overflow="fold")
    text = lower_text if lower else upper_text
    for class_plan in plan.classes:
        key = class_plan.configuration.name if class_plan.configuration is not None else None
        served = f"{text(class_plan.served_rps)} of {class_plan.demand_rps:.3f}"
        if isinstance(key, CellKey):
            place = [key.server.degree, key.load, *([key.pool] if pooled else [])]
            tails = _tails(envelope, key)
        else:
            place = ["-", "-", *(["-"] if pooled else [])]
            tails = ["unservable" if class_plan.class_name in envelope.unservable else "-"]
        cells = [
            class_plan.class_name,
            *place,
            str(class_plan.replicas),
            str(class_plan.gpus),
            served,
            text(class_plan.fulfilment, 4),
        ]
        table.add_row(*(literal(cell) for cell in cells), Text((", " if wide else "\n").join(tails)))
    totals = ["total", *([""] * (3 if pooled else 2)), str(plan.replicas), str(plan.gpus_used)]
    totals += [f"{text(plan.goodput_rps)} of {envelope.optimistic.total_demand_rps:.3f}", _least(plan, text), ""]
    table.add_section()
    table.add_row(*(Text(cell) for cell in totals), style="bold")
    return table


def _least(plan: Allocation, text: Callable[[float, int], str]) -> str:
    """The min fulfilment; "-" when no class counts in it."""
    counted = any(c.in_minimum and c.demand_rps > 0.0 for c in plan.problem.classes)
    left_out = any(not c.in_minimum for c in plan.problem.classes)
    return f"min {text(plan.min_fulfilment, 4)}{' of the servable' if left_out else ''}" if counted else "-"


def _tails(envelope: Envelope, key: CellKey) -> list[str]:
    b, slo = envelope[key], envelope.instance.class_by_name[key.class_name].slo
    tails = [
        f"{metric} {_seconds(b.tails_s[metric])} ({limit:g})"
        for metric in TAIL_METRICS
        if (limit := slo.limit_s(metric)) is not None
    ]
    if slo.min_success is not None:
        exact = "" if b.success.is_point else ">= "
        known = f"{exact}{b.success.lo:g}" if b.success.lo > 0.0 else "unknown"
        tails.append(f"success {known} ({slo.min_success:g})")
    return tails or ["no limit"]


def _seconds(tail: Interval) -> str:
    if tail.is_point:
        return f"{tail.hi:.4g}"
    if math.isfinite(tail.hi):
        return f"<= {tail.hi:.4g}"
    return f">= {tail.lo:.4g}" if tail.lo > 0.0 else "unknown"


def spent_text(instance: Instance, rows: Sequence[Measurement]) -> str:
    """What the measured rows cost, beside the full grid's GPU-seconds: a share of it where no cell was measured twice."""
    spent = rows_cost_gpu_s(instance, rows)
    grid = grid_cost_gpu_s(instance, [cell for cell in instance.cells if not cell.excluded])
    once = len({row.key for row in rows}) == len(rows)
    share = f" ({spent / grid:.1%})" if grid > 0.0 and once else f" in {len(rows)} measurements" if not once else ""
    return f"{spent:,.0f} of the full grid's {grid:,.0f} GPU-seconds{share}"
