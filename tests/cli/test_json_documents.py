"""With --json every call prints exactly one document on standard output, whatever happens; scripts rely on its keys."""

from __future__ import annotations

import json
import sys

import pytest

from fleetsieve.errors import SolverMissing

SOLVE = {"verdict", "epsilon", "gap", "conservative", "optimistic", "assumptions", "explanation"}
GAP = {"shortfall", "min_fulfilment", "goodput"}
PLAN = {"min_fulfilment", "goodput_rps", "shortfall", "gpus_used", "unservable", "classes"}
CLASS = {"class", "tp", "load", "pool", "replicas", "gpus", "served_rps", "demand_rps", "fulfilment", "utilisation"}
RUN = {"verdict", "steps", "cost_gpu_s", "full_grid_gpu_s", "gap", "plan", "run"}
VERDICTS = {"certified-feasible", "undecided", "certified-infeasible"}


def assert_plan(plan):
    assert plan.keys() >= PLAN
    for entry in plan["classes"]:
        assert entry.keys() >= CLASS
        if entry["replicas"] == 0:
            assert entry["tp"] is None
            assert entry["load"] is None
        else:
            assert isinstance(entry["tp"], int)
            assert isinstance(entry["load"], str)


def test_solve(cli, folder):
    said = cli("solve", folder.path, "--json")
    document = said.document
    assert said.code == 0
    assert document.keys() >= SOLVE
    assert document["gap"].keys() == GAP
    assert document["verdict"] in VERDICTS
    assert_plan(document["conservative"])
    assert_plan(document["optimistic"])
    chat, code = document["conservative"]["classes"]
    assert [chat[key] for key in ("class", "tp", "load", "pool", "replicas", "gpus")] == [
        "chat",
        2,
        "c8",
        "default",
        3,
        6,
    ]
    assert [chat[key] for key in ("served_rps", "demand_rps", "fulfilment", "utilisation")] == [6.0, 8.0, 0.75, 1.0]
    assert [code[key] for key in ("tp", "replicas", "served_rps")] == [2, 1, 4.0]


def test_a_class_that_nothing_serves_has_no_replicas_and_no_cell(cli, folder):
    folder.change("measurements.csv", '"code",2,c8,0,ok,4,2', '"code",2,c8,0,ok,4,9')
    document = cli("solve", folder.path, "--json").document
    code = document["conservative"]["classes"][1]
    assert (code["class"], code["tp"], code["load"], code["replicas"], code["gpus"]) == ("code", None, None, 0, 0)
    assert document["unservable"] == document["conservative"]["unservable"] == ["code"]
    assert document["explanation"].split()[1] == "code"


def test_nothing_measured_is_undecided_and_has_no_infinity(cli, folder):
    (folder.path / "measurements.csv").unlink()
    document = cli("solve", folder.path, "--json").document
    assert document["verdict"] == "undecided"
    assert_plan(document["conservative"])
    assert_plan(document["optimistic"])
    assert document["settling"]


@pytest.mark.parametrize("bounds", ["both", "conservative", "optimistic"])
@pytest.mark.parametrize("formulation", ["lexicographic", "fewest-gpus"])
def test_the_plan_that_was_not_asked_for_is_null(cli, folder, bounds, formulation):
    document = cli("solve", folder.path, "--json", "--bounds", bounds, "--formulation", formulation).document
    assert document.keys() >= SOLVE
    for end in ("conservative", "optimistic"):
        if bounds in ("both", end):
            assert_plan(document[end])
        else:
            assert document[end] is None


def test_certify(cli, folder):
    fresh = cli("certify", folder.path, "--json")
    assert (fresh.code, fresh.document["holds"]) == (0, None)
    assert "was computed now" in fresh.err
    cli("solve", folder.path, "--certificate", folder.path / "certificate.json")
    stored = cli("certify", folder.path, "--json")
    assert (stored.code, stored.document["holds"], stored.document["faults"]) == (0, True, [])


