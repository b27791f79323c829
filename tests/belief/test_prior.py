"""A prior: read with every fault at once, corrected by what is measured, and never in a certificate."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from cli.command_line import cli

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import certificate_document
from fleetsieve.engines.frontier import Frontier
from fleetsieve.errors import InputError
from fleetsieve.files import read_instance, read_predictions
from fleetsieve.instance import CellKey, Instance, Measurement
from fleetsieve.loop.belief import ClassBelief
from fleetsieve.loop.policies import DecisionGap
from fleetsieve.loop.predictions import Prediction, Predictions
from fleetsieve.loop.sieve import Sieve
from fleetsieve.probes import Replay

__all__ = ["cli"]

GRID = "sim-chat-code-16gpu"
HEADER = "class,tp,load,throughput_rps,ttft_p99_s\n"
FOLDER = read_instance(GRID)
TABLE = {row.key: row for row in FOLDER.measurements}


def told(row: Measurement, factor: float) -> Prediction:
    """What was measured, times a factor."""
    values = (row.throughput_rps.value, row.ttft_p99_s.value, row.e2e_p99_s.value, row.tpot_p99_s.value)
    return Prediction(*(None if value is None else value * factor for value in values))


def predicted(factor: float = 1.0) -> Predictions:
    return {key: told(row, factor) for key, row in TABLE.items()}


def backwards() -> Predictions:
    """The predictions of each class dealt out in reverse."""
    keys = sorted(TABLE)
    return {key: told(TABLE[other], 1.0) for key, other in zip(keys, reversed(keys), strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("prior", [predicted(), predicted(0.1), predicted(10.0), backwards()])
def test_what_is_known_gives_the_same_certificate_with_and_without(prior: Predictions) -> None:
    probe = Replay(FOLDER.measurements)
    with_prior = Sieve.start(FOLDER.instance, policy=DecisionGap(), engine=Frontier(), looks=probe.looks, prior=prior)
    while not with_prior.finished:
        with_prior = with_prior.tell(probe.measure(with_prior.ask().key, 0))
        without = replace(with_prior, prior=None)
        assert certificate_document(with_prior.certificate, {}) == certificate_document(without.certificate, {})
    assert str(with_prior.certificate.verdict) == "certified-feasible"


def belief(rows: tuple[Measurement, ...], prior: Predictions | None) -> ClassBelief:
    return ClassBelief(Envelope.of(FOLDER.instance, rows).classes["chat"], 5.0, prior)


def off(instance: Instance, rows: tuple[Measurement, ...], prior: Predictions | None) -> float:
    """How far the belief about the e2e tail of the other cells is from what they show, in ln, in the mean."""
    believes, limit = belief(rows, prior), instance.class_by_name["chat"].slo.max_e2e_p99_s
    assert limit is not None
    seen = {row.key for row in rows}
    distances = []
    for key, row in TABLE.items():
        value = row.e2e_p99_s.value
        if key.class_name == "chat" and key not in seen and value is not None:
            mean, _ = believes.predict(instance.cell_by_key[key], "e2e")
            distances.append(abs(mean - math.log(value / limit)))
    return math.fsum(distances) / len(distances)


CHAT = tuple(row for key, row in sorted(TABLE.items()) if key.class_name == "chat")


def test_before_any_measurement_the_prediction_is_believed() -> None:
    assert off(FOLDER.instance, (), predicted()) < 1e-9 < off(FOLDER.instance, (), None)


def test_a_bias_is_learnt() -> None:
    rows = CHAT[:2]
    assert off(FOLDER.instance, rows, predicted(1.3)) < 0.5 * off(FOLDER.instance, (), predicted(1.3))
    assert off(FOLDER.instance, rows, predicted(1.3)) < off(FOLDER.instance, rows, None)


def test_a_wrong_prediction_is_dropped() -> None:
    """Nonsense that the measured cells contradict leaves the belief as it is without any prior."""
    nonsense = {
        key: Prediction(e2e_p99_s=value)
        for (key, _), value in zip(sorted(TABLE.items()), [0.01, 1e4] * len(TABLE), strict=False)
    }
    assert off(FOLDER.instance, CHAT[:4], nonsense) == off(FOLDER.instance, CHAT[:4], None)


def test_cells_without_a_prediction_are_believed_as_before() -> None:
    only = CHAT[0].key
    cell = FOLDER.instance.cell_by_key[CHAT[5].key]
    assert belief((), {only: told(CHAT[0], 1.0)}).predict(cell, "e2e") == belief((), None).predict(cell, "e2e")


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tool.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_prior_file_is_read(tmp_path: Path) -> None:
    read = read_predictions(written(tmp_path, HEADER + "chat,2,r1,0.9,0.4\ncode,4,r8,,\n"), FOLDER.instance)
    assert read.suspicions == ()
    assert read.predictions == {
        CellKey("chat", 2, "r1"): Prediction(0.9, 0.4),
        CellKey("code", 4, "r8"): Prediction(),
    }


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    rows = "chat,2,r1,0.9,-1\nchat,x,r2,0.9,\nchat,2,r1,1,\nchat,2,r2,0,\n"
    with pytest.raises(InputError) as caught:
        read_predictions(written(tmp_path, HEADER + rows), FOLDER.instance)
    faults = {(fault.line, fault.column): fault.message for fault in caught.value.faults}
    assert faults.keys() == {(2, "ttft_p99_s"), (3, "tp"), (4, "load"), (5, "throughput_rps")}
    assert "must be > 0" in faults[2, "ttft_p99_s"]
    assert "'x'" in faults[3, "tp"]
    assert "line 2" in faults[4, "load"]


def test_rows_of_other_cells_and_long_latencies_are_only_suspicious(tmp_path: Path) -> None:
    rows = "chart,2,r1,1,1\nchat,2,r99,1,1\nchat,2,r1,1,4000\n"
    read = read_predictions(written(tmp_path, HEADER + rows), FOLDER.instance)
    assert [(s.line, s.column) for s in read.suspicions] == [(2, "class"), (3, "load"), (4, "ttft_p99_s")]
    assert "did you mean 'chat'?" in read.suspicions[0].message
    assert list(read.predictions) == [CellKey("chat", 2, "r1")]


def test_a_column_in_milliseconds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="divide by 1000"):
        read_predictions(
            written(tmp_path, "class,tp,load,throughput_rps,ttft_p99_ms\nchat,2,r1,1,1\n"), FOLDER.instance
        )


MEASURED = """\
class,tp,load,seed,status,throughput_rps,success_rate,requests,ttft_p50_s,ttft_p99_s,ttft_p99_lo_s,ttft_p99_hi_s,window_s,source
chat,2,r1,0,ok,0.9,1,300,0.1,0.4,0.3,inf,270,elsewhere
chat,2,r1,1,ok,1.0,1,300,0.1,0.2,0.1,0.3,270,elsewhere
chat,2,r1,2,ok,0.7,1,300,0.1,,,,270,elsewhere
chat,2,r1,3,oom,,,,,,,,,
chat,4,r8,0,ok,0,0,300,,,,,270,
code,4,r8,0,crashed,0,,,,,,,,
"""


def test_a_table_of_measurements_is_a_prior(tmp_path: Path) -> None:
    """The median of a cell's ok rows; a failed row, and a value of 0, predict nothing."""
    read = read_predictions(written(tmp_path, MEASURED), FOLDER.instance)
    assert read.suspicions == ()
    assert {key: p for key, p in read.predictions.items() if key.tp == 2} == {
        CellKey("chat", 2, "r1"): Prediction(0.9, pytest.approx(0.3))
    }
    assert read.predictions[CellKey("chat", 4, "r8")] == Prediction()
    assert CellKey("code", 4, "r8") not in read.predictions


