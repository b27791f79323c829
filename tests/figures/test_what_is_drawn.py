"""How cells and lines are drawn: nothing that matters is left out, and a colour has one meaning."""

from __future__ import annotations

import json

import pytest

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.figures import LIGHT, demand, gap, grid
from fleetsieve.figures.grid import grid_chart, grid_rows
from fleetsieve.figures.ladder import ladder
from fleetsieve.figures.rungs import ladder_rows, limited_metrics
from fleetsieve.figures.states import State, colours
from fleetsieve.files import read_instance
from fleetsieve.instance import CellKey, Measurement, Status
from fleetsieve.runs.history import History, LoggedStep

FAILURES = {
    CellKey("chat", 2, "r2.5"): (Status.OOM, 2),
    CellKey("chat", 4, "r8"): (Status.CRASHED, 2),
    CellKey("code", 8, "r6"): (Status.FAILED_START, 1),
}
GAPS = ("shortfall", "min_fulfilment", "goodput")
MEASURED = [CellKey("chat", 2, "r1"), CellKey("code", 4, "r8")]


@pytest.fixture(scope="module")
def mixed() -> Certificate:
    """Two classes of which few cells were measured, and some failed."""
    read = read_instance("sim-chat-code-16gpu")
    rows = [row for row in read.measurements if row.key in MEASURED]
    rows += [Measurement(key, seed, status) for key, (status, looks) in FAILURES.items() for seed in range(looks)]
    return certify(Envelope.of(read.instance, rows), Frontier())


def panels(c: Certificate) -> list[tuple[str, str]]:
    names = [workload.name for workload in c.envelope.instance.classes]
    return [(name, quantity) for name in names for quantity in (*limited_metrics(c, name), "capacity")]


def drawn(chart) -> dict:
    return chart.to_dict()


def scales(document: dict, channel: str) -> list[dict]:
    return [layer["encoding"][channel]["scale"] for layer in document["layer"] if "scale" in layer["encoding"][channel]]


@pytest.mark.slow
def test_every_bound_of_a_cell_that_a_plan_may_use_is_within_the_axis(mixed, four_classes):
    for c in (mixed, four_classes):
        for name, quantity in panels(c):
            document = drawn(ladder(c, name, quantity))
            (low, high), *others = [scale["domain"] for scale in scales(document, "y")]
            assert all(other == [low, high] for other in others)
            for row in ladder_rows(c, name, quantity):
                if row["drawn"] in ("value", "bound"):
                    assert all(low < row[end] < high for end in ("lo", "hi") if row[end] is not None)
            assert document["layer"][-1]["encoding"]["y"]["axis"]["values"]


def test_a_cell_that_failed_for_good_is_not_drawn_as_possible(mixed):
    for name, quantity in panels(mixed):
        by_key = {(row["tp"], row["label"]): row for row in ladder_rows(mixed, name, quantity)}
        for key in (key for key in FAILURES if key.class_name == name):
            row = by_key[f"TP{key.tp}", key.load]
            assert row["sign"] == "!"
            assert (row["drawn"] == "closed") == (key != CellKey("chat", 4, "r8"))
        assert name != "chat" or by_key["TP2", "r4"]["drawn"] == "closed"
    flake = next(row for row in ladder_rows(mixed, "chat", "capacity") if row["cell"] == "chat TP4 r8")
    assert (flake["hi"], flake["drawn"]) == (8.0, "bound")
    assert "the failure may be transient" in flake["state"]


@pytest.mark.slow
def test_every_cell_has_a_symbol_within_its_panel(mixed, four_classes):
    for c in (mixed, four_classes):
        for name, quantity in panels(c):
            document = drawn(ladder(c, name, quantity))
            low, high = scales(document, "y")[0]["domain"]
            symbols = document["data"]["values"]
            assert all(low < symbol["y"] < high for symbol in symbols)
            assert {symbol["cell"] for symbol in symbols} == {row["cell"] for row in ladder_rows(c, name, quantity)}
            for symbol in symbols:
                if symbol["stroke"] == LIGHT.soft:
                    assert symbol["y"] < low * (high / low) ** 0.1
            shapes = {(symbol["tp"], symbol["shape"]) for symbol in symbols}
            assert len(shapes) == len({tp for tp, _ in shapes})


