"""Rows that somebody adds to a run, by hand or by `measure RUN`: the run takes them at its end, or says what to do with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli.small_folder import CELLS, ROWS


@pytest.fixture
def made(cli, folder, tmp_path) -> Path:
    """A finished replay of the small folder; chat has a second row and code a TP that nothing asks for."""
    (folder.path / "measurements.csv").write_text(
        f"{ROWS}chat,2,c8,0,ok,2,1\nchat,2,c8,1,ok,2.1,1\ncode,2,c8,0,ok,4,2\ncode,4,c8,0,ok,7,6\n"
    )
    (folder.path / "cells.csv").write_text(
        f"{CELLS}chat,2,c8,concurrency,8,2\nchat,4,c8,concurrency,8,4\ncode,2,c8,concurrency,8,2\ncode,4,c8,concurrency,8,4\n"
    )
    assert cli("run", folder.path, "--replay", "--out", "made").code == 0
    return tmp_path / "made"


def add(run: Path, *cells: str, place: int | None = None) -> None:
    """Add rows `class,tp,load,seed,throughput` under the header of the table."""
    header, *rows = (run / "measurements.csv").read_text().splitlines()
    columns, new = header.split(","), []
    for cell in cells:
        name, tp, load, seed, rps = cell.split(",")
        told = {
            "class": name,
            "tp": tp,
            "load": load,
            "seed": seed,
            "status": "ok",
            "throughput_rps": rps,
            "ttft_p99_s": "1",
        }
        new.append(",".join(told.get(column, "") for column in columns))
    place = len(rows) if place is None else place
    (run / "measurements.csv").write_text("\n".join([header, *rows[:place], *new, *rows[place:]]) + "\n")


def lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()][1:]


@pytest.mark.slow
@pytest.mark.parametrize(
    "added",
    [
        ["chat,2,c8,7,2.2"],
        ["chat,2,c8,1,2.1"],
        ["chat,4,c8,0,3"],
        ["code,4,c8,3,7", "chat,2,c8,5,2", "chat,4,c8,0,9"],
    ],
    ids=["a-repeat", "one-of-the-table", "a-cell-without-a-hidden-row", "several"],
)
def test_rows_at_the_end_are_taken(cli, made, tmp_path, added) -> None:
    before = lines(made)
    add(made, *added)
    said = cli("run", made, "--resume", "--json")
    assert said.code == 0, said.err
    after = lines(made)
    assert after[: len(before)] == before
    new = after[len(before) : len(before) + len(added)]
    assert [(line["asked"]["class"], line["asked"]["tp"], line["seed"], line["reason"]) for line in new] == [
        (cell.split(",")[0], int(cell.split(",")[1]), int(cell.split(",")[3]), "added by hand") for cell in added
    ]
    assert said.document["steps"] == len(after) == len((made / "measurements.csv").read_text().splitlines()) - 1
    assert cli("certify", made).code == 0
    for command in ("explain", "validate", "report"):
        assert cli(command, made).code == 0
    whole = {path.name: path.read_bytes() for path in made.iterdir()}
    assert cli("run", made, "--resume").code == 0
    assert {path.name: path.read_bytes() for path in made.iterdir()} == whole


def test_a_run_that_goes_on_reveals_no_row_that_was_added(cli, made, tmp_path) -> None:
    """A run that was killed after its first step gets a row of the table by hand, and ends with each row once."""
    begun = tmp_path / "begun"
    shutil.copytree(made, begun)
    (begun / "certificate.json").unlink()
    for name, kept in (("steps.jsonl", 2), ("measurements.csv", 2)):
        text = (begun / name).read_text().splitlines(keepends=True)
        (begun / name).write_text("".join(text[:kept]))
    add(begun, "code,4,c8,0,7", "chat,2,c8,1,2.1")
    said = cli("run", begun, "--resume", "--json")
    assert said.code == 0, said.err
    taken = [(line["asked"]["class"], line["asked"]["tp"], line["seed"]) for line in lines(begun)]
    assert len(set(taken)) == len(taken)
    assert {("code", 4, 0), ("chat", 2, 1)} <= set(taken)
    assert cli("certify", begun).code == 0


def test_a_row_that_is_not_at_the_end_says_where_it_belongs(cli, made) -> None:
    add(made, "chat,2,c8,7,2.2", place=1)
    whole = {path.name: path.read_bytes() for path in made.iterdir()}
    said = cli("run", made, "--resume", "--json")
    assert said.code == 2
    error = said.document["error"]
    assert (
        "made/measurements.csv:3: the row of chat TP2 c8, seed 7, was added between rows of the run" in error["message"]
    )
    assert "move it to the end of the file" in error["hint"]
    assert {path.name: path.read_bytes() for path in made.iterdir()} == whole
    text = (made / "measurements.csv").read_text().splitlines(keepends=True)
    (made / "measurements.csv").write_text("".join([*text[:2], *text[3:], text[2]]))
    assert cli("run", made, "--resume").code == 0
    assert lines(made)[-1]["reason"] == "added by hand"


def test_a_row_of_no_cell_says_what_to_do(cli, made) -> None:
    add(made, "chat,2,c9,0,2")
    said = cli("run", made, "--resume", "--json")
    assert said.code == 2
    assert "c9" in said.document["error"]["message"]
    assert f"correct or remove rows that were added to {made}/measurements.csv" in said.document["error"]["hint"]


def test_a_row_without_an_end_of_line_is_told(cli, made) -> None:
    """It looks like one that a kill tore, and is cut off as such; whoever added it learns of it."""
    add(made, "chat,2,c8,7,2.2")
    whole = (made / "measurements.csv").read_text()
    (made / "measurements.csv").write_text(whole.rstrip("\n"))
    said = cli("run", made, "--resume")
    assert said.code == 0
    assert "if you added it by hand, add it again with a line end: chat,2,c8" in " ".join(said.err.split())
    (made / "measurements.csv").write_text(whole)
    assert cli("run", made, "--resume").code == 0
    assert lines(made)[-1]["reason"] == "added by hand"
