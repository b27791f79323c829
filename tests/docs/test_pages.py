"""The pages of docs/: what they tell to type runs, what they show is what that gives, and what they list is all there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fleetsieve.bounds.assumptions import DEFAULTS
from fleetsieve.cli.main import call
from fleetsieve.files import records, schema, toml_schema
from fleetsieve.files.predictions import PREDICTIONS
from fleetsieve.instance import Status
from fleetsieve.live.serving import config, load_config
from fleetsieve.loop.policies import POLICIES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
FRESH_MACHINE = "python3 -m venv"
LARGEST_FIGURE = 300_000


def text(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[tuple[str, str]]:
    """The title (or "") and the content of each fenced block."""
    found = re.findall(rf'^```{language}(?: title="([^"]+)")?\n(.*?)^```', page, flags=re.DOTALL | re.MULTILINE)
    return [(title, content) for title, content in found]


def write_files(page: str, folder: Path) -> None:
    """Write the files that a page shows."""
    for title, content in blocks(page, r"\w+"):
        if title:
            (folder / title).parent.mkdir(exist_ok=True)
            (folder / title).write_text(content, encoding="utf-8")


def follow(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Write the files that a page shows, and type its commands, in this process (the README's run in a shell)."""
    write_files(page, folder)
    for line in [line for _, block in blocks(page, "sh") for line in block.splitlines() if line]:
        if line.startswith(FRESH_MACHINE):
            assert line in (ROOT / "README.md").read_text(encoding="utf-8"), "CI runs the README's"
            continue
        command, _, target = line.partition(" > ")
        name, *arguments = shlex.split(command)
        assert name == "fleetsieve", line
        code = call(arguments)
        said = capsys.readouterr()
        assert code == 0, f"{line}\n{said.err}"
        assert said.out.strip(), line
        if target:
            (folder / target).write_text(said.out, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.every_case
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
@pytest.mark.usefixtures("own_modules")
def test_the_commands_of_a_page_run_and_draw_its_figures(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = text(path.name)
    follow(page, tmp_path, capsys)
    for name in re.findall(r"\]\(figures/([^)]+)\)", page):
        shown, made = ((folder / name).read_text(encoding="utf-8") for folder in (ROOT / "docs" / "figures", tmp_path))
        assert len(shown) < LARGEST_FIGURE
        assert re.findall(r'aria-label="([^"]*)"', shown) == re.findall(r'aria-label="([^"]*)"', made), (
            f"docs/figures/{name} is not what the page's commands draw: copy the new one there"
        )


@pytest.mark.slow
@pytest.mark.every_case
@pytest.mark.parametrize("path", [path for path in PAGES if "```python" in text(path.name)], ids=lambda p: p.name)
@pytest.mark.usefixtures("own_modules")
def test_the_python_of_a_page_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    write_files(text(path.name), tmp_path)
    names: dict[str, object] = {}
    for _, content in blocks(text(path.name), "python"):
        exec(compile(content, path.name, "exec"), names)
    assert capsys.readouterr().out.strip()


def test_every_page_is_in_the_navigation_and_every_figure_on_a_page():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^  - .+: (\S+\.md)$", navigation, flags=re.MULTILINE)) == [path.name for path in PAGES]
    shown = {name for path in PAGES for name in re.findall(r"\]\(figures/([^)]+)\)", text(path.name))}
    assert shown == {path.name for path in (ROOT / "docs" / "figures").iterdir()}


def test_every_assumption_and_whether_it_is_on():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (on|off) \|$", text("certificate.md"), flags=re.MULTILINE)
    assert {name: switch == "on" for name, switch in rows} == dict(DEFAULTS)


def test_every_policy():
    assert re.findall(r"^\| `([\w-]+)` \|", text("policies.md"), flags=re.MULTILINE) == list(POLICIES)


COLUMNS = {
    "classes.csv": [c.name for c in schema.CLASSES],
    "cells.csv": [c.name for c in schema.CELLS],
    "measurements.csv": [c.name for c in schema.MEASUREMENTS],
    "records/": [c.name for c in records.COLUMNS],
    "prior.csv": [c.name for c in PREDICTIONS],
    "instance.toml": [
        name
        for keys in (
            toml_schema.TOP, toml_schema.POOL, toml_schema.FLEET, toml_schema.FACTS, toml_schema.CERTIFICATE,
            toml_schema.MEASURE, toml_schema.NOISE,
        )
        for name in keys
    ],
    "serve.toml": [*config.SERVE, "command", "arguments", "environment", "gpus", "ports", *load_config.LOAD, *load_config.CLASS],
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_and_key(name):
    (section,) = re.findall(
        rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", text("files.md"), flags=re.DOTALL | re.MULTILINE
    )
    told = set(re.findall(r"`([\w.]+)`", section))
    assert [column for column in COLUMNS[name] if column not in told] == []


def test_every_status():
    assert [status for status in Status if f"`{status}`" not in text("files.md")] == []
    told = re.findall(r"^\| `(\w+)` \|", text("live.md"), flags=re.MULTILINE)
    assert sorted(told) == sorted(status for status in Status if status is not Status.OK)
