"""The words and tables of a page, from the same objects as those of the command line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleetsieve.allocation import Allocation
from fleetsieve.answers.diagnosis import Account
from fleetsieve.answers.diagnosis.cells import limit_name
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, Verdict, verdict_sentence
from fleetsieve.certificate.sentence import listed, rests_on_bounds
from fleetsieve.figures.states import limits_text, rate_text
from fleetsieve.instance import (
    DEFAULT_POOL,
    TAIL_METRICS,
    CellKey,
    Instance,
    LoadKind,
    Measurement,
    Status,
    WorkloadClass,
)
from fleetsieve.interval import Interval
from fleetsieve.loop.cost import cost_gpu_s
from fleetsieve.report.failing import ENDINGS
from fleetsieve.report.rounding import PER_CENT, gap_part, rate, share
from fleetsieve.report.subject import Report
from fleetsieve.runs.history import History, LoggedStep
from fleetsieve.runs.layout import SERVE

Row = dict[str, Any]
_PER_CENT = re.compile(r"(?<=\d)%")


def verdict_words(certificate: Certificate) -> str:
    """The verdict's sentence without its first word, which the page shows apart."""
    return verdict_sentence(certificate).removeprefix(f"{certificate.verdict}: ")


CLOSED_LOOP = "closed-loop latency"
"""How the statement begins that covers closed loops alone."""


def statements(certificate: Certificate) -> list[tuple[str, str]]:
    """What the verdict rests on: a name where there is one ("" otherwise), and the statement.

    The statements about closed loops are left out where every load is an open one.
    """
    named = []
    closed = any(cell.load_kind is LoadKind.CONCURRENCY for cell in certificate.envelope.instance.cells)
    for statement in rests_on_bounds(certificate.envelope):
        if statement.startswith(CLOSED_LOOP) and not closed:
            continue
        name, colon, rest = statement.partition(": ")
        named.append((name, rest) if colon and " " not in name else ("", statement))
    return named


def plan_rows(plan: Allocation, envelope: Envelope, *, lower: bool) -> list[Row]:
    """One row a class of a plan; guaranteed figures (`lower`) are rounded down, hoped-for ones up."""
    rows = []
    for place, class_plan in enumerate(plan.classes):
        key = class_plan.configuration.name if class_plan.configuration is not None else None
        floor = envelope.instance.class_by_name[class_plan.class_name].floor_rps
        row: Row = {
            "class": class_plan.class_name,
            "place": place,
            "replicas": class_plan.replicas,
            "gpus": class_plan.gpus,
        }
        row["served"] = f"{rate(class_plan.served_rps, lower=lower)} of {class_plan.demand_rps:g}"
        row["fulfilment"] = share(class_plan.fulfilment, lower=lower) if class_plan.demand_rps > 0.0 else "-"
        row["floor"] = f"{floor:g}" if floor is not None else "-"
        used = class_plan.utilisation * envelope.instance.fleet.max_utilisation
        row["utilisation"] = share(used, lower=False) if class_plan.replicas else "-"
        if isinstance(key, CellKey):
            limits = limits_text(envelope.classes[class_plan.class_name], envelope[key])
            row |= {"tp": key.server.degree, "load": key.load, "pool": key.pool, "limits": limits}
        else:
            unservable = "cannot be served" if class_plan.class_name in envelope.unservable else "not served"
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
            "why": spaced(step.reason),
            "status": step.status,
            "changed": _changed(step),
            "gap": " / ".join(gap_part(value) for value in step.gap.values()),
        }
        for step in history.steps
    ]


def spaced(text: str) -> str:
    """Text of a log with its per cents as the page writes them.

    >>> spaced("expected to close 24% of what is open")
    'expected to close 24\xa0% of what is open'
    """
    return _PER_CENT.sub(PER_CENT, text)


def _changed(step: LoggedStep) -> str:
    """What a step showed and changed, without the gap, which has a column of its own, and without the files' word for a failure."""
    text = step.changed.rpartition("; gap")[0] or step.changed
    named = {str(status): ending for status, ending in ENDINGS.items()}
    return text.replace(f"ended in {step.status}", f"failed: {named[step.status]}") if step.status in named else text


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
    text = f"The gap last moved at step {steps[last].number}"
    return f"{text}; the {idle} steps after it took {cost:,.0f} GPU-seconds and did not move it."


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
    means = [
        f"{mean:,.0f} {way}"
        for mean, way in ((workload.input_tokens, "in"), (workload.output_tokens, "out"))
        if mean is not None
    ]
    return ", ".join(means) or "not stated"


def _slo(workload: WorkloadClass) -> str:
    limits = [(m, workload.slo.limit_s(m)) for m in TAIL_METRICS]
    limits_stated = [f"{limit_name(m)} at most {limit:g} s" for m, limit in limits if limit is not None]
    limits_stated += (
        [f"success at least {100.0 * workload.slo.min_success:.4g}{PER_CENT}"]
        if workload.slo.min_success is not None
        else []
    )
    return ", ".join(limits_stated) or "no limit"


