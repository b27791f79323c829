"""Modules and packages of somebody else, importable for one test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest

Module = Callable[[str, str], Path]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    """Writes a module into the folder of the test, which is the current one and not on Python's path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would outlive a change within the same second
    before = set(sys.modules)

    def written(name: str, source: str) -> Path:
        if name not in before:
            sys.modules.pop(name, None)
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        invalidate_caches()
        return tmp_path

    yield written
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def remove(folder: Path, name: str) -> None:
    """Remove a module that was written by `module`."""
    (folder / f"{name}.py").unlink()
    sys.modules.pop(name, None)
    invalidate_caches()


@pytest.fixture
def package(module: Module, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Installs a package that declares one entry point, as pip would."""

    def installed(name: str, group: str, point: str) -> None:
        folder = module(f"{name}_unused", "")
        monkeypatch.syspath_prepend(folder)
        info = folder / f"{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{point}\n")
        (info / "top_level.txt").write_text(f"{name}\n")

    return installed
