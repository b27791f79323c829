"""The grid of cells as a heat map: which were measured, what they showed, and what was never needed."""

from __future__ import annotations

import json
from typing import Any

from fleetsieve.certificate import Certificate
from fleetsieve.figures.drawing import Chart, altair, plain, sized, styled, tips, titled, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.figures.rungs import ladder_cells, load_title
from fleetsieve.figures.states import SIGNS, UNUSABLE, State, cell_state, colours, limits_text, rate_text, state_text
from fleetsieve.instance import DEFAULT_POOL, CellKey

ROW = 36
"""Pixels of one TP degree's row."""

PALE = 0.3
"""Opacity of a usable cell that gives next to nothing per GPU; the best of its class has the state's full colour."""

SHADED = (State.PLANNED, State.USABLE)
"""States in which a stronger colour states more requests/s per GPU."""

LETTERS = 6
"""Letters of a load's label that fit a cell on a phone."""

Row = dict[str, Any]


def grid_rows(certificate: Certificate, class_name: str) -> list[Row]:
    """One row a cell: its rung, its state, how strong its colour is, and words for a tooltip."""
    class_envelope = certificate.envelope.classes[class_name]
    per_gpu = {key: b.capacity_rps.lo / b.cell.gpus for key, b in class_envelope.bounds.items() if b.measured}
    largest = max((per_gpu[key] for key in per_gpu if class_envelope.bounds[key].committable), default=0.0) or 1.0
    rows: list[Row] = []
    rung: dict[str, int] = {}
    for cell in ladder_cells(certificate, class_name):
        key, b = cell.key, class_envelope.bounds[cell.key]
        arm = _arm_name(key)
        rung[arm] = rung.get(arm, 0) + 1
        state = cell_state(certificate, key)
        known = class_envelope.view.known.get(key)
        shut = not b.measured and (cell.excluded or key in class_envelope.closed)
        capacity = (
            UNUSABLE
            if shut
            else rate_text(b.capacity_rps) + (f" ({per_gpu[key]:.4g} per GPU)" if key in per_gpu else "")
        )
        rows.append(
            {
                **titled(key),
                "arm": arm,
                "rung": rung[arm],
                "label": SIGNS.get(state, "") + _short(plain(key.load)),
                "state": str(state),
                "rate": f"{per_gpu[key]:.3g}" if key in per_gpu else "",
                "opacity": PALE + (1.0 - PALE) * per_gpu[key] / largest if state in SHADED else 1.0,
                "shown": capacity,
                "words": state_text(class_envelope, b, state),
                "limits": "not measured" if shut else limits_text(class_envelope, b),
                "looks": ", ".join(str(row.status) for row in known.rows) if known is not None else "none",
            }
        )
    return rows


def _arm_name(key: CellKey) -> str:
    return f"TP{plain(key.server.degree)}" + ("" if key.pool == DEFAULT_POOL else f" {plain(key.pool)}")


def _short(label: str) -> str:
    return label if len(label) <= LETTERS else f"{label[: LETTERS - 1]}…"


def states_in(certificate: Certificate) -> list[State]:
    """The states that some cell has, in their fixed order."""
    cells = certificate.envelope.instance.cells
    found = {cell_state(certificate, cell.key) for cell in cells}
    return [state for state in State if state in found]


def grid_height(certificate: Certificate, class_name: str) -> int:
    """Pixels that the rows of a class take."""
    return ROW * max(1, len({row["arm"] for row in grid_rows(certificate, class_name)}))


def grid_chart(certificate: Certificate, class_name: str, palette: Palette = LIGHT, *, legend: bool = True) -> Chart:
    """The heat map of one class, without its size and look: in each box the load, below it the measured requests/s per GPU."""
    alt = altair()
    rows = grid_rows(certificate, class_name)
    painted, there = colours(palette), states_in(certificate)
    tooltips = {"cell": "cell", "words": "state", "shown": "capacity", "limits": "SLO"}
    bare = alt.Axis(labelAngle=0, domain=False, ticks=False)
    rungs = alt.Axis(labels=False, domain=False, ticks=False)
    base = alt.Chart(values(rows)).encode(
        x=alt.X("rung:O", title=load_title(certificate, class_name), axis=rungs),
        y=alt.Y("arm:N", sort=list(dict.fromkeys(row["arm"] for row in rows)), title=None, axis=bare),
        tooltip=tips(**tooltips, looks="measurements"),
    )
    scale = alt.Scale(domain=[str(state) for state in there], range=[painted[state] for state in there])
    signed = {str(state): legend_text(state) for state in there}
    shown = alt.Legend(columns=2, symbolType="square", labelExpr=f"{json.dumps(signed)}[datum.label]")
    fill = alt.Color("state:N", title=None, legend=shown if legend else None, scale=scale)
    planned = base.transform_filter({"field": "state", "equal": str(State.PLANNED)})

    def text(field: str, where: str, dy: int) -> Any:
        mark = base.transform_filter(where).mark_text(fontSize=10, color=palette.ink, dy=dy)
        return mark.encode(text=f"{field}:N")

    return alt.layer(
        base.mark_rect(stroke=palette.paper, strokeWidth=2, cornerRadius=4).encode(
            color=fill, opacity=alt.Opacity("opacity:Q", scale=None, legend=None)
        ),
        planned.mark_rect(filled=False, stroke=palette.ink, strokeWidth=2, cornerRadius=4),
        text("label", "!datum.rate", 0),
        text("label", "datum.rate", -6),
        text("rate", "datum.rate", 7),
    )


def legend_text(state: State) -> str:
    """How a legend calls a state: its name, and the sign or the frame of its cells."""
    sign = "framed" if state is State.PLANNED else SIGNS.get(state, "").strip()
    return f"{state} ({sign})" if sign else str(state)


def grid(certificate: Certificate, palette: Palette = LIGHT, class_name: str | None = None) -> Chart:
    """The heat map of every class (or one), by TP and load: the stronger the green, the more requests/s per GPU within the SLO."""
    alt = altair()
    names = [c.name for c in certificate.envelope.instance.classes if class_name in (None, c.name)]
    panels = [
        sized(grid_chart(certificate, name, palette), grid_height(certificate, name)).properties(title=plain(name))
        for name in names
    ]
    return styled(alt.vconcat(*panels), palette)