def test_a_prior_with_further_columns_and_no_status(tmp_path: Path) -> None:
    rows = "chat,2,r1,3,2,0.99\nchat,2,r1,1,4,0.99\n"
    read = read_predictions(
        written(tmp_path, "class,tp,load,seed,throughput_rps,success_rate\n" + rows), FOLDER.instance
    )
    assert read.predictions == {CellKey("chat", 2, "r1"): Prediction(3.0)}


def test_one_seed_twice_is_one_row_too_many(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r":3 \[load\]: cell chat TP2 r1 is on line 2 too"):
        read_predictions(written(tmp_path, MEASURED.replace("r1,1,ok", "r1,0,ok")), FOLDER.instance)


@pytest.mark.slow
def test_a_run_takes_the_measurements_of_its_own_instance_as_a_prior(cli, tmp_path) -> None:
    table = FOLDER.path / "measurements.csv"
    assert cli("run", GRID, "--replay", "--prior", table, "--out", "run").code == 0
    assert (tmp_path / "run" / "prior.csv").read_bytes() == table.read_bytes()
    assert cli("certify", "run").code == 0
    assert "measurements.csv" in " ".join(cli("run", "--help").out.split())


def prior_text(factor: float) -> str:
    rows = (f"{k.class_name},{k.tp},{k.load},{p.throughput_rps},{p.ttft_p99_s}\n" for k, p in predicted(factor).items())
    return HEADER + "".join(rows)


@pytest.mark.slow
def test_a_run_keeps_its_prior(cli, tmp_path) -> None:
    path = written(tmp_path, prior_text(1.2))
    assert cli("run", GRID, "--replay", "--prior", path, "--out", "run").code == 0
    made = tmp_path / "run"
    assert (made / "prior.csv").read_bytes() == path.read_bytes()
    before = {file.name: file.read_bytes() for file in made.iterdir()}
    log = (made / "steps.jsonl").read_text().splitlines(keepends=True)
    (made / "steps.jsonl").write_text("".join(log[:3]))
    rows = (made / "measurements.csv").read_text().splitlines(keepends=True)
    (made / "measurements.csv").write_text("".join(rows[:3]))
    assert cli("run", "run", "--resume", "--prior", path).code == 0
    assert {file.name: file.read_bytes() for file in made.iterdir()} == before

    other = cli("run", "run", "--resume", "--prior", written(tmp_path, prior_text(2.0)))
    assert other.code == 2
    assert "started with another prior" in other.err
    (made / "prior.csv").write_text(prior_text(3.0))
    edited = cli("run", "run", "--resume")
    assert edited.code == 2
    assert "prior.csv was edited" in edited.err
    (made / "prior.csv").unlink()
    assert "prior.csv" in cli("run", "run", "--resume").err


def test_a_faulty_prior_starts_no_run(cli, tmp_path) -> None:
    said = cli("run", GRID, "--replay", "--prior", written(tmp_path, HEADER + "chat,2,r1,fast,\n"), "--out", "run")
    assert said.code == 2
    assert "tool.csv:2" in said.err
    assert "'fast'" in said.err
    assert not (tmp_path / "run").exists()
