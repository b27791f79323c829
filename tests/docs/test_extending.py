"""The policy and the assumption of docs/extending.md do, as written, what the page says of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fleetsieve.cli.main import call
from fleetsieve.extensions import ASSUMPTION, LOAD_GENERATOR, POLICY
from fleetsieve.files.bundled import resolve

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
INSTANCE = "sim-chat-code-16gpu"
pytestmark = pytest.mark.usefixtures("own_modules")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the modules that the page shows."""
    for name, source in re.findall(r'^```python title="([^"]+)"\n(.*?)^```', PAGE, flags=re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_policy_has_about_twenty_lines(folder: Path) -> None:
    assert len((folder / "mine.py").read_text().strip().splitlines()) <= 22


@pytest.mark.slow
def test_the_policy_runs_from_a_shell(folder: Path) -> None:
    program = Path(sys.executable).parent / "fleetsieve"
    done = subprocess.run(
        [program, "run", INSTANCE, "--replay", "--policy", "mine:Ucb", "--out", "run", "--json"],
        cwd=folder, env={**os.environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["ended"]) == ("certified-feasible", None)
    assert "may serve" in (folder / "run" / "steps.jsonl").read_text()


def test_the_policy_is_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["--policies", "decision-gap,mine:Ucb", "--no-clairvoyant", "--json"]
    assert call(["compare", INSTANCE, *names]) == 0
    (found,) = json.loads(capsys.readouterr().out)["instances"]
    assert [one["policy"] for one in found["policies"]] == ["decision-gap", "mine:Ucb"]


def test_the_assumption_bounds_a_fleet_and_is_missed_where_it_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (stated,) = (
        block
        for block in re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        if "Cap" in block and "[assumptions]" in block
    )
    shutil.copytree(resolve(INSTANCE), folder / "fleet")
    toml = folder / "fleet" / "instance.toml"
    toml.write_text(toml.read_text() + "\n" + stated.replace("40", "9.5"))
    table = folder / "fleet" / "measurements.csv"
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:4]))
    assert call(["solve", "fleet", "--certificate", "c.json"]) == 2
    assert "my_rules" in capsys.readouterr().err
    monkeypatch.syspath_prepend(folder)
    assert call(["solve", "fleet", "--certificate", "c.json"]) == 0
    entries = json.loads((folder / "c.json").read_text())["assumptions"]
    assert [entry["from"] for entry in entries if entry["name"] == "gateway_cap"] == ["my_rules:Cap"]
    assert call(["certify", "fleet", "--certificate", "c.json"]) == 0


def test_the_groups_of_entry_points_are_those_that_are_read() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    (points,) = (tomllib.loads(block)["project"]["entry-points"] for block in blocks if "[project." in block)
    assert list(points) == [kind.group for kind in (POLICY, ASSUMPTION, LOAD_GENERATOR)]
