"""Engine variants: what is known of one bounds no other, and files, plans and servers keep them apart."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import cli
from hypothesis import given, settings
from hypothesis import strategies as st
from live_runs.conftest import live
from live_runs.instances import Live
from loop.small_fleet import INSTANCE

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.errors import InputError
from fleetsieve.files import read_instance
from fleetsieve.files.records import record_name
from fleetsieve.instance import (
    Cell,
    CellKey,
    Facts,
    Instance,
    LoadKind,
    Measurement,
    Reading,
    ServerKey,
    Slo,
    Status,
    WorkloadClass,
)
from fleetsieve.live.load.schedule import look_seed
from fleetsieve.live.serving.command import command_of, environment_of
from fleetsieve.live.serving.config import read_serve_config
from fleetsieve.probes.noisy import look_generator
from fleetsieve.simulator import read_spec, simulate_cell

__all__ = ["cli", "live"]

INSTANCES = Path(__file__).resolve().parents[2] / "instances"
FP8 = ServerKey(4, variant="fp8")
FAR = ServerKey(4, "h200", "fp8")


def test_one_label_for_a_server() -> None:
    assert [str(key) for key in (ServerKey(4), FP8, ServerKey(4, "h200"), FAR)] == [
        "TP4",
        "TP4 fp8",
        "TP4 on h200",
        "TP4 fp8 on h200",
    ]
    assert str(CellKey("chat", FAR, "c16")) == "chat TP4 fp8 c16 on h200"
    assert str(CellKey("chat", 4, "c16", "h200")) == "chat TP4 c16 on h200"
    assert str(CellKey("chat", FAR, "c16").arm) == "chat TP4 fp8 on h200"
    assert CellKey(*CellKey("chat", FAR, "c16").parts) == CellKey("chat", FAR, "c16")
    assert CellKey(*CellKey("chat", 4, "c16").parts) == CellKey("chat", 4, "c16")


def test_keys_sort_by_class_degree_load_pool_and_variant() -> None:
    stated = [
        CellKey("a", 1, "c8", "x"),
        CellKey("a", 2, "c16", "y"),
        CellKey("a", ServerKey(2, "y", "fp8"), "c16"),
        CellKey("a", 2, "c8", "b"),
        CellKey("b", 1, "c1"),
    ]
    assert sorted({*stated}) == stated
    assert max(stated) == stated[-1]
    assert stated[0] <= stated[0] >= stated[0]


def test_draws_of_keys_without_a_variant_are_those_of_version_0_1_0() -> None:
    far, near = CellKey("chat", 4, "c16", "h200"), CellKey("chat", 2, "c16")
    assert look_generator(3, 1, far, 2).standard_normal(2).tolist() == [-1.1129771364469616, -1.0909778987885983]
    assert look_generator(0, 0, near, 0).standard_normal() == 0.7273163966907565
    assert look_seed(7, near, 1) == 74942746009268
    assert look_seed(7, CellKey("chat", 2, "c16", "h200"), 1) == 278398279076542
    other = CellKey("chat", ServerKey(2, variant="fp8"), "c16")
    assert look_seed(7, other, 1) != look_seed(7, near, 1)
    assert record_name(other, 0) == "chat-tp2-c16-variant-fp8-seed0.csv.gz"


def ladder(variant: str, tps: tuple[int, ...] = (1, 2, 4)) -> list[Cell]:
    return [
        Cell(CellKey("chat", ServerKey(tp, variant=variant), f"c{n}"), tp, LoadKind.CONCURRENCY, float(n))
        for tp in tps
        for n in (2, 4, 8)
    ]


CELLS = (*ladder("default"), *ladder("fp8"))
SLO = Slo(max_ttft_p99_s=1.0, max_tpot_p99_s=0.1, min_success=0.9)
ACROSS = {"tail_monotone_tp": {"enabled": True}, "interior_knee": {"enabled": True}}


def instance(**facts: Any) -> Instance:
    chat = WorkloadClass("chat", 10.0, SLO, input_tokens=100.0, output_tokens=50.0)
    return replace(INSTANCE, classes=(chat,), cells=CELLS, assumptions=ACROSS, facts=Facts(**facts))


def drawn(key: CellKey, ttft_s: float, rate_rps: float, status: Status) -> Measurement:
    tails = {"ttft_p99_s": Reading(ttft_s), "tpot_p99_s": Reading(ttft_s / 10.0)}
    return Measurement(key, status=status, throughput_rps=Reading(rate_rps), success_rate=Reading(1.0), **tails)


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([cell.key for cell in CELLS if cell.key.variant == "fp8"]),
            st.floats(0.01, 20.0),
            st.floats(0.1, 50.0),
            st.sampled_from([Status.OK, Status.OK, Status.OK, Status.OOM, Status.FAILED_START, Status.TIMEOUT]),
        ),
        min_size=1,
        unique_by=lambda one: one[0],
    )
)
def test_what_is_measured_of_one_variant_bounds_no_other(rows: list[tuple[CellKey, float, float, Status]]) -> None:
    """Assumptions along TP and along the load included, and failed starts and memory too."""
    before = Envelope.of(instance()).classes["chat"].bounds
    after = Envelope.of(instance(), [drawn(*row) for row in rows]).classes["chat"].bounds
    for cell in CELLS:
        if cell.key.variant == "default":
            assert after[cell.key] == before[cell.key]


def test_arms_along_tp_are_of_one_pool_and_variant() -> None:
    groups = Envelope.of(instance()).classes["chat"].view.along_tp()
    assert [[str(arm) for arm in arms] for arms in groups] == [
        ["chat TP1", "chat TP2", "chat TP4"],
        ["chat TP1 fp8", "chat TP2 fp8", "chat TP4 fp8"],
    ]


def test_facts_bound_the_variant_that_they_are_of() -> None:
    bf16 = {"weight_bytes": 16e9, "hbm_bytes_per_s": 2e12, "flops_per_s": 4e14, "prefill_flop_per_token": 1.6e10}
    alone = Envelope.of(instance(**bf16))
    low = CellKey("chat", 1, "c2"), CellKey("chat", ServerKey(1, variant="fp8"), "c2")
    assert alone[low[0]].tails_s["tpot"].lo == pytest.approx(0.008)
    assert alone[low[1]].tails_s["tpot"].lo == 0.0
    assert alone[low[1]].capacity_rps.hi == float("inf")
    both = Envelope.of(instance(**bf16, variants={"fp8": Facts(weight_bytes=8e9)}))
    assert both[low[1]].tails_s["tpot"].lo == pytest.approx(0.004)
    assert both[low[0]] == alone[low[0]]


FOLDER = {
    "instance.toml": """schema_version = 1
