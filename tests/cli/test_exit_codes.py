"""0 done, 1 failed, 2 usage, 3 solver missing, 4 failed cells, 130 interrupted; --exit-code gives the verdict's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

CASES = [
    ("certified-feasible", [], 0),
    ("undecided", [], 10),
    ("certified-infeasible", ["--floor", "chat=8", "--floor", "code=4"], 11),
]


@pytest.mark.parametrize(("verdict", "more", "code"), CASES)
def test_solve_by_verdict(cli, folder, verdict, more, code):
    if verdict == "undecided":
        (folder.path / "measurements.csv").unlink()
    assert cli("solve", folder.path, *more).code == 0
    said = cli("solve", folder.path, *more, "--exit-code", "--json")
    assert (said.code, said.document["verdict"]) == (code, verdict)


@pytest.mark.parametrize(("verdict", "code"), [("certified-feasible", 0), ("certified-infeasible", 11)])
def test_run_and_certify_by_verdict(cli, folder, verdict, code):
    if code:
        folder.change("classes.csv", '"chat",,,8,1,', '"chat",,,8,1,8').change(
            "classes.csv", '"code",,,4,1,', '"code",,,4,1,4'
        )
    assert cli("run", folder.path, "--replay", "--out", "made", "--exit-code", "--json").document["verdict"] == verdict
    assert cli("run", "made", "--resume", "--exit-code").code == code
    assert cli("certify", "made", "--exit-code").code == code
    assert cli("certify", folder.path, "--exit-code").code == code
    assert cli("certify", "made").code == 0


def test_fewest_gpus_by_verdict(cli, folder):
    sizing = ["solve", folder.path, "--formulation", "fewest-gpus", "--exit-code"]
    assert cli(*sizing).code == 0
    folder.change("measurements.csv", '"chat",2,c8,0,ok,2,1', '"chat",2,c8,0,ok,2,9')
    assert cli(*sizing).code == 11
    (folder.path / "measurements.csv").unlink()
    assert cli(*sizing).code == 10


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (["solve"], "error: Missing argument 'DIR'.\n", "fleetsieve solve"),
        (["solve", "small", "--bounds", "upper"], "error: Invalid value for '--bounds': 'upper'", "fleetsieve solve"),
        (["sovle"], "error: No such command 'sovle'.", "fleetsieve"),
        (["--wrong"], "error: No such option", "fleetsieve"),
    ],
)
def test_a_wrong_command_line_is_told_like_every_other_error(cli, arguments, message, command):
    said = cli(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(message)
    assert said.err.endswith(f"\n  hint: {command} --help shows how to use it\n")


def test_no_command_at_all_shows_the_help(cli):
    said = cli()
    assert (said.out + said.err).startswith("Usage: fleetsieve")
    assert "error:" not in said.err


@pytest.mark.slow
def test_sigint_to_a_process(tmp_path, folder):
    slow = (
        "import sys, time\n"
        "from fleetsieve.probes import Replay\n"
        "Replay.measure = lambda *_: (print('measuring', file=sys.stderr, flush=True), time.sleep(60))\n"
        "from fleetsieve.cli import main\nmain()\n"
    )
    command = [
        sys.executable,
        "-c",
        slow,
        "run",
        str(folder.path),
        "--replay",
        "--out",
        str(tmp_path / "made"),
        "--json",
    ]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in running.stderr:
        if "measuring" in line:
            break
    time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert '"exit_code": 130' in out
    assert "Traceback" not in err
