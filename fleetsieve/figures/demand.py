"""How least fulfilment and goodput move as all demands grow together: with a new plan at each scale, or with the present plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fleetsieve.allocation import Allocation, Engine
from fleetsieve.answers.what_if import largest_demand_scale, with_demand_scale
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, certify
from fleetsieve.figures.drawing import TIES, Chart, Stroke, altair, only, sized, strokes, styled, tips, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.instance import Instance
from fleetsieve.interval import lower_text, upper_text

SCALES = tuple(round(0.5 + 0.05 * k, 2) for k in range(31))
"""0.5 to 2.0 in steps of 0.05: the curves are sampled there."""

SURE, HOPED, KEPT = "new plan, guaranteed", "new plan, at most", "present plan, kept"

Row = dict[str, Any]


def demand_rows(certificate: Certificate, engine: Engine, scales: Sequence[float] = SCALES) -> list[Row]:
    """One row a scale and curve: min fulfilment and goodput (requests/s); no demand is scaled above what a file may state.

    The envelope does not depend on the demands, but what is servable does, so each scale is certified on its own.
    """
    envelope, plan = certificate.envelope, certificate.conservative
    rows: list[Row] = []
    for scale in (s for s in scales if s <= largest_demand_scale(envelope.instance)):
        scaled = _scaled(certificate, with_demand_scale(envelope.instance, scale))
        c = certify(scaled, engine, eta=certificate.eta, epsilon=certificate.epsilon)
        rows.append(_row(scale, SURE, c.lower.min_fulfilment, c.lower.goodput_rps))
        rows.append(_row(scale, HOPED, c.upper.min_fulfilment, c.upper.goodput_rps))
        rows.append(_row(scale, KEPT, *_kept(plan, scale)))
    return rows


def _scaled(certificate: Certificate, instance: Instance) -> Envelope:
    """The envelope of the same measurements under other demands."""
    envelope = certificate.envelope
    classes = {
        c.name: replace(class_envelope, view=replace(class_envelope.view, workload=c))
        for c in instance.classes
        for class_envelope in [envelope.classes[c.name]]
    }
    return replace(envelope, instance=instance, classes=classes)


def _kept(plan: Allocation, scale: float) -> tuple[float, float]:
    """Min fulfilment and goodput of the same replicas."""
    served = [min(class_plan.demand_rps * scale, class_plan.capacity_rps) for class_plan in plan.classes]
    counted = [
        served_rps / (class_plan.demand_rps * scale) if class_plan.demand_rps * scale > 0.0 else 1.0
        for demand, class_plan, served_rps in zip(plan.problem.classes, plan.classes, served, strict=True)
        if demand.in_minimum
    ]
    return min(counted, default=1.0), math.fsum(served)


def _row(scale: float, curve: str, fulfilment: float | None, goodput_rps: float | None) -> Row:
    shown, text = "not proven", upper_text if curve == HOPED else lower_text
    if fulfilment is not None and goodput_rps is not None:
        shown = f"{text(100.0 * fulfilment, 1)} % of the worst-served class, {text(goodput_rps)} requests/s in all"
    return {"scale": scale, "curve": curve, "fulfilment": fulfilment, "goodput": goodput_rps, "shown": shown}


def demand_chart(rows: Sequence[Row], field: str, palette: Palette = LIGHT) -> Chart:
    """One panel: "fulfilment" or "goodput" over the scale, without its size and look."""
    alt = altair()
    looks = {
        HOPED: Stroke(palette.soft, TIES),
        SURE: Stroke(palette.band),
        KEPT: Stroke(palette.ink),
    }
    title = {"fulfilment": "least fulfilment", "goodput": "goodput, requests/s"}[field]
    axis = alt.Axis(title=title)
    scale = alt.Scale(domain=[0, 1]) if field == "fulfilment" else alt.Scale(zero=True)
    base = alt.Chart().encode(
        x=alt.X(
            "scale:Q",
            title="demand, as a multiple of now",
            scale=alt.Scale(zero=False, nice=False),
            axis=alt.Axis(format="~g", grid=False, labelFlush=True),
        ),
        y=alt.Y(f"{field}:Q", axis=axis, scale=scale),
    )
    now = alt.Chart(values([{"scale": 1.0}])).mark_rule(color=palette.soft, strokeDash=[2, 2]).encode(x="scale:Q")
    tooltips = tips(scale="demand, times now", curve="curve", shown="serves")
    drawn = base.encode(**strokes("curve", looks, columns=1))
    return alt.layer(
        now,
        *(only(drawn, "curve", curve).mark_line() for curve in looks),
        base.mark_point(size=40, opacity=0).encode(tooltip=tooltips),
        data=values(
            [{"scale": row["scale"], "curve": row["curve"], field: row[field], "shown": row["shown"]} for row in rows]
        ),
    )


def demand(
    certificate: Certificate, engine: Engine, palette: Palette = LIGHT, scales: Sequence[float] = SCALES
) -> Chart:
    """Min fulfilment and goodput over the demand scale: guaranteed and at most with a new plan, and with the present plan."""
    alt = altair()
    rows = demand_rows(certificate, engine, scales)
    panels = [sized(demand_chart(rows, field, palette)) for field in ("fulfilment", "goodput")]
    return styled(alt.vconcat(*panels), palette)
