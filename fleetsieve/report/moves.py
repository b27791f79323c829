"""How far today's plan and verdict carry: for each limit, for the demand and for the number of GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fleetsieve.allocation import TIE
from fleetsieve.answers.diagnosis.cells import limit_name
from fleetsieve.answers.sensitivity import Axis, Decision, DemandAxis, GpusAxis, SloAxis, Span, Study, study
from fleetsieve.answers.sensitivity.answers import added, answers
from fleetsieve.answers.what_if import largest_demand_scale
from fleetsieve.certificate import placement
from fleetsieve.errors import SolveFailed
from fleetsieve.files import Folder
from fleetsieve.files.toml_schema import MAX_GPUS
from fleetsieve.instance import TAIL_METRICS
from fleetsieve.report.headroom import fewer_gpus
from fleetsieve.report.rounding import points, rate

FACTORS = 0.5, 2.0
"""The range that is studied, as multiples of a limit or of the demand; a reach of a limit may go beyond it."""

MORE_GPUS = 16
"""How many more GPUs are tried."""

Row = dict[str, str]


def moves(read: Folder, *, planned: bool) -> list[Row]:
    """One row for each number that may move: where it is, how far today's plan carries, and what changes beyond.

    Without a plan (`planned` false) no range is given, only the verdict for each value. A study that
    the solver fails is listed as not computed, with the reason.
    """
    rows = []
    for what, axis, row_of in _axes(read, planned):
        try:
            rows.append({"what": what, **row_of(study(read.instance, read.measurements, axis))})
        except SolveFailed as error:
            rows.append({"what": what, "now": "", "holds": "not computed", "beyond": error.message})
    return rows


def _axes(read: Folder, planned: bool) -> Iterator[tuple[str, Axis, Callable[[Study], Row]]]:
    """What is varied, the axis, and the function that makes a row of its study."""
    instance = read.instance
    for workload in instance.classes if planned else ():
        for metric in TAIL_METRICS:
            limit = workload.slo.limit_s(metric)
            if limit is not None and limit > 0.0 and workload.demand_rps > 0.0:
                axis = SloAxis(workload.name, f"{metric}_p99_s", FACTORS[0] * limit, FACTORS[1] * limit)
                yield f"{workload.name}: {limit_name(metric)} limit", axis, _slo_row
    if any(workload.demand_rps > 0.0 for workload in instance.classes):
        yield (
            "demand of all classes (floors stay)",
            DemandAxis(None, FACTORS[0], min(FACTORS[1], largest_demand_scale(instance))),
            _demand_row if planned else _verdicts_row,
        )
    if len(instance.fleet.pools) == 1:
        gpus, fewer = instance.fleet.gpus, fewer_gpus(instance)
        axis_gpus = GpusAxis(fewer or gpus, min(gpus + MORE_GPUS, MAX_GPUS))
        yield "GPUs of the fleet", axis_gpus, _gpus_row if planned else _verdicts_row


def _slo_row(found: Study) -> Row:
    answer = answers(found)
    reach, least = answer["plan_holds"], answer["tightest_feasible"]
    loosest = reach["to"]
    notes = [f"from {loosest:.4g} s on: {_change(found, answer['today'], loosest)}"] if loosest is not None else []
    tightest = reach["from"]
    if tightest is not None and least is not None and least < tightest:
        below = tightest * (1.0 - 1e-9)
        notes.append(f"tighter than {tightest:.4g} s: {_change(found, answer['today'], below)}")
    if least is None:
        notes.append("no measured cell keeps any limit")
    else:
        notes.append(f"tighter than {least:.4g} s no measured cell keeps it, so none can serve the class")
    return {"now": f"{answer['today']:g} s", "holds": _range(tightest, loosest, " s"), "beyond": "; ".join(notes)}


def _demand_row(found: Study) -> Row:
    answer = answers(found)
    plan = answer["plan_holds"]
    notes = (
        [f"beyond {plan['to']:.4g} x: {_change(found, 1.0, plan['to'] * (1.0 + 1e-9))}"] if plan and plan["to"] else []
    )
    if len({stretch.decision.verdict for stretch in found.stretches}) > 1:
        notes.append(f"the verdict: {_verdicts(found, ' x')}")
    else:
        notes.append(f"the verdict stays {found.stretches[0].decision.verdict}")
    return {"now": "1 x", "holds": _around_today(found, 1.0, " x"), "beyond": "; ".join(notes)}


def _around_today(found: Study, today: float, unit: str) -> str:
    """The range around today in which the plan stays; "above" and "below" where an end does not belong to it."""
    place = next((k for k, stretch in enumerate(found.stretches) if stretch.span.holds(today)), None)
    if place is None:
        return "-"
    same = [stretch.decision.placed == found.stretches[place].decision.placed for stretch in found.stretches]
    low = high = place
    while low > 0 and same[low - 1]:
        low -= 1
    while high + 1 < len(same) and same[high + 1]:
        high += 1
    first, last = found.stretches[low].span, found.stretches[high].span
    left = f"{first.lo:.4g}" if first.lo_closed else f"above {first.lo:.4g}"
    right = f"{last.hi:.4g}" if last.hi_closed else f"below {last.hi:.4g}"
    more = " (the end of what was tried)" if high + 1 == len(same) else ""
    return f"{left} to {right}{unit}{more}"


def _verdicts(found: Study, unit: str = "") -> str:
    """Which verdict holds where, over all that was studied."""
    spans: list[tuple[str, Span]] = []
    for stretch in found.stretches:
        if spans and spans[-1][0] == stretch.decision.verdict:
            spans[-1] = (spans[-1][0], spans[-1][1].joined(stretch.span))
        else:
            spans.append((stretch.decision.verdict, stretch.span))
    return ", ".join(f"{verdict} {_ends(span)}{unit}" for verdict, span in spans)


def _ends(span: Span) -> str:
    return f"at {span.lo:.4g}" if span.lo == span.hi else f"from {span.lo:.4g} to {span.hi:.4g}"


def _verdicts_row(found: Study) -> Row:
    """What becomes of the verdict; without a plan, more of anything adds to nothing."""
    if isinstance(found.axis, GpusAxis):
        now, unit = f"{found.instance.fleet.gpus} GPUs", " GPUs"
    else:
        now, unit = "1 x", " x"
    return {"now": now, "holds": "there is no plan", "beyond": f"the verdict: {_verdicts(found, unit)}"}


def _gpus_row(found: Study) -> Row:
    today = found.instance.fleet.gpus
    now = found.decide(today)
    notes = []
    if found.axis.lo < today:
        notes.append(f"{found.axis.lo:g} GPUs: {_moved(now, found.decide(found.axis.lo))}")
    later = [s for s in found.stretches if s.span.lo > today and s.decision.placed != now.placed]
    if later:
        notes.append(f"{later[0].span.lo:g} GPUs: {_moved(now, later[0].decision)}")
    else:
        notes.append(f"up to {found.axis.hi:g} GPUs the plan stays as it is")
    full = [s for s in found.stretches if s.span.lo > today and _all_served(s.decision)]
    if full and not _all_served(now):
        notes.append(f"{full[0].span.lo:g} GPUs meet all demand")
    reach = answers(found)["plan_holds"]
    low = int(reach["from"]) if reach and reach["from"] is not None else int(found.axis.lo)
    high = f"{reach['to']:g}" if reach and reach["to"] is not None else f"at least {found.axis.hi:g}"
    holds = f"{today} GPUs alone" if (f"{low}", high) == (f"{today}",) * 2 else f"{low} to {high} GPUs"
    return {"now": f"{today} GPUs", "holds": holds, "beyond": "; ".join(notes)}


def _all_served(decision: Decision) -> bool:
    return decision.plan is not None and all(class_plan.fulfilment >= 1.0 - TIE for class_plan in decision.plan.classes)


def _moved(now: Decision, then: Decision) -> str:
    """What another number of GPUs guarantees, and how far that is from today's."""
    more = added(now, then)
    if more is None:
        return f"no plan ({then.verdict})"
    goodput, least = more["goodput_rps"], more["min_fulfilment"] or 0.0
    parts = [f"{'+' if goodput > 0 else '-'}{rate(abs(goodput))} requests/s"] if abs(goodput) > TIE else []
    parts += (
        [f"{'+' if least > 0 else '-'}{points(abs(least), lower=least > 0)} for the worst-served class"]
        if abs(least) > TIE
        else []
    )
    text = ", ".join(parts) or "the same is guaranteed"
    return text if now.verdict == then.verdict else f"{text} ({then.verdict})"


def _range(low: float | None, high: float | None, unit: str) -> str:
    """How far a limit may move; an end that nothing sets is open."""
    if low is None and high is None:
        return "at any value"
    if low is None or high is None:
        return f"below {high:.4g}{unit}" if low is None else f"{low:.4g}{unit} and looser"
    return f"{low:.4g} to below {high:.4g}{unit}"


def _change(found: Study, today: float, beyond: float) -> str:
    """What is decided at `beyond` that is not decided today: the classes that move, and the verdict."""
    now, then = found.decide(today), found.decide(beyond)
    moved = [f"{name} -> {place}" for name, place in _places(then).items() if place != _places(now)[name]]
    changes = ", ".join(moved) if moved else "the same plan"
    return changes if now.verdict == then.verdict else f"{changes} ({then.verdict})"


def _places(decision: Decision) -> dict[str, str]:
    if decision.plan is None:
        return {}
    return {
        class_plan.class_name: placement(
            class_plan.configuration.name if class_plan.configuration else None, class_plan.replicas
        )
        for class_plan in decision.plan.classes
    }