def test_run(cli, folder):
    said = cli("run", folder.path, "--replay", "--out", "there", "--json")
    document = said.document
    assert said.code == 0
    assert document.keys() >= RUN
    assert document["gap"].keys() == GAP
    assert document["verdict"] in VERDICTS
    assert_plan(document["plan"])
    assert (document["run"], document["full_grid_gpu_s"]) == ("there", 300.0 * (2 + 2 + 4))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["validate", "{small}"], 0),
        (["validate", "--list"], 0),
        (["validate"], 2),
        (["validate", "{broken}"], 2),
        (["validate", "{nowhere}"], 2),
        (["validate", "{file}"], 2),
        (["solve", "{broken}"], 2),
        (["solve", "{nowhere}"], 2),
        (["solve", "{file}"], 2),
        (["solve"], 2),
        (["solve", "{small}", "--bounds", "sideways"], 2),
        (["solve", "{small}", "--certificate", "{nowhere}/c.json"], 1),
        (["certify", "{broken}"], 2),
        (["certify", "{nowhere}"], 2),
        (["certify", "{small}", "--certificate", "{nowhere}"], 2),
        (["certify", "{small}", "--certificate", "{file}"], 2),
        (["certify", "{small}", "--certificate", "{small}"], 2),
        (["run", "{broken}", "--replay"], 2),
        (["run", "{nowhere}", "--replay"], 2),
        (["run", "{small}"], 2),
        (["run", "{small}", "--replay", "--policy", "clever"], 2),
        (["run", "{small}", "--replay", "--seed", "-1"], 2),
        (["run", "{small}", "--replay", "--out", "{small}"], 2),
        (["run", "{small}", "--replay", "--out", "{file}"], 2),
        (["run", "{small}", "--replay", "--out", "{file}/run"], 1),
        (["simulate", "{nowhere}", "--out", "made"], 2),
        (["simulate", "{file}", "--out", "made"], 2),
        (["simulate", "{file}"], 2),
        (["doctor"], 0),
        (["doctor", "--nope"], 2),
        (["nothing"], 2),
        ([], 2),
    ],
)  # fmt: skip
def test_every_end_of_every_command(cli, folder, tmp_path, arguments, code):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "instance.toml").write_text("schema_version = 1\n")
    file = tmp_path / "file"
    file.write_text("no folder\n")
    places = {"small": folder.path, "broken": broken, "nowhere": tmp_path / "nowhere", "file": file}
    said = cli(*(argument.format(**places) for argument in arguments), "--json")
    assert said.code == code
    document = said.document
    if code:
        assert said.err.strip()
        assert document.get("exit_code", code) == code
        assert document.get("error") or document["faults"]
        if "error" in document:
            assert set(document["error"]) == {"kind", "message", "hint", "faults"}
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_bad_files_are_told_in_full(cli, folder):
    folder.change("cells.csv", '"code",4,c8,concurrency,8,4', '"code",4,c8,closed,-8,4')
    validated = cli("validate", folder.path, "--json")
    solved = cli("solve", folder.path, "--json")
    assert (validated.code, solved.code) == (2, 2)
    assert validated.document["ok"] is False
    for faults in (validated.document["faults"], solved.document["error"]["faults"]):
        assert {(fault["line"], fault["column"]) for fault in faults} == {(4, "load_kind"), (4, "offered")}
    assert "'closed'" in solved.err
    assert validated.err == solved.err
    assert len(validated.err.splitlines()) == 3
    assert "\\n" not in validated.err


@pytest.mark.parametrize("command", [["validate"], ["solve"], ["certify"], ["run", "--replay"]])
def test_a_demand_beyond_all_reason_is_a_fault_of_its_file(cli, folder, command):
    folder.change("classes.csv", '"chat",,,8,1,', '"chat",,,1e308,1,')
    said = cli(*command, folder.path, "--json")
    assert said.code == 2
    assert "classes.csv:2 [demand_rps]: 1e+308 is out of range" in said.err


