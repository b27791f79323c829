"""Ctrl-C in a study: the exit code, and what is kept of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from cli.command_line import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["calibrate", "--trials", "100000"], "no results are stored: the next call starts from the first trial"),
        (
            ["compare", "--orders", "100000", "--no-clairvoyant"],
            "no results are stored; --out FOLDER stores finished runs",
        ),
    ],
)
def test_an_interrupted_study_says_what_is_kept(tmp_path, arguments: list[str], told: str) -> None:
    command, *options = arguments
    running = subprocess.Popen(
        [sys.executable, "-m", "fleetsieve", command, "sim-chat-code-16gpu", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'models'}"},
    )
    assert running.stderr is not None
    before = ""
    while " of " not in before:
        line = running.stderr.readline()
        assert line, before
        before += line
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    assert told in err
    assert "Traceback" not in err
