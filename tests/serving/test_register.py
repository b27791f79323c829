"""What a dead run left is found by its record and stopped; what others run is never touched; GPUs and ports are one run's."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import SCRIPT, some_port, with_words

from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.live.processes.session import ProcessSession, age_s, identity_of
from fleetsieve.live.serving.locks import Locks, lock_folder
from fleetsieve.live.serving.register import (
    NAME,
    GpuSeconds,
    Register,
    held_gpu_s,
    leave_others,
    living,
    measured_starts_s,
    servers,
    stop_orphans,
    unfinished,
)

START_ONE = Path(__file__).with_name("start_one.py")
ROOT = Path(__file__).resolve().parents[2]


def run_in_small(folder: Path, *arguments: str, port: int | None = None) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT), str(START_ONE.parent)])
    return subprocess.Popen(
        [sys.executable, str(START_ONE), str(folder), str(port or some_port()), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


def kill(run: subprocess.Popen[str], after: str | None = None, wait_s: float = 0.0) -> None:
    """SIGKILL `wait_s` after it has printed `after`."""
    assert run.stdout is not None
    with run.stdout:
        while after is not None and (line := run.stdout.readline()).strip() != after:
            assert line, f"it ended with {run.wait()}, and before it printed {after}"
        time.sleep(wait_s)
        run.kill()
        run.wait()


@pytest.fixture
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    """A hostile server that somebody else started."""
    words = [sys.executable, "-S", str(SCRIPT), "stranger", "--port", str(some_port())]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        yield process
        assert process.poll() is None, "the stranger was stopped"
        process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_a_run_that_is_killed_at_any_instant_leaves_what_is_found_and_stopped(tmp_path, stranger, number: int) -> None:
    marker = f"--log-text={tmp_path}"
    run = run_in_small(tmp_path, "--spawn-child", "--ignore-sigterm", marker)
    kill(run, "begin", random.Random(number).choice((0.003, 0.01, 0.1, 0.4)) * random.Random(-number).random())
    found = stop_orphans(tmp_path, stop_s=0.2)
    assert all(not orphan.left for orphan in found)
    deadline = time.monotonic() + 5.0
    while with_words(marker) and time.monotonic() < deadline:
        time.sleep(0.01)  # a process that was not told to go on sees that its run is dead, and ends
    assert with_words(marker) == []
    if found:
        (orphan,) = found
        assert not any(identity_of(pid) for pid in orphan.server.known)
    assert stop_orphans(tmp_path) == ()


@pytest.mark.slow
def test_the_orphan_of_a_ready_server_is_told_with_its_command(tmp_path) -> None:
    kill(run_in_small(tmp_path, "--spawn-child"), "ready")
    (left,) = living(tmp_path)
    (child,) = (
        int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("child")
    )
    assert child in left.known
    (orphan,) = stop_orphans(tmp_path, stop_s=0.3)
    assert orphan.killed
    assert "--spawn-child" in orphan.server.command
    assert not identity_of(child)
    assert living(tmp_path) == ()


@pytest.mark.slow
def test_the_children_of_a_dead_leader_are_found(tmp_path) -> None:
    """As when the API server alone is killed and leaves its engine."""
    kill(run_in_small(tmp_path, "--spawn-child", "--stray-child"), "ready")
    (left,) = living(tmp_path)
    os.kill(left.pid, signal.SIGKILL)
    while identity_of(left.pid):
        time.sleep(0.01)
    assert len(left.known) == 3
    (orphan,) = stop_orphans(tmp_path, stop_s=0.2)
    assert not any(identity_of(pid) for pid in orphan.server.known)


def test_a_number_that_is_somebody_elses_by_now_is_not_touched(tmp_path, stranger) -> None:
    """The record of a run whose server is long gone names the number that a stranger has now."""
    identity = identity_of(stranger.pid)
    assert identity is not None
    event = {"event": "started", "pid": stranger.pid, "identity": identity[:-1] + "x", "command": ["vllm"]}
    (tmp_path / NAME).write_text(json.dumps({**event, "port": 1, "gpus": [], "log": ""}) + "\n")
    assert len(unfinished(tmp_path)) == 1
    assert living(tmp_path) == ()
    assert stop_orphans(tmp_path) == ()
    assert ProcessSession(stranger.pid, {stranger.pid: "another"}).end(0.1) == (False, ())
    assert identity_of(stranger.pid) == identity
    assert unfinished(tmp_path) == ()


def test_a_zombie_is_gone(tmp_path) -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    while identity_of(process.pid):
        time.sleep(0.01)
    assert process.wait() == 0
    assert identity_of(2**22 + 1) is None


def test_torn_and_strange_lines_are_passed_over(tmp_path, start) -> None:
    server = start()
    with (tmp_path / NAME).open("a") as file:
        file.write('{"event": "members", "pid": 7}\n[1]\nnonsense\n{"event": "star')
    Register(tmp_path).members(server.pid, {server.pid: "x", 12: "y"}, 1.0)
    (left,) = unfinished(tmp_path)
    assert left.known == {server.pid: "x", 12: "y"}
    assert stop_orphans(tmp_path / "nowhere") == ()


def test_a_process_is_as_old_as_it_is() -> None:
    began_s = time.monotonic()
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        identity = identity_of(process.pid)
        assert identity is not None
        time.sleep(0.2)
        told = age_s(identity)
        assert told is not None
        assert 0.15 <= told <= time.monotonic() - began_s + 0.02, "the kernel counts in hundredths"
        process.kill()
    assert age_s(f"another-boot:{identity.rpartition(':')[2]}") is None
    assert age_s("nonsense") is None


@pytest.mark.slow
def test_what_servers_held_is_counted_until_they_are_gone(tmp_path, start) -> None:
    """Of one that the run stops, of one that lives on, and of one that was stopped as an orphan."""
    began_s = time.monotonic()
    first, second = start(), start(tp=2)
    assert first.wait_ready() is second.wait_ready() is None
    assert measured_starts_s(tmp_path) == pytest.approx({1: first.ready_s, 2: second.ready_s}, abs=0.001)
    first.stop()
    time.sleep(0.3)
    held = held_gpu_s(tmp_path).total
    assert held == pytest.approx(first.gpu_s + second.gpu_s, abs=0.1)
    assert 2 * 0.3 < held - first.gpu_s <= 2 * (time.monotonic() - began_s + 0.02)
    stop_orphans(tmp_path, 0.0)
    told = held_gpu_s(tmp_path).total
    time.sleep(0.1)
    assert held_gpu_s(tmp_path).total == told
    assert held <= told <= held + 2 * 1.0


@pytest.mark.slow
def test_a_server_that_died_unseen_held_its_gpus_until_its_last_sign_of_life(tmp_path) -> None:
    run = run_in_small(tmp_path)
    kill(run, "ready")
    (left,) = living(tmp_path)
    ready_s = left.ready_s
    assert ready_s is not None
    os.kill(left.pid, signal.SIGKILL)
    while identity_of(left.pid):
        time.sleep(0.01)
    time.sleep(0.5)
    wrote_s = (tmp_path / "log").stat().st_mtime - (left.started_unix_s or 0.0)
    assert stop_orphans(tmp_path) == ()
    assert held_gpu_s(tmp_path).total == pytest.approx(max(ready_s, wrote_s), abs=0.01)
    # Nothing but its record is left after a new start of the machine, and no clock is older than the process.
    lines = [json.loads(line) for line in (tmp_path / NAME).read_text().splitlines()][:-1]
    lines[0]["identity"] = "another-boot:7"
    (tmp_path / "log").unlink()
    (tmp_path / NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert held_gpu_s(tmp_path).total == pytest.approx(ready_s, abs=0.001)


def test_a_record_of_an_older_version_tells_no_cost(tmp_path) -> None:
    event = {"event": "started", "pid": 5, "identity": "x:1", "command": ["vllm"], "port": 1, "gpus": ["0"], "log": ""}
    (tmp_path / NAME).write_text(f'{json.dumps(event)}\n{{"event": "stopped", "pid": 5}}\n')
    assert [(server.stopped, server.tp, server.width) for server in servers(tmp_path)] == [(True, 0, 1)]
    assert held_gpu_s(tmp_path).total == 0.0
    assert measured_starts_s(tmp_path) == {}


def test_what_rows_by_hand_cost_pays_for_nothing_that_the_run_held() -> None:
    held = GpuSeconds(30.0, 10.0)
    assert held.beyond(GpuSeconds(20.0, 500.0)) == 10.0
    assert held.beyond(GpuSeconds(30.0, 7.0)) == 3.0, "measured by hand, and cut short"
    assert held.beyond(GpuSeconds(31.0, 10.0)) == 0.0
    assert GpuSeconds(40.0, None).beyond(GpuSeconds(20.0, 15.0)) == 5.0, "an older record tells nothing apart"


def test_a_record_that_cannot_be_written_is_told(tmp_path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(FleetSieveError, match="cannot write"):
        Register(tmp_path).stopped(1, 0.0)


def test_gpus_are_one_runs_at_a_time(tmp_path) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    with Locks(tmp_path / "a", locks) as first, Locks(tmp_path / "b", locks) as second:
        first.hold_gpus(["0", "1"])
        first.hold_gpus(["1"])
        with pytest.raises(UsageError, match=rf"GPU 1 is in use by another run \({tmp_path}/a\)"):
            second.hold_gpus(["2", "1"])
        second.hold_gpus(["3"])
        first.hold_gpus(["2"])
        first.close()
        second.hold_gpus(["0", "1", "2"])


def test_a_port_is_one_runs_at_a_time_and_free(tmp_path, start) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    server = start("--reuse-port")
    assert server.wait_ready() is None
    ports = (server.port, some_port(), some_port())
    with Locks(tmp_path / "a", locks) as first, Locks(tmp_path / "b", locks) as second:
        assert first.free_port("127.0.0.1", ports) == ports[1]
        assert second.free_port("127.0.0.1", ports) == ports[2]
        with pytest.raises(UsageError, match="none of the 3 ports"):
            first.free_port("127.0.0.1", ports)
        second.release_port(ports[2])
        assert first.free_port("127.0.0.1", ports) == ports[2]


@pytest.mark.slow
def test_a_copied_record_stops_nothing_of_an_owner_that_lives(tmp_path) -> None:
    run, copy, older = (tmp_path / name for name in ("run", "copy", "older"))
    run.mkdir()
    process = run_in_small(run)
    assert process.stdout is not None
    while process.stdout.readline().strip() != "ready":
        assert process.poll() is None
    shutil.copytree(run, copy)
    (left,) = living(copy)
    assert stop_orphans(copy) == ()
    assert [server.pid for server in leave_others(copy)] == [left.pid]
    assert leave_others(copy) == unfinished(copy) == ()
    assert held_gpu_s(copy).total == 0.0 < held_gpu_s(run).total
    assert identity_of(left.pid) == left.known[left.pid]
    kill(process)
    assert leave_others(run) == stop_orphans(copy) == ()
    shutil.copytree(run, older)
    lines = [json.loads(line) for line in (run / NAME).read_text().splitlines()]
    del lines[0]["owner"]
    (older / NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [server.owner for server in living(older)] == [None]
    assert [orphan.server.pid for orphan in stop_orphans(older)] == [left.pid], "an older record names no owner"
    assert not identity_of(left.pid)


@pytest.mark.slow
def test_a_killed_holder_holds_nothing_but_its_living_servers_do(tmp_path) -> None:
    locks, run, other = (tmp_path / name for name in ("locks", "run", "other"))
    for folder in (locks, run, other):
        folder.mkdir()
    hold = (
        "import os; from pathlib import Path; from fleetsieve.live.serving.locks import Locks; "
        f"locks = Locks(Path({str(run)!r}), Path({str(locks)!r})); locks.hold_gpus(['0']); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", hold], check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    with Locks(other, locks) as taken:
        taken.hold_gpus(["0"])
    subprocess.run([sys.executable, "-c", hold], check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    kill(run_in_small(run), "ready")
    with (
        Locks(other, locks) as refused,
        pytest.raises(UsageError, match=f"held by servers that the ended run {run} left behind"),
    ):
        refused.hold_gpus(["0"])
    with Locks(run, locks) as resumed:
        resumed.hold_gpus(["0"])
        assert len(stop_orphans(run, 1.0)) == 1
    with Locks(other, locks) as taken:
        taken.hold_gpus(["0"])


def test_the_folder_of_locks_is_the_users_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert lock_folder() == lock_folder()
    assert lock_folder().stat().st_mode & 0o777 == 0o700
    lock_folder().rmdir()
    lock_folder_of_another = tmp_path / f"fleetsieve-{os.getuid()}"
    lock_folder_of_another.symlink_to(tmp_path)
    with pytest.raises(FleetSieveError, match="is not a folder of yours"):
        lock_folder()
