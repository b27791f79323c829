"""A client that loses requests, sends others, or is slow within its own timing shows itself, not the server."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass

import pytest
from live_runs.instances import FAST_ENGINE, HOSTILE, PYTHON, ports, rows

CHAT = ("chat,1,r40,rate,40,1",)
LOOP = ("chat,1,c8,concurrency,8,1",)
NEEDED = ("chat,20,4,30,1,30,,0.5,,0.5",)
"""All of 30 requests/s must be served on one GPU, within half a second: without the cell that is infeasible."""

SHORT = "run_deadline_s = 3"
ONCE = "max_looks = 1"


def lossy(live, *faults, cells=CHAT, **settings):
    generator = [*PYTHON, str(FAST_ENGINE), *map(str, faults)]
    return live(generator=generator, classes=NEEDED, cells=cells, gpus=1, measure=ONCE, confidence=0.01, **settings)


@dataclass(frozen=True)
class Spoil:
    """Faults of the load generator, where, and what is said of them."""

    faults: tuple[object, ...]
    cells: tuple[str, ...]
    words: str
    load: str = ""


SPOILS = {
    "ends early": Spoil(("--stop-after", 24), CHAT, "requests of the window left no record"),
    "killed": Spoil(("--stop-after", 24, "--stop-code", -9), CHAT, "failed (exit code 137)"),
    "hangs": Spoil(("--hang-after", 24), CHAT, "was stopped at its deadline", SHORT),
    "loses records": Spoil(("--lose-every", 3), CHAT, "requests of the window left no record"),
    "sends twice": Spoil(("--twice", 1), CHAT, "the client has records of"),
    "slow before": Spoil(("--busy-s", 0.6), CHAT, "the client was slow: a mean time to first token of 0.6"),
    "slow after": Spoil(("--late-s", 0.6), CHAT, "the client was slow: a mean completion time of 0.6"),
    "loop ends early": Spoil(("--stop-after", 100), LOOP, "ended by itself after"),
    "loop ends with an error": Spoil(("--stop-after", 300, "--stop-code", 1), LOOP, "failed (exit code 1)"),
    "loop hangs": Spoil(("--hang-after", 300), LOOP, "was stopped at its deadline", SHORT),
    "loop loses records": Spoil(("--lose-every", 3), LOOP, "requests of the window left no record"),
}


@pytest.mark.parametrize("name", SPOILS)
def test_it_is_made_again(cli, live, tmp_path, name) -> None:
    spoil = SPOILS[name]
    made, run = lossy(live, *spoil.faults, "--spoils", 1, cells=spoil.cells, load=spoil.load), tmp_path / "run"
    said = cli(*made.arguments(run, "--json"))
    assert said.code == 0, said.err
    (row,) = rows(run)
    assert (row["status"], row["success_rate"], row["seed"] != "0") == ("ok", "1", True)
    assert "repeated once" in row["source"]
    assert spoil.words in row["source"]
    assert "repeated with other prompts" in said.err


@pytest.mark.parametrize("name", ["ends early", "sends twice", "slow after", "loop ends early"])
def test_one_that_is_always_so_is_refused_and_certifies_nothing(cli, live, tmp_path, name) -> None:
    spoil = SPOILS[name]
    made, run = lossy(live, *spoil.faults, cells=spoil.cells, load=spoil.load), tmp_path / "run"
    said = cli(*made.arguments(run, "--json"))
    assert (said.code, said.document["verdict"]) == (4, "undecided"), said.err
    (row,) = rows(run)
    assert (row["status"], spoil.words in row["source"]) == ("rejected", True)
    assert "repeated 2 times" in row["source"]


@pytest.mark.parametrize("cells", [CHAT, LOOP], ids=["rate", "loop"])
def test_a_record_of_another_request_is_passed_over_and_told(cli, live, tmp_path, cells) -> None:
    made, run = lossy(live, "--stranger", 1, cells=cells), tmp_path / "run"
    said = cli(*made.arguments(run, "--json"))
    assert said.code == 0, said.err
    (row,) = rows(run)
    assert (row["status"], row["success_rate"]) == ("ok", "1")
    assert "name no request of this measurement" in row["source"]
    assert "repeated" not in row["source"]


@pytest.mark.parametrize("every", [100, 25])
def test_few_refusals_do_not_excuse_a_loop_with_empty_places(cli, live, tmp_path, every) -> None:
    made = lossy(live, "--idle-places", 5, "--spoils", 1, cells=LOOP, faults=["--reject-every", str(every)])
    said = cli(*made.arguments(tmp_path / "run", "--json"))
    assert said.code == 0, said.err
    (row,) = rows(tmp_path / "run")
    assert (row["status"], "repeated once: the load was not held" in row["source"]) == ("ok", True)


def test_what_others_send_to_their_server_is_a_warning(cli, live, tmp_path) -> None:
    port = ports()[0]
    made = lossy(live, "--twice", 1, serve='served_name = "theirs"')
    with subprocess.Popen([*PYTHON, str(HOSTILE), "theirs", "--port", str(port)], stdout=subprocess.PIPE) as theirs:
        assert theirs.stdout is not None
        theirs.stdout.readline()
        said = cli(*made.arguments(tmp_path / "run", "--endpoint", f"1=http://127.0.0.1:{port}", "--json"))
        theirs.kill()
    assert said.code == 0, said.err
    (row,) = rows(tmp_path / "run")
    assert (row["status"], "repeated" in row["source"]) == ("ok", False)
    assert "others may use that endpoint too" in row["source"]


def test_a_server_that_holds_the_requests_at_the_deadline_is_not_the_clients_doing(cli, live, tmp_path) -> None:
    stalls = live(cells=LOOP, faults=["--stall-every", "20"], load="run_deadline_s = 4", measure=ONCE)
    text = stalls.config.read_text()
    stalls.config.write_text(text.replace("request_timeout_s = 2", "request_timeout_s = 60"))
    began_s = time.monotonic()
    said = cli(*stalls.arguments(tmp_path / "run"))
    assert "repeated with other prompts" not in said.err
    assert time.monotonic() - began_s < 12.0
