"""What a plan serves of what is demanded, class by class."""

from __future__ import annotations

from typing import Any

from fleetsieve.allocation import Allocation
from fleetsieve.certificate import Certificate
from fleetsieve.figures.drawing import Chart, altair, plain, sized, styled, tips, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.interval import lower_text

ROW, BAR, BELOW = 40, 14, 8
"""Pixels of a class's row, of the bar in it, and of how far the bar is below its middle: the words stand above it."""

Row = dict[str, Any]


def served_rows(plan: Allocation) -> list[Row]:
    """One row a class: its fulfilment, its floor (None where it is not critical) and both rates in words."""
    return [
        {
            "class": plain(class_plan.class_name),
            "served": class_plan.fulfilment,
            "whole": 1.0,
            "floor": demand.floor,
            "shown": f"{_rate(class_plan.served_rps)} of {class_plan.demand_rps:g} requests/s ({_per_cent(class_plan.fulfilment)})"
            + ("" if demand.floor is None else f"; floor {demand.floor * class_plan.demand_rps:.4g}"),
            "least": "none"
            if demand.floor is None
            else f"{demand.floor * class_plan.demand_rps:.4g} requests/s ({demand.floor:.3g} of the demand)",
        }
        for demand, class_plan in zip(plan.problem.classes, plan.classes, strict=True)
    ]


def _rate(served_rps: float) -> str:
    return lower_text(served_rps, 3).rstrip("0").rstrip(".")


def _per_cent(share: float) -> str:
    return f"{lower_text(100.0 * share, 1).removesuffix('.0')} %"


def served_height(plan: Allocation) -> int:
    """Pixels that the bars take."""
    return ROW * max(1, len(plan.classes))


def served_chart(plan: Allocation, palette: Palette = LIGHT) -> Chart:
    """The chart of `served`, without its size and look."""
    alt = altair()
    rows = served_rows(plan)
    names = [row["class"] for row in rows]
    base = alt.Chart(values(rows)).encode(
        y=alt.Y("class:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=110)),
        tooltip=tips(**{"class": "class", "shown": "served", "least": "floor"}),
    )
    colours = alt.Scale(domain=names, range=[palette.of_class(place) for place in range(len(names))])
    axis = alt.Axis(
        title="share of the demand that is served",
        labelExpr="(100 * datum.value) + ' %'",
        values=[0, 0.25, 0.5, 0.75, 1.0],
    )

    def along(field: str) -> Any:
        return alt.X(f"{field}:Q", axis=axis, scale=alt.Scale(domain=[0, 1]))

    bar = base.mark_bar(height=BAR, yOffset=BELOW)
    floor = base.transform_filter("isValid(datum.floor)")
    words = base.mark_text(align="left", dx=2, dy=-ROW // 4, color=palette.ink, fontSize=11)
    return alt.layer(
        bar.encode(x=along("whole"), color=alt.value(palette.faint)),
        bar.encode(x=along("served"), color=alt.Color("class:N", legend=None, scale=colours)),
        floor.mark_tick(color=palette.ink, thickness=3, size=BAR + 6, opacity=1, yOffset=BELOW).encode(
            x=along("floor")
        ),
        words.encode(x=alt.value(0), text="shown:N"),
    )


def served(certificate: Certificate, palette: Palette = LIGHT, plan: Allocation | None = None) -> Chart:
    """Served of demand, class by class, with a mark at each floor."""
    shown = plan if plan is not None else certificate.conservative
    return styled(sized(served_chart(shown, palette), served_height(shown)), palette)
