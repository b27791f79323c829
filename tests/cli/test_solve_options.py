"""The options of solve: what they change, and how a wrong value is told."""

from __future__ import annotations

import json

import pytest


def solved(cli, folder, *options):
    said = cli("solve", folder.path, "--json", *options)
    assert said.code == 0, said.err
    return said.document


def served(document, end="conservative"):
    return {c["class"]: c["served_rps"] for c in document[end]["classes"]}


def test_demands_scale_before_floors(cli, folder):
    assert served(solved(cli, folder, "--demand-scale", 0.5)) == {"chat": 4.0, "code": 2.0}
    both = solved(cli, folder, "--demand", "chat=4", "--demand-scale", 0.5)
    assert [c["demand_rps"] for c in both["conservative"]["classes"]] == [2.0, 2.0]
    floored = solved(cli, folder, "--demand-scale", 2, "--floor", "chat=6")
    assert (floored["conservative"]["shortfall"], floored["verdict"]) == (0.0, "certified-feasible")


def test_a_floor_above_the_demand_is_told_to_count_as_the_demand(cli, folder):
    said = solved(cli, folder, "--demand", "chat=3", "--floor", "chat=6")["explanation"]
    assert (
        "every floor is met (a floor above its class's demand counts as the demand: chat 6 as 3 requests/s) and no plan"
        in said
    )
    assert (
        "every floor is met and no plan"
        in solved(cli, folder, "--demand", "chat=3", "--floor", "chat=3")["explanation"]
    )


def test_no_demand_is_met_in_full(cli, folder):
    plan = solved(cli, folder, "--demand-scale", 0)["conservative"]
    assert (plan["min_fulfilment"], plan["gpus_used"]) == (1.0, 0)


def test_gpus(cli, folder):
    assert solved(cli, folder, "--gpus", 10)["conservative"]["min_fulfilment"] == 1.0
    assert solved(cli, folder, "--gpus", 1)["conservative"]["gpus_used"] == 0
    assert solved(cli, folder, "--gpus", 100_000)["conservative"]["gpus_used"] == 10


def test_a_fleet_too_small_for_every_cell_is_told_so(cli, folder):
    document = solved(cli, folder, "--gpus", 1)
    assert document["unservable"] == ["chat", "code"]
    assert "no cell of chat and code that may keep the SLO fits the fleet's nodes and GPUs" in document["explanation"]
    assert "cannot be served by any cell within the SLO" not in document["explanation"]


def test_only_tp_is_repeatable(cli, folder):
    only = solved(cli, folder, "--only-tp", 4)
    assert only["unservable"] == ["chat", "code"]
    assert served(solved(cli, folder, "--only-tp", 4, "--only-tp", 2)) == served(solved(cli, folder))


def test_eta_and_epsilon_are_those_of_the_certificate(cli, folder):
    document = solved(cli, folder, "--eta", 0.01, "--epsilon", 0.2)
    assert (document["eta"], document["epsilon"]) == (0.01, 0.2)
    assert solved(cli, folder, "--epsilon", 0.2)["eta"] == 0.1


def test_certify_says_yes_to_what_solve_stored(cli, folder):
    stored = cli("solve", folder.path, "--eta", 0, "--epsilon", 0.1, "--certificate", "c.json", "--json")
    said = cli("certify", folder.path, "--certificate", "c.json", "--json")
    assert (said.code, said.document["holds"], said.document["checked_with"]) == (0, True, "frontier")
    assert said.document["engine"] != "frontier"
    with open("c.json", encoding="utf-8") as file:
        assert json.load(file) == stored.document


