"""What the fewest GPUs say of the fleet that there is: its nodes and its pools."""

import pytest

SIZING = ("--formulation", "fewest-gpus")
CLASSES = "class,demand_rps,priority,floor_rps,max_ttft_p99_s,max_e2e_p99_s,max_tpot_p99_s,min_success\n"


@pytest.fixture
def fleet(tmp_path):
    """Makes a folder of classes that all hold 8 requests/s a replica: {class: (demand, TP, pool)}, and the fleet's TOML."""

    def make(toml, **classes):
        (tmp_path / "instance.toml").write_text(f'schema_version = 1\nname = "made"\n{toml}\n')
        rows = {"classes": CLASSES, "cells": "class,tp,load,pool,load_kind,offered,gpus\n"}
        rows["measurements"] = "class,tp,load,pool,seed,status,throughput_rps,success_rate,ttft_p99_s\n"
        for name, (demand, tp, pool) in classes.items():
            rows["classes"] += f"{name},{demand},1,,2,,,\n"
            rows["cells"] += f"{name},{tp},r8,{pool},rate,8,{tp}\n"
            rows["measurements"] += f"{name},{tp},r8,{pool},0,ok,8,1,1\n"
        for name, text in rows.items():
            (tmp_path / f"{name}.csv").write_text(text)
        return tmp_path

    return make


def sized(cli, folder):
    said = cli("solve", folder, *SIZING, "--json")
    assert said.code == 0, said.err
    return said.document


@pytest.mark.parametrize(
    ("gpus", "node", "said", "fits"),
    [
        (8, 4, "43 GPUs on 12 nodes of 4 (48 GPUs) serve every class in full (the fleet has 8);", False),
        (43, 4, "43 GPUs on 12 nodes of 4 (48 GPUs) serve every class in full (the fleet of 43 cannot host them);", False),
        (47, 4, "43 GPUs on 12 nodes of 4 serve every class in full (they fit the fleet of 47);", True),
        (48, 4, "43 GPUs on 12 nodes of 4 (48 GPUs) serve every class in full (they fit the fleet of 48);", True),
        (43, None, "43 GPUs serve every class in full (they fit the fleet of 43);", True),
        (42, None, "43 GPUs serve every class in full (the fleet has 42);", False),
    ],
)  # fmt: skip
def test_nodes_that_the_gpus_do_not_fill(cli, fleet, gpus, node, said, fits):
    nodes = f"gpus_per_node = {node}" if node else ""
    document = sized(cli, fleet(f"[fleet]\ngpus = {gpus}\n{nodes}", a=(50, 4, ""), b=(40, 3, "")))
    assert said in document["explanation"]
    for end in ("conservative", "optimistic"):
        plan = document[end]
        assert (plan["gpus_by_pool"], plan["fits_fleet"]) == ({"default": 43}, fits)
        assert plan["nodes_by_pool"] == ({"default": -(-48 // node)} if node else {})


def test_nodes_that_are_filled_are_not_told(cli, fleet):
    document = sized(cli, fleet("[fleet]\ngpus = 20\ngpus_per_node = 4", a=(40, 4, "")))
    assert "20 GPUs serve every class in full (they fit the fleet of 20);" in document["explanation"]


@pytest.mark.parametrize(("b200", "fleet_says"), [(4, "the fleet cannot host them"), (8, "they fit the fleet")])
def test_each_pool_beside_what_the_fleet_has_of_it(cli, fleet, b200, fleet_says):
    pools = '[[fleet.pools]]\nname = "h100"\ngpus = 20\ngpus_per_node = 8\n[[fleet.pools]]\nname = "b200"\ngpus = '
    document = sized(cli, fleet(pools + str(b200), chat=(32, 2, "b200"), code=(24, 4, "h100")))
    has = f"12 of h100 on 2 nodes of 8 (16 GPUs) against the fleet's 20 and 8 of b200 against the fleet's {b200}"
    assert f"20 GPUs serve every class in full; {has}; {fleet_says};" in document["explanation"]
    assert document["conservative"]["nodes_by_pool"] == {"h100": 2}
    assert document["conservative"]["fits_fleet"] is (b200 == 8)


def test_no_plan_has_no_gap(cli, fleet):
    folder = fleet("[fleet]\ngpus = 20", a=(40, 4, ""))
    (folder / "measurements.csv").unlink()
    document = sized(cli, folder)
    assert document["conservative"] is None
    assert document["gap"] == {"shortfall": None, "min_fulfilment": None, "goodput": None, "gpus": None}
