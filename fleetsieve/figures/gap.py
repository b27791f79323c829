"""How the gap closed over the GPU-seconds of a run, step by step."""

from __future__ import annotations

from typing import Any

from fleetsieve.certificate import Gap, gap_document
from fleetsieve.figures.drawing import TIES, Chart, Stroke, altair, only, plain, sized, strokes, styled, tips, values
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.interval import upper_text
from fleetsieve.runs.history import History

STAGES = {"shortfall": "floors", "min_fulfilment": "least fulfilment", "goodput": "goodput"}
"""The stages of the gap, and how a figure calls them."""

TICKS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)

Row = dict[str, Any]


def gap_rows(history: History, start: Gap | None = None) -> list[Row]:
    """One row a step and stage; `start` is the gap before anything was measured. Stages without any gap are left out."""
    rows: list[Row] = []
    if start is not None:
        nothing = ("", "before anything was measured", "")
        rows += [_row(0, 0.0, stage, value, *nothing) for stage, value in gap_document(start).items()]
    for step in history.steps:
        reason = step.reason.replace("%", "\u00a0%")
        why = reason if step.status == "ok" else f"{reason}; {step.status}"
        rows += [
            _row(step.number, step.spent_gpu_s, stage, value, plain(str(step.key)), why, step.changed)
            for stage, value in step.gap.items()
        ]
    used = {row["stage"] for row in rows if row["gap"]}
    return [row for row in rows if row["stage"] in used]


def _row(number: int, spent_gpu_s: float, stage: str, gap: float | None, cell: str, why: str, changed: str) -> Row:
    text = "not proven" if gap is None else "<1e-6" if 0.0 < gap < 1e-6 else upper_text(gap)
    return {"step": number, "spent": spent_gpu_s, "stage": STAGES[stage], "gap": gap, "shown": text, "cell": cell,
            "why": plain(why), "changed": plain(changed)}  # fmt: skip


def gap_chart(history: History, epsilon: float, start: Gap | None = None, palette: Palette = LIGHT) -> Chart:
    """The chart of `gap`, without its size and look."""
    alt = altair()
    rows = gap_rows(history, start)
    looks = {
        STAGES["shortfall"]: Stroke(palette.soft, TIES),
        STAGES["goodput"]: Stroke(palette.band),
        STAGES["min_fulfilment"]: Stroke(palette.ink),
    }
    looks = {stage: look for stage, look in looks.items() if any(row["stage"] == stage for row in rows)}
    # In the order of the lines: the points of the last one lie above the others.
    rows.sort(key=lambda row: list(looks).index(row["stage"]))
    top = max([row["gap"] or 0.0 for row in rows] + [2.0 * epsilon])
    ticks = [0.0, epsilon, *(tick for tick in TICKS if 1.5 * epsilon < tick <= top * 1.05)]
    axis = alt.Axis(title="gap (root scale)", values=ticks, format=".3~g")
    y = alt.Y("gap:Q", axis=axis, scale=alt.Scale(type="sqrt", domain=[0, top * 1.05], nice=False))
    base = alt.Chart().encode(
        x=alt.X(
            "spent:Q",
            title="GPU-seconds spent",
            axis=alt.Axis(format=",d", grid=False, labelFlush=True),
            scale=alt.Scale(zero=True, nice=False),
        ),
        y=y,
    )
    certified = alt.Chart(values([{"gap": epsilon, "shown": f"certifies at {epsilon:g}"}])).encode(y=y)
    asked = tips(
        step="step", cell="measured", why="why this cell", changed="what it changed", stage="stage", shown="gap"
    )
    before = tips(why="step 0", stage="stage", shown="gap")
    drawn = base.encode(**strokes("stage", looks, columns=4))
    point = base.encode(color=drawn.encoding.color).mark_point(filled=True, size=45, opacity=1)
    return alt.layer(
        certified.mark_rule(color=palette.good, strokeDash=[5, 3], strokeWidth=1.5),
        certified.mark_text(color=palette.good, align="left", dx=4, dy=-6, fontSize=11).encode(
            x=alt.value(0), text="shown:N"
        ),
        *(only(drawn, "stage", stage).mark_line(interpolate="step-after") for stage in looks),
        point.transform_filter("datum.step == 0").encode(tooltip=before),
        point.transform_filter("datum.step > 0").encode(tooltip=asked),
        data=values(rows),
    )


def gap(history: History, epsilon: float, start: Gap | None = None, palette: Palette = LIGHT) -> Chart:
    """The gap of each stage over the GPU-seconds spent, with the line at which it certifies (root scale, to show small gaps)."""
    return styled(sized(gap_chart(history, epsilon, start, palette)), palette)