COMMANDS = [
    ["solve", "{small}"],
    ["solve", "{small}", "--formulation", "fewest-gpus"],
    ["run", "{small}", "--replay", "--out", "made"],
    ["doctor"],
]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_without_a_solver(cli, folder, tmp_path, monkeypatch, arguments):
    def missing():
        raise SolverMissing("highspy is not installed", "pip install highspy")

    monkeypatch.setattr("fleetsieve.engines.solving.highs.ready", missing)
    monkeypatch.setattr("fleetsieve.engines.solving.ready", missing)
    said = cli(*(argument.format(small=folder.path) for argument in arguments), "--json")
    assert said.code == 3
    assert "pip install highspy" in json.dumps(said.document)
    assert not (tmp_path / "made").exists()


EVERY = [
    ["validate", "{}"], ["solve", "{}"], ["solve", "{}", "--formulation", "fewest-gpus"], ["explain", "{}"], ["certify", "{}"],
    ["run", "{}", "--replay"], ["run", "{}", "--probe", "vllm", "--config", "serve.toml"],
    ["run", "{}", "--probe", "vllm", "--config", "serve.toml", "--dry-run"],
    ["measure", "{}", "--config", "serve.toml", "--grid"], ["calibrate", "{}", "--trials", "1"],
    ["compare", "{}", "--policies", "grid", "--orders", "1"], ["sensitivity", "{}", "--gpus", "1:2"],
    ["sensitivity", "{}", "--epsilon", "0.1:0.2", "--gpus", "1:2"], ["report", "{}", "-o", "r.html"],
    ["plot", "capacity", "{}", "-o", "p.svg"], ["simulate", "{}", "--out", "made"],
]  # fmt: skip
"""Every command that takes a folder, and ways to call it."""


def called(cli, arguments, place, *more):
    """What a command says with --json, which is one document of a failure."""
    said = cli(*(argument.format(place) for argument in arguments), *more, "--json")
    assert said.code in (2, 3, 130)
    assert said.err.strip()
    document = said.document
    if arguments[0] == "validate" and "ok" in document:
        assert (document["ok"], bool(document["faults"])) == (False, True)
    else:
        assert document["exit_code"] == said.code
        assert set(document["error"]) == {"kind", "message", "hint", "faults"}
        assert document["error"]["message"]
    return said


@pytest.mark.parametrize("state", ["nowhere", "file", "bytes", "folder for a file", "empty", "nul", "option", "value"])
@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_a_failure_of_every_command_is_one_document(cli, folder, tmp_path, arguments, state):
    (tmp_path / "serve.toml").write_text('[serve]\nmodel = "m"\n')
    (tmp_path / "file").write_text("no folder\n")
    place, more = {"nowhere": "nowhere", "file": "file", "nul": "a\0b"}.get(state, folder.path), []
    if state == "bytes":
        (folder.path / "classes.csv").write_bytes(b"\xff\xfe\x00c")
    elif state == "folder for a file":
        (folder.path / "cells.csv").unlink()
        (folder.path / "cells.csv").mkdir()
    elif state == "empty":
        (folder.path / "classes.csv").write_bytes(b"")
    elif state == "option":
        more = ["--nope"]
    elif state == "value":
        more = ["one", "too", "many", "--out"] if arguments[0] != "compare" else ["--orders", "many"]
    called(cli, arguments, place, *more)
    assert not [path.name for path in tmp_path.iterdir() if path.name in ("made", "runs", "r.html", "p.svg")]


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_an_interrupt_of_every_command_is_one_document(cli, folder, tmp_path, monkeypatch, arguments):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    (tmp_path / "serve.toml").write_text('[serve]\nmodel = "m"\n')
    for name in ("files.folder", "cli.run", "cli.simulate"):
        monkeypatch.setattr(f"fleetsieve.{name}.resolve", interrupt)
    said = called(cli, arguments, folder.path)
    assert (said.code, said.document["error"]["kind"]) == (130, "Interrupted")


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("altair", ["plot", "capacity", "{}", "-o", "p.svg"]),
        ("vl_convert", ["plot", "capacity", "{}", "-o", "p.svg"]),
        ("altair", ["sensitivity", "{}", "--gpus", "1:2", "--plot", "p.svg"]),
        ("altair", ["compare", "{}", "--policies", "grid", "--plot", "p.svg"]),
        ("altair", ["report", "{}", "-o", "r.html"]),
        ("jinja2", ["report", "{}", "-o", "r.html"]),
    ],
)
def test_an_extra_that_is_missing_is_one_document(cli, folder, monkeypatch, missing, arguments):
    for name in [name for name in sys.modules if name.partition(".")[0] == missing] + [missing]:
        monkeypatch.setitem(sys.modules, name, None)
    if missing == "jinja2":  # the report's module needs it from its first line on
        for name in [name for name in sys.modules if name.startswith("fleetsieve.report")]:
            monkeypatch.delitem(sys.modules, name)
    said = called(cli, arguments, folder.path)
    assert said.code == 3
    assert "pip install" in said.document["error"]["hint"]


