"""A study as JSON values and as a table of text."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from fleetsieve.answers.sensitivity.answers import added, answers, binding, passing
from fleetsieve.answers.sensitivity.axes import Axis, GpusAxis, SloAxis
from fleetsieve.answers.sensitivity.deciding import BROKEN, Decision
from fleetsieve.answers.sensitivity.stretches import Figures, Span, Stretch
from fleetsieve.answers.sensitivity.study import Map, Study
from fleetsieve.certificate import gap_document, key_document, placement, plan_document
from fleetsieve.certificate.document import variant_document
from fleetsieve.instance import CellKey

Document = dict[str, Any]


def study_document(study: Study) -> Document:
    """A study of one axis: `axis`, its `intervals` in order, the `break_points` between them and the `answers`.

    An interval goes from `from` to `to`, each included or not (`from_closed`, `to_closed`); `plan` is the one decided at `at`.
    `min_fulfilment` and `goodput_rps` are the least guaranteed inside it, `gap` the largest of each stage, `ends` the figures at
    both ends. A min fulfilment runs over the classes that are not `unservable`, and is null where none is left. `exact` false
    states that the interval was sampled. An interval from a value to itself, between two that decide alike, is a tie at that one
    value, and no break point. Break points of a demand are exact to 1e-9 of their value: engines call what is closer a tie.
    `given` states whether a given plan holds at the numbers that the instance states, and what breaks it; null without one.
    """
    return {
        "instance": study.instance.name,
        "given": _given(study.broken_today),
        "axis": axis_document(study.axis),
        "break_points": study.breaks,
        "exact": all(s.exact for s in study.stretches),
        "answers": answers(study),
        "intervals": [_interval(study, place) for place in range(len(study.stretches))],
    }


def map_document(found: Map) -> Document:
    """A study of two axes: `axes`, and the `regions`, rectangles of one decision each, that cover their range."""
    return {
        "instance": found.instance.name,
        "given": _given(found.broken_today),
        "axes": [axis_document(found.x), axis_document(found.y)],
        "exact": all(r.exact for r in found.regions),
        "regions": [{"x": _span(r.x), "y": _span(r.y), **_decided(r.stretch), "exact": r.exact} for r in found.regions],
    }


def _given(broken: Sequence[str] | None) -> Document | None:
    return None if broken is None else {"holds_today": not broken, "breaks": list(broken)}


def axis_document(axis: Axis) -> Document:
    """What is varied, over which range."""
    return {"name": axis.name, "unit": axis.unit, "from": axis.lo, "to": axis.hi}


def allocation_text(decision: Decision) -> str:
    """The configurations of a decision in short: "chat TP4 c64 x2, code none"; of a broken plan, why it breaks."""
    if decision.plan is None or decision.verdict == BROKEN:
        return "; ".join(decision.faults)
    parts = []
    for class_plan in decision.plan.classes:
        place = placement(class_plan.configuration.name if class_plan.configuration else None, class_plan.replicas)
        parts.append(
            f"{class_plan.class_name} {'unservable' if class_plan.class_name in decision.envelope.unservable else place}"
        )
    return ", ".join(parts)


def _interval(study: Study, place: int) -> Document:
    stretch, axis = study.stretches[place], study.axis
    entry = {**_span(stretch.span), **_decided(stretch)}
    if isinstance(axis, SloAxis):
        proven, hoped = passing(study, stretch.span.lo if axis.rises else stretch.span.hi)
        entry["passes_from_here"] = {
            "measured": [key_document(k) for k in proven],
            "possible": [key_document(k) for k in hoped],
        }
    if isinstance(axis, GpusAxis) and place + 1 < len(study.stretches):
        entry["next_adds"] = added(stretch.decision, study.stretches[place + 1].decision)
    return entry


def _span(span: Span) -> Document:
    return {
        "from": span.lo,
        "to": span.hi,
        "from_closed": span.lo_closed,
        "to_closed": span.hi_closed,
        "at": span.at,
    }


def _decided(stretch: Stretch) -> Document:
    decision = stretch.decision
    return {
        "verdict": decision.verdict,
        "plan": plan_document(decision.plan, decision.envelope) if decision.plan is not None else None,
        "min_fulfilment": _least(stretch.first.min_fulfilment, stretch.last.min_fulfilment),
        "goodput_rps": _least(stretch.first.goodput_rps, stretch.last.goodput_rps),
        "gap": gap_document(stretch.gap),
        "binds": binding(decision),
        "faults": list(decision.faults),
        "unservable": list(decision.envelope.unservable),
        "ends": {"from": _figures(stretch.first), "to": _figures(stretch.last)},
        "exact": stretch.exact,
    }


def _figures(figures: Figures) -> Document:
    return {"min_fulfilment": figures.min_fulfilment, "goodput_rps": figures.goodput_rps}


def _least(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else min(one, other)


SPAN_COLUMNS = ("from", "to", "from_closed", "to_closed")
COLUMNS = (
    "verdict", "min_fulfilment", "goodput_rps", "shortfall", "gap_min_fulfilment", "gap_goodput", "gpus_used", "blocking",
    "least_fulfilled", "exact", "faults", "unservable",
)  # fmt: skip


def study_csv(study: Study) -> str:
    """One line an interval below a header; the last columns are each class's configuration and replicas, `tp:CLASS` and so on."""
    rows = [(_named("", s.span), s) for s in study.stretches]
    return _csv(SPAN_COLUMNS, rows, [c.name for c in study.instance.classes])


