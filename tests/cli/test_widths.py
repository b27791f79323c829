"""On 80 and on 40 columns no word and no number is broken, and no number of the wide output is missing."""

from __future__ import annotations

import fcntl
import os
import random
import re
import struct
import subprocess
import sys
import termios
from collections import Counter

import pytest
from cli.command_line import ROOT
from cli.small_folder import make_folder
from rich.text import Text

from fleetsieve.presentation.fitting import wrapped

SIM, PAPER, FOUR = "sim-chat-code-16gpu", "paper-h100-31b", "sim-four-class-64gpu"
COMMANDS = [
    ["validate", PAPER], ["validate", "--list"], ["solve", SIM], ["solve", FOUR], ["solve", PAPER, "--gpus", "6"],
    ["solve", SIM, "--bounds", "optimistic"], ["solve", FOUR, "--formulation", "fewest-gpus"],
    ["solve", PAPER, "--floor", "Chat=1000", "--demand", "Chat=1000"], ["explain", SIM], ["explain", PAPER, "--tp", "4"],
    ["explain", "cpu-vllm-tiny"], ["certify", PAPER], ["run", SIM, "--replay"],
    ["calibrate", PAPER, "--trials", "1", "--treat", "both"],
    ["compare", PAPER, "--policies", "grid,random", "--orders", "3"],
    ["sensitivity", SIM, "--slo", "chat.e2e_p99_s=10:60"], ["sensitivity", SIM, "--demand-scale", "0.8:1.2"],
    ["sensitivity", SIM, "--gpus", "14:20"], ["sensitivity", SIM, "--epsilon", "0.01:0.2"],
    ["sensitivity", PAPER, "--slo", "Chat.e2e_p99_s=10:60", "--gpus", "14:17"], ["doctor"],
]  # fmt: skip


def words(text: str) -> Counter[str]:
    """The words of an output, without the punctuation around them and the rules of tables."""
    return Counter(word for part in text.split() if (word := part.strip("─,;:?!()")))


def lost(wide: str, narrow: str) -> list[str]:
    """What the narrow output lacks: every number as often as it stands in the wide one, and every word."""
    there, kept = words(wide), words(narrow)
    return [word for word, n in there.items() if kept[word] < (n if any(c.isdigit() for c in word) else 1)]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_narrow_output_has_every_number_and_word_whole(cli, monkeypatch, command):
    monkeypatch.delenv("COLUMNS", raising=False)
    told = {}
    for columns in (None, 160, 80, 40):
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        out = ["--out", f"runs/wide{columns}"] if command[0] == "run" else []
        said = cli(*command, *out)
        assert said.code == 0
        told[columns] = said.out.replace(f"run: runs/wide{columns}", "")
    assert told[None] == told[160]
    for columns in (80, 40):
        assert lost(told[160], told[columns]) == []
        tables = [line for line in told[columns].splitlines() if line.startswith(" ")]
        assert all(len(line) <= columns for line in tables if not line.startswith("  - ") and command[0] != "explain")


def test_a_name_longer_than_the_screen_is_not_broken_there(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = cli("solve", make_folder(tmp_path / "small", "x" * 100).path).out
    assert f"class: {'x' * 100}\n" in out or f"class:\n  {'x' * 100}\n" in out
    assert "6.000 of" in out


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 80, 160])
def test_on_a_terminal(tmp_path, columns):
    """Paragraphs are wrapped between words, and tables are as wide as the terminal."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    variables = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    env = {**variables, "TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'models'}"}
    command = [sys.executable, "-m", "fleetsieve", "solve", FOUR]
    running = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=subprocess.DEVNULL, env=env, cwd=tmp_path
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert running.wait() == 0
    lines = re.sub(r"\x1b\[[\d;]*m|\r", "", shown.decode()).splitlines()
    assert max(map(len, lines)) <= columns
    env.pop("TERM")
    plain = subprocess.run(command, env=env, cwd=tmp_path, text=True, capture_output=True, check=True).stdout
    assert lost(plain, "\n".join(lines)) == []


def test_any_text_is_wrapped_between_its_words():
    draw = random.Random(0)
    for _ in range(300):
        text = "".join(
            draw.choice(["a", "bb", " ", "  ", "日本", "0.123", "x" * 30]) for _ in range(draw.randint(0, 40))
        )
        width, indent = draw.randint(5, 60), draw.randint(0, 4)
        lines = wrapped(Text(text), width, indent)
        assert " ".join(line.plain for line in lines).split() == text.split()
        assert all(line.cell_len <= width or len(line.plain.split()) == 1 for line in lines)
        assert all(line.plain.startswith(" " * indent) for line in lines[1:])
