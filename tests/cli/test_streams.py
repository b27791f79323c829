"""Pipes, full disks, closed streams, encodings, and what --help costs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from cli.command_line import ROOT

COMMANDS = ["validate", "solve", "certify", "run", "simulate", "doctor"]
HEAVY = ("pandas", "pyomo", "highspy", "rich", "numpy")


def test_help_imports_nothing_heavy(process):
    script = (
        "import sys\n"
        "from fleetsieve.cli.main import call\n"
        f"for command in {COMMANDS!r}:\n"
        "    assert call([command, '--help']) == 0\n"
        "    assert call([command, '-h']) == 0\n"
        "assert call(['--help']) == 0 and call(['--version']) == 0\n"
        f"print('heavy:', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    said = process("-c", script, python=True)
    assert said.out.splitlines()[-1] == "heavy: []"
    assert all(command in said.out for command in COMMANDS)


UNREAD = 141
"""What a shell gives for a program that SIGPIPE ended; 1 would be the answer of `certify` that a certificate does not hold."""


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"], ["--exit-code"]])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_goes_away(folder, tmp_path, options, stream):
    """As `fleetsieve run ... | head -1` where head has ended before the first line."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fleetsieve", "run", str(folder.path), "--replay", "--out", "made", *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writing}
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'models'}"}
    done = subprocess.run(command, **streams, text=True, check=False, cwd=tmp_path, env=env)
    os.close(writing)
    assert done.returncode == UNREAD
    assert not done.stdout
    assert "error" not in (done.stderr or "").lower()
    assert "Traceback" not in (done.stderr or "")


EVERY = [
    ["--help"], ["--version"], ["solve", "--help"], ["validate", "{small}"], ["validate", "--list"], ["solve", "{small}"],
    ["solve", "{small}", "--formulation", "fewest-gpus"], ["explain", "{small}"], ["certify", "{small}"],
    ["run", "{small}", "--replay", "--out", "made"], ["run", "made", "--resume"], ["calibrate", "{small}", "--trials", "1"],
    ["compare", "{small}", "--policies", "grid"], ["sensitivity", "{small}", "--gpus", "7:9"],
    ["report", "{small}", "--no-sensitivity"], ["plot", "capacity", "{small}", "-o", "p.svg"],
    ["doctor"], ["solve", "{small}", "--json"], ["solve", "nowhere", "--json"],
    ["validate", "{small}", "--json"], ["certify", "{small}", "--json"], ["certify", "{small}", "--exit-code"],
]  # fmt: skip


def test_no_command_takes_a_reader_that_went_away_for_an_answer(process, folder):
    """One process calls them all, each with a new pipe that nobody reads."""
    script = (
        "import io, os, sys\n"
        "from fleetsieve.cli.main import call\n"
        "for command in eval(sys.argv[1]):\n"
        "    reading, writing = os.pipe()\n"
        "    os.close(reading); os.dup2(writing, 1); os.close(writing)\n"
        "    sys.stdout = io.TextIOWrapper(io.FileIO(1, 'w', closefd=False), encoding='utf-8')\n"
        "    print('code', call(command), file=sys.stderr)\n"
    )
    commands = [[word.format(small=folder.path) for word in command] for command in EVERY]
    said = process("-c", script, repr(commands), python=True)
    codes = [line.split()[1] for line in said.err.splitlines() if line.startswith("code ")]
    assert dict(zip(map(" ".join, EVERY), map(int, codes), strict=True)) == dict.fromkeys(map(" ".join, EVERY), UNREAD)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_under_standard_output(process, options):
    with open("/dev/full", "w") as full:
        said = process("solve", "paper-h100-31b", *options, stdout=full)
    assert said.code == 1
    assert "standard output" in said.err
    assert "No space left on device" in said.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_run_whose_output_has_no_room_says_how_it_goes_on(process):
    with open("/dev/full", "w") as full:
        said = process("run", "sim-chat-code-16gpu", "--replay", "--out", "made", stdout=full)
    assert said.code == 1
    assert "error: standard output: No space left on device" in said.err
    assert "continue with: fleetsieve run made --resume" in said.err
    assert process("certify", "made").code == 0


def test_closed_streams(process, folder):
    """Files opened later must not take the numbers of closed streams, or output would go into them."""
    said = process(
        "-c", "import os, sys; os.close(1); os.close(0); os.execv(sys.executable, [sys.executable, '-m', 'fleetsieve',"
        f" 'run', {str(folder.path)!r}, '--replay', '--out', 'made'])", python=True,
    )  # fmt: skip
    assert (said.code, said.out) == (0, "")
    assert process("certify", "made").code == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding(process, tmp_path, encoding):
    from cli.small_folder import make_folder

    made = make_folder(tmp_path / "small", "plauderei-Ö", "код")
    env = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    said = process("solve", made.path, "--json", env=env)
    assert (said.code, said.document["conservative"]["classes"][1]["class"]) == (0, "код")
    plain = process("solve", made.path, env=env)
    assert plain.code == 0
    assert "4.000 of 4.000" in plain.out


def test_an_argument_that_is_no_text(process, folder):
    said = process("solve", folder.path, "--demand", os.fsdecode(b"\xff=3"), "--json")
    assert (said.code, said.document["error"]["kind"]) == (2, "UsageError")
