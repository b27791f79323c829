"""What is known of one quantity along the load ladders of a class: a point or an interval a cell, and the SLO's line."""

from __future__ import annotations

import math
from typing import Any

from fleetsieve.account.cells import limit_name
from fleetsieve.assumptions import CAPACITY
from fleetsieve.certificate import Certificate
from fleetsieve.envelope import CellBounds, ClassEnvelope
from fleetsieve.figures.drawing import Chart, altair, plain, sized, styled, tips, titled, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.figures.states import SIGNS, State, rate, seconds, state_of
from fleetsieve.instance import TAIL_METRICS, Cell, CellKey, LoadKind
from fleetsieve.interval import NON_NEGATIVE, Interval

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
ROOM = 1.6
"""How far a logarithmic axis goes beyond what it shows, as a factor."""

TOP = 8
"""Pixels between the upper edge of a panel and the symbols of cells that nothing bounds; below, of those that are closed."""

FEW_TICKS, MANY_TICKS = 3, 9

BAND, WIDEST = 0.8, 0.3
"""The share of a load's band that its cells take, and the most between two of them."""

Row = dict[str, Any]


def limited_metrics(certificate: Certificate, class_name: str) -> tuple[str, ...]:
    """The tail metrics that the SLO of a class limits; TTFT where it limits none."""
    slo = certificate.envelope.instance.class_by_name[class_name].slo
    return tuple(m for m in TAIL_METRICS if slo.limit_s(m) is not None) or ("ttft",)


def ladder_rows(certificate: Certificate, class_name: str, quantity: str) -> list[Row]:
    """One row a cell: its place, the ends of its interval (None where open), how it is drawn, and words for a tooltip.

    `drawn`: "value" (measured), "bound" (what the assumptions leave open), "unknown" (nothing bounds it) or "closed" (no plan can
    use it, and nothing of this quantity is known). `beside`: where it stands in the band of its load, in bands from the middle.
    """
    own = certificate.envelope.classes[class_name]
    cells = ladder_cells(certificate, class_name)
    together: dict[str, list[CellKey]] = {}
    for cell in cells:
        together.setdefault(cell.key.load, []).append(cell.key)
    rows = []
    for cell in cells:
        b, mates = own.bounds[cell.key], together[cell.key.load]
        interval = b.capacity_rps if quantity == CAPACITY else b.tails_s[quantity]
        state = state_of(certificate, cell.key)
        drawn = _drawn(own, b, quantity, interval)
        rows.append(
            {
                **titled(cell.key),
                "label": plain(cell.key.load),
                "beside": (mates.index(cell.key) - (len(mates) - 1) / 2.0) * min(WIDEST, BAND / len(mates)),
                "lo": interval.lo if interval.lo > 0.0 else None,
                "hi": interval.hi if math.isfinite(interval.hi) else None,
                "drawn": drawn,
                "measured": drawn == "value",
                "planned": state is State.PLANNED,
                "state": _state_text(own, b, state),
                "sign": SIGNS.get(state, "").strip() or ("?" if drawn == "unknown" else ""),
                "told": _told(b, quantity, interval, drawn),
            }
        )
    return rows


def _drawn(own: ClassEnvelope, b: CellBounds, quantity: str, interval: Interval) -> str:
    by = b.origins.get(quantity, "")
    if b.measured and not by and interval != NON_NEGATIVE:
        return "value"
    shut = b.cell.excluded or b.cell.key in own.closed
    # A bound on a tail is what rules a cell out; what it could have served is of no more use.
    if shut or (not b.possible and (quantity == CAPACITY or interval == NON_NEGATIVE)):
        return "closed"
    return "unknown" if interval == NON_NEGATIVE else "bound"


def _state_text(own: ClassEnvelope, b: CellBounds, state: State) -> str:
    why = own.closed.get(b.cell.key)
    if why is not None:
        return f"{state}: {why}"
    return f"{state}, still possible: it may be a flake" if state is State.FAILED and b.possible else str(state)


def _told(b: CellBounds, quantity: str, interval: Interval, drawn: str) -> str:
    if drawn == "closed":
        return "none: no plan can use it"
    told, by = rate(interval) if quantity == CAPACITY else seconds(interval), b.origins.get(quantity, "")
    return f"{told}, by {by}" if by else f"{told}, measured" if b.measured else told


def ladder_cells(certificate: Certificate, class_name: str) -> list[Cell]:
    """The cells of a class by TP degree, each ladder from the lowest load up."""
    arms = certificate.envelope.instance.arms
    return [cell for arm in sorted(arms) if arm.class_name == class_name for cell in arms[arm]]


def load_title(certificate: Certificate, class_name: str) -> str:
    """What the load labels of a class count."""
    kinds = {cell.load_kind for cell in ladder_cells(certificate, class_name)}
    if len(kinds) != 1:
        return "load of one replica"
    return (
        "load: requests/s offered to a replica" if kinds == {LoadKind.RATE} else "load: requests in flight at a replica"
    )


