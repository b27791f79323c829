"""How far today's plan and verdict carry: for each limit, for the demand and for the number of GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fleetsieve.account.cells import limit_name
from fleetsieve.allocation import TIE
from fleetsieve.certificate import placement
from fleetsieve.errors import SolveFailed
from fleetsieve.files import Folder
from fleetsieve.instance import TAIL_METRICS
from fleetsieve.sensitivity import Axis, Decision, DemandAxis, GpusAxis, SloAxis, Study, study
from fleetsieve.sensitivity.answers import answers

FACTORS = 0.5, 2.0
"""The range that is studied, as multiples of a limit or of the demand; a reach of a limit may go beyond it."""

MORE_GPUS = 16
"""How many more GPUs are tried."""

Row = dict[str, str]


def moves(read: Folder) -> list[Row]:
    """One row for each number that may move: where it stands, how far today's plan carries, and what comes beyond.

    A study that the solver fails is told as not computed, with the reason.
    """
    rows = []
    for what, axis, told in _axes(read):
        try:
            rows.append({"what": what, **told(study(read.instance, read.measurements, axis))})
        except SolveFailed as fault:
            rows.append({"what": what, "now": "", "holds": "not computed", "beyond": fault.message})
    return rows


def _axes(read: Folder) -> Iterator[tuple[str, Axis, Callable[[Study], Row]]]:
    """What is varied, and how its study is told."""
    instance = read.instance
    for workload in instance.classes:
        for metric in TAIL_METRICS:
            limit = workload.slo.limit_s(metric)
            if limit is not None and limit > 0.0 and workload.demand_rps > 0.0:
                axis = SloAxis(workload.name, f"{metric}_p99_s", FACTORS[0] * limit, FACTORS[1] * limit)
                yield f"{workload.name}: {limit_name(metric)} limit", axis, _slo_row
    if any(workload.demand_rps > 0.0 for workload in instance.classes):
        yield "demand of all classes", DemandAxis(None, *FACTORS), _demand_row
    if len(instance.fleet.pools) == 1:
        gpus = instance.fleet.gpus
        yield "GPUs of the fleet", GpusAxis(gpus, gpus + MORE_GPUS), _gpus_row


def _slo_row(found: Study) -> Row:
    told = answers(found)
    reach, least = told["plan_holds"], told["tightest_feasible"]
    loosest = reach["to"]
    beyond = f"from {loosest:.4g} s on: {_change(found, told['today'], loosest)}" if loosest is not None else ""
    feasible = "no measured cell keeps any limit"
    if least is not None:
        feasible = f"{least:.4g} s is the smallest limit that a measured cell keeps"
    return {
        "now": f"{told['today']:g} s",
        "holds": _range(reach["from"], loosest, " s"),
        "beyond": "; ".join(part for part in (beyond, feasible) if part),
    }


def _demand_row(found: Study) -> Row:
    told = answers(found)
    plan, verdict = told["plan_holds"], told["verdict_holds"]
    notes = [f"the verdict stays for {_range(verdict['from'], verdict['to'], ' x', found)}"] if verdict else []
    if plan and plan["to"] is not None:
        notes.append(f"beyond {plan['to']:.4g} x: {_change(found, 1.0, plan['to'] * (1.0 + 1e-9))}")
    holds = _range(plan["from"], plan["to"], " x", found) if plan else "-"
    return {"now": "1 x", "holds": holds, "beyond": "; ".join(notes)}


def _gpus_row(found: Study) -> Row:
    told = answers(found)
    today, one, change = told["today"], told["one_more"], told["next_change"]
    notes = [f"one more GPU adds {_added(one)}"] if one is not None else []
    if change is None:
        notes.append(f"up to {today + MORE_GPUS} GPUs change nothing")
    elif change["gpus"] > today + 1:
        notes.append(f"{change['gpus']} GPUs add {_added(change)}")
    reach = told["plan_holds"]
    top = reach["to"] if reach else None
    holds = f"{today} to {top:g}" if top is not None else f"{today} to at least {today + MORE_GPUS}"
    holds = f"{today} alone" if top == today else holds
    return {"now": str(today), "holds": holds, "beyond": "; ".join(notes)}


def _added(figures: dict[str, Any]) -> str:
    """What more GPUs guarantee, in words."""
    goodput, least = figures["goodput_rps"], figures["min_fulfilment"]
    parts = [f"{goodput:.3g} requests/s"] if abs(goodput) > TIE else []
    parts += [f"{least:.3g} of least fulfilment"] if abs(least) > TIE else []
    return " and ".join(parts) or "nothing"


def _range(low: float | None, high: float | None, unit: str, found: Study | None = None) -> str:
    """A reach in words; an end that nothing sets is told as open, or as the end of what was studied."""
    if low is None and high is None and found is not None:
        return f"all of {found.axis.lo:g} to {found.axis.hi:g}{unit}"
    if found is not None:
        left = f"{low:.4g}" if low is not None else f"{found.axis.lo:g} or less"
        right = f"{high:.4g}" if high is not None else f"{found.axis.hi:g} or more"
        return f"{left} up to {right}{unit}"
    if low is None and high is None:
        return "whatever it is"
    if low is None or high is None:
        return f"up to {high:.4g}{unit}" if low is None else f"{low:.4g}{unit} and looser"
    return f"{low:.4g} to {high:.4g}{unit}"


def _change(found: Study, today: float, beyond: float) -> str:
    """What is decided at `beyond` that is not decided today: the classes that move, and the verdict."""
    now, then = found.decide(today), found.decide(beyond)
    moved = [f"{name} -> {place}" for name, place in _places(then).items() if place != _places(now)[name]]
    told = ", ".join(moved) if moved else "the same plan"
    return told if now.verdict == then.verdict else f"{told} ({then.verdict})"


def _places(decision: Decision) -> dict[str, str]:
    if decision.plan is None:
        return {}
    return {
        got.class_name: placement(got.configuration.name if got.configuration else None, got.replicas)
        for got in decision.plan.classes
    }
