"""Pipes, full disks, closed streams, encodings, and what --help costs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_goes_away(tmp_path, options):
    """As `fleetsieve solve ... | head -1` where head has ended before the first line."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fleetsieve", "solve", "paper-h100-31b", *options]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_under_standard_output(process, options):
    with open("/dev/full", "w") as full:
        said = process("solve", "paper-h100-31b", *options, stdout=full)
    assert said.code == 1
    assert "No space left on device" in said.err


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
