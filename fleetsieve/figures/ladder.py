"""What is known of one quantity along the load ladders of a class: a point or an interval a cell, and the SLO's line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fleetsieve.account.cells import limit_name
from fleetsieve.assumptions import CAPACITY
from fleetsieve.certificate import Certificate
from fleetsieve.figures.drawing import Chart, altair, plain, sized, styled, tips, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.figures.rungs import Row, labels_in_order, ladder_rows, limited_metrics, load_title

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
ROOM, HEADROOM = 1.6, 2.2
"""How far a logarithmic axis goes beyond what it shows, as a factor; above, where cells stand at the top, the second."""

TOP = 8
"""Pixels between the upper edge of a panel and the symbols of cells that nothing bounds; below, of those that are closed."""

FEW_TICKS, MANY_TICKS = 3, 9

DRAWN = ("tp", "cell", "label", "beside", "drawn", "planned", "state", "sign", "told")
"""What of a row the chart needs beside its ends."""


def ladder(certificate: Certificate, class_name: str, quantity: str, palette: Palette = LIGHT) -> Chart:
    """A chart of "capacity" (requests/s of one replica) or a tail metric (p99, seconds) of one class over the load, by TP.

    Shapes are TP degrees. Filled: a measured value, a bar through it its interval. Hollow: a bound on a cell that was not measured,
    dotted what it leaves open; at the top with a question mark: nothing bounds it; grey at the bottom: no plan can use it. A ring
    marks the cell in the plan, the red line is the SLO.
    """
    alt = altair()
    workload = certificate.envelope.instance.class_by_name[class_name]
    rows = ladder_rows(certificate, class_name, quantity)
    limit = None if quantity == CAPACITY else workload.slo.limit_s(quantity)
    low, high = _domain(rows, limit)
    degrees = list(dict.fromkeys(row["tp"] for row in rows))
    labels = labels_in_order(certificate, class_name)
    unit = "requests/s of one replica" if quantity == CAPACITY else f"{limit_name(quantity)}, s"
    own = palette.of_class([c.name for c in certificate.envelope.instance.classes].index(class_name))
    log = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(title=unit, format="~g", values=_ticks(low, high))
    base = alt.Chart().encode(
        x=alt.X(
            "label:N",
            sort=labels,
            title=load_title(certificate, class_name),
            axis=alt.Axis(labelAngle=-45, labelLimit=60),
            scale=alt.Scale(domain=labels),
        ),
        xOffset=alt.XOffset("beside:Q", scale=alt.Scale(domain=[-0.5, 0.5])),
        tooltip=tips(cell="cell", told=unit, state="state"),
    )

    def at(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=log, axis=axis)

    layers = [
        _legend(base, degrees, own),
        *_open_layers(base, at, own, palette),
        *_known_layers(base, at, own, palette),
    ]
    if limit is not None:
        line = alt.Chart(values([{"limit": limit, "told": f"{limit:g} s"}])).encode(
            y=at("limit"), tooltip=tips(told="SLO")
        )
        layers.insert(0, line.mark_rule(color=palette.bad, strokeWidth=1.5))
    return alt.layer(*layers, data=values([_shown(row, degrees, low, high) for row in rows]))


def _shown(row: Row, degrees: Sequence[str], low: float, high: float) -> Row:
    """The row of a chart: its interval ends at the edges of the panel where it is open; an end that is not there has no field."""
    ends = {end: row[end] for end in ("lo", "hi") if row[end] is not None}
    shape = SHAPES[degrees.index(row["tp"]) % len(SHAPES)]
    kept = {field: row[field] for field in DRAWN}
    return {**kept, **ends, "from": row["lo"] or low, "to": row["hi"] or high, "shape": shape}


def _legend(base: Chart, degrees: Sequence[str], colour: str) -> Chart:
    """The legend of shapes, on points that nobody sees."""
    alt = altair()
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(degrees))]
    shape = alt.Shape("tp:N", sort=degrees, title=None, scale=alt.Scale(domain=degrees, range=shapes))
    unseen = base.mark_point(filled=True, color=colour, opacity=0, size=60)
    return unseen.encode(shape=shape, y=alt.value(0), tooltip=alt.value(None))


def _open_layers(base: Chart, at: Callable[[str], Any], colour: str, palette: Palette) -> list[Chart]:
    """Cells that were not measured: hollow symbols at their bounds; at the top where there are none, at the bottom if closed."""
    alt = altair()
    dotted = {"color": colour, "strokeWidth": 1.2, "strokeDash": [2, 2]}
    bound, unknown, closed = (
        base.transform_filter(f"datum.drawn == '{drawn}'") for drawn in ("bound", "unknown", "closed")
    )
    below, above = bound.transform_filter("isValid(datum.lo)"), bound.transform_filter("isValid(datum.hi)")
    bare = below.transform_filter("!isValid(datum.hi)")
    height, floor = (alt.value(alt.ExprRef(f"height - {pixels}")) for pixels in (0, TOP))
    top = alt.value(TOP)
    return [
        unknown.mark_rule(**dotted, opacity=0.35).encode(y=alt.value(TOP + 16), y2=height),
        bound.mark_rule(**dotted, opacity=0.7).encode(y=at("from"), y2="to:Q"),
        _hollow(unknown, colour, palette).encode(y=top),
        _sign(unknown, palette.soft, 11).encode(y=top),
        _hollow(closed, palette.soft, palette).encode(y=floor),
        _sign(closed, palette.soft, -11).encode(y=floor),
        _hollow(below, colour, palette).encode(y=at("lo")),
        _hollow(above, colour, palette).encode(y=at("hi")),
        _sign(above, palette.soft, -11).encode(y=at("hi")),
        _sign(bare, palette.soft, 12).encode(y=at("lo")),
    ]


def _known_layers(base: Chart, at: Callable[[str], Any], colour: str, palette: Palette) -> list[Chart]:
    """Measured cells: filled symbols with their intervals, signs, and a ring around those in the plan."""
    alt = altair()
    known = base.transform_filter("datum.drawn == 'value'")
    points = known.transform_filter("isValid(datum.hi)")
    shape = alt.Shape("shape:N", scale=None)
    ring = points.transform_filter("datum.planned").mark_point(size=200, strokeWidth=2, shape="circle", filled=False)
    return [
        known.mark_rule(color=colour, strokeWidth=2.5).encode(y=at("from"), y2="to:Q"),
        points.mark_point(filled=True, color=colour, size=55, opacity=1).encode(y=at("hi"), shape=shape),
        _sign(points, palette.bad, -11).encode(y=at("hi")),
        ring.encode(y=at("hi"), color=alt.value(palette.ink)),
    ]


def _hollow(base: Chart, colour: str, palette: Palette) -> Chart:
    mark = {"filled": True, "fill": palette.paper, "stroke": colour, "strokeWidth": 1.5, "size": 40, "opacity": 1}
    return base.mark_point(**mark).encode(shape=altair().Shape("shape:N", scale=None))


def _sign(base: Chart, colour: str, dy: int) -> Chart:
    signed = base.transform_filter("datum.sign")
    return signed.mark_text(color=colour, fontSize=11, fontWeight=700, dy=dy).encode(text="sign:N")


def _domain(rows: list[Row], limit: float | None) -> tuple[float, float]:
    """The ends of a logarithmic axis that shows every measured value, every bound and the limit."""
    ends = [row[end] for row in rows if row["drawn"] in ("value", "bound") for end in ("lo", "hi") if row[end]]
    ends += [limit] if limit else []
    above = HEADROOM if any(row["drawn"] == "unknown" for row in rows) else ROOM
    below = HEADROOM if any(row["drawn"] == "closed" for row in rows) else ROOM
    return (min(ends) / below, max(ends) * above) if ends else (0.1, 10.0)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers on a logarithmic axis: 1, 2 and 5 of each decade; all where those are few, the decades where many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [(m, tick) for d in decades for m in range(1, 10) if low <= (tick := float(f"{m}e{d}")) <= high]
    fine = [tick for m, tick in every if m in (1, 2, 5)]
    if len(fine) < FEW_TICKS:
        return [tick for _, tick in every]
    return fine if len(fine) <= MANY_TICKS else [tick for m, tick in every if m == 1]


def panel_title(certificate: Certificate, class_name: str, quantity: str) -> str:
    """What a panel shows, with the SLO of its red line."""
    slo = certificate.envelope.instance.class_by_name[class_name].slo
    limit = None if quantity == CAPACITY else slo.limit_s(quantity)
    what = "requests/s of one replica" if quantity == CAPACITY else limit_name(quantity)
    return f"{plain(class_name)}: {what}" + (f" (SLO {limit:g} s)" if limit is not None else "")


def tails(certificate: Certificate, palette: Palette = LIGHT, class_name: str | None = None) -> Chart:
    """The p99 tails of every class (or one) over the load, one panel for each limited metric, with the SLO's line."""
    alt = altair()
    names = [c.name for c in certificate.envelope.instance.classes if class_name in (None, c.name)]
    panels = [
        sized(ladder(certificate, name, metric, palette)).properties(title=panel_title(certificate, name, metric))
        for name in names
        for metric in limited_metrics(certificate, name)
    ]
    return styled(alt.vconcat(*panels), palette)