def map_csv(found: Map) -> str:
    """One line a region below a header; the columns of the sides begin with `x_` and `y_`."""
    sides = [f"{side}_{column}" for side in "xy" for column in SPAN_COLUMNS]
    rows = [({**_named("x_", r.x), **_named("y_", r.y), "exact": r.exact}, r.stretch) for r in found.regions]
    return _csv(sides, rows, [c.name for c in found.instance.classes])


def _named(prefix: str, span: Span) -> dict[str, object]:
    values = _span(span)
    return {f"{prefix}{column}": values[column] for column in SPAN_COLUMNS}


def _csv(spans: Sequence[str], rows: Sequence[tuple[Mapping[str, object], Stretch]], classes: Sequence[str]) -> str:
    lines = [{**_row(stretch), **sides} for sides, stretch in rows]
    variants = any(name.startswith("variant:") for line in lines for name in line)
    kinds = ("tp", "load", "replicas", "fulfilment", "pool", *(["variant"] if variants else []))
    per_class = [f"{kind}:{name}" for name in classes for kind in kinds]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*spans, *COLUMNS, *per_class], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _row(stretch: Stretch) -> dict[str, object]:
    decided, decision = _decided(stretch), stretch.decision
    row: dict[str, object] = {
        "verdict": decided["verdict"],
        "min_fulfilment": decided["min_fulfilment"],
        "goodput_rps": decided["goodput_rps"],
        "gap_min_fulfilment": decided["gap"]["min_fulfilment"],
        "gap_goodput": decided["gap"]["goodput"],
        "blocking": decision.blocking,
        "least_fulfilled": "; ".join(decided["binds"]["least_fulfilled"]),
        "exact": stretch.exact,
        "faults": "; ".join(decision.faults),
        "unservable": "; ".join(decision.envelope.unservable),
    }
    if decision.plan is not None:
        row |= {"shortfall": decision.plan.shortfall, "gpus_used": decision.plan.gpus_used}
        for class_plan in decision.plan.classes:
            key = class_plan.configuration.name if class_plan.configuration is not None else None
            if isinstance(key, CellKey):
                named = {"tp": key.tp, "load": key.load, "pool": key.pool, **variant_document(key)}
                row |= {f"{what}:{class_plan.class_name}": value for what, value in named.items()}
            row |= {
                f"replicas:{class_plan.class_name}": class_plan.replicas,
                f"fulfilment:{class_plan.class_name}": class_plan.fulfilment,
            }
    return row
