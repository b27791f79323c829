"""A program that sends load is ended in time, whatever it does, and none of its processes is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleetsieve.errors import UsageError
from fleetsieve.live.load.process import run_watched
from fleetsieve.live.processes.log import last_lines

STUBBORN = (
    "import os, signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "subprocess.Popen([sys.executable, '-c', 'import os, time; os.setpgid(0, 0); print(\"child\", flush=True); time.sleep(600)'])\n"
    "print('started', flush=True); time.sleep(600)\n"
)
POLITE = (
    "import time\ntry:\n    print('started', flush=True); time.sleep(600)\n"
    "except KeyboardInterrupt:\n    print('records written', flush=True)\n"
)


def run(tmp_path, monkeypatch, source, deadline_s=60.0, enough=lambda _: False):
    mark = f"{tmp_path}-{os.getpid()}"
    log = tmp_path / "log"
    environment = os.environ | {"FLEETSIEVE_TEST_MARK": mark}
    monkeypatch.setattr("fleetsieve.live.load.process.PARTING_S", 0.5)
    command = [sys.executable, "-c", source]
    ended = run_watched(command, log=log, environment=environment, deadline_s=deadline_s, enough=enough)
    assert not marked(mark), "a process of it is left"
    return ended, last_lines(log)


def marked(mark: str) -> list[int]:
    """The processes with the mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def has(log: Path, *words: str) -> bool:
    return log.exists() and all(word in log.read_text() for word in words)


def test_a_program_that_ends_by_itself(tmp_path, monkeypatch):
    ended, lines = run(tmp_path, monkeypatch, "print('one'); print(); print('two'); raise SystemExit(3)")
    assert (ended.exit_code, ended.interrupted, lines) == (3, "", ("one", "two"))
    assert ended.wall_s < 10.0


@pytest.mark.slow
def test_a_program_is_interrupted_when_it_has_sent_enough(tmp_path, monkeypatch):
    log = tmp_path / "log"
    ended, lines = run(tmp_path, monkeypatch, POLITE, enough=lambda _: has(log, "started"))
    assert (ended.exit_code, ended.interrupted, lines) == (0, "enough", ("started", "records written"))


@pytest.mark.slow
def test_a_stubborn_program_and_its_children_are_killed(tmp_path, monkeypatch):
    log = tmp_path / "log"
    ended, _ = run(tmp_path, monkeypatch, STUBBORN, enough=lambda _: has(log, "started", "child"))
    assert ended.exit_code != 0
    ended, _ = run(tmp_path, monkeypatch, STUBBORN, deadline_s=1.0)
    assert (ended.interrupted, ended.exit_code) == ("deadline", -signal.SIGKILL)
    assert ended.wall_s < 5.0


@pytest.mark.slow
def test_nothing_is_left_when_the_watching_fails(tmp_path, monkeypatch):
    log = tmp_path / "log"

    def fails(_: float) -> bool:
        if has(log, "started", "child"):
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, monkeypatch, STUBBORN, enough=fails)
    assert not marked(f"{tmp_path}-{os.getpid()}")


def test_a_program_ends_with_whoever_started_it(tmp_path):
    log, mark = tmp_path / "log", f"{tmp_path}-starter"
    source = (
        "import os, sys; from pathlib import Path; from fleetsieve.live.load.process import run_watched\n"
        f"run_watched([sys.executable, '-c', {STUBBORN!r}], log=Path({str(log)!r}), "
        "environment=dict(os.environ), deadline_s=60, enough=lambda _: False)"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", source],
        env=os.environ | {"FLEETSIEVE_TEST_MARK": mark, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    wait_until(lambda: has(log, "started"))
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    # The grandchild put itself into a process group of its own, out of reach of the guard.
    wait_until(lambda: len(marked(mark)) <= 1)
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)


def wait_until(holds):
    deadline = time.monotonic() + 10.0
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UsageError, match="there is no command 'no-such-generator'"):
        run_watched(["no-such-generator"], log=tmp_path / "log", environment={}, deadline_s=1.0, enough=lambda _: False)
