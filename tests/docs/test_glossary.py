"""One glossary: every name and table head that a screen shows is in it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from fleetsieve.answers.diagnosis.cells import Knowledge
from fleetsieve.bounds.assumptions import DEFAULTS
from fleetsieve.certificate import Verdict
from fleetsieve.cli.main import call
from fleetsieve.instance import LoadKind, Status

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
INSTANCE = "sim-chat-code-16gpu"
PLAIN = {"gpus"}
"""Table heads that explain themselves."""


def terms() -> list[str]:
    """What is in bold, and the names that begin a row."""
    return [
        term.lower()
        for pair in re.findall(r"\*\*(.+?)\*\*|^\| `(\w+)`", GLOSSARY, flags=re.MULTILINE)
        for term in pair
        if term
    ]


def test_no_term_has_two_meanings() -> None:
    found = terms()
    assert sorted(found) == sorted(set(found))


@pytest.mark.parametrize("names", [DEFAULTS, Verdict, Knowledge, Status, LoadKind])
def test_every_name(names) -> None:
    assert [str(name) for name in names if str(name) not in terms()] == []


@pytest.mark.parametrize(
    "command",
    [
        ["solve", INSTANCE],
        ["explain", INSTANCE],
        ["sensitivity", INSTANCE, "--slo", "chat.e2e_p99_s=20:30"],
        ["compare", INSTANCE, "--policies", "grid", "--no-clairvoyant"],
    ],
    ids=lambda command: command[0],
)
def test_every_table_head(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    assert call(command) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = {
        re.sub(r",? (s|rps|p99, s|p99)$", "", head.strip()).lower()
        for above, line in pairwise(lines)
        if set(line.strip()) == {"─"}
        for head in re.split(r"  +", above.strip())
    }
    assert heads
    known = {*terms(), *PLAIN, "chat", "code"}
    assert sorted(heads - known) == []