@pytest.mark.parametrize(
    "options", [["--gpus", 9], ["--demand-scale", 2], ["--formulation", "fewest-gpus"], ["--floor", "chat=1"]]
)
def test_a_certificate_never_speaks_of_a_variation(cli, folder, tmp_path, options):
    said = cli("solve", folder.path, "--certificate", "c.json", *options)
    assert said.code == 2
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--demand", "chat"], "'chat'"),
        (["--demand", "=3"], "'=3'"),
        (["--demand", "chat="], "''"),
        (["--demand", "chat=many"], "'many'"),
        (["--demand", "chat=nan"], "nan"),
        (["--demand", "chat=inf"], "inf"),
        (["--demand", "chat=-1"], "-1"),
        (["--demand", "chat=1e20"], "1e+20"),
        (["--demand", "chat=1", "--demand", "chat=2"], "twice"),
        (["--demand", "chta=1"], "'chta'"),
        (["--floor", "chat=-1"], "-1"),
        (["--floor", "chat=nan"], "nan"),
        (["--floor", "other=1"], "'other'"),
        (["--demand-scale", "-1"], "-1"),
        (["--demand-scale", "nan"], "nan"),
        (["--demand-scale", "inf"], "inf"),
        (["--demand-scale", "1e308"], "1e+308"),
        (["--demand-scale", "two"], "two"),
        (["--gpus", "0"], "0"),
        (["--gpus", "-3"], "-3"),
        (["--gpus", "1.5"], "1.5"),
        (["--gpus", "100001"], "above 100000"),
        (["--gpus", "99999999999999999999"], "above 100000"),
        (["--only-tp", "3"], "3"),
        (["--only-tp", "x"], "x"),
        (["--eta", "1"], "1"),
        (["--eta", "-0.1"], "-0.1"),
        (["--eta", "nan"], "nan"),
        (["--epsilon", "0"], "0"),
        (["--epsilon", "1"], "1"),
        (["--epsilon", "nan"], "nan"),
        (["--bounds", "upper"], "upper"),
        (["--formulation", "cheapest"], "cheapest"),
        (["--certificate", "."], "."),
        (["extra"], "extra"),
    ],
)  # fmt: skip
def test_wrong_values_are_named(cli, folder, options, named):
    said = cli("solve", folder.path, *options)
    assert (said.code, said.out) == (2, "")
    assert named in said.err


def test_unknown_names_come_with_those_there_are(cli, folder):
    assert "chat, code" in cli("solve", folder.path, "--demand", "chta=1").err
    assert "2, 4" in cli("solve", folder.path, "--only-tp", 3).err
    assert "paper-h100-31b" in cli("solve", "paper-h100-31").err


POOLS = """\
schema_version = 1
name = "pools"
source = "made for a test"

[[fleet.pools]]
name = "h100"
gpus = 4
price_per_gpu_h = 5

[[fleet.pools]]
name = "l4"
gpus = 8
price_per_gpu_h = 1
"""


@pytest.fixture
def pooled(folder):
    (folder.path / "instance.toml").write_text(POOLS)
    cells = "class,tp,load,load_kind,offered,gpus,pool\n"
    rows = "class,tp,load,seed,status,throughput_rps,ttft_p99_s,pool\n"
    for name in ("chat", "code"):
        for pool, rate in (("h100", 4), ("l4", 2)):
            cells += f"{name},2,c8,concurrency,8,2,{pool}\n"
            rows += f"{name},2,c8,0,ok,{rate},1,{pool}\n"
    (folder.path / "cells.csv").write_text(cells)
    (folder.path / "measurements.csv").write_text(rows)
    return folder


def test_fewest_gpus_and_what_they_cost(cli, pooled):
    document = solved(cli, pooled, "--formulation", "fewest-gpus")
    plan = document["conservative"]
    assert plan["gpus_used"] == sum(plan["gpus_by_pool"].values()) == 6
    assert plan["gpus_by_pool"] == {"h100": 6, "l4": 0}
    assert plan["price_per_h"] == 30.0
    assert {c["pool"] for c in plan["classes"]} == {"h100"}
    told = cli("solve", pooled.path, "--formulation", "fewest-gpus")
    assert "6 of h100" in told.out
    assert "30 per hour" in told.out


def test_gpus_of_several_pools_are_not_one_number(cli, pooled):
    said = cli("solve", pooled.path, "--gpus", 8)
    assert said.code == 2
    assert "h100, l4" in said.err


def test_pools_are_named_in_the_plan(cli, pooled):
    said = cli("solve", pooled.path)
    assert "pool" in said.out.splitlines()[1]
    assert cli("run", pooled.path, "--replay", "--out", "made").code == 0
    assert cli("certify", "made").code == 0
