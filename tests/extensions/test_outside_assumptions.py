"""An assumption from outside bounds cells, is named in the certificate with its origin, and is missed where it is not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from extensions.conftest import Module, remove

from fleetsieve.bounds.assumptions import assumptions_of
from fleetsieve.cli.main import call
from fleetsieve.errors import InputError, UsageError
from fleetsieve.files import bundled_names, read_instance, write_instance
from fleetsieve.files.bundled import resolve

CAP = """
from dataclasses import dataclass

from fleetsieve.bounds.assumptions import CAPACITY, Limit


@dataclass(frozen=True)
class Cap:
    most_rps: float = 40.0
    name: str = "cap"
    across_arms: bool = False

    def describe(self):
        return f"no replica serves more than {self.most_rps:g} requests/s"

    def audit(self, view):
        return ()

    def limits(self, view, holds):
        for arm, cells in view.arms.items():
            for cell in cells:
                if holds(arm, CAPACITY):
                    yield Limit(cell.key, CAPACITY, self.most_rps)
"""
INSTANCE = "sim-chat-code-16gpu"


def folder_with(module: Module, line: str, source: str = CAP) -> Path:
    """A copy of a bundled instance that states `line` in [assumptions]; its table holds the first three rows alone."""
    folder = module("mine", source) / "fleet"
    shutil.copytree(resolve(INSTANCE), folder)
    text = (folder / "instance.toml").read_text()
    assert "[assumptions]" not in text
    (folder / "instance.toml").write_text(f"{text}\n[assumptions]\n{line}\n")
    rows = (folder / "measurements.csv").read_text().splitlines(keepends=True)
    (folder / "measurements.csv").write_text("".join(rows[:4]))
    return folder


def test_a_certificate_names_it_and_where_it_comes_from(
    module: Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_with(module, '"mine:Cap" = { most_rps = 9.5 }')
    monkeypatch.syspath_prepend(folder.parent)
    assert call(["solve", str(folder), "--certificate", "certificate.json"]) == 0
    document = json.loads(Path("certificate.json").read_text())
    (stated,) = (entry for entry in document["assumptions"] if entry["name"] == "cap")
    sentence = "no replica serves more than 9.5 requests/s (from outside FleetSieve: mine:Cap)"
    assert (stated["from"], stated["statement"]) == ("mine:Cap", sentence)
    assert f"cap: {sentence}" in document["rests_on"]
    assert sorted(document["versions"]) == ["fleetsieve", "highspy", "numpy", "pyomo"]
    capsys.readouterr()
    assert call(["certify", str(folder), "--certificate", "certificate.json"]) == 0

    module("mine", CAP.replace("yield Limit(cell.key, CAPACITY, self.most_rps)", "yield from ()"))
    assert call(["certify", str(folder), "--certificate", "certificate.json"]) == 1
    remove(folder.parent, "mine")
    capsys.readouterr()
    assert call(["certify", str(folder), "--certificate", "certificate.json"]) == 2
    told = capsys.readouterr().err
    assert "assumption 'mine:Cap': there is no module 'mine' here; install its package" in told
    assert "instance.toml:" in told


def test_the_version_of_its_package_is_kept(module, package, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_with(module, "cap = { most_rps = 9.5 }")
    package("mine", "fleetsieve.assumptions", "cap = mine:Cap")
    assert call(["solve", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["versions"]["mine"] == "1.2"
    assert [entry["from"] for entry in document["assumptions"] if "from" in entry] == ["mine:Cap"]


def test_the_current_folder_is_not_searched_for_what_a_file_names(module: Module) -> None:
    folder = folder_with(module, '"mine:Cap" = true')
    with pytest.raises(
        InputError, match=r"instance\.toml:\d+ \[assumptions\.mine:Cap\]: .* put the folder of its file on"
    ):
        read_instance(folder)


def test_it_can_be_switched_off_and_is_written_again(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with(module, '"mine:Cap" = { enabled = false, most_rps = 3 }\nroofline = false')
    monkeypatch.syspath_prepend(folder.parent)
    read = read_instance(folder)
    assert read.instance.assumptions["mine:Cap"] == {"enabled": False, "most_rps": 3.0}
    assert "cap" not in {one.name for one in assumptions_of(read.instance)}
    write_instance(folder.parent / "again", read.instance, read.measurements)
    assert read_instance(folder.parent / "again").instance.assumptions == read.instance.assumptions


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('"mine:Cap" = { most = 3 }', "unknown key 'most'"),
        ('"mine:Cap" = "yes"', "write mine:Cap = true, or mine:Cap = { enabled = ..., most_rps = ... }"),
        ('"mine:Cup" = true', "module 'mine' .* has no 'Cup'"),
        ("cap = true", "unknown key 'cap'"),
    ],
)
def test_what_is_wrong_is_told_by_its_line(
    module: Module, monkeypatch: pytest.MonkeyPatch, line: str, told: str
) -> None:
    folder = folder_with(module, line)
    monkeypatch.syspath_prepend(folder.parent)
    with pytest.raises(InputError, match=told):
        read_instance(folder)


def test_a_name_that_another_has(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with(module, '"mine:Cap" = true', CAP.replace('"cap"', '"roofline"'))
    monkeypatch.syspath_prepend(folder.parent)
    with pytest.raises(UsageError, match="assumption 'mine:Cap' calls itself 'roofline', as another does"):
        assumptions_of(read_instance(folder).instance)


def test_bundled_certificates_name_no_origin(capsys: pytest.CaptureFixture[str]) -> None:
    for name in bundled_names():
        assert call(["solve", name, "--json"]) == 0
        assert "outside FleetSieve" not in capsys.readouterr().out


def test_a_quantity_that_no_cell_has(
    module: Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_with(
        module, '"mine:Cap" = true', CAP.replace("Limit(cell.key, CAPACITY,", "Limit(cell.key, 'speed',")
    )
    monkeypatch.syspath_prepend(folder.parent)
    assert call(["solve", str(folder)]) == 2
    assert "assumption cap bounds 'speed'" in capsys.readouterr().err
