"""The words and tables of a page, from the same objects as those of the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetsieve.allocation import Allocation
from fleetsieve.answers.diagnosis import Account
from fleetsieve.answers.diagnosis.cells import limit_name
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, Verdict, verdict_sentence
from fleetsieve.certificate.sentence import listed, rests_on_bounds
from fleetsieve.figures.states import limits_text
from fleetsieve.figures.states import rate as rate_text
from fleetsieve.instance import TAIL_METRICS, CellKey, Instance, LoadKind, Status, WorkloadClass
from fleetsieve.interval import Interval
from fleetsieve.loop.cost import cost_gpu_s
from fleetsieve.report.failing import ENDINGS
from fleetsieve.report.rounding import gap_part, rate, share
from fleetsieve.runs.history import History, LoggedStep
from fleetsieve.runs.journal import SERVE

if TYPE_CHECKING:
    from fleetsieve.report.building import Told

Row = dict[str, Any]


def verdict_words(certificate: Certificate) -> str:
    """The verdict's sentence without its first word, which the page shows apart."""
    return verdict_sentence(certificate).removeprefix(f"{certificate.verdict}: ")


CLOSED_LOOP = "closed-loop latency"
"""How the statement begins that speaks of closed loops alone."""


def statements(certificate: Certificate) -> list[tuple[str, str]]:
    """What the verdict rests on: a name where there is one ("" otherwise), and the statement.

    What the certificate says of closed loops is left out where every load is an open one.
    """
    told = []
    closed = any(cell.load_kind is LoadKind.CONCURRENCY for cell in certificate.envelope.instance.cells)
    for statement in rests_on_bounds(certificate.envelope):
        if statement.startswith(CLOSED_LOOP) and not closed:
            continue
        name, colon, rest = statement.partition(": ")
        told.append((name, rest) if colon and " " not in name else ("", statement))
    return told


def plan_rows(plan: Allocation, envelope: Envelope, *, lower: bool) -> list[Row]:
    """One row a class of a plan; guaranteed figures (`lower`) are rounded down, hoped-for ones up."""
    rows = []
    for place, got in enumerate(plan.classes):
        key = got.configuration.name if got.configuration is not None else None
        floor = envelope.instance.class_by_name[got.class_name].floor_rps
        row: Row = {"class": got.class_name, "place": place, "replicas": got.replicas, "gpus": got.gpus}
        row["served"] = f"{rate(got.served_rps, lower=lower)} of {got.demand_rps:g}"
        row["fulfilment"] = share(got.fulfilment, lower=lower) if got.demand_rps > 0.0 else "-"
        row["floor"] = f"{floor:g}" if floor is not None else "-"
        used = got.utilisation * envelope.instance.fleet.max_utilisation
        row["utilisation"] = share(used, lower=False) if got.replicas else "-"
        if isinstance(key, CellKey):
            limits = limits_text(envelope.classes[got.class_name], envelope[key])
            row |= {"tp": key.server.degree, "load": key.load, "pool": key.pool, "limits": limits}
        else:
            unservable = "cannot be served" if got.class_name in envelope.unservable else "not served"
            row |= {"tp": "-", "load": "-", "pool": "", "limits": unservable}
        rows.append(row)
    return rows


def step_rows(history: History | None) -> list[Row]:
    """One row a step: the cell, why it was asked for, what it changed, and the state after it."""
    if history is None:
        return []
    return [
        {
            "number": step.number,
            "spent": f"{step.spent_gpu_s:,.0f}",
            "cell": str(step.key),
            "why": step.reason,
            "status": step.status,
            "changed": _changed(step),
            "gap": " / ".join(gap_part(value) for value in step.gap.values()),
        }
        for step in history.steps
    ]


def _changed(step: LoggedStep) -> str:
    """What a step showed and changed, without the gap, which has a column of its own, and without the files' word for a failure."""
    told = step.changed.rpartition("; gap")[0] or step.changed
    named = {str(status): ending for status, ending in ENDINGS.items()}
    return told.replace(f"ended in {step.status}", f"failed: {named[step.status]}") if step.status in named else told


def idle_end(history: History | None) -> str:
    """What the last steps cost that no longer moved the gap; "" where the last step did."""
    if history is None or len(history.steps) < 2:
        return ""
    steps = history.steps
    last = max((k for k in range(1, len(steps)) if steps[k].gap != steps[k - 1].gap), default=0)
    idle = len(steps) - 1 - last
    if idle < 2:
        return ""
    cost = steps[-1].spent_gpu_s - steps[last].spent_gpu_s
    told = f"The gap last moved at step {steps[last].number}"
    return f"{told}; the {idle} steps after it took {cost:,.0f} GPU-seconds and did not move it."


def asked_rows(instance: Instance) -> list[Row]:
    """One row a class: what is demanded of the fleet, and the limits that must be kept."""
    return [
        {
            "class": workload.name,
            "place": place,
            "demand": f"{workload.demand_rps:g}",
            "tokens": _tokens(workload),
            "floor": f"{workload.floor_rps:g}" if workload.floor_rps is not None else "-",
            "priority": f"{workload.priority:g}",
            "slo": _slo(workload),
        }
        for place, workload in enumerate(instance.classes)
    ]


