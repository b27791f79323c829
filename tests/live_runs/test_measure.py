"""`fleetsieve measure`, servers of somebody else, and `run --dry-run`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from live_runs.instances import HOSTILE, PYTHON, events, ports, rows, steps

from benchmarks.live_kills import well


def test_cells_by_hand(cli, live) -> None:
    made = live()
    header, old = "class,tp,load,seed,status,throughput_rps,success_rate", "chat,1,r40,0,ok,33.50,0.9"
    (made.path / "measurements.csv").write_text(f"{header}\n{old}\n")
    said = cli("measure", made.path, "--config", made.config, "--cell", "chat,1,r40", "--repeat", 2)
    assert said.code == 0, said.err
    assert said.out.count("chat TP1 r40") == 2
    found = rows(made.path)
    assert [row["seed"] for row in found] == ["0", "1", "2"]
    assert (float(found[0]["throughput_rps"]), float(found[0]["success_rate"])) == (33.5, 0.9)
    assert set(header.split(",")) <= set(found[0])
    assert {row["status"] for row in found} == {"ok"}
    assert len(list((made.path / "records").iterdir())) == 2
    assert sum(event["event"] == "started" for event in events(made.path)) == 1, "one server for both"
    document = cli("measure", made.path, "--config", made.config, "--cell", "chat,2,r40", "--json").document
    assert [(row["tp"], row["status"]) for row in document["measured"]] == [(2, "ok")]
    assert cli("validate", made.path).code == 0


def test_a_grid_that_was_interrupted_goes_on(cli, live) -> None:
    made = live(per_tp={2: ["--exit-code", "1", "--log-text", "not enough GPUs"]})
    assert cli("measure", made.path, "--config", made.config, "--cell", "chat,1,r40").code == 0
    before = (made.path / "measurements.csv").read_bytes()
    said = cli("measure", made.path, "--config", made.config, "--grid")
    assert said.code == 4, said.err
    assert (made.path / "measurements.csv").read_bytes().startswith(before)
    assert [(row["tp"], row["status"]) for row in rows(made.path)] == [("1", "ok"), ("2", "failed_start")]
    said = cli("measure", made.path, "--config", made.config, "--grid", "--json")
    assert (said.code, said.document) == (0, {"measured": []})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cell", "chat,1,r41"], "is not a cell of small-live"),
        (["--cell", "chat,1"], "is not a cell of small-live"),
        ([], "measure needs cells"),
        (["--grid", "--cell", "chat,1,r40"], "measure needs cells"),
        (["--grid", "--repeat", "0"], "--repeat is 0, not a whole number >= 1"),
    ],
)
def test_what_cannot_be_measured(cli, live, arguments, told) -> None:
    made = live()
    said = cli("measure", made.path, "--config", made.config, *arguments)
    assert (said.code, told in said.err) == (2, True), said.err
    assert not (made.path / "measurements.csv").exists()


@pytest.fixture
def foreign() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server that somebody else runs, and its address."""
    port = ports()[0]
    words = [*PYTHON, str(HOSTILE), "theirs", "--port", str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        yield f"http://127.0.0.1:{port}", server
        assert well(server), "a server of somebody else was stopped"
        server.kill()


def test_a_server_of_somebody_else_is_measured_and_left(cli, live, tmp_path, foreign) -> None:
    url, _ = foreign
    made = live(serve='served_name = "theirs"')
    said = cli(*made.arguments(tmp_path / "run", "--endpoint", f"1={url}", "--json"))
    assert said.code == 0, said.err
    assert [(row["tp"], row["status"]) for row in rows(tmp_path / "run")] == [("1", "ok")]
    assert "no --endpoint has TP 2" in said.err
    assert not (tmp_path / "run" / "servers.jsonl").exists()
    said = cli("measure", made.path, "--config", made.config, "--cell", "chat,1,r40", "--endpoint", f"1={url}")
    assert said.code == 4, "the same prompts again, and their cache cannot be emptied"
    assert "prompts came from the prefix cache (another --seed gives others)" in said.out
    again = ("--seed", 1, "--cell", "chat,1,r40", "--endpoint", f"1={url}")
    said = cli("measure", made.path, "--config", made.config, *again)
    assert said.code == 0, said.err


def test_a_server_of_somebody_else_that_serves_another_model(cli, live, tmp_path, foreign) -> None:
    url, _ = foreign
    said = cli(*live().arguments(tmp_path / "run", "--endpoint", f"1={url}"))
    assert (said.code, "names theirs, not live0" in said.err) == (2, True), said.err
    assert "fix serve.toml or that server" in said.err
    assert rows(tmp_path / "run") == []


def test_an_address_with_v1_is_refused_at_once(cli, live, tmp_path, foreign) -> None:
    url, _ = foreign
    made, run = live(serve='served_name = "theirs"'), tmp_path / "run"
    said = cli(*made.arguments(run, "--endpoint", f"1={url}/v1"))
    assert (said.code, f"write it without /v1: {url}" in said.err) == (2, True), said.err
    assert not run.exists()


@pytest.mark.parametrize(
    ("fault", "told"),
    [("--never-ready", "answers GET /health with 503, not with 200"), ("/gone", "answers GET /health with 404")],
)
def test_a_server_of_somebody_else_that_cannot_be_measured_is_told_before_anything_is(
    cli, live, tmp_path, fault, told
) -> None:
    made, run, port = live(serve='served_name = "theirs"'), tmp_path / "run", ports()[0]
    faults, path = ([fault], "") if fault.startswith("--") else ([], fault)
    words = [*PYTHON, str(HOSTILE), "theirs", "--port", str(port), *faults]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        said = cli(*made.arguments(run, "--endpoint", f"1=http://127.0.0.1:{port}{path}"))
        server.kill()
    assert (said.code, told in said.err) == (2, True), said.err
    assert "or correct --endpoint" in said.err
    assert not run.exists()


def test_a_dry_run_starts_nothing(cli, live, tmp_path) -> None:
    made = live(gpus=4, serve="gpus = [4, 5]", per_tp={2: ["--max-num-seqs", "8"]}, cells=(
        "chat,1,r40,rate,40,1", "chat,2,r40,rate,40,2", "chat,4,r40,rate,40,4"))  # fmt: skip
    said = cli(*made.arguments(tmp_path / "run", "--dry-run", "--json"))
    document = said.document
    assert said.code == 0
    assert document["cells"] == 2
    assert [server["tp"] for server in document["servers"]] == [1, 2]
    two = document["servers"][1]
    assert two["environment"]["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert two["command"][:3] == [*PYTHON, str(HOSTILE)]
    assert two["command"][-2:] == ["--max-num-seqs", "8"]
    # (0.2 s warm-up + 1 s window + 0.5 s start) x (1 + 2 GPUs); 16 looks at most, each with a start
    assert document["full_grid_gpu_s"] == pytest.approx(1.7 * 3)
    assert document["worst_case_gpu_s"] == pytest.approx(16 * 1.7 * 3)
    assert 0.0 < document["expected_gpu_s"] <= document["worst_case_gpu_s"]
    assert "TP 4 needs 4 GPUs" in said.err
    text = cli(*made.arguments(tmp_path / "run", "--dry-run"))
    assert text.code == 0
    for words in ("CUDA_VISIBLE_DEVICES=4,5", "--max-num-seqs 8", "full grid: 5 GPU-seconds", "load generator: aiperf"):
        assert words in text.out
    assert not (tmp_path / "run").exists()
    assert sorted(path.name for path in made.path.iterdir()) == [
        "cells.csv",
        "classes.csv",
        "instance.toml",
        "serve.toml",
    ]


def test_cells_measured_by_hand_into_a_finished_run_are_taken(cli, live, tmp_path) -> None:
    """What a report recommends: `measure RUN`, then the run goes on with what it shows."""
    made, run = live(), tmp_path / "run"
    assert cli(*made.arguments(run)).code == 0
    before = rows(run)
    by_hand = (("chat,2,r40", 2), ("chat,1,r40", 1))
    for cell, repeat in by_hand:
        said = cli("measure", run, "--config", made.config, "--cell", cell, "--repeat", repeat)
        assert said.code == 0, said.err
    said = cli("run", run, "--resume", "--json")
    assert said.code == 0, said.err
    assert rows(run)[: len(before)] == before
    assert [step["reason"] for step in steps(run)][len(before) :][:3] == ["added by hand"] * 3
    assert said.document["steps"] == len(rows(run)) == len(steps(run)) >= len(before) + 3
    assert said.document["cost_gpu_s"] == pytest.approx(sum(float(row["cost_gpu_s"]) for row in rows(run)))
    assert cli("certify", run).code == 0
    assert cli("run", run, "--resume", "--json").document["steps"] == said.document["steps"]