name = "two"
[fleet]
gpus = 4
[facts]
weight_bytes = 16e9
hbm_bytes_per_s = 2e12
[facts.variant.fp8]
weight_bytes = 8e9
""",
    "classes.csv": "class,demand_rps,max_ttft_p99_s\nchat,8,1\ncode,8,1\n",
    "cells.csv": "class,tp,load,variant,load_kind,offered,gpus\n"
    + "".join(f"{name},2,c8,{v},concurrency,8,2\n" for name in ("chat", "code") for v in ("", "fp8")),
    "measurements.csv": "class,tp,load,variant,status,throughput_rps,ttft_p99_s\n"
    "chat,2,c8,,ok,5,0.5\nchat,2,c8,fp8,ok,9,0.5\ncode,2,c8,,ok,9,0.5\ncode,2,c8,fp8,ok,12,3\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "two"
    path.mkdir()
    for name, text in FOLDER.items():
        (path / name).write_text(text)
    return path


def test_a_plan_mixes_variants_over_the_classes(cli, folder: Path) -> None:
    """fp8 serves chat with fewer replicas, and is too slow at its first token for code."""
    said = cli("solve", folder, "--json", "--certificate", folder / "certificate.json")
    assert said.code == 0
    chat, code = said.document["conservative"]["classes"]
    assert (chat["variant"], chat["replicas"]) == ("fp8", 1)
    assert "variant" not in code
    assert cli("certify", folder, "--certificate", folder / "certificate.json").code == 0
    assert "4 fp8" not in (told := cli("solve", folder).out)
    assert "2 fp8" in told
    assert cli("explain", folder, "--json").code == 0
    assert "2 fp8" in cli("explain", folder).out


def test_one_variant_alone(cli, folder: Path) -> None:
    only = cli("solve", folder, "--json", "--only-variant", "default")
    assert all("variant" not in one for one in only.document["conservative"]["classes"])
    assert only.document["conservative"]["min_fulfilment"] == pytest.approx(5 / 8)
    wrong = cli("solve", folder, "--only-variant", "int4")
    assert wrong.code == 2
    assert "no cell has the variant 'int4'" in wrong.err


def test_a_replay_keeps_the_variants_apart(cli, folder: Path, tmp_path: Path) -> None:
    assert cli("run", folder, "--replay", "--out", tmp_path / "run", "--policy", "grid").code == 0
    with (tmp_path / "run" / "measurements.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["variant"] for row in rows} == {"", "fp8"}
    assert {row.key.variant for row in read_instance(tmp_path / "run").measurements} == {"default", "fp8"}
    assert cli("certify", tmp_path / "run").code == 0
    assert cli("run", tmp_path / "run", "--resume").code == 0


def test_a_row_of_a_variant_that_no_cell_has(cli, folder: Path) -> None:
    with (folder / "measurements.csv").open("a") as file:
        file.write("chat,2,c8,fp9,ok,9,0.5\n")
    said = cli("validate", folder)
    assert said.code == 2
    assert "chat has variant default, fp8" in said.err


def served(live_made: Live, *, fp8: str = 'arguments = ["--ttft-s", "0.05"]\nenvironment = { MARK = "8" }') -> Live:
    lines = (live_made.path / "cells.csv").read_text().splitlines()
    header, *rows = [line.split(",") for line in lines]
    text = "".join(",".join([*row, variant]) + "\n" for row in rows for variant in ("", "fp8"))
    (live_made.path / "cells.csv").write_text(",".join([*header, "variant"]) + "\n" + text)
    with live_made.config.open("a") as file:
        file.write(f"[serve.variant.fp8]\n{fp8}\n" if fp8 else "")
    return live_made


def test_serve_toml_says_how_a_variant_is_served(tmp_path: Path) -> None:
    (tmp_path / "fp8").mkdir()
    path = tmp_path / "serve.toml"
    path.write_text(
        '[serve]\nmodel = "m"\narguments = ["-a"]\n[serve.tp.2]\narguments = ["-t"]\n'
        '[serve.variant.fp8]\nmodel = "./fp8"\ncommand = ["other", "serve"]\narguments = ["-v"]\nenvironment = { X = "1" }\n'
    )
    config = read_serve_config(path)
    changed = config.of("fp8")
    words = command_of(changed, 2, 9000)
    assert words[:3] == ("other", "serve", str(tmp_path / "fp8"))
    assert words[-3:] == ("-a", "-v", "-t")
    assert "m" in words, "clients ask for the same name"
    assert environment_of(changed, 2, ())["X"] == "1"
    assert command_of(config.of("default"), 2, 9000)[-2:] == ("-a", "-t")


@pytest.mark.parametrize("missing", ["in serve.toml", "in cells.csv"])
def test_a_variant_that_one_file_lacks_is_refused(cli, live: Callable[..., Live], tmp_path: Path, missing: str) -> None:
    made = live() if missing == "in cells.csv" else served(live(), fp8="")
    if missing == "in cells.csv":
        with made.config.open("a") as file:
            file.write("[serve.variant.fp8]\n")
    said = cli(*made.arguments(tmp_path / "run"))
    assert said.code == 2
    assert "[serve.variant.fp8]" in said.err
    assert not (tmp_path / "run").exists()


def test_each_variant_is_measured_on_a_server_of_its_own(cli, live: Callable[..., Live]) -> None:
    made = served(live(cells=("chat,1,r40,rate,40,1",)))
    said = cli("measure", made.path, "--config", made.config, "--grid")
    assert said.code == 0, said.err
    with (made.path / "measurements.csv").open() as file:
        measured = {row["variant"]: float(row["ttft_p50_s"]) for row in csv.DictReader(file)}
    started = [json.loads(line) for line in (made.path / "servers.jsonl").read_text().splitlines()]
    commands = [line["command"] for line in started if line["event"] == "started"]
    assert ["0.05" in command for command in commands] == [False, True]
    assert measured["fp8"] > 0.045 > measured[""]
    one = cli("measure", made.path, "--config", made.config, "--cell", "chat,1 fp8,r40")
    assert one.code == 0, one.err
    assert [row.key.variant for row in read_instance(made.path).measurements] == ["default", "fp8", "fp8"]


def test_a_dry_run_shows_the_command_of_each_variant(cli, live: Callable[..., Live], tmp_path: Path) -> None:
    made = served(live(cells=("chat,1,r40,rate,40,1",)))
    told = cli(*made.arguments(tmp_path / "run", "--dry-run", "--json")).document["servers"]
    assert [server.get("variant") for server in told] == [None, "fp8"]
    assert told[1]["environment"]["MARK"] == "8"
    assert "TP 1 fp8: " in cli(*made.arguments(tmp_path / "run", "--dry-run")).out


@pytest.mark.slow
def test_figures_and_tables_name_the_variant(cli, folder: Path, tmp_path: Path) -> None:
    import fleetsieve as fs

    certificate = fs.solve(folder)
    assert fs.plan_table(certificate)["variant"].tolist() == ["fp8", "default"]
    for figure in ("capacity", "tails", "grid", "allocation"):
        out = tmp_path / f"{figure}.svg"
        assert cli("plot", figure, folder, "-o", out).code == 0
        assert "fp8" in out.read_text() or figure == "tails"
    assert cli("sensitivity", folder, "--demand-scale", "0.8:1.5", "--csv", tmp_path / "d.csv").code == 0
    assert "variant:chat" in (tmp_path / "d.csv").read_text().splitlines()[0]
    given = cli("sensitivity", folder, "--given", folder / "plan.json", "--demand-scale", "0.8:1.5")
    assert given.code == 2, "there is no such file"
    (folder / "plan.json").write_text(json.dumps(cli("solve", folder, "--json").document))
    assert cli("sensitivity", folder, "--given", folder / "plan.json", "--demand-scale", "0.8:1.5").code == 0


def test_the_bundled_instance_is_served_best_by_a_variant_for_each_class() -> None:
    import fleetsieve as fs

    read = read_instance("sim-two-variants-16gpu")
    both = fs.solve(read)
    assert fs.plan_table(both)[["class", "variant"]].to_numpy().tolist() == [["chat", "fp8"], ["code", "default"]]
    assert both.conservative.min_fulfilment == 1.0
    for variant, least in (("default", 0.6666), ("fp8", 0.75)):
        alone = Envelope.of(fs.with_only_variant(read.instance, [variant]), read.measurements)
        assert fs.certify(alone, fs.Frontier()).conservative.min_fulfilment == pytest.approx(least, abs=1e-3)


def test_variants_of_a_simulation_get_the_same_requests(tmp_path: Path) -> None:
    spec = read_spec(INSTANCES / "sim-two-variants-16gpu")
    near, far = (simulate_cell(spec, "chat", 2, "r1", variant=name) for name in ("default", "fp8"))
    in_window = [[r for r in csv_rows(run.records_csv_gz()) if float(r["sent_at_s"]) >= 0.0] for run in (near, far)]
    sent = [[(r["sent_at_s"], r["input_tokens"]) for r in found] for found in in_window]
    assert sent[0] == sent[1] != []
    assert near.measurement.e2e_p99_s != far.measurement.e2e_p99_s
    text = (INSTANCES / "sim-two-variants-16gpu" / "simulation.toml").read_text()
    wrong = tmp_path / "simulation.toml"
    wrong.write_text(text.replace("[variant.fp8.engine]", "[variant.default.motor]"))
    with pytest.raises(InputError) as caught:
        read_spec(wrong)
    assert "variant.default.motor" in str(caught.value)
    assert "is the default variant" in str(caught.value)


def csv_rows(packed: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(gzip.decompress(packed).decode().splitlines()))
