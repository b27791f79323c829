"""What is known of one quantity along the load ladders of a class: a point or an interval a cell, and the SLO's line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fleetsieve.answers.diagnosis.cells import limit_name
from fleetsieve.bounds.assumptions import CAPACITY
from fleetsieve.certificate import Certificate
from fleetsieve.figures.drawing import Chart, altair, plain, sized, styled, tips, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.figures.rungs import Row, labels_in_order, ladder_rows, limited_metrics, load_title
from fleetsieve.instance import ServerKey

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
ROOM, HEADROOM = 1.6, 2.2
"""How far a logarithmic axis goes beyond what it shows, as a factor; above, where cells stand at the top, the second."""

EDGE = 0.035
"""How far from the edge of a panel, as a share of it, cells stand that nothing bounds (above) or that are closed (below)."""

FEW_TICKS, MANY_TICKS = 3, 9

SHOWN = ("cell", "label", "beside", "state", "shown")
"""What of a row is beside each of its marks."""

SYMBOL = ("fill", "stroke", "shape")
"""How a symbol differs from the others; these fields hold the measurements themselves."""


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
    shapes = shapes_of(certificate)
    labels = labels_in_order(certificate, class_name)
    unit = "requests/s of one replica" if quantity == CAPACITY else f"{limit_name(quantity)}, s"
    colour = palette.of_class([c.name for c in certificate.envelope.instance.classes].index(class_name))
    log = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(title=unit, format="~g", values=_ticks(low, high))
    base = alt.Chart().encode(
        x=alt.X(
            "label:N",
            sort=labels,
            title=load_title(certificate, class_name),
            axis=alt.Axis(labelAngle=-45, labelLimit=60, labelOverlap="greedy"),
            scale=alt.Scale(domain=labels),
        ),
        xOffset=alt.XOffset("beside:Q", scale=alt.Scale(domain=[-0.5, 0.5])),
        tooltip=tips(cell="cell", shown=unit, state="state"),
    )

    def at(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=log, axis=axis)

    rules, symbols = _rules(rows, low, high), _symbols(rows, low, high, colour, palette)
    for symbol in symbols:
        symbol["shape"] = shapes[symbol["tp"]]
    ruled = base.encode(y=at("from"), y2="to:Q", opacity=alt.Opacity("opacity:Q", scale=None))
    drawn = base.encode(y=at("y"))
    ring = drawn.transform_filter("datum.planned")
    layers = [
        _legend(base, [row["tp"] for row in rows], shapes, palette),
        ruled.transform_filter("!datum.known").mark_rule(color=colour, strokeWidth=1.2, strokeDash=[2, 2]),
        ruled.transform_filter("datum.known").mark_rule(color=colour, strokeWidth=2.5),
        drawn.mark_point(filled=True, strokeWidth=1.5, opacity=1, size=45).encode(
            **{channel: getattr(alt, channel.capitalize())(f"{channel}:N", scale=None) for channel in SYMBOL}
        ),
        drawn.transform_filter("datum.sign")
        .mark_text(fontSize=11, fontWeight=700, dy=alt.ExprRef("datum.dy"))
        .encode(text="sign:N", color=alt.Color("ink:N", scale=None)),
        ring.mark_point(size=200, strokeWidth=2, shape="circle", filled=False, color=palette.ink),
    ]
    for layer in layers[1:3]:
        layer.data = values(rules)
    if limit is not None:
        line = alt.Chart(values([{"limit": limit, "shown": f"{limit:g} s"}])).encode(
            y=at("limit"), tooltip=tips(shown="SLO")
        )
        layers.insert(0, line.mark_rule(color=palette.bad, strokeWidth=1.5))
    return alt.layer(*layers, data=values(symbols))


def shapes_of(certificate: Certificate) -> dict[str, str]:
    """The shape of each TP degree, the same for every class."""
    servers = sorted({ServerKey(cell.key.tp, variant=cell.key.variant) for cell in certificate.envelope.instance.cells})
    return {f"TP{plain(server.degree)}": SHAPES[place % len(SHAPES)] for place, server in enumerate(servers)}


def _legend(base: Chart, degrees: Sequence[str], shapes: Mapping[str, str], palette: Palette) -> Chart:
    """The legend of shapes, on points that nobody sees."""
    alt = altair()
    there = list(dict.fromkeys(degrees))
    scale = alt.Scale(domain=there, range=[shapes[tp] for tp in there])
    unseen = base.mark_point(filled=True, color=palette.soft, opacity=0, size=60)
    shape = alt.Shape("tp:N", sort=there, title=None, scale=scale)
    return unseen.encode(shape=shape, y=alt.value(0), tooltip=alt.value(None))


def _rules(rows: Sequence[Row], low: float, high: float) -> list[Row]:
    """The upright lines: intervals of what was measured, and what is left open of what was not, to the edges of the panel."""
    opacity = {"value": 1.0, "bound": 0.45, "unknown": 0.25}
    return [
        {
            **{field: row[field] for field in SHOWN},
            "known": row["drawn"] == "value",
            "opacity": opacity[row["drawn"]],
            "from": row["lo"] or low,
            "to": high * (low / high) ** (3.0 * EDGE) if row["drawn"] == "unknown" else row["hi"] or high,
        }
        for row in rows
        if row["drawn"] in opacity and not (row["drawn"] == "value" and row["lo"] == row["hi"])
    ]


def _symbols(rows: Sequence[Row], low: float, high: float, colour: str, palette: Palette) -> list[Row]:
    """The symbols: filled at what was measured, hollow at bounds; at an edge where nothing bounds a cell or no plan can use it."""
    at_the_edge = {"unknown": high * (low / high) ** EDGE, "closed": low * (high / low) ** EDGE}
    found: list[Row] = []
    for row in rows:
        kind = row["drawn"]
        ends = [row[end] for end in ("lo", "hi") if row[end] is not None]
        places = ends[-1:] if kind == "value" else ends if kind == "bound" else [at_the_edge[kind]]
        # A value whose interval has no upper end is a bound as well: its symbol is hollow.
        filled = kind == "value" and row["hi"] is not None
        # A sign is on the side of its symbol where no line is.
        under = kind == "unknown" or (kind != "closed" and row["hi"] is None)
        found.extend(
            {
                **{field: row[field] for field in SHOWN},
                "tp": row["tp"],
                "y": place,
                "fill": colour if filled else palette.paper,
                "stroke": palette.soft if kind == "closed" else colour,
                "sign": row["sign"] if place == places[-1] else "",
                "dy": 11 if under else -11,
                "ink": palette.bad if kind == "value" else palette.soft,
                "planned": row["planned"] and filled,
            }
            for place in places
        )
    return found


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
    return styled(alt.vconcat(*panels).resolve_scale(shape="independent"), palette)
