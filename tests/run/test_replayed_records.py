"""A replay of a table whose looks have per-request records: they are revealed with their rows, and decide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli.small_folder import make_folder

from fleetsieve.files import RequestRow, read_instance, write_records


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The small folder with the requests of every look: throughput as the rows say, 8 in flight, TTFT below what they say."""
    folder = make_folder(tmp_path / "recorded").path
    path = folder / "measurements.csv"
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([f"{header},window_s", *(f"{line},600" for line in lines)]) + "\n", encoding="utf-8")
    for number, row in enumerate(read_instance(folder).measurements):
        generator = np.random.default_rng(number)
        rate_rps = float(row.throughput_rps.value or 0.0)
        sent = np.arange(0.0, 599.0, 1.0 / rate_rps)
        first = float(row.ttft_p99_s.value or 0.0) * generator.uniform(0.5, 0.9, len(sent))
        requests = [
            RequestRow(float(s), ttft_s=float(f), e2e_s=max(8.0 / rate_rps, float(f)))
            for s, f in zip(sent, first, strict=True)
        ]
        write_records(folder, row.key, row.seed, requests)
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_requests_are_revealed_with_their_rows(cli, recorded, tmp_path):
    document = cli("run", recorded, "--replay", "--out", "made", "--json").document
    made = tmp_path / "made"
    assert names(made / "replay-records") == names(recorded / "records")
    rows = read_instance(made).measurements
    assert len(rows) == document["steps"] < 3
    assert all(row.records is not None for row in rows)
    assert len(names(made / "records")) == len(rows)
    stored = json.loads((made / "certificate.json").read_text())
    assert "records" in stored["files"]
    assert cli("solve", made, "--json").document == stored
    assert cli("certify", made).code == 0


@pytest.mark.slow
def test_a_run_with_records_is_replayed_and_resumed_to_the_same_bytes(cli, recorded, tmp_path):
    cli("run", recorded, "--replay", "--out", "made")
    made, again = tmp_path / "made", tmp_path / "again"
    assert cli("run", "made", "--replay", "--out", "again").code == 0
    for name in ("measurements.csv", "steps.jsonl", "certificate.json"):
        assert (again / name).read_bytes() == (made / name).read_bytes()
    torn = (made / "measurements.csv").read_text().splitlines(keepends=True)
    (made / "measurements.csv").write_text("".join(torn[:-1]))
    steps = (made / "steps.jsonl").read_text().splitlines(keepends=True)
    (made / "steps.jsonl").write_text("".join(steps[:-1]))
    assert cli("run", "made", "--resume").code == 0
    for name in ("measurements.csv", "steps.jsonl", "certificate.json"):
        assert (again / name).read_bytes() == (made / name).read_bytes()


def test_hidden_requests_that_were_edited_are_told(cli, recorded, tmp_path):
    cli("run", recorded, "--replay", "--out", "made")
    hidden = sorted((tmp_path / "made" / "replay-records").iterdir())
    hidden[0].write_bytes(hidden[1].read_bytes())
    refused = cli("run", "made", "--resume")
    assert refused.code == 2
    assert "replay-records was edited after the run was started" in refused.err
