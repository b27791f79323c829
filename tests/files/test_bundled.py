from __future__ import annotations

from pathlib import Path

import pytest
from sample_folder import Sample

from fleetsieve.errors import UsageError
from fleetsieve.files import bundled, bundled_names, read_instance, resolve


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("paper-h100-31b", "small"):
        (tmp_path / "instances" / name).mkdir(parents=True)
        Sample(tmp_path / "instances" / name)
    (tmp_path / "instances" / "notes").mkdir()
    monkeypatch.setattr(bundled, "ROOTS", (tmp_path / "absent", tmp_path / "instances"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_is_found(root: Path) -> None:
    assert bundled_names() == ("paper-h100-31b", "small")
    assert resolve("small") == root / "instances" / "small"
    assert read_instance("small").path == root / "instances" / "small"


def test_a_folder_goes_before_a_name(root: Path) -> None:
    (root / "small").mkdir()
    assert resolve("small") == Path("small")


def test_a_name_that_is_not_there(root: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_instance("paper-h100")
    assert caught.value.message == "'paper-h100' is neither a folder nor a bundled instance"
    assert caught.value.hint == "did you mean paper-h100-31b? bundled instances: paper-h100-31b, small"
    with pytest.raises(UsageError, match="hint: bundled instances: paper-h100-31b, small"):
        resolve("/nowhere/at/all")


def test_a_file_is_no_folder(root: Path) -> None:
    file = root / "instances" / "small" / "cells.csv"
    with pytest.raises(UsageError, match=f"is a file, not an instance folder\n  hint: give the folder: {file.parent}"):
        resolve(file)
