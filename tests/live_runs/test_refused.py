"""A second run on the same folder or GPUs, folders that cannot be written, disks that fill up, clocks that step."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from live_runs.instances import FAST_ENGINE, PYTHON, rows, started, with_words

from fleetsieve.live.serving.register import living

mounts = pytest.mark.skipif(
    os.environ.get("FLEETSIEVE_TEST_MOUNTS") != "1" or os.geteuid() != 0,
    reason="mounts file systems: as root, set FLEETSIEVE_TEST_MOUNTS=1",
)


@pytest.fixture
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of GPUs and ports that nobody else asks for, in this process and in those that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.mark.usefixtures("own_locks")
def test_folders_and_gpus_have_one_run_at_a_time(cli, live, tmp_path) -> None:
    made, run = live(window_s=60.0, serve="gpus = [0, 1]"), tmp_path / "run"
    other = live(serve="gpus = [1, 2]", cells=("chat,1,r40,rate,40,1",))
    process = started(made.arguments(run), tmp_path)
    try:
        while not living(run):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        (server,) = living(run)
        for said in (cli("run", run, "--resume"), cli("measure", run, "--config", made.config, "--grid")):
            assert (said.code, "another process" in said.err) == (2, True), said.err
        said = cli(*other.arguments(tmp_path / "other"))
        assert (said.code, f"GPU 1 is in use by another run ({run})" in said.err) == (2, True), said.err
        assert [left.pid for left in living(run)] == [server.pid], "nobody touched its server"
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        said = cli(*other.arguments(tmp_path / "other", "--resume"))
        assert (said.code, f"held by servers that the ended run {run} left behind" in said.err) == (2, True), said.err
        process = started(["run", str(run), "--resume"], tmp_path)
        while any(left.pid == server.pid for left in living(run)):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGINT)
        process.communicate()
        assert cli(*other.arguments(tmp_path / "other", "--resume")).code == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("which", [7, 9, 11, 13])
def test_a_disk_that_fills_up(cli, live, tmp_path, monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    """The n-th sync fails: it is told, no server is left, nothing is damaged, and the run goes on later."""
    made, run = live(cells=("chat,1,r40,rate,40,1",)), tmp_path / "run"
    sync, count = os.fsync, [0]

    def full(descriptor: int) -> None:
        count[0] += 1
        if count[0] >= which:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        said = cli(*made.arguments(run, "--json"))
    if count[0] < which:
        assert said.code == 0
        pytest.skip(f"a run has {count[0]} syncs")
    assert (said.code, "No space left on device" in said.document["error"]["message"]) == (1, True), said.err
    assert not with_words(made.words)
    assert cli(*made.arguments(run, "--resume")).code == 0
    assert [row["status"] for row in rows(run)] == ["ok"]


@mounts
@pytest.mark.parametrize("pages", [9, 12, 15, 20])
def test_a_small_disk(cli, live, tmp_path, pages: int) -> None:
    made, disk = live(cells=("chat,1,r40,rate,40,1",)), tmp_path / "disk"
    disk.mkdir()
    page = os.sysconf("SC_PAGE_SIZE")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={pages * page}", "tmpfs", disk]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system could be mounted")
    try:
        said = cli(*made.arguments(disk / "run"))
        assert (said.code, "No space left on device" in said.err) == (1, True), said.err
        assert not with_words(made.words)
        subprocess.run(["mount", "-o", f"remount,size={1000 * page}", disk], check=True)
        assert cli(*made.arguments(disk / "run", "--resume")).code in (0, 4)
        assert rows(disk / "run")[-1]["status"] == "ok"
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        said = cli(*made.arguments(disk / "other"))
        assert (said.code, "Read-only file system" in said.err) == (1, True), said.err
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_step_of_the_clock_is_told(cli, live, tmp_path, step_s: float) -> None:
    """The load generator's clock jumps among the requests, again and again: nothing of that counts, and the row says why."""
    stepped = live(
        generator=[*PYTHON, str(FAST_ENGINE), "--clock-step-s", str(step_s)],
        cells=("chat,1,r40,rate,40,1",),
        measure="max_looks = 1",
    )
    assert cli(*stepped.arguments(tmp_path / "run")).code == 4
    (row,) = rows(tmp_path / "run")
    assert row["status"] == "rejected"
    assert float(row["throughput_rps"]) < 40.0, "nothing is made up"
    assert "requests were sent in their window" in row["source"]
    assert "ms late or more" in row["source"]


def test_a_step_of_the_clock_of_the_run_changes_nothing(cli, live, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, began_s = time.time, time.monotonic()

    def stepping() -> float:
        return clock() - (86_400.0 if time.monotonic() > began_s + 1.5 else 0.0)

    made = live(cells=("chat,1,r40,rate,40,1",), window_s=2.0)
    monkeypatch.setattr(time, "time", stepping)
    assert cli(*made.arguments(tmp_path / "run")).code == 0
    (row,) = rows(tmp_path / "run")
    assert 70 <= int(row["requests"]) <= 84, "on a busy machine some are sent after their window"
    assert 0.0 < float(row["cost_gpu_s"]) < 60.0


def test_records_that_have_no_room_are_named(cli, live, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two rows: the file and the way on are told, no server is left, and the run goes on later."""
    made, run = live(cells=("chat,1,r40,rate,40,1",)), tmp_path / "run"
    sync = os.fsync

    def full(descriptor: int) -> None:
        if run / "records" in Path(f"/proc/self/fd/{descriptor}").resolve().parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        said = cli(*made.arguments(run, "--json"))
    error = said.document["error"]
    path = run / "records" / "chat-tp1-r40-seed0.csv.gz"
    assert (said.code, error["message"]) == (1, f"{path}: No space left on device"), said.err
    assert f"continue with: fleetsieve run {run} --resume --config {made.config}" in error["hint"]
    assert not with_words(made.words)
    assert cli("run", run, "--resume").code == 0
    assert [row["status"] for row in rows(run)] == ["ok"]