def test_a_defect_of_ours_is_one_document_and_a_traceback(cli, capsys, folder, monkeypatch):
    monkeypatch.setattr("fleetsieve.cli.solve.read_instance", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        cli("solve", folder.path, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["error"]["kind"] == "ZeroDivisionError"
    assert "internal error of FleetSieve" in told["error"]["message"]


@pytest.mark.slow
def test_classes_that_ask_for_nothing(cli, folder):
    """Every figure is 0 over 0 there: still one document, and nothing that crashes."""
    folder.change("classes.csv", '"chat",,,8,1,', '"chat",,,0,1,').change(
        "classes.csv", '"code",,,4,1,', '"code",,,0,1,'
    )
    for arguments in EVERY:
        if arguments[0] not in ("measure", "simulate") and "vllm" not in arguments:
            said = cli(*(argument.format(folder.path) for argument in arguments), "--json")
            assert said.code == 0
            assert "error" not in said.document
    compared = cli("compare", folder.path, "--policies", "grid", "--orders", "1", "--json").document["instances"][0]
    assert (compared["clairvoyant"]["upper_gpu_s"], compared["clairvoyant"]["exact"]) == (0.0, True)


@pytest.mark.parametrize("arguments", COMMANDS[:-1])
def test_interrupted(cli, folder, monkeypatch, arguments):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fleetsieve.bounds.envelope.Envelope.of", interrupt)
    said = cli(*(argument.format(small=folder.path) for argument in arguments), "--json")
    assert (said.code, said.document["exit_code"]) == (130, 130)
    assert "interrupted" in said.err


def test_an_interrupted_run_goes_on(cli, folder, monkeypatch):
    from fleetsieve.probes import Replay

    measure, asked = Replay.measure, []

    def interrupt(self, key, look):
        asked.append(key)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return measure(self, key, look)

    with monkeypatch.context() as patch:
        patch.setattr(Replay, "measure", interrupt)
        assert cli("run", folder.path, "--replay", "--out", "made", "--json").code == 130
    assert cli("run", folder.path, "--out", "made", "--resume", "--json").document["steps"] >= 2


@pytest.mark.parametrize("missing", ["highspy", "pyomo"])
def test_a_package_that_is_missing_or_broken_is_named(process, tmp_path, missing):
    broken = tmp_path / "path" / missing
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libstdc++ is too old')\n")
    said = process("solve", "paper-h100-31b", "--json", env={"PYTHONPATH": str(tmp_path / "path")})
    assert said.code == 3
    assert "libstdc++ is too old" in said.document["error"]["message"]


def test_results_on_standard_output_and_the_rest_on_standard_error(process, folder):
    folder.change("measurements.csv", '"chat",2,c8,0,ok,2,1', '"chat",2,c8,0,ok,2,1000')
    said = process("run", folder.path, "--replay", "--out", "made", "--json")
    assert said.document["run"] == "made"
    assert "warning" in said.err
    plain = process("run", folder.path, "--replay", "--out", "other")
    assert "warning" not in plain.out
    assert "resum" not in plain.out
    assert plain.out.count("run: other") == 1
