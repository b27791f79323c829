"""Plots of a sensitivity study: step curves along one axis, a map of two. Needs the extra `plots` (altair, vl-convert)."""

from __future__ import annotations

from itertools import chain
from typing import Any

from fleetsieve.answers.sensitivity import Axis, Decision, GpusAxis, Map, Stretch, Study
from fleetsieve.answers.sensitivity.document import allocation_text
from fleetsieve.instance import CellKey

POINTS = 25
"""Points of a curve inside a stretch in which the figures move with the demand."""

WIDTH = 560

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def study_plot(study: Study) -> Any:
    """An altair chart: min fulfilment and goodput along the axis, coloured by allocation, and the TP of each class below."""
    import altair as alt
    import pandas as pd

    names = _names([s.decision for s in study.stretches])
    curves = pd.DataFrame(list(chain.from_iterable(_curve(study, s, names) for s in study.stretches)))
    placed = pd.DataFrame(list(chain.from_iterable(_placed(study, s) for s in study.stretches)))
    scale = alt.Scale(domain=[study.axis.lo, _end(study.axis)], nice=False)
    order = list(dict.fromkeys(names.values()))
    panels = []
    for field, title in (("min_fulfilment", "min fulfilment"), ("goodput_rps", "goodput, requests/s")):
        color = alt.Color("allocation:N", title="allocation", sort=order, legend=_legend(alt))
        line = alt.Chart(curves).mark_line(strokeWidth=3).encode(
            x=alt.X("value:Q", title=None, scale=scale),
            y=alt.Y(f"{field}:Q", title=title, scale=alt.Scale(zero=True)),
            color=color,
            detail="stretch:N",
            tooltip=["allocation", "verdict", "value", "min_fulfilment", "goodput_rps"],
        )  # fmt: skip
        panels.append(line.properties(width=WIDTH, height=170))
    chart = alt.vconcat(*panels)
    if len(placed):
        base = alt.Chart(placed).encode(y=alt.Y("class:N", title=None))
        bars = base.mark_rect(stroke="white").encode(
            x=alt.X("low:Q", title=study.axis.title, scale=scale), x2="high:Q",
            color=alt.Color("tp:O", title="TP", scale=alt.Scale(scheme="blues"), legend=alt.Legend(orient="bottom")),
            tooltip=["class", "tp", "load", "replicas"],
        )  # fmt: skip
        labels = base.mark_text(fontSize=9).encode(x="middle:Q", text="shown:N")
        chart = alt.vconcat(chart, (bars + labels).properties(width=WIDTH, height=alt.Step(26)))
        chart = chart.resolve_scale(color="independent")
    return chart.properties(title=alt.TitleParams(study.instance.name, anchor="start"))


def map_plot(found: Map) -> Any:
    """An altair chart of two axes: a rectangle a region, coloured by allocation, each labelled where it has most room."""
    import altair as alt
    import pandas as pd

    names = _names([r.stretch.decision for r in found.regions])
    short = {name: _letter(place) for place, name in enumerate(dict.fromkeys(names.values()))}
    rows = []
    for r in found.regions:
        d = r.stretch.decision
        name = names[d.key]
        rows.append(
            {
                "x0": r.x.lo, "x1": _past(found.x, r.x.hi), "y0": r.y.lo, "y1": _past(found.y, r.y.hi),
                "label": short[name], "allocation": f"{short[name]}: {name}", "verdict": d.verdict,
                "min_fulfilment": r.stretch.first.min_fulfilment, "goodput_rps": r.stretch.first.goodput_rps,
            }
        )  # fmt: skip
    table = pd.DataFrame(rows)
    table["x"], table["y"] = (table.x0 + table.x1) / 2.0, (table.y0 + table.y1) / 2.0
    table["room"] = (table.x1 - table.x0) * (table.y1 - table.y0)
    places = table.sort_values("room", ascending=False, kind="stable").drop_duplicates("label")
    x_scale, y_scale = (alt.Scale(domain=[a.lo, _end(a)], nice=False) for a in (found.x, found.y))
    order = [f"{letter}: {name}" for name, letter in short.items()]
    x = alt.X("x0:Q", title=found.x.title, scale=x_scale)
    y = alt.Y("y0:Q", title=found.y.title, scale=y_scale)
    boxes = (
        alt.Chart(table)
        .mark_rect(stroke="white", strokeWidth=0.5)
        .encode(
            x=x, x2="x1:Q", y=y, y2="y1:Q",
            color=alt.Color(
                "allocation:N", title="allocation", sort=order, legend=_legend(alt), scale=alt.Scale(scheme="tableau20")
            ),
            tooltip=["allocation", "verdict", "x0", "x1", "y0", "y1", "min_fulfilment", "goodput_rps"],
        )
    )  # fmt: skip
    labels = (
        alt.Chart(places).mark_text(fontSize=13, fontWeight="bold").encode(x="x:Q", y="y:Q", text="label:N")
    )  # fmt: skip
    title = alt.TitleParams(found.instance.name, anchor="start")
    return (boxes + labels).properties(width=WIDTH, height=420, title=title)