def _tokens(workload: WorkloadClass) -> str:
    told = [
        f"{mean:,.0f} {way}"
        for mean, way in ((workload.input_tokens, "in"), (workload.output_tokens, "out"))
        if mean is not None
    ]
    return ", ".join(told) or "not stated"


def _slo(workload: WorkloadClass) -> str:
    limits = [(m, workload.slo.limit_s(m)) for m in TAIL_METRICS]
    told = [f"{limit_name(m)} at most {limit:g} s" for m, limit in limits if limit is not None]
    told += [f"success at least {workload.slo.min_success:.4g}"] if workload.slo.min_success is not None else []
    return ", ".join(told) or "no limit"


def how_measured(told: Told) -> list[str]:
    """The fleet, and how long, how often and when the cells were measured, as far as it is known."""
    instance, rows = told.read.instance, [row for row in told.read.measurements if row.status is Status.OK]
    pools = [
        f"{pool.gpus} GPUs{f' {pool.name}' if len(instance.fleet.pools) > 1 else ''}"
        + (f", {pool.gpus_per_node} a node" if pool.gpus_per_node is not None else "")
        for pool in instance.fleet.pools
    ]
    used = instance.fleet.max_utilisation
    lines = [
        f"The fleet: {'; '.join(pools)}."
        + (f" At most {share(used)} of a measured capacity is used." if used < 1.0 else "")
    ]
    if not rows:
        return lines
    model = _model(told.read.path)
    kind = "the kind of GPU is not recorded" if model else "Which model ran, and on what kind of GPU, is not recorded"
    lines.append(f"Model: {model}; {kind}." if model else f"{kind}.")
    windows = [row.window_s for row in rows if row.window_s is not None] or [instance.measure.window_s]
    parts = [f"{_span(windows)} s of load after {instance.measure.warmup_s:g} s of warm-up"]
    requests = [row.requests for row in rows if row.requests is not None]
    parts.append(f"{_span(requests)} requests" if requests else "the number of requests is not recorded")
    dates = sorted({row.started_at for row in rows if row.started_at})
    when = (
        f"from {dates[0]} to {dates[-1]}"
        if len(dates) > 1
        else f"at {dates[0]}"
        if dates
        else "at a time that is not recorded"
    )
    return [*lines, f"{len(rows)} looks that succeeded, each {', '.join(parts)}; measured {when}."]


def _model(folder: Path) -> str:
    """The model that the serve.toml of a live run names; "" where there is none to read."""
    try:
        tables = tomllib.loads((folder / SERVE).read_text(encoding="utf-8"))
        return str(tables["serve"]["model"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:,g}" if low == high else f"{low:,g} to {high:,g}"


def settling(account: Account, instance: Instance) -> Row | None:
    """What would settle an undecided verdict, and at what cost; None where the verdict is reached."""
    if not account.certificate.blocking:
        return None
    told: Row = {"ended": account.ended, "next": None, "cells": "", "open": [], "could": account.could_settle}
    told["failed"] = _failed(account)
    if account.next is not None:
        asked = account.next
        told["next"] = {
            "cell": str(asked.experiment.key),
            "cost": f"{asked.experiment.expected_cost_gpu_s:,.0f}",
            "reason": asked.experiment.reason,
            "policy": asked.policy,
            "best": _outcome(asked.at_best),
            "worst": _outcome(asked.at_worst),
        }
    if account.settling:
        told["cells"] = listed([str(key) for key in account.settling], 6)
        told["many"] = len(account.settling)
        told["cost"] = f"{account.settling_gpu_s:,.0f}"
        told["best"] = _outcome(account.at_best) if account.at_best is not None else ""
        told["worst"] = _outcome(account.at_worst) if account.at_worst is not None else ""
    told["open"] = [
        {
            "cell": str(cell.key),
            "capacity": _capacity(account.certificate.envelope[cell.key].capacity_rps),
            "cost": f"{cost_gpu_s(instance, cell.cell):,.0f}",
        }
        for cell in account.cells
        if cell.can_change
    ]
    return told


def _failed(account: Account) -> Row | None:
    """The failed cells that stay possible, and the verdict if they ran at their best, or were excluded; None without such cells."""
    if account.without_failed is None or account.failed_at_best is None:
        return None
    cells, many = listed([str(key) for key in account.failed], 6), len(account.failed) > 1
    best, without = _outcome(account.failed_at_best), _outcome(account.without_failed)
    return {"cells": cells, "many": many, "best": best, "without": without}


def _capacity(capacity: Interval) -> str:
    told = rate_text(capacity)
    return "no bound is known" if told == "unknown" else f"{told} a replica"


def _outcome(certificate: Certificate) -> str:
    if certificate.verdict is not Verdict.UNDECIDED:
        return str(certificate.verdict)
    gap = certificate.gap
    stages = [("floors", gap.shortfall)] if gap.shortfall > 0.0 else []
    stages += [("least fulfilment", gap.min_fulfilment), ("goodput", gap.goodput)]
    return f"undecided (gap: {', '.join(f'{name} {gap_part(value)}' for name, value in stages)})"
