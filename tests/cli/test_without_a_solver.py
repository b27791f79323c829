"""Certificates of fleets that the frontier accepts are checked where HiGHS cannot be imported."""

from __future__ import annotations

import json
import shutil

import pytest

from fleetsieve.files import read_instance

BLOCKED = (
    "import sys\n"
    "sys.modules['highspy'] = None\n"
    "from fleetsieve.cli.main import call\n"
    "raise SystemExit(call(sys.argv[1:]))\n"
)
FLOORS = {"certified-feasible": "6", "certified-infeasible": "40"}


@pytest.fixture(params=FLOORS)
def stored(request, tmp_path, cli):
    """A folder with its certificate, and the verdict."""
    folder = tmp_path / "fleet"
    shutil.copytree(read_instance("paper-h100-31b").path, folder)
    classes = (folder / "classes.csv").read_text(encoding="utf-8").splitlines()
    place = classes[0].split(",").index("floor_rps")
    chat = classes[1].split(",")
    chat[place] = FLOORS[request.param]
    if request.param == "certified-infeasible":
        chat[classes[0].split(",").index("demand_rps")] = "50"
    (folder / "classes.csv").write_text("\n".join([classes[0], ",".join(chat), *classes[2:]]) + "\n", encoding="utf-8")
    assert cli("solve", folder, "--certificate", folder / "certificate.json").code == 0
    return folder, request.param


def test_a_stored_certificate_is_checked(stored, process):
    folder, verdict = stored
    said = process("-c", BLOCKED, "certify", folder, "--json", python=True)
    assert said.code == 0, said.err
    assert said.document["holds"]
    assert said.document["verdict"] == verdict
    assert said.document["checked_with"] == "frontier"


def test_a_fresh_one_says_what_solve_says(stored, process, cli):
    folder, verdict = stored
    by_solver = json.loads((folder / "certificate.json").read_text())
    (folder / "certificate.json").unlink()
    said = process("-c", BLOCKED, "certify", folder, "--json", python=True)
    assert said.code == 0, said.err
    assert said.document["verdict"] == verdict
    assert said.document["explanation"] == by_solver["explanation"]
    assert ("short by" in by_solver["explanation"]) == (verdict == "certified-infeasible")


def test_what_needs_the_solver_says_so(stored, process):
    folder, _ = stored
    assert process("-c", BLOCKED, "solve", folder, python=True).code == 3
