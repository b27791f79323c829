"""A sensitivity study for a person: one line an interval or region, then the answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fleetsieve.answers.diagnosis.cells import limit_name
from fleetsieve.answers.sensitivity import (
    BROKEN,
    Axis,
    DemandAxis,
    EpsilonAxis,
    GpusAxis,
    Map,
    SloAxis,
    Span,
    Stretch,
    Study,
)
from fleetsieve.answers.sensitivity.answers import answers, binding, passing
from fleetsieve.answers.sensitivity.document import allocation_text
from fleetsieve.certificate import Verdict
from fleetsieve.certificate.sentence import gap_text, listed
from fleetsieve.interval import lower_text, upper_text
from fleetsieve.presentation.terminal import literal, say, show_table


def show_study(console: Console, study: Study) -> None:
    """The intervals of one axis, what ends them, and the answers."""
    axis = study.axis
    table = _table(f"{study.instance.name}: {axis.title}", ["from", "to"])
    if isinstance(axis, SloAxis):
        table.add_column("passes from here", overflow="fold")
    for stretch in study.stretches:
        cells = [*_ends(axis, stretch.span), *_cells(axis, stretch, exact=stretch.exact)]
        if isinstance(axis, SloAxis):
            cells.append(_passing(study, stretch.span.lo if axis.rises else stretch.span.hi))
        table.add_row(*(literal(cell) for cell in cells), style="" if _good(stretch) else "dim")
    show_table(console, table)
    _tell_given(console, study.broken_today)
    for line in _lines(study):
        say(console, line)
    _tell_rough(console, all(s.exact for s in study.stretches))


def show_map(console: Console, found: Map) -> None:
    """The regions of two axes."""
    title = f"{found.instance.name}: x is {found.x.title}; y is {found.y.title}"
    table = _table(title, ["x from", "x to", "y from", "y to"])
    along = None if isinstance(found.x, GpusAxis) or isinstance(found.y, GpusAxis) else found.y
    for region in found.regions:
        sides = [*_ends(found.x, region.x), *_ends(found.y, region.y)]
        cells = [*sides, *_cells(along, region.stretch, exact=region.exact)]
        table.add_row(*(literal(cell) for cell in cells), style="" if _good(region.stretch) else "dim")
    show_table(console, table)
    _tell_given(console, found.broken_today)
    count = len({r.stretch.decision.placed for r in found.regions})
    say(console, f"{_count(len(found.regions), 'region')}, {_count(count, 'allocation')}")
    _tell_rough(console, all(r.exact for r in found.regions))


def _table(title: str, ends: list[str]) -> Table:
    table = Table(title=literal(title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in ends:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    table.add_column("allocation", overflow="fold")
    for name in ("min fulfilment", "goodput, rps", "gap"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("binds", overflow="fold")
    return table


def _good(stretch: Stretch) -> bool:
    return stretch.decision.verdict == str(Verdict.FEASIBLE)


def _ends(axis: Axis, span: Span) -> list[str]:
    """Both ends; one that does not belong to the span is marked by "<" or ">"."""
    digits = "d" if isinstance(axis, GpusAxis) else ".6g"
    low, high = ((int(v) if digits == "d" else v) for v in (span.lo, span.hi))
    return [f"{'' if span.lo_closed else '>'}{low:{digits}}", f"{'' if span.hi_closed else '<'}{high:{digits}}"]


def _cells(axis: Axis | None, stretch: Stretch, *, exact: bool) -> list[str]:
    decision = stretch.decision
    fulfilment = _range(stretch.first.min_fulfilment, stretch.last.min_fulfilment, 4)
    if decision.envelope.unservable and stretch.first.min_fulfilment is not None:
        fulfilment += " of the servable"
    goodput = _range(stretch.first.goodput_rps, stretch.last.goodput_rps, 3)
    gap = gap_text(stretch.gap) if math.isfinite(stretch.gap.largest) else "-"
    return [
        f"{decision.verdict}{'' if exact else ' (sampled)'}", allocation_text(decision), fulfilment, goodput, gap,
        _binds(axis, stretch),
    ]  # fmt: skip


def _range(first: float | None, last: float | None, digits: int) -> str:
    """A guaranteed figure at both ends, rounded down; one number where they agree."""
    if first is None or last is None:
        return "-"
    one, other = lower_text(first, digits), lower_text(last, digits)
    return one if one == other else f"{one} to {other}"


def _binds(axis: Axis | None, stretch: Stretch) -> str:
    bound_by = binding(stretch.decision)
    words = [f"{bound_by['blocking'].replace('_', ' ')} blocks"] if bound_by["blocking"] else []
    if bound_by["least_fulfilled"]:
        words.append(f"{listed(bound_by['least_fulfilled'])} least fulfilled")
    if bound_by["gpus_left"] is not None and axis is not None:
        # Along the GPUs, a plan that stays leaves the more of them the more there are.
        more = int(stretch.span.hi - stretch.decision.envelope.instance.fleet.gpus) if isinstance(axis, GpusAxis) else 0
        left = bound_by["gpus_left"]
        gpus_text = f"{left} to {left + more} GPUs" if more else _count(left, "GPU")
        words.append(f"{gpus_text} left" if left + more else "all GPUs in use")
    if stretch.decision.plan is not None:
        words += stretch.decision.faults  # of a given plan: what it does not serve in full
    return ", ".join(words)


def _passing(study: Study, value: float) -> str:
    proven, hoped = passing(study, value)
    names = [key.configuration for key in proven] + [f"{key.configuration} (not proven)" for key in hoped]
    return ", ".join(names)


def _tell_rough(console: Console, exact: bool) -> None:
    if not exact:
        say(
            console,
            "(sampled): break points cannot be computed there; two changes between neighbouring samples may be missed.",
        )


def _tell_given(console: Console, broken: Sequence[str] | None) -> None:
    """Whether a given plan holds at the numbers that the instance states; all that breaks it."""
    if broken:
        say(console, f"the given plan does not hold today: {'; '.join(broken)}", "bold red")
    elif broken is not None:
        say(console, "the given plan holds today")


def _mended(study: Study) -> list[str]:
    """Where a given plan that is broken today would hold."""
    axis = study.axis
    ranges = [" to ".join(_ends(axis, s.span)) for s in study.stretches if s.decision.verdict != BROKEN]
    where = f"for {axis.name} from {', and from '.join(ranges)}" if ranges else f"nowhere in this range of {axis.name}"
    return [f"the given plan would hold {where}"]


def _lines(study: Study) -> list[str]:
    """The answers in sentences."""
    axis, answered = study.axis, answers(study)
    if study.broken_today and not isinstance(axis, SloAxis):
        return _mended(study)
    what = "the given plan holds" if study.decider.given is not None else "the plan is unchanged"
    if isinstance(axis, SloAxis):
        return [*_slo_lines(axis, answered, what), *(_mended(study) if study.broken_today else [])]
    if isinstance(axis, DemandAxis):
        return [
            _carries("the verdict is unchanged", f"factors of {axis.name}", answered["verdict_holds"], "now 1"),
            _carries(what, f"factors of {axis.name}", answered["plan_holds"], "now 1"),
        ]
    if isinstance(axis, GpusAxis):
        lines = [f"one GPU more than today's {answered['today']} adds: {_worth(answered['one_more'])}"]
        if answered["next_change"] is not None:
            change = answered["next_change"]
            lines.append(f"the next change is at {change['gpus']} GPUs: {_worth(change)}, {change['verdict']}")
        elif axis.lo > answered["today"] + 1:
            lines.append(f"the next change is unknown: the range starts above today's {answered['today']} GPUs")
        return [*lines, _carries(what, "numbers of GPUs", answered["plan_holds"], f"now {answered['today']}")]
    if isinstance(axis, EpsilonAxis):
        least = answered["certifies_from"]
        return ["no epsilon in the range certifies" if least is None else f"certifies from epsilon {least:.6g} on"]
    return []


def _slo_lines(axis: SloAxis, answered: Mapping[str, Any], what: str) -> list[str]:
    feasible, possible, today = answered["tightest_feasible"], answered["tightest_possible"], answered["today"]
    better = "" if possible == feasible else f" ({_limit(axis, possible)} is still possible)"
    lines = [f"the tightest {_name(axis)} that a measured cell meets: {_limit(axis, feasible)}{better}"]
    if today is None:
        return [*lines, f"the instance states no {_name(axis)}"]
    holds = answered["plan_holds"]
    if holds is None:
        return lines  # the given plan is broken today, which is stated before
    return [*lines, f"{what} for {_limits(axis, today, holds['from'], holds['to'])} (now {_limit(axis, today)})"]


def _limits(axis: SloAxis, today: float, tight: float | None, loose: float | None) -> str:
    """The limits between a tightest one, which belongs to them, and a looser one, which does not; None: no end on that side.

    Both ends are rounded inwards, but not beyond the limit of today.

    >>> axis = SloAxis("chat", "tpot_p99_s", 0.02, 0.1)
    >>> _limits(axis, 0.05, 0.03419, None), _limits(axis, 0.05, None, 1.5)
    ('any chat TPOT limit of 34.2 ms or more', 'any chat TPOT limit of less than 1.5 s')
    >>> _limits(SloAxis("chat", "min_success", 0.9, 1.0), 0.95, 0.98, 0.94)
    'a chat success limit of 0.98 or less, but more than 0.94'
    """
    name = _name(axis)
    within, beyond = ("or more", "less than") if axis.rises else ("or less", "more than")
    low, high = (None if end is None else _limit(axis, _rounded(axis, end, today)) for end in (tight, loose))
    if high is None:
        return f"any {name}" if low is None else f"any {name} of {low} {within}"
    return f"any {name} of {beyond} {high}" if low is None else f"a {name} of {low} {within}, but {beyond} {high}"


def _rounded(axis: SloAxis, end: float, today: float) -> float:
    """An end towards the limit of today, to 0.1 ms or 0.01 s or a thousandth; as it is where that would go beyond today."""
    digits = 3 if not axis.rises else 4 if end < 1.0 else 2
    rounded = float(upper_text(end, digits) if end < today else lower_text(end, digits))
    return rounded if (end <= rounded <= today or today <= rounded <= end) else end


def _name(axis: SloAxis) -> str:
    """A limit as a person reads it: "chat TPOT limit"."""
    quantity = axis.metric.removesuffix("_p99_s").removeprefix("min_")
    return f"{axis.class_name} {limit_name(quantity).removesuffix(' p99')} limit"


def _limit(axis: SloAxis, value: float | None) -> str:
    """A limit with its unit, in milliseconds below a second."""
    if value is None:
        return "none"
    if not axis.rises:
        return f"{value:.6g}"
    return f"{value * 1e3:.6g} ms" if value < 1.0 else f"{value:.6g} s"


def _worth(more: Mapping[str, Any] | None) -> str:
    if more is None:
        return "unknown"
    least = more["min_fulfilment"]
    fulfilment = (
        f"{least:+z.4f} in min fulfilment" if least is not None else "another set of classes in the min fulfilment"
    )
    return f"{more['goodput_rps']:+z.3f} requests/s and {fulfilment}"


def _carries(what: str, numbers: str, holds: Mapping[str, Any] | None, now: str) -> str:
    if holds is None:
        return f"no answer to where {what}: the range does not include the present number ({now})"
    low = "the start of the range" if holds["from"] is None else _number(holds["from"])
    high = "the end of the range" if holds["to"] is None else _number(holds["to"])
    return f"{what} for {numbers} from {low} to {high} ({now})"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
