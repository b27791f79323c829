"""What contributors read names files that are there, and the reference and the changelog are complete."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import fleetsieve

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ["allocation", "capacity", "demand", "gap", "grid", "served", "tails", "write_figure"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/extending.md", "docs/style.md", "docs/decisions.md"])
def test_every_path_is_there(page: str) -> None:
    named = re.findall(r"`((?:fleetsieve|models|tests|docs|\.ci)/[\w./]+|\.[\w-]+\.yaml)`", text(page))
    named += [link for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", text(page)) if page == "CONTRIBUTING.md"]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_file_of_an_addition_is_named() -> None:
    sections = re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", text("CONTRIBUTING.md"), flags=re.DOTALL | re.MULTILINE)
    assert [name for name, _ in sections] == [
        "An assumption about unmeasured cells",
        "A policy",
        "A load generator",
        "A formulation",
        "A column of classes.csv",
    ]
    assert all("Tests: `tests/" in section for _, section in sections)


def test_the_reference_has_every_public_name() -> None:
    paths = re.findall(r"^::: (\S+)$", text("docs/reference.md"), flags=re.MULTILINE)
    found = []
    for path in paths:
        home, _, name = path.rpartition(".")
        found.append(getattr(import_module(home), name))
    public = [getattr(fleetsieve, name) for name in fleetsieve.__all__ if name != "__version__"]
    public += [getattr(fleetsieve.figures, name) for name in FIGURES]
    assert len(paths) == len(set(paths))
    assert [value for value in public if not any(value is one for one in found)] == []
    assert len(found) == len(public)


def test_the_hooks_run_what_ci_runs() -> None:
    entries = re.findall(r"entry: python -m (.+)", text(".pre-commit-config.yaml"))
    assert entries == ["ruff check --force-exclude", "ruff format --force-exclude", "mypy"]
    assert all(f".venv/bin/{entry.split(' --')[0]}" in text(".ci/run") for entry in entries)
    assert "http" not in text(".pre-commit-config.yaml")


def test_the_version_is_one() -> None:
    version = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    assert version == fleetsieve.__version__
    assert f"\nversion: {version}\n" in text("CITATION.cff")
    changelog = text("CHANGELOG.md")
    assert version.partition(".dev")[0] in changelog


def test_the_changelog_keeps_its_form() -> None:
    changelog = text("CHANGELOG.md")
    versions = re.findall(r"^## (.+)$", changelog, flags=re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", version) for version in versions[1:])
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for part in re.split(r"^## .+$", changelog, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", part, flags=re.MULTILINE)
        assert kinds == [kind for kind in order if kind in kinds]
        assert kinds
