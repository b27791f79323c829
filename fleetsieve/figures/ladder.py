"""What is known of one quantity along the load ladders of a class: a point or an interval a cell, and the SLO's line."""

from __future__ import annotations

import math
from typing import Any

from fleetsieve.account.cells import limit_name
from fleetsieve.assumptions import CAPACITY
from fleetsieve.certificate import Certificate
from fleetsieve.figures.drawing import Chart, altair, plain, sized, styled, tips, titled, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.figures.states import State, rate, seconds, state_of
from fleetsieve.instance import TAIL_METRICS, Cell, LoadKind
from fleetsieve.interval import NON_NEGATIVE

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
ROOM = 1.6
"""How far a logarithmic axis goes beyond what it shows, as a factor."""

Row = dict[str, Any]


def limited_metrics(certificate: Certificate, class_name: str) -> tuple[str, ...]:
    """The tail metrics that the SLO of a class limits; TTFT where it limits none."""
    slo = certificate.envelope.instance.class_by_name[class_name].slo
    return tuple(m for m in TAIL_METRICS if slo.limit_s(m) is not None) or ("ttft",)


def ladder_rows(certificate: Certificate, class_name: str, quantity: str) -> list[Row]:
    """One row a cell: its place, the ends of its interval (None where open), whether it was measured, and words for a tooltip."""
    own = certificate.envelope.classes[class_name]
    rows = []
    for cell in ladder_cells(certificate, class_name):
        b = own.bounds[cell.key]
        interval = b.capacity_rps if quantity == CAPACITY else b.tails_s[quantity]
        told = rate(interval) if quantity == CAPACITY else seconds(interval)
        by = b.origins.get(quantity, "")
        state = state_of(certificate, cell.key)
        rows.append(
            {
                **titled(cell.key),
                "label": plain(cell.key.load),
                "lo": interval.lo if interval.lo > 0.0 else None,
                "hi": interval.hi if math.isfinite(interval.hi) else None,
                "measured": b.measured and not by and interval != NON_NEGATIVE,
                "planned": state is State.PLANNED,
                "state": str(state),
                "told": f"{told}, {f'by {by}' if by else 'measured'}" if by or b.measured else told,
            }
        )
    return rows


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

    A symbol is a measured value, a bar through it its interval; a dashed line is what the assumptions leave open of an unmeasured
    cell. A ring marks the cell in the plan, the red line is the SLO.
    """
    alt = altair()
    rows = ladder_rows(certificate, class_name, quantity)
    limit = (
        None if quantity == CAPACITY else certificate.envelope.instance.class_by_name[class_name].slo.limit_s(quantity)
    )
    low, high = _domain(rows, limit)
    for row in rows:
        row["from"], row["to"] = max(low, row["lo"] or low), min(high, row["hi"] or high)
    known = [row for row in rows if row["measured"]]
    points = [row for row in known if row["hi"] is not None]
    assumed = [row for row in rows if row not in known and _says_something(row, low, high)]
    degrees = list(dict.fromkeys(row["tp"] for row in rows))
    labels = labels_in_order(certificate, class_name)
    unit = "requests/s of one replica" if quantity == CAPACITY else f"{limit_name(quantity)}, s"
    told = tips(**{"class": "class", "tp": "TP", "load": "load", "told": unit, "state": "state"})
    painted = alt.Scale(domain=degrees, range=palette.of_degrees(len(degrees)))
    x_axis = alt.Axis(labelAngle=-45, labelLimit=60)
    x = alt.X(
        "label:N", sort=labels, title=load_title(certificate, class_name), axis=x_axis, scale=alt.Scale(domain=labels)
    )
    beside = alt.XOffset("tp:N", sort=degrees, scale=alt.Scale(domain=degrees))
    axis = alt.Axis(title=unit, format="~g", tickCount=5)
    log = alt.Scale(type="log", domain=[low, high], nice=False)
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(degrees))]
    shape = alt.Shape("tp:N", sort=degrees, title=None, scale=alt.Scale(domain=degrees, range=shapes))

    def at(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=log, axis=axis)

    def of(some: list[Row]) -> Any:
        colour = alt.Color("tp:N", sort=degrees, title=None, scale=painted)
        return alt.Chart(values(some)).encode(x=x, xOffset=beside, color=colour, tooltip=told)

    layers = [
        of(assumed).mark_rule(strokeWidth=1.2, opacity=0.5, strokeDash=[2, 2]).encode(y=at("from"), y2="to:Q"),
        of(known).mark_rule(strokeWidth=2.5).encode(y=at("from"), y2="to:Q"),
        of(points).mark_point(filled=True, size=55, opacity=1).encode(y=at("hi"), shape=shape),
        of([row for row in points if row["planned"]])
        .mark_point(size=200, strokeWidth=2, shape="circle", filled=False)
        .encode(y=at("hi"), color=alt.value(palette.ink)),
    ]
    if limit is not None:
        line = alt.Chart(values([{"limit": limit, "told": f"SLO {limit:g} s"}])).encode(
            y=at("limit"), tooltip=tips(told="limit")
        )
        layers.append(line.mark_rule(color=palette.bad, strokeWidth=1.5))
    return alt.layer(*layers)


def _says_something(row: Row, low: float, high: float) -> bool:
    """Whether an end of what is left open can be seen on the axis."""
    return any(end is not None and low <= end <= high for end in (row["lo"], row["hi"]))


def _domain(rows: list[Row], limit: float | None) -> tuple[float, float]:
    """The ends of a logarithmic axis that shows every measured value and the limit; bounds may run out of it."""
    ends = [row[end] for row in rows for end in ("lo", "hi") if row["measured"] and row[end]]
    ends += [limit] if limit else []
    ends = ends or [row[end] for row in rows for end in ("lo", "hi") if row[end]]
    return (min(ends) / ROOM, max(ends) * ROOM) if ends else (0.1, 10.0)


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
