"""The words and tables of a page, from the same objects as those of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetsieve.account import Account
from fleetsieve.allocation import Allocation
from fleetsieve.certificate import Certificate, Verdict, gap_document, verdict_sentence
from fleetsieve.certificate.sentence import gap_text, listed, rests_on_bounds
from fleetsieve.cost import grid_cost_gpu_s
from fleetsieve.envelope import Envelope
from fleetsieve.figures.states import limits_text
from fleetsieve.history import History
from fleetsieve.instance import CellKey, Status
from fleetsieve.interval import lower_text, upper_text
from fleetsieve.serving.register import measured_starts_s

if TYPE_CHECKING:
    from fleetsieve.report.building import Told

Row = dict[str, Any]


def verdict_words(certificate: Certificate) -> str:
    """The verdict's sentence without its first word, which the page shows apart."""
    return verdict_sentence(certificate).removeprefix(f"{certificate.verdict}: ")


MEANINGS = {
    Verdict.FEASIBLE: "This means: proven to be about the best that this fleet can do. It does not mean that all demand is met.",
    Verdict.UNDECIDED: "This means: what was measured does not yet show whether the plan below is good enough.",
    Verdict.INFEASIBLE: "This means: proven that no plan for this fleet can do what must be done.",
}
"""What each verdict means to somebody who meets it for the first time."""


def facts(told: Told) -> list[tuple[str, str, str]]:
    """What a reader sees at once: a name, a figure, and what it is measured by."""
    c = told.certificate
    instance, plan = c.envelope.instance, c.conservative
    cells = [cell for cell in instance.cells if not cell.excluded]
    grid, spent = grid_cost_gpu_s(instance, cells, measured_starts_s(told.read.path)), told.sieve.spent_gpu_s
    seen = {row.key for row in told.read.measurements}
    share = f"{spent / grid:.0%} of the full grid's {grid:,.0f} GPU-seconds" if grid > 0.0 else "GPU-seconds"
    total = plan.problem.total_demand_rps
    counted = any(demand.in_minimum and demand.demand_rps > 0.0 for demand in plan.problem.classes)
    least = lower_text(plan.min_fulfilment, 3) if counted else "-"
    return [
        ("GPUs in use", f"{plan.gpus_used}", f"of {instance.fleet.gpus}"),
        ("Least fulfilment", least, "served of demand, worst class"),
        ("Goodput", lower_text(plan.goodput_rps, 1), f"of {total:g} requests/s demanded"),
        ("Gap", gap_text(c.gap), f"{_stages(c)}; certifies at {c.epsilon:g}"),
        ("Cells measured", f"{len(seen)}", f"of {len(cells)}"),
        ("Spent", f"{spent:,.0f}", share),
    ]


def _stages(c: Certificate) -> str:
    return "least fulfilment/goodput" if c.gap.shortfall == 0.0 else "floors/least fulfilment/goodput"


def statements(certificate: Certificate) -> list[tuple[str, str]]:
    """What the verdict rests on: a name where there is one ("" otherwise), and the statement."""
    told = []
    for statement in rests_on_bounds(certificate.envelope):
        name, colon, rest = statement.partition(": ")
        told.append((name, rest) if colon and " " not in name else ("", statement))
    return told


def plan_rows(plan: Allocation, envelope: Envelope, *, lower: bool) -> list[Row]:
    """One row a class of a plan; guaranteed figures (`lower`) are rounded down, hoped-for ones up."""
    text = lower_text if lower else upper_text
    rows = []
    for place, got in enumerate(plan.classes):
        key = got.configuration.name if got.configuration is not None else None
        row: Row = {"class": got.class_name, "place": place, "replicas": got.replicas, "gpus": got.gpus}
        row |= {"served": f"{text(got.served_rps)} of {got.demand_rps:g}", "fulfilment": text(got.fulfilment, 4)}
        if isinstance(key, CellKey):
            limits = limits_text(envelope.classes[got.class_name], envelope[key])
            row |= {"tp": str(key.tp), "load": key.load, "pool": key.pool, "limits": limits}
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
            "changed": step.changed.rpartition("; gap")[0] or step.changed,
            "gap": "/".join("?" if value is None else f"{value:.3f}" for value in step.gap.values()),
        }
        for step in history.steps
    ]


def failures(certificate: Certificate) -> list[Row]:
    """One row a failed look: the cell, how it ended, its cause, and what follows from it."""
    rows = []
    for own in certificate.envelope.classes.values():
        for key in sorted(own.view.known):
            known = own.view.known[key]
            if not any(row.status is not Status.OK for row in known.rows):
                continue
            if key in own.closed:
                follows = f"closed for good: {own.closed[key]}"
            elif not known.failed:
                follows = "a later look succeeded, and counts"
            elif known.given_up:
                follows = "not tried again; no plan commits it, and it stays possible: it may be a flake"
            else:
                follows = "no plan commits it; it is tried once more if it can still change the decision"
            rows += [
                {"cell": str(key), "look": row.seed, "status": str(row.status), "cause": row.source or "not recorded",
                 "follows": follows}
                for row in known.rows
                if row.status is not Status.OK
            ]  # fmt: skip
    return rows


def settling(account: Account) -> Row | None:
    """What would settle an undecided verdict, and at what cost; None where the verdict is reached."""
    if not account.certificate.blocking:
        return None
    told: Row = {"ended": account.ended, "next": None, "cells": "", "cost": "", "open": []}
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
        told["cost"] = f"{account.settling_gpu_s:,.0f}"
    told["open"] = [{"cell": str(cell.key), "why": cell.why} for cell in account.cells if cell.can_change]
    return told


def _outcome(certificate: Certificate) -> str:
    gap = gap_document(certificate.gap)
    left = max((value for value in gap.values() if value is not None), default=None)
    return f"{certificate.verdict}" + (f" (gap {gap_text(certificate.gap)})" if left else "")
