"""How many requests/s a GPU gives within the SLO, by class and TP degree: what is measured, and what may still come."""

from __future__ import annotations

import math
from typing import Any

from fleetsieve.certificate import Certificate
from fleetsieve.figures.drawing import Chart, altair, plain, sized, styled, tips, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.instance import ServerKey

Row = dict[str, Any]


def capacity_rows(certificate: Certificate) -> list[Row]:
    """One row a class, TP and variant: the highest feasible requests/s per GPU measured, and the highest still possible."""
    envelope = certificate.envelope
    share = envelope.instance.fleet.max_utilisation
    rows = []
    for workload in envelope.instance.classes:
        bounds = envelope.classes[workload.name].bounds
        for tp, variant in sorted({(key.tp, key.variant) for key in bounds}):
            cells = [b for key, b in bounds.items() if (key.tp, key.variant) == (tp, variant)]
            name = f"TP{plain(ServerKey(tp, variant=variant).degree)}"
            measured = [(b.capacity_rps.lo * share / b.cell.gpus, b.cell.key.load) for b in cells if b.committable]
            sure, load = max(measured, default=(0.0, ""))
            upper_rps = max((b.capacity_rps.hi * share / b.cell.gpus for b in cells if b.possible), default=0.0)
            rows.append(
                {
                    "class": plain(workload.name),
                    "tp": name,
                    "where": f"{plain(workload.name)} {name}",
                    "sure": sure,
                    "most": upper_rps if math.isfinite(upper_rps) else None,
                    "shown": f"{sure:.4g} requests/s per GPU, at {plain(load)}"
                    if load
                    else "nothing keeps its SLO yet",
                    "hoped": _hoped(sure, upper_rps),
                }
            )
    return rows


def _hoped(sure: float, upper_rps: float) -> str:
    if upper_rps <= sure:
        return "nothing more"
    return f"up to {upper_rps:.4g} requests/s per GPU" if math.isfinite(upper_rps) else "anything: nothing bounds it"


def capacity_chart(certificate: Certificate, palette: Palette = LIGHT) -> Chart:
    """The chart of `capacity`, without its size and look."""
    alt = altair()
    rows = capacity_rows(certificate)
    names = [plain(c.name) for c in certificate.envelope.instance.classes]
    top = max([row["sure"] for row in rows] + [row["most"] or 0.0 for row in rows] + [1e-9])
    for row in rows:
        row["top"] = top if row["most"] is None else max(row["most"], row["sure"])
    degrees = sorted({row["tp"] for row in rows}, key=lambda tp: (int(tp[2:].split()[0]), tp))
    base = alt.Chart(values(rows)).encode(
        x=alt.X("tp:N", sort=degrees, title="TP degree", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("class:N", sort=names),
        tooltip=tips(where="cells", shown="measured", hoped="still possible"),
    )
    scale = alt.Scale(domain=names, range=[palette.of_class(place) for place in range(len(names))])
    colour = alt.Color("class:N", sort=names, title=None, scale=scale)
    axis = alt.Axis(title="requests/s per GPU within the SLO")
    more = base.transform_filter("datum.top > datum.sure * 1.0001")
    return alt.layer(
        base.mark_bar().encode(y=alt.Y("sure:Q", axis=axis), color=colour),
        more.mark_rule(strokeDash=[3, 2], strokeWidth=1.5).encode(
            y=alt.Y("sure:Q", axis=axis), y2="top:Q", color=colour
        ),
        more.mark_tick(thickness=2, size=10).encode(y=alt.Y("top:Q", axis=axis), color=colour),
    )


def capacity(certificate: Certificate, palette: Palette = LIGHT) -> Chart:
    """Feasible requests/s per GPU by TP, for each class: bars are measured, dashed lines what the bounds still allow."""
    return styled(sized(capacity_chart(certificate, palette)), palette)
