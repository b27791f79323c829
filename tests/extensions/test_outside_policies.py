"""A policy from outside runs, is compared, and resumes by its name; it is held to the contract of every policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from extensions.conftest import Module, remove
from extensions.test_loading import FIRST

from fleetsieve.cli.main import call

INSTANCE = "sim-chat-code-16gpu"


def refused(module: Module, answer: str, capsys: pytest.CaptureFixture[str]) -> str:
    module("mine", FIRST.replace('Choice(situation.candidates[0], "it is the first", {})', answer))
    assert call(["run", INSTANCE, "--replay", "--policy", "mine:First"]) == 2
    return capsys.readouterr().err


@pytest.mark.slow
def test_a_run_keeps_the_name_and_resumes_by_it(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    folder = module("mine", FIRST)
    assert call(["run", INSTANCE, "--replay", "--policy", "mine:First"]) == 0
    run = folder / "runs" / f"{INSTANCE}-mine.First-0"
    log = (run / "steps.jsonl").read_text()
    assert json.loads(log.splitlines()[0])["policy"] == "mine:First"
    (run / "certificate.json").unlink()
    for name, lines in (("steps.jsonl", 4), ("measurements.csv", 4)):
        kept = (run / name).read_text().splitlines(keepends=True)[:lines]
        (run / name).write_text("".join(kept))
    assert call(["run", str(run), "--resume"]) == 0
    assert (run / "steps.jsonl").read_text() == log
    assert call(["run", str(run), "--resume", "--policy", "grid"]) == 2
    assert "was started with --policy mine:First --seed 0" in capsys.readouterr().err


@pytest.mark.slow
def test_a_finished_run_is_certified_without_its_policy(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    folder = module("mine", FIRST)
    assert call(["run", INSTANCE, "--replay", "--policy", "mine:First", "--out", "run"]) == 0
    remove(folder, "mine")
    for command in (["certify", "run"], ["explain", "run"]):
        assert call(command) == 0, capsys.readouterr().err
    assert call(["run", "run", "--resume"]) == 2
    assert "policy 'mine:First': there is no module 'mine' here" in capsys.readouterr().err


@pytest.mark.slow
def test_compare_in_two_processes(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    module("mine", FIRST)
    names = ["--policies", "grid,mine:First", "--no-clairvoyant", "--jobs", "2", "--json"]
    assert call(["compare", INSTANCE, *names]) == 0
    (found,) = json.loads(capsys.readouterr().out)["instances"]
    assert [one["policy"] for one in found["policies"]] == ["grid", "mine:First"]
    assert call(["compare", INSTANCE, "--policies", "mine:Second"]) == 2


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("None", "policy first chose None, which is no Choice"),
        ("Choice('chat', 'x', {})", "policy first chose chat, which is none of the 21 candidates"),
        ("Choice(situation.candidates[0], None, {})", "policy first gave the reason None, which is no text"),
        (
            "Choice(situation.candidates[0], 'x', {situation.candidates[0]: float('nan')})",
            "policy first gave chat TP",
        ),
    ],
)
def test_a_choice_against_the_contract(
    module: Module, answer: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(module, answer, capsys)


@pytest.mark.slow
def test_the_log_of_a_refused_choice_resumes_once_it_is_mended(
    module: Module, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(module, "None", capsys)
    module("mine", FIRST)
    assert call(["run", str(Path("runs") / f"{INSTANCE}-mine.First-0"), "--resume"]) == 0


def test_stored_results_are_made_again_when_the_policy_changes(
    module: Module, capsys: pytest.CaptureFixture[str]
) -> None:
    compare = [
        "compare",
        INSTANCE,
        "--policies",
        "grid,mine:First",
        "--no-clairvoyant",
        "--out",
        "kept",
        "--resume",
        "--json",
    ]
    spent = []
    for place in ("0", "0", "-1"):
        module("mine", FIRST.replace("candidates[0]", f"candidates[{place}]"))
        assert call(compare) == 0
        said = capsys.readouterr()
        (found,) = json.loads(said.out)["instances"]
        spent.append([one["mean_gpu_s"] for one in found["policies"]])
    assert spent[0] == spent[1]
    assert spent[0][0] == spent[2][0]
    assert spent[0][1] != spent[2][1]
    assert len(Path("kept/results.jsonl").read_text().splitlines()) == 3
