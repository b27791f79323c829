"""The figures of a page, by section, each as wide as its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleetsieve.allocation import Allocation
from fleetsieve.bounds.assumptions import CAPACITY
from fleetsieve.certificate import Verdict
from fleetsieve.errors import SolveFailed
from fleetsieve.figures.allocation import allocation_chart, allocation_height
from fleetsieve.figures.capacity import capacity_chart
from fleetsieve.figures.demand import demand_chart, demand_rows
from fleetsieve.figures.drawing import Chart, sized, styled
from fleetsieve.figures.gap import gap_chart
from fleetsieve.figures.grid import PALE, SHADED, grid_chart, grid_height, legend_text, states_in
from fleetsieve.figures.html import data_block
from fleetsieve.figures.ladder import ladder, panel_title
from fleetsieve.figures.palette import PAGE
from fleetsieve.figures.rungs import ladder_cells, ladder_rows, limited_metrics
from fleetsieve.figures.served import served_chart, served_height
from fleetsieve.figures.states import State, colours
from fleetsieve.report.subject import Report

TALL = 230
"""Pixels of an ordinary figure."""

MANY_CELLS = 20
"""A class with more cells than this has two tail charts side by side, not three."""


@dataclass(frozen=True)
class Picture:
    """One figure: the id of its place, its heading ("" for none), its block, and the height kept free for it, in pixels."""

    identity: str
    heading: str
    block: str
    height: int


class _Pictures:
    """Numbers the figures and gives each its place."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, chart: Chart, height: int = TALL, heading: str = "") -> Picture:
        """A chart as a figure of the page."""
        self._count += 1
        identity = f"figure-{self._count}"
        drawn = styled(sized(chart, height, "container"), PAGE, background=False)
        drawn.autosize = {"type": "fit-x", "contains": "padding"}
        return Picture(identity, heading, data_block(identity, drawn), height)


def pictures(report: Report) -> dict[str, Any]:
    """Every figure of the page: single ones, and lists by class; none of what is not there (no plan, nothing measured)."""
    c, make = report.certificate, _Pictures()
    planned, measured = bool(c.conservative.replica_counts), bool(report.read.measurements)
    names = [workload.name for workload in c.envelope.instance.classes]
    drawn: dict[str, Any] = {
        "allocation": _allocation(make, c.conservative) if planned else None,
        "hoped": _hoped(make, report),
        "served": make.of(served_chart(c.conservative, PAGE), served_height(c.conservative)) if planned else None,
        "classes": [(len(ladder_cells(c, name)) > MANY_CELLS, _of_class(make, report, name)) for name in names],
        "gap": None,
        "grid": [
            make.of(grid_chart(c, name, PAGE, legend=False), grid_height(c, name), name) for name in names if measured
        ],
        "states": [_legend(state) for state in states_in(c)],
        "capacity": make.of(capacity_chart(c, PAGE)) if measured else None,
        "demand": [],
    }
    if report.history is not None and report.history.steps:
        drawn["gap"] = make.of(gap_chart(report.history, c.epsilon, report.start_gap, PAGE), 280)
    drawn["demand"] = _demand(make, report) if planned else []
    return drawn


def _demand(make: _Pictures, report: Report) -> list[Picture]:
    """Fulfilment and goodput over the demand; nothing where no class demands anything, or the solver fails on the way."""
    if not any(workload.demand_rps > 0.0 for workload in report.read.instance.classes):
        return []
    try:
        rows = demand_rows(report.certificate, report.engine)
    except SolveFailed:
        return []
    titles = {"fulfilment": "Least fulfilment", "goodput": "Goodput"}
    return [make.of(demand_chart(rows, field, PAGE), TALL, heading) for field, heading in titles.items()]


def _allocation(make: _Pictures, plan: Allocation, *, hoped: bool = False) -> Picture:
    return make.of(allocation_chart(plan, PAGE, hoped=hoped), allocation_height(plan))


def _hoped(make: _Pictures, report: Report) -> Picture | None:
    """The optimistic plan, where there is no certified one beside it."""
    c = report.certificate
    if c.verdict is Verdict.FEASIBLE or c.optimistic is None:
        return None
    same = c.optimistic.replica_counts == c.conservative.replica_counts
    return None if same else _allocation(make, c.optimistic, hoped=True)


def _legend(state: State) -> dict[str, str]:
    """An entry of the heat map's legend: from the weakest to the strongest ground of its cells, and what marks them."""
    ground = colours(PAGE)[state]
    if state in SHADED:
        ground = f"linear-gradient(90deg,color-mix(in srgb,{ground} {PALE:.0%},{PAGE.paper}),{ground})"
    return {"text": legend_text(state), "ground": ground, "frame": "framed" if state is State.PLANNED else ""}


def _of_class(make: _Pictures, report: Report, name: str) -> list[Picture]:
    """Tails and capacity of a class; before anything is measured, without tails of which nothing at all is known."""
    c = report.certificate
    tails = [
        metric
        for metric in limited_metrics(c, name)
        if report.read.measurements or any(row["drawn"] == "bound" for row in ladder_rows(c, name, metric))
    ]
    return [
        make.of(ladder(c, name, quantity, PAGE), TALL, panel_title(c, name, quantity))
        for quantity in (*tails, CAPACITY)
    ]