def labels_in_order(certificate: Certificate, class_name: str) -> list[str]:
    """The load labels of a class by offered load; those without a number come last."""
    cells = sorted(
        ladder_cells(certificate, class_name), key=lambda c: (c.offered is None, c.offered or 0.0, c.key.load)
    )
    return list(dict.fromkeys(plain(cell.key.load) for cell in cells))


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
    for row in rows:
        row["from"], row["to"] = row["lo"] or low, row["hi"] or high
        row["shape"] = SHAPES[degrees.index(row["tp"]) % len(SHAPES)]
    of_kind = {kind: [row for row in rows if row["drawn"] == kind] for kind in ("value", "bound", "unknown", "closed")}
    known, bounded, unknown = of_kind["value"], of_kind["bound"], of_kind["unknown"]
    points = [row for row in known if row["hi"] is not None]
    ends = [{**row, "end": row[end]} for row in bounded for end in ("lo", "hi") if row[end] is not None]
    labels = labels_in_order(certificate, class_name)
    unit = "requests/s of one replica" if quantity == CAPACITY else f"{limit_name(quantity)}, s"
    told = tips(cell="cell", told=unit, state="state")
    names = [c.name for c in certificate.envelope.instance.classes]
    own = palette.of_class(names.index(class_name))
    x_axis = alt.Axis(labelAngle=-45, labelLimit=60)
    title = load_title(certificate, class_name)
    x = alt.X("label:N", sort=labels, title=title, axis=x_axis, scale=alt.Scale(domain=labels))
    beside = alt.XOffset("beside:Q", scale=alt.Scale(domain=[-0.5, 0.5]))
    axis = alt.Axis(title=unit, format="~g", values=_ticks(low, high))
    log = alt.Scale(type="log", domain=[low, high], nice=False)
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(degrees))]
    legend = alt.Shape("tp:N", sort=degrees, title=None, scale=alt.Scale(domain=degrees, range=shapes))
    shape = alt.Shape("shape:N", scale=None)

    def at(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=log, axis=axis)

    def of(some: list[Row]) -> Any:
        return alt.Chart(values(some)).encode(x=x, xOffset=beside, tooltip=told)

    def hollow(some: list[Row], colour: str) -> Any:
        return (
            of(some)
            .mark_point(filled=True, fill=palette.paper, stroke=colour, strokeWidth=1.5, size=40, opacity=1)
            .encode(shape=shape)
        )

    def signed(some: list[Row], colour: str, dy: int) -> Any:
        signs = [row for row in some if row["sign"]]
        return of(signs).mark_text(color=colour, fontSize=11, fontWeight=700, dy=dy).encode(text="sign:N")

    def pixels(expression: str) -> Any:
        return alt.value(alt.ExprRef(expression))

    dotted = {"color": own, "strokeWidth": 1.2, "strokeDash": [2, 2]}
    layers = [
        of(rows)
        .mark_point(filled=True, color=own, opacity=0, size=60)
        .encode(shape=legend, y=alt.value(0), tooltip=alt.value(None)),
        of(unknown).mark_rule(**dotted, opacity=0.35).encode(y=alt.value(TOP + 16), y2=pixels("height")),
        of(bounded).mark_rule(**dotted, opacity=0.7).encode(y=at("from"), y2="to:Q"),
        of(known).mark_rule(color=own, strokeWidth=2.5).encode(y=at("from"), y2="to:Q"),
        hollow(unknown, own).encode(y=alt.value(TOP)),
        signed(unknown, palette.soft, 11).encode(y=alt.value(TOP)),
        hollow(of_kind["closed"], palette.soft).encode(y=pixels(f"height - {TOP}")),
        signed(of_kind["closed"], palette.soft, -11).encode(y=pixels(f"height - {TOP}")),
        hollow(ends, own).encode(y=at("end")),
        signed([row for row in ends if row["hi"] == row["end"]], palette.soft, -11).encode(y=at("end")),
        signed([row for row in ends if row["hi"] is None], palette.soft, 12).encode(y=at("end")),
        of(points).mark_point(filled=True, color=own, size=55, opacity=1).encode(y=at("hi"), shape=shape),
        signed(points, palette.bad, -11).encode(y=at("hi")),
        of([row for row in points if row["planned"]])
        .mark_point(size=200, strokeWidth=2, shape="circle", filled=False)
        .encode(y=at("hi"), color=alt.value(palette.ink)),
    ]
    if limit is not None:
        line = alt.Chart(values([{"limit": limit, "told": f"{limit:g} s"}])).encode(
            y=at("limit"), tooltip=tips(told="SLO")
        )
        layers.insert(0, line.mark_rule(color=palette.bad, strokeWidth=1.5))
    return alt.layer(*layers)


def _domain(rows: list[Row], limit: float | None) -> tuple[float, float]:
    """The ends of a logarithmic axis that shows every measured value, every bound and the limit."""
    ends = [row[end] for row in rows if row["drawn"] in ("value", "bound") for end in ("lo", "hi") if row[end]]
    ends += [limit] if limit else []
    return (min(ends) / ROOM, max(ends) * ROOM) if ends else (0.1, 10.0)


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
