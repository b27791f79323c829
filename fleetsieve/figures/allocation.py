"""A plan as a picture: each GPU is a box on its node, each replica a frame around its GPUs, in the colour of its class."""

from __future__ import annotations

import math
from typing import Any

from fleetsieve.allocation import Allocation
from fleetsieve.certificate import Certificate, placement
from fleetsieve.figures.drawing import Chart, altair, plain, sized, styled, tips, values
from fleetsieve.figures.packing import Node, Placed, merged_nodes, pack
from fleetsieve.figures.palette import LIGHT, Palette
from fleetsieve.instance import DEFAULT_POOL

ROW = 30
"""Pixels of a node's row."""

IN_A_ROW = 8
"""GPUs in a row of a pool without nodes."""

MANY_NODES = 16
"""With more nodes than these, equal neighbours are drawn once."""

FREE = "free"

INSET = 0.04
"""How far a replica's frame is inside its GPUs, in GPUs."""

MARGIN = 8
"""Pixels that a replica's frame keeps free beside its name."""

Row = dict[str, Any]


def allocation_rows(plan: Allocation) -> tuple[list[Row], list[Row]]:
    """The GPUs (one row each) and the stretches of GPUs that a replica takes in one row of boxes."""
    nodes = pack(plan)
    drawn = merged_nodes(nodes) if len(nodes) > MANY_NODES else nodes
    boxes: list[Row] = []
    frames: list[Row] = []
    pooled = len({node.pool for node in nodes}) > 1 or any(node.pool != DEFAULT_POOL for node in nodes)
    wide = {pool.name: pool.gpus_per_node for pool in plan.problem.pools}
    for node in drawn:
        width = wide[node.pool] or IN_A_ROW
        held = {gpu: replica for replica in node.placed for gpu in range(replica.first, replica.first + replica.gpus)}
        for gpu in range(node.gpus):
            replica = held.get(gpu)
            boxes.append({**_box(node, width, gpu, pooled, nodes=wide[node.pool] is not None), **_labels(replica)})
        for replica in node.placed:
            frames += _frames(node, width, replica, pooled, nodes=wide[node.pool] is not None)
    return boxes, frames


def _box(node: Node, width: int, gpu: int, pooled: bool, *, nodes: bool) -> Row:
    row, column = divmod(gpu, width)
    first, last = row * width + 1, min(node.gpus, (row + 1) * width)
    place = f"node {node.number}" if nodes else f"GPUs {first} to {last}" if last > first else f"GPU {first}"
    if node.count > 1:
        place = f"{node.count} nodes like {node.number}"
    return {"row": f"{plain(node.pool)}, {place}" if pooled else place, "x": column, "x2": column + 1}


def _labels(replica: Placed | None) -> Row:
    if replica is None:
        return {"class": FREE, "shown": "a free GPU"}
    return {"class": plain(replica.class_name), "shown": plain(placement(replica.name, 1).removesuffix(" x1"))}


def _frames(node: Node, width: int, replica: Placed, pooled: bool, *, nodes: bool) -> list[Row]:
    """The stretches of one replica; only without nodes can it take more than one row of boxes."""
    frames = []
    gpu, end = replica.first, replica.first + replica.gpus
    while gpu < end:
        stop = min(end, (gpu // width + 1) * width)
        box = _box(node, width, gpu, pooled, nodes=nodes)
        first = gpu % width
        span = {"x": first + INSET, "x2": first + stop - gpu - INSET, "start": first + 2 * INSET}
        frames.append({**_labels(replica), **span, "row": box["row"]})
        gpu = stop
    return frames


def allocation_height(plan: Allocation) -> int:
    """Pixels that the rows of boxes take."""
    return ROW * max(1, len({row["row"] for row in allocation_rows(plan)[0]}))


def allocation_chart(plan: Allocation, palette: Palette = LIGHT, *, hoped: bool = False) -> Chart:
    """The chart of `allocation`, without its size and look; one that is only `hoped` for has outlines instead of blocks."""
    alt = altair()
    boxes, frames = allocation_rows(plan)
    names = [plain(c.name) for c in plan.problem.classes]
    order = list(dict.fromkeys(row["row"] for row in boxes))
    widest = max((row["x2"] for row in boxes), default=1.0)
    used = [name for name in names if any(row["class"] == name for row in boxes)]
    colours = [palette.of_class(names.index(name)) for name in used]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, widest], nice=False))
    y = alt.Y("row:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=150))
    if any(row["class"] == FREE for row in boxes):
        used, colours = [*used, FREE], [*colours, palette.faint]
    painted = alt.Scale(domain=used, range=colours)
    colour = alt.Color("class:N", title=None, sort=used, scale=painted)
    tooltips = tips(**{"class": "class", "shown": "replica", "row": "on"})
    free = alt.Chart(values([row for row in boxes if row["class"] == FREE])).mark_rect(
        height=ROW - 8, stroke=palette.paper, strokeWidth=3
    )
    box = free.encode(x=x, x2="x2:Q", y=y, color=colour, tooltip=tooltips)
    framed = alt.Chart(values(frames)).encode(y=y, tooltip=tooltips)
    dashes = {"strokeDash": [4, 3], "strokeWidth": 1.5} if hoped else {}
    frame = framed.mark_rect(height=ROW - 8, cornerRadius=4, **dashes).encode(x=x, x2="x2:Q", color=colour)
    if hoped:
        stroke = alt.Stroke("class:N", legend=None, sort=used, scale=painted)
        frame = frame.encode(stroke=stroke, fillOpacity=alt.value(0.12))
    inside = [{**row, "x": gpu} for row in frames for gpu in range(math.ceil(row["x"]), math.ceil(row["x2"]))]
    between = alt.Chart(values(inside)).mark_tick(
        color=palette.faint if hoped else palette.paper, thickness=1, height=ROW - 12, orient="vertical"
    )
    line = between.encode(x=x, y=y, tooltip=tooltips)
    room = alt.ExprRef(f"(datum.x2 - datum.x) * width / {widest} - {MARGIN}")
    ink = palette.ink if hoped else palette.paper
    text = framed.mark_text(
        color=ink, fontSize=10, fontWeight=600, baseline="middle", align="left", dx=2, limit=room
    ).encode(x="start:Q", text="class:N")
    return alt.layer(box, frame, line, text)


def allocation(certificate: Certificate, palette: Palette = LIGHT, plan: Allocation | None = None) -> Chart:
    """The conservative plan of a certificate (or another one) on the GPUs of the fleet, as one packing that holds it."""
    shown = plan if plan is not None else certificate.conservative
    return styled(sized(allocation_chart(shown, palette), allocation_height(shown)), palette)