def measured_when(rows: Sequence[Measurement]) -> str:
    """When the rows were measured, in a sentence; where no row has a date, the column that records it."""
    dates = sorted({row.started_at for row in rows if row.started_at})
    if not dates:
        return "The dates of the measurements are not recorded (column started_at of measurements.csv)."
    return f"Measured from {dates[0]} to {dates[-1]}." if len(dates) > 1 else f"Measured at {dates[0]}."


def how_measured(report: Report) -> list[tuple[str, str]]:
    """What is recorded of the model, the engine, the GPUs and the measurements: a name and its value.

    Where nothing is recorded, the value names the file that records it.
    """
    instance, rows = report.read.instance, [row for row in report.read.measurements if row.status is Status.OK]
    pools = [
        f"{pool.gpus} GPUs{f' {pool.name}' if pool.name != DEFAULT_POOL else ''}"
        + (f", {pool.gpus_per_node} per node" if pool.gpus_per_node is not None else "")
        for pool in instance.fleet.pools
    ]
    used = instance.fleet.max_utilisation
    fleet = "; ".join(pools) + (f"; at most {share(used)} of a measured capacity is used" if used < 1.0 else "")
    if all(pool.name == DEFAULT_POOL for pool in instance.fleet.pools):
        fleet += "; their kind is not recorded (name of a pool in [[fleet.pools]] of instance.toml)"
    model, command = _served(report.read.path)
    lines = [
        ("model", model or "not recorded (model under [serve] in serve.toml, or source in instance.toml)"),
        ("engine", command or "not recorded (serve.toml, or source in instance.toml)"),
        ("GPUs", fleet),
    ]
    if not rows:
        return lines
    windows = [row.window_s for row in rows if row.window_s is not None] or [instance.measure.window_s]
    requests = [row.requests for row in rows if row.requests is not None]
    counted = f"{_span(requests)} requests" if requests else "the number of requests is not recorded"
    load = f"{_span(windows)} s of load after {instance.measure.warmup_s:g} s of warm-up, {counted}"
    return [*lines, ("measurements", f"{len(rows)} that succeeded, each {load}. {measured_when(rows)}")]


def _served(folder: Path) -> tuple[str, str]:
    """The model and the engine's command that the serve.toml of a live run names; "" where there is none to read."""
    try:
        tables = tomllib.loads((folder / SERVE).read_text(encoding="utf-8"))
        command = tables["serve"].get("command", ["vllm", "serve"])
        return str(tables["serve"]["model"]), " ".join(map(str, command))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", ""


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:,g}" if low == high else f"{low:,g} to {high:,g}"


def settling(account: Account, instance: Instance) -> Row | None:
    """What would settle an undecided verdict, and at what cost; None where the verdict is reached."""
    if not account.certificate.blocking:
        return None
    row: Row = {"ended": account.ended, "next": None, "cells": "", "open": [], "could": account.could_settle}
    row["failed"] = _failed(account)
    if account.next is not None:
        asked = account.next
        row["next"] = {
            "cell": str(asked.experiment.key),
            "cost": f"{asked.experiment.expected_cost_gpu_s:,.0f}",
            "reason": spaced(asked.experiment.reason),
            "policy": asked.policy,
            "best": _outcome(asked.at_best),
            "worst": _outcome(asked.at_worst),
        }
    if account.settling:
        row["cells"] = listed([str(key) for key in account.settling], 6)
        row["many"] = len(account.settling)
        row["cost"] = f"{account.settling_gpu_s:,.0f}"
        row["best"] = _outcome(account.at_best) if account.at_best is not None else ""
        row["worst"] = _outcome(account.at_worst) if account.at_worst is not None else ""
    row["open"] = [
        {
            "cell": str(cell.key),
            "capacity": _capacity(account.certificate.envelope[cell.key].capacity_rps),
            "cost": f"{cost_gpu_s(instance, cell.cell):,.0f}",
        }
        for cell in account.cells
        if cell.can_change
    ]
    return row


def _failed(account: Account) -> Row | None:
    """The failed cells that stay possible, and the verdict if they ran at their best, or were excluded; None without such cells."""
    if account.without_failed is None or account.failed_at_best is None:
        return None
    cells, many = listed([str(key) for key in account.failed], 6), len(account.failed) > 1
    best, without = _outcome(account.failed_at_best), _outcome(account.without_failed)
    return {"cells": cells, "many": many, "best": best, "without": without}


def _capacity(capacity: Interval) -> str:
    text = rate_text(capacity)
    return "no bound is known" if text == "unknown" else f"{text} a replica"


def _outcome(certificate: Certificate) -> str:
    if certificate.verdict is not Verdict.UNDECIDED:
        return str(certificate.verdict)
    gap = certificate.gap
    stages = [("floors", gap.shortfall)] if gap.shortfall > 0.0 else []
    stages += [("least fulfilment", gap.min_fulfilment), ("goodput", gap.goodput)]
    return f"undecided (gap: {', '.join(f'{name} {gap_part(value)}' for name, value in stages)})"
