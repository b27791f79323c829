"""Folders whose names are not UTF-8: every command that prints or embeds the name goes on."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fleetsieve.cli.main import call
from fleetsieve.files import read_instance

COMMANDS = {
    "solve": ["solve", "{}", "--certificate", "{}/new.json"],
    "certify": ["certify", "{}"],
    "explain": ["explain", "{}"],
    "validate": ["validate", "{}"],
    "report": ["report", "{}", "-o", "{}/page.html", "--no-sensitivity"],
    "plot": ["plot", "served", "{}", "-o", "{}/served.svg"],
    "plot html": ["plot", "served", "{}", "-o", "{}/served.html"],
    "run": ["run", "{}", "--replay", "--policy", "grid", "--out", "{}/run"],
    "sensitivity": ["sensitivity", "{}", "--epsilon", "0.01:0.1", "--csv", "{}/table.csv"],
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    name = os.fsdecode(bytes(tmp_path) + b"/caf\xe9's")
    try:
        shutil.copytree(read_instance("paper-h100-31b").path, name)
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    return name


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_is_not_utf_8_stops_no_command(
    folder: str, command: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call([word.replace("{}", folder) for word in COMMANDS[command]] + more) == 0
    out = capsys.readouterr().out
    if more:
        json.loads(out)


@pytest.mark.slow
def test_the_commands_of_a_page_find_the_folder_again(folder: str) -> None:
    assert call(["report", folder, "-o", f"{folder}/page.html", "--no-sensitivity"]) == 0
    page = Path(folder, "page.html").read_text(encoding="utf-8")
    word = page.split("fleetsieve solve ")[1].split("</", 1)[0].split("\n")[0].replace("&#39;", "'")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash to read the word")
    shown = subprocess.run([bash, "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert shown == os.fsencode(folder)
    assert word != shlex.quote(folder)