@pytest.mark.slow
def test_a_shape_is_the_same_degree_in_every_panel(four_classes):
    found = [drawn(ladder(four_classes, name, quantity)) for name, quantity in panels(four_classes)]
    shapes = {(symbol["tp"], symbol["shape"]) for document in found for symbol in document["data"]["values"]}
    assert len(shapes) == 4
    assert "height" not in json.dumps([document["layer"] for document in found])


def test_what_nothing_bounds_is_drawn_as_unknown(mixed):
    rows = {row["cell"]: row for row in ladder_rows(mixed, "chat", "ttft")}
    assert (rows["chat TP8 r6"]["drawn"], rows["chat TP8 r6"]["sign"]) == ("unknown", "?")
    assert len(rows) == sum(row["drawn"] in ("value", "bound", "unknown", "closed") for row in rows.values())


def test_cells_of_one_load_stand_side_by_side_around_its_tick(mixed, four_classes):
    for c in (mixed, four_classes):
        for name, quantity in panels(c):
            places: dict[str, list[float]] = {}
            for row in ladder_rows(c, name, quantity):
                places.setdefault(row["label"], []).append(row["beside"])
            for beside in places.values():
                assert sum(beside) == pytest.approx(0.0)
                assert len(set(beside)) == len(beside)
                assert max(beside) <= 0.4


def test_the_legend_of_the_heat_map_has_the_colours_of_its_cells(mixed):
    document = drawn(grid_chart(mixed, "chat"))
    ground = document["layer"][0]["encoding"]
    shown = dict(zip(ground["color"]["scale"]["domain"], ground["color"]["scale"]["range"], strict=True))
    assert shown == {str(state): colours(LIGHT)[state] for state in State if str(state) in shown}
    rows = grid_rows(mixed, "chat")
    assert {row["opacity"] for row in rows if row["state"] not in (State.PLANNED, State.USABLE)} == {1.0}
    assert max(row["opacity"] for row in rows if row["state"] in (State.PLANNED, State.USABLE)) == 1.0
    assert {row["rate"] for row in rows if row["cell"] == "chat TP2 r1"} == {"0.5"}


@pytest.mark.slow
def test_the_colours_of_classes_mean_nothing_else(mixed):
    step = LoggedStep(1, MEASURED[0], "why", 1.0, "ok", "what", 10.0, "undecided", "", dict.fromkeys(GAPS, 0.5))
    for chart in (demand(mixed, Frontier(), scales=(0.5, 1.0)), gap(History({}, (step,), None), 0.05), grid(mixed)):
        text = json.dumps(drawn(chart))
        assert not [colour for colour in LIGHT.classes if colour in text]
    taken = [value for name, value in LIGHT.named().items() if not name.startswith("classes")]
    assert not set(taken) & set(LIGHT.classes)


def test_lines_that_lie_on_one_another_differ_in_width(mixed):
    document = drawn(demand(mixed, Frontier(), scales=(0.5, 1.0)))
    lines = [layer for layer in document["vconcat"][0]["layer"] if layer["mark"]["type"] == "line"]
    (widths,) = {tuple(line["encoding"]["strokeWidth"]["scale"]["range"]) for line in lines}
    order = [line["transform"][0]["filter"]["equal"] for line in lines]
    assert order == lines[0]["encoding"]["strokeWidth"]["scale"]["domain"]
    assert widths[0] > 2.0 * widths[-1]


def test_a_small_gap_is_told_as_small():
    step = LoggedStep(1, MEASURED[0], "why", 1.0, "ok", "what", 10.0, "undecided", "", dict.fromkeys(GAPS, 9.7e-8))
    text = json.dumps(drawn(gap(History({}, (step,), None), 0.05)))
    assert '"shown": "<1e-6"' in text
