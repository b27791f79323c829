"""Whatever a class is called, it is shown as it is, and the table keeps its shape."""

from __future__ import annotations

import re

import pytest
from cli.small_folder import make_folder

NAMES = [
    "<script>",
    "[red]x[/red]",
    "[/]",
    "a=b",
    "a,b",
    'say "hi"',
    "-1",
    "=1+1",
    ":smile:",
    "日本語",
    "x" * 100,
    "$(id)",
    "{0}",
    "%s",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_literally(cli, tmp_path, name):
    made = make_folder(tmp_path / "small", name)
    said = cli("solve", made.path)
    assert said.code == 0
    assert name in said.out.replace("\n", "") if len(name) < 100 else "xxxx" in said.out
    assert "\x1b" not in said.out
    assert "6.000 of 8.000" in said.out
    assert "0.7500" in said.out
    assert f"fulfilment: {name} 0.7500" in said.out
    table = said.out[: said.out.index("certified-feasible:")].splitlines()
    ends = {figures.end() for line in table if (figures := re.search(r"\d of \d+\.\d{3}", line))}
    assert len(ends) == 1 or not name.isascii(), "the figures of a column end under one another"
    document = cli("solve", made.path, "--json", "--demand", f"{name}=6").document
    assert (document["conservative"]["classes"][0]["class"], document["conservative"]["min_fulfilment"]) == (name, 1.0)


@pytest.mark.parametrize("name", ["[red]x[/red]", "a=b", "日本語", "a\nb"])
def test_names_in_a_run(cli, tmp_path, name):
    made = make_folder(tmp_path / "small", name)
    validated = cli("validate", made.path)
    if validated.code == 2:
        assert "Traceback" not in validated.err
        return
    said = cli("run", made.path, "--replay", "--out", "made")
    assert said.code == 0
    assert f"{name} TP2 c8".replace("\n", "\\n") in said.err
    assert cli("certify", "made").code == 0


def test_escape_sequences_never_reach_a_terminal(cli, tmp_path):
    made = make_folder(tmp_path / "small", "red\x1b[31m")
    said = cli("solve", made.path)
    assert "\x1b" not in said.out + said.err
