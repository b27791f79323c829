"""The paper's published figures, from the bundled instance through the command line and through the fixed-plan evaluation."""

from __future__ import annotations

import pytest

from fleetsieve.allocation import evaluate
from fleetsieve.answers.what_if import with_demand_scale
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance, resolve
from fleetsieve.instance import CellKey

PAPER = "paper-h100-31b"


@pytest.fixture(scope="module")
def paper():
    return read_instance(resolve(PAPER))


def envelope(paper, scale=1.0):
    return Envelope.of(with_demand_scale(paper.instance, scale), paper.measurements)


# (options, min fulfilment, goodput in requests/s, TP of Chat and Code, replicas of Chat and Code)
TABLE_3 = [
    (["--demand-scale", "0.7"], "1.000", "19.60", (4, 4), (2, 2)),
    ([], "1.000", "28.00", (4, 4), (2, 2)),
    (["--only-tp", "8"], "0.696", "22.40", (8, 8), (1, 1)),
    (["--only-tp", "2"], "0.350", "10.39", (2, 2), (3, 5)),
    (["--demand-scale", "1.3"], "0.846", "33.99", (4, 4), (2, 2)),
]


@pytest.mark.parametrize(("options", "fulfilment", "goodput", "degrees", "replicas"), TABLE_3)
def test_table_3(cli, options, fulfilment, goodput, degrees, replicas):
    document = cli("solve", PAPER, "--json", *options).document
    plan = document["conservative"]
    assert f"{plan['min_fulfilment']:.3f}" == fulfilment
    assert f"{plan['goodput_rps']:.2f}" == goodput
    assert [c["class"] for c in plan["classes"]] == ["Chat", "Code"]
    assert tuple(c["tp"] for c in plan["classes"]) == degrees
    assert tuple(c["replicas"] for c in plan["classes"]) == replicas
    assert plan["gpus_used"] == sum(tp * n for tp, n in zip(degrees, replicas, strict=True)) == 16
    assert (document["verdict"], document["eta"]) == ("certified-feasible", 0.0)


@pytest.mark.parametrize(("scale", "fulfilment", "goodput"), [(1.0, "0.939", "27.27"), (1.3, "0.722", "32.07")])
def test_table_3_sparse_rule(paper, scale, fulfilment, goodput):
    plan = evaluate(envelope(paper, scale).conservative, {CellKey("Chat", 8, "c128"): 1, CellKey("Code", 4, "peak"): 2})
    assert f"{plan.min_fulfilment:.3f}" == fulfilment
    assert f"{plan.goodput_rps:.2f}" == goodput


TABLE_1 = {"Chat": {2: 0.798, 4: 1.649, 8: 1.408}, "Code": {2: 0.560, 4: 2.779, 8: 1.392}}


@pytest.mark.parametrize("name", ["Chat", "Code"])
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_table_1(paper, name, tp):
    bounds = envelope(paper)
    best = max(
        b.capacity_rps.lo / b.cell.gpus
        for key, b in bounds.classes[name].bounds.items()
        if key.tp == tp and b.committable
    )
    assert f"{best:.3f}" == f"{TABLE_1[name][tp]:.3f}"


def test_chat_at_c128_passes_at_tp8_alone(paper):
    bounds = envelope(paper)
    tp4, tp8 = bounds[CellKey("Chat", 4, "c128")], bounds[CellKey("Chat", 8, "c128")]
    assert (tp4.tails_s["e2e"].hi, tp8.tails_s["e2e"].hi) == (46.38, 25.15)
    assert (tp4.possible, tp4.committable, tp8.committable) == (False, False, True)
    assert [round(b.capacity_rps.lo, 2) for b in (tp4, tp8)] == [11.27, 11.27]
    assert bounds[CellKey("Chat", 4, "c96")].tails_s["e2e"].hi == 15.98


def test_capacity_alone_would_pick_tp4_at_c128(paper):
    bounds = envelope(paper)
    per_gpu = {
        tp: bounds[CellKey("Chat", tp, "c128")].capacity_rps.lo / bounds[CellKey("Chat", tp, "c128")].cell.gpus
        for tp in (4, 8)
    }
    assert per_gpu[4] > 1.9 * per_gpu[8]
    chat = bounds.classes["Chat"].bounds
    assert max(chat, key=lambda key: chat[key].capacity_rps.lo / chat[key].cell.gpus) == CellKey("Chat", 4, "c128")


def test_no_plan_uses_tp4_at_c128(paper):
    forbidden = CellKey("Chat", 4, "c128")
    for tenths in range(1, 31):
        bounds = envelope(paper, tenths / 10)
        for problem in (bounds.conservative, bounds.optimistic):
            plan = Frontier().optimise(problem).allocation
            assert forbidden not in plan.replica_counts


@pytest.mark.parametrize("scale", [0.1, 0.4, 1.0, 1.3, 2.0, 3.0])
def test_no_plan_of_the_command_line_uses_tp4_at_c128(cli, scale):
    document = cli("solve", PAPER, "--json", "--demand-scale", scale).document
    for end in ("conservative", "optimistic"):
        assert ("Chat", 4, "c128") not in [(c["class"], c["tp"], c["load"]) for c in document[end]["classes"]]


def test_floors_of_six_and_ten_certify(cli):
    said = cli("solve", PAPER, "--floor", "Chat=6", "--floor", "Code=10", "--json", "--exit-code")
    assert (said.code, said.document["verdict"]) == (0, "certified-feasible")
    assert said.document["conservative"]["shortfall"] == 0.0


@pytest.mark.parametrize("name", ["Chat", "Code"])
def test_a_thousand_requests_per_second_with_a_floor_cannot_be_met(cli, name):
    said = cli("solve", PAPER, "--demand", f"{name}=1000", "--floor", f"{name}=1000", "--json", "--exit-code")
    assert (said.code, said.document["verdict"]) == (11, "certified-infeasible")
    needed, each = {"Chat": (608, 6.596), "Code": (360, 11.116)}[name]
    assert f"short by {needed - 16} GPUs" in said.document["explanation"]
    assert "what is not measured" not in said.document["explanation"], "the cells that matter are all measured"
    assert f"{name} lacks {int((1000 - 4 * each) * 10) / 10} requests/s" in said.document["explanation"]


def test_a_thousand_without_a_floor_is_only_served_badly(cli):
    document = cli("solve", PAPER, "--demand", "Chat=1000", "--json").document
    assert document["verdict"] == "certified-feasible"
    assert "demand is not met in full" in document["explanation"]


def test_fewest_gpus(cli):
    document = cli("solve", PAPER, "--formulation", "fewest-gpus", "--json").document
    assert (document["conservative"]["gpus_used"], document["verdict"]) == (16, "certified-feasible")
    assert [(c["tp"], c["replicas"]) for c in document["conservative"]["classes"]] == [(4, 2), (4, 2)]


def test_every_cell_of_the_published_ones_costs_300_seconds(paper):
    """The paper's grid has 29,400 GPU-seconds over 7 cells at TP2, 4 and 8; the instance lists the published 9 cells."""
    assert all(cell.cost_gpu_s == 300.0 * cell.gpus for cell in paper.instance.cells)
    assert (4 * 300 * 14, 3 * 300 * 14) == (16_800, 12_600)
