"""A run that stopped anywhere goes on to the same bytes: torn lines and rows, missing lines, failed writes, full disks."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

mounts = pytest.mark.skipif(
    os.environ.get("FLEETSIEVE_TEST_MOUNTS") != "1" or os.geteuid() != 0,
    reason="mounts file systems: as root, set FLEETSIEVE_TEST_MOUNTS=1",
)
NAMES = ("certificate.json", "measurements.csv", "steps.jsonl")


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in NAMES if (folder / name).is_file()}


@pytest.fixture
def quoted(folder):
    """The small folder with sources that hold line breaks, commas and quotes, so that rows span lines."""
    header, *rows = (folder.path / "measurements.csv").read_text().splitlines()
    texts = ['"one\ntwo, ""three""\n"', '"\n\n"', '"a\r\nb"']
    lines = [f"{header},source", *(f"{row},{text}" for row, text in zip(rows, texts, strict=True))]
    (folder.path / "measurements.csv").write_text("\n".join(lines) + "\n", newline="")
    return folder


@pytest.fixture
def made(cli, quoted, tmp_path):
    assert cli("run", quoted.path, "--replay", "--out", "made").code == 0
    return tmp_path / "made"


def resumed(cli, folder: Path) -> dict[str, bytes]:
    assert cli("run", folder, "--resume").code == 0
    return content(folder)


def row_ends(made: Path) -> list[int]:
    """Where the header and each row of measurements.csv end."""
    whole = (made / "measurements.csv").read_bytes()
    return [k + 1 for k, byte in enumerate(whole) if byte == 10 and not whole[:k].count(b'"') % 2]


@pytest.mark.slow
def test_cut_anywhere(cli, made, tmp_path):
    """Cut the rows at any byte, with the lines of the rows that are whole, or one line fewer."""
    whole = content(made)
    ends = row_ends(made)
    lines = whole["steps.jsonl"].splitlines(keepends=True)
    assert len(ends) == len(lines) >= 3
    cuts = sorted(
        {*ends, *(end - 1 for end in ends[1:]), *(end + 3 for end in ends[:-1]), *range(ends[0], ends[-1], 29)}
    )
    for cut in cuts:
        rows = sum(end <= cut for end in ends) - 1
        for kept in {rows, max(0, rows - 1)}:
            torn = tmp_path / f"torn-{cut}-{kept}"
            shutil.copytree(made, torn)
            (torn / "certificate.json").unlink()
            (torn / "measurements.csv").write_bytes(whole["measurements.csv"][:cut])
            (torn / "steps.jsonl").write_bytes(b"".join(lines[: kept + 1]))
            assert resumed(cli, torn) == whole, (cut, kept)


def test_a_torn_last_line(cli, made, tmp_path):
    whole = content(made)
    ends = row_ends(made)
    *lines, last = whole["steps.jsonl"].splitlines(keepends=True)
    for length in (1, len(last) // 2, len(last) - 1):
        torn = tmp_path / f"torn-{length}"
        shutil.copytree(made, torn)
        (torn / "measurements.csv").write_bytes(whole["measurements.csv"][: ends[-1]])
        (torn / "steps.jsonl").write_bytes(b"".join(lines) + last[:length])
        assert resumed(cli, torn) == whole


def test_a_row_without_its_line_that_would_not_have_been_asked(cli, made, tmp_path):
    """Nobody asked for it, so somebody added it: the row is kept, its line says how it came."""
    whole = content(made)
    ends, lines = row_ends(made), whole["steps.jsonl"].splitlines(keepends=True)
    second = whole["measurements.csv"][ends[1] : ends[2]]
    (made / "measurements.csv").write_bytes(whole["measurements.csv"][: ends[0]] + second)
    (made / "steps.jsonl").write_bytes(lines[0])
    assert b"added by hand" in resumed(cli, made)["steps.jsonl"].splitlines()[1]
    assert cli("certify", made).code == 0


@pytest.mark.parametrize("which", range(1, 8))
def test_a_disk_that_fills_up(cli, quoted, made, tmp_path, monkeypatch, which):
    """The n-th sync of an open run fails: it is told, nothing is damaged, and the run goes on later."""
    sync, count = os.fsync, [0]

    def full(descriptor):
        count[0] += 1
        if count[0] == which:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        said = cli("run", quoted.path, "--replay", "--out", "other", "--json")
    assert said.code == 1
    assert "No space left on device" in said.document["error"]["message"]
    other = tmp_path / "other"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    if other.exists():
        assert resumed(cli, other) == content(made)
    else:
        assert cli("run", quoted.path, "--replay", "--out", "other").code == 0
    assert content(other) == content(made)


@mounts
@pytest.mark.parametrize("pages", [4, 7, 8, 9, 10, 11])
def test_a_small_disk(cli, tmp_path, pages):
    """A file system of a few pages: whatever did not fit is told, and after it grew the run ends with the same bytes."""
    assert cli("run", "sim-chat-code-16gpu", "--replay", "--out", "whole", "--policy", "random").code == 0
    disk = tmp_path / "disk"
    disk.mkdir()
    page = os.sysconf("SC_PAGE_SIZE")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={pages * page}", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system could be mounted: {mounted.stderr.decode().strip()}")
    try:
        said = cli("run", "sim-chat-code-16gpu", "--replay", "--out", disk / "run", "--policy", "random", "--json")
        assert said.code == 1
        assert "No space left on device" in said.err
        assert said.document["exit_code"] == 1
        subprocess.run(["mount", "-o", f"remount,size={1000 * page}", disk], check=True)
        assert (
            cli("run", "sim-chat-code-16gpu", "--replay", "--out", disk / "run", "--policy", "random", "--resume").code
            == 0
        )
        assert content(disk / "run") == content(tmp_path / "whole")
    finally:
        subprocess.run(["umount", disk], check=True)


@mounts
def test_a_disk_that_cannot_be_written(cli, quoted, made, tmp_path):
    whole = content(made)
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=False, capture_output=True).returncode:
        pytest.skip("no file system could be mounted")
    try:
        shutil.copytree(made, disk / "run")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for arguments in (
            ["run", quoted.path, "--replay", "--out", disk / "other"],
            ["run", disk / "run", "--resume"],
            ["solve", quoted.path, "--certificate", disk / "c.json"],
        ):
            said = cli(*arguments, "--json")
            assert (said.code, said.document["exit_code"]) == (1, 1)
            assert "Read-only file system" in said.err
        assert cli("certify", disk / "run").code == 0
        assert content(disk / "run") == whole
    finally:
        subprocess.run(["umount", disk], check=True)


def cut_after(made: Path, rows: int) -> None:
    """Leave the header, `rows` rows and half of the next one; the log keeps the lines of all rows up to that one."""
    whole, ends = content(made), row_ends(made)
    (made / "certificate.json").unlink()
    (made / "measurements.csv").write_bytes(whole["measurements.csv"][: (ends[rows] + ends[rows + 1]) // 2])
    (made / "steps.jsonl").write_bytes(b"".join(whole["steps.jsonl"].splitlines(keepends=True)[: rows + 2]))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_row_that_the_log_has_and_the_table_lost_is_revealed_again(cli, made):
    whole = content(made)
    cut_after(made, 1)
    assert resumed(cli, made) == whole


@pytest.mark.parametrize("damage", ["no table", "another table", "two rows", "an earlier row", "a file", "the options"])
def test_a_run_that_is_refused_keeps_every_byte(cli, made, damage):
    cut_after(made, 1)
    said_is, options = "but only 1 rows are measured", []
    if damage == "no table":
        (made / "replay.csv").unlink()
    elif damage == "another table":
        (made / "replay.csv").write_bytes((made / "replay.csv").read_bytes().replace(b",4,", b",5,"))
    elif damage == "two rows":
        (made / "measurements.csv").write_bytes((made / "measurements.csv").read_bytes()[: row_ends(made)[0] + 3])
        said_is = "but only 0 rows are measured"
    elif damage == "an earlier row":
        (made / "measurements.csv").write_bytes(
            (made / "measurements.csv").read_bytes().replace(b",0,ok", b",0,oom", 1)
        )
        said_is = "the row of step 1 was edited after it was measured"
    elif damage == "a file":
        (made / "classes.csv").write_bytes((made / "classes.csv").read_bytes() + b"\n")
        said_is = "classes.csv was edited after the run was started"
    else:
        said_is, options = "was started with --policy", ["--policy", "random"]
    before = files(made)
    refused = cli("run", made, "--resume", *options, "--json")
    assert refused.code == 2
    assert said_is in refused.document["error"]["message"]
    assert refused.document["error"]["hint"]
    assert files(made) == before


@pytest.mark.parametrize("command", ["solve", "report", "validate"])
def test_other_commands_say_what_mends_a_torn_row(cli, made, command):
    cut_after(made, 1)
    before = files(made)
    said = cli(command, made)
    assert said.code == 2
    if command != "validate":
        assert f"fleetsieve run {made} --resume removes it" in said.err
    assert files(made) == before


def test_a_quote_that_is_not_closed_keeps_the_rows_after_it(cli, folder, tmp_path):
    assert cli("run", folder.path, "--replay", "--out", "plain").code == 0
    table = tmp_path / "plain" / "measurements.csv"
    header, *rows = table.read_text().splitlines()
    open_quote = ",".join([*rows[0].split(",")[:-1], '"my note'])
    table.write_text("\n".join([header, *rows, open_quote, rows[0], rows[0]]) + "\n")
    before = table.read_bytes()
    said = cli("run", "plain", "--resume")
    assert said.code == 2
    assert f"measurements.csv:{len(rows) + 2}: a quote is opened and not closed" in said.err
    assert table.read_bytes() == before
