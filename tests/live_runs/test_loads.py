"""What is sent to a server before it is measured, and a load that was not the cell's."""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

from live_runs.instances import FAST_ENGINE, rows


def earliest_s(run: Path, row: dict[str, str]) -> float:
    """When the first request of a look was sent, from the start of its window."""
    with gzip.open(
        run / "records" / f"{row['class']}-tp{row['tp']}-{row['load']}-seed{row['seed']}.csv.gz", "rt"
    ) as file:
        return min(float(record["sent_at_s"]) for record in csv.DictReader(file))


def test_the_first_look_at_a_server_is_warmed_up_longer(cli, live) -> None:
    cells = ("chat,1,r40,rate,40,1", "chat,1,r50,rate,50,1")
    one = live(cells=cells, fresh_warmup_s=1.0)
    said = cli("measure", one.path, "--config", one.config, "--grid")
    assert said.code == 0, said.err
    first, then = (earliest_s(one.path, row) for row in rows(one.path))
    assert -1.2 <= first < -0.8
    assert -0.2 <= then < 0.0


def test_a_closed_loop_that_was_not_held_does_not_count(cli, live, tmp_path) -> None:
    idle = live(
        generator=[sys.executable, "-S", str(FAST_ENGINE), "--idle-places", "2"],
        classes=("chat,20,4,10,1,,,,,0.5",),
        cells=("chat,1,c4,concurrency,4,1",),
        measure="max_looks = 1",
    )
    run = tmp_path / "run"
    said = cli(*idle.arguments(run))
    assert said.code == 4
    (row,) = rows(run)
    assert row["status"] == "rejected"
    assert "not valid: the load was not held: at most " in row["source"]
    assert "requests were in flight, of 4; warning" in row["source"]