def _legend(alt: Any) -> Any:
    return alt.Legend(orient="bottom", columns=1, labelLimit=WIDTH, symbolLimit=0)


def _names(decisions: list[Decision]) -> dict[Any, str]:
    """A name for each different decision: what is committed, and the verdict where several share that."""
    by_key = {d.key: d for d in decisions}
    texts = {key: allocation_text(d) for key, d in by_key.items()}
    shared = {text for text in texts.values() if list(texts.values()).count(text) > 1}
    return {
        key: f"{text} ({by_key[key].verdict})" if text in shared else text or "nothing" for key, text in texts.items()
    }


def _letter(place: int) -> str:
    """A to Z, then AA, AB and so on."""
    return (
        LETTERS[place] if place < len(LETTERS) else _letter(place // len(LETTERS) - 1) + LETTERS[place % len(LETTERS)]
    )


def _curve(study: Study, stretch: Stretch, names: dict[Any, str]) -> list[dict[str, Any]]:
    """Points of both figures along one stretch: its ends, and some between where they differ."""
    low, high = stretch.span.lo, _past(study.axis, stretch.span.hi)
    same = stretch.first == stretch.last
    count = 2 if same else POINTS
    rows = []
    for k in range(count):
        value = low + (high - low) * k / (count - 1)
        figures = stretch.first if same or k == 0 else stretch.last
        if not same and 0 < k < count - 1:
            plan = study.decide(value).plan
            fulfilment, goodput = (plan.min_fulfilment, plan.goodput_rps) if plan is not None else (None, None)
        else:
            fulfilment, goodput = figures.min_fulfilment, figures.goodput_rps
        rows.append(
            {
                "value": value, "min_fulfilment": fulfilment, "goodput_rps": goodput,
                "allocation": names[stretch.decision.key], "verdict": stretch.decision.verdict, "stretch": stretch.span.lo,
            }
        )  # fmt: skip
    return rows


def _placed(study: Study, stretch: Stretch) -> list[dict[str, Any]]:
    """What each class has along one stretch, and words for it where they have room."""
    plan, low, high = stretch.decision.plan, stretch.span.lo, _past(study.axis, stretch.span.hi)
    share = (high - low) / ((_end(study.axis) - study.axis.lo) or 1.0)
    rows = []
    for class_plan in plan.classes if plan is not None else ():
        key = class_plan.configuration.name if class_plan.configuration is not None else None
        if isinstance(key, CellKey):
            words = f"{key.configuration} x{class_plan.replicas}"
            label = (
                words if share * WIDTH > 5.5 * len(words) else f"TP{key.server.degree}" if share * WIDTH > 20 else ""
            )
            rows.append(
                {
                    "class": class_plan.class_name, "tp": key.tp, "load": key.load, "replicas": class_plan.replicas, "shown": label,
                    "low": low, "high": high, "middle": (low + high) / 2.0,
                }
            )  # fmt: skip
    return rows


def _past(axis: Axis, value: float) -> float:
    """Where a stretch ends on paper: a whole number is as wide as 1."""
    return value + 1.0 if isinstance(axis, GpusAxis) else value


def _end(axis: Axis) -> float:
    return _past(axis, axis.hi)
