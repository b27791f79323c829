"""Where results are written: never over what an instance is read from, through links, and into pipes and devices."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RESULTS = [
    ("solve", "--certificate"),
    ("sensitivity", "--demand-scale", "1:1.1", "--csv"),
    ("compare", "--policies", "random", "--orders", "1", "--csv"),
    ("report", "--no-sensitivity", "-o"),
]
NAMES = ["instance.toml", "classes.csv", "cells.csv", "measurements.csv"]


@pytest.mark.parametrize("words", RESULTS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_an_instance_are_kept(cli, folder, words, name):
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    said = cli(words[0], folder.path, *words[1:], folder.path / name)
    assert said.code == 2
    assert f"{folder.path / name} is a file of the instance in {folder.path}" in said.err
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("", 2, "the name of the file is empty"),
        (".", 2, "'.' is a folder; name a file"),
        ("no/x.svg", 1, "there is no folder"),
    ],
)
@pytest.mark.parametrize("words", [*RESULTS, ("sensitivity", "--gpus", "7:8", "--plot"), ("compare", "--plot")])
def test_a_result_that_cannot_be_written_is_told_before_the_work(cli, folder, monkeypatch, words, name, code, told):
    monkeypatch.setattr("fleetsieve.files.read_instance", lambda *_: pytest.fail("the work has begun"))
    said = cli(words[0], folder.path, *words[1:], name)
    assert (said.code, told in said.err) == (code, True), said.err


def test_a_link_stays_a_link(cli, folder, tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    assert cli("solve", folder.path, "--certificate", link).code == 0
    assert link.is_symlink()
    assert '"verdict"' in target.read_text()
    link.unlink()
    link.symlink_to(folder.path / "cells.csv")
    assert cli("solve", folder.path, "--certificate", link).code == 2


@pytest.mark.slow
def test_a_pipe_is_written_through(folder, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = [sys.executable, "-m", "fleetsieve", "solve", str(folder.path), "--certificate", str(pipe)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert '"verdict"' in pipe.read_text()
        assert process.wait() == 0
    assert pipe.is_fifo()
