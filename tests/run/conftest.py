"""Fixtures of the tests that call commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.command_line import cli, process
from cli.small_folder import Folder, make_folder

__all__ = ["cli", "process"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return make_folder(tmp_path / "small")
