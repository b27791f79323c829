"""The bundled instances are what they say: reproducible, of the paper's shape, and the paper's own figures."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import pytest
from small_machine import INSTANCES

from fleetsieve.instance import Instance, Measurement
from fleetsieve.simulator import read_spec, simulate, simulate_cell

FILES = ("instance.toml", "classes.csv", "cells.csv", "measurements.csv")
SIMULATED = ("sim-chat-code-16gpu", "sim-four-class-64gpu", "sim-two-variants-16gpu")
GPUS = 16


def rows(folder: str, file: str) -> list[dict[str, str]]:
    with (INSTANCES / folder / file).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def feasible(instance: Instance, row: Measurement) -> bool:
    slo = instance.class_by_name[row.key.class_name].slo
    for metric in ("ttft", "e2e", "tpot"):
        limit, value = slo.limit_s(metric), row.tail(metric).value
        if limit is not None and (value is None or value > limit):
            return False
    return (row.success_rate.value or 0.0) >= (slo.min_success or 0.0)


def best_per_gpu(folder: str) -> dict[str, dict[int, float]]:
    """The most SLO-feasible requests/s per GPU by class and TP."""
    spec = read_spec(INSTANCES / folder)
    instance = spec.instance()
    best: dict[str, dict[int, float]] = {c.name: {} for c in instance.classes}
    for key in (cell.key for cell in instance.cells):
        row = simulate_cell(spec, key.class_name, key.tp, key.load).measurement
        if feasible(instance, row) and row.throughput_rps.value is not None:
            by_tp = best[key.class_name]
            by_tp[key.tp] = max(by_tp.get(key.tp, 0.0), row.throughput_rps.value / key.tp)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("folder", SIMULATED)
def test_a_fresh_simulation_gives_the_same_bytes(folder: str, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    simulate(INSTANCES / folder, tmp_path, progress=lambda done, total: calls.append((done, total)))
    for file in (*FILES, "simulation.toml"):
        assert (tmp_path / file).read_bytes() == (INSTANCES / folder / file).read_bytes(), file
    count = len(rows(folder, "cells.csv"))
    assert calls == [(done, count) for done in range(1, count + 1)]


def test_records_are_written_on_demand(tmp_path: Path) -> None:
    text = (INSTANCES / "sim-chat-code-16gpu" / "simulation.toml").read_text()
    spec = tmp_path / "simulation.toml"
    spec.write_text(text.replace("window_s = 270", "window_s = 10"))
    for out in ("a", "b"):
        simulate(spec, tmp_path / out, records=True)
    names = sorted(p.name for p in (tmp_path / "a" / "records").iterdir())
    assert len(names) == 21
    assert "chat-tp2-r2.5-seed0.csv.gz" in names
    for name in names:
        assert (tmp_path / "a" / "records" / name).read_bytes() == (tmp_path / "b" / "records" / name).read_bytes()


def test_chat_and_code_have_the_papers_shape() -> None:
    spec = read_spec(INSTANCES / "sim-chat-code-16gpu")
    instance = spec.instance()
    assert len(instance.cells) == 21
    seconds = spec.measure.warmup_s + spec.measure.window_s
    assert sum(seconds * cell.gpus for cell in instance.cells) == 29_400
    best = best_per_gpu("sim-chat-code-16gpu")
    for by_tp in best.values():
        assert max(by_tp, key=lambda tp: by_tp[tp]) == 4
        assert set(by_tp) == {2, 4, 8}


@pytest.mark.slow
def test_four_classes_want_different_degrees_and_the_floors_can_be_met() -> None:
    best = best_per_gpu("sim-four-class-64gpu")
    wanted = {name: max(by_tp, key=lambda tp: by_tp[tp]) for name, by_tp in best.items()}
    assert wanted == {"chat": 2, "code": 4, "summarise": 2, "agent": 8}
    instance = read_spec(INSTANCES / "sim-four-class-64gpu").instance()
    assert len(instance.cells) == 128
    for_floors = [c for c in instance.classes if c.floor_rps is not None]
    assert {c.name for c in for_floors} == {"chat", "agent"}
    gpus = sum((c.floor_rps or 0.0) / best[c.name][wanted[c.name]] + wanted[c.name] for c in for_floors)
    assert gpus < instance.fleet.gpus


def published() -> dict[tuple[str, int], list[float]]:
    """Throughputs of the rows that the paper calls SLO-feasible, by class and TP."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows("paper-h100-31b", "measurements.csv"):
        if row["success_rate_lo"]:
            found.setdefault((row["class"], int(row["tp"])), []).append(float(row["throughput_rps"]))
    return found


def served(scale: float, chat_rps: float, code_rps: float) -> tuple[float, float]:
    """Min fulfilment and goodput of two capacities under `scale` times the demand."""
    demand = {row["class"]: scale * float(row["demand_rps"]) for row in rows("paper-h100-31b", "classes.csv")}
    x = (min(demand["Chat"], chat_rps), min(demand["Code"], code_rps))
    return min(x[0] / demand["Chat"], x[1] / demand["Code"]), sum(x)


def best_fleet(scale: float, degrees: tuple[int, ...]) -> tuple[float, float]:
    """Max-min fulfilment, then goodput, over every fleet of 16 GPUs on nodes of 8."""
    table = published()
    answers = []
    for chat_tp, code_tp in product(degrees, degrees):
        for chat_n, code_n in product(range(GPUS // chat_tp + 1), range(GPUS // code_tp + 1)):
            if chat_n * chat_tp + code_n * code_tp <= GPUS:
                chat, code = max(table["Chat", chat_tp]), max(table["Code", code_tp])
                answers.append(served(scale, chat * chat_n, code * code_n))
    return max(answers, key=lambda answer: (round(answer[0], 9), answer[1]))


@pytest.mark.parametrize(
    ("scale", "degrees", "fulfilment", "goodput"),
    [
        (0.7, (2, 4, 8), 1.000, 19.60),
        (1.0, (2, 4, 8), 1.000, 28.00),
        (1.3, (2, 4, 8), 0.846, 33.99),
        (1.0, (8,), 0.696, 22.40),
        (1.0, (2,), 0.350, 10.39),
    ],
)
def test_table_3_follows_from_the_published_rows(
    scale: float, degrees: tuple[int, ...], fulfilment: float, goodput: float
) -> None:
    least, total = best_fleet(scale, degrees)
    assert round(least, 3) == fulfilment
    assert round(total, 2) == goodput


@pytest.mark.parametrize(("scale", "fulfilment", "goodput"), [(1.0, 0.939, 27.27), (1.3, 0.722, 32.07)])
def test_the_sparse_choice_of_table_3(scale: float, fulfilment: float, goodput: float) -> None:
    table = published()
    least, total = served(scale, max(table["Chat", 8]), 2 * max(table["Code", 4]))
    assert round(least, 3) == fulfilment
    assert round(total, 2) == goodput


def test_every_published_row_names_its_source() -> None:
    for row in rows("paper-h100-31b", "measurements.csv"):
        assert row["source"].startswith("Cheng, Zhang, Li, arXiv:2608.19659, ")
