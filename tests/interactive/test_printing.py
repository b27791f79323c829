"""What a notebook prints: a summary of a few lines, however large the fleet; and plans as tables, with the pool of each class."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

import fleetsieve as fs
from fleetsieve.answers.diagnosis import account
from fleetsieve.answers.sensitivity.document import study_csv
from fleetsieve.answers.sizing import size
from fleetsieve.brief import MAX_CHARACTERS
from fleetsieve.records import RequestRecords
from fleetsieve.studies.compare import Case, compare
from fleetsieve.studies.judging import Truth

NAMES = fs.bundled_names()
MANY = 40


def many() -> fs.Instance:
    """Forty classes of four cells, with names as long as a line."""
    names = [f"class {n} {'with a long name ' * 8}" for n in range(MANY)]
    classes = tuple(fs.WorkloadClass(name, 3.0, fs.Slo(1.0), floor_rps=1.0) for name in names)
    cells = tuple(fs.Cell(fs.CellKey(name, tp, "c8"), tp, offered=8.0) for name in names for tp in (1, 2, 4, 8))
    return fs.Instance("many " * 60, fs.Fleet((fs.Pool("default", 64),)), classes, cells)


def printed(value: object) -> str:
    """What is printed, which holds no more than a summary."""
    text = str(value)
    assert text == repr(value)
    assert len(text) <= MAX_CHARACTERS, f"{type(value).__name__}: {len(text)} characters"
    assert len(text.splitlines()) <= 8
    return text


@pytest.mark.parametrize("name", NAMES)
def test_results_print_a_summary(name: str) -> None:
    folder = fs.read_instance(name)
    certificate = fs.solve(folder, engine=fs.Frontier())
    envelope = certificate.envelope
    for value in (folder, folder.instance, envelope, certificate.optimistic, envelope.optimistic, *folder.measurements):
        printed(value)
    for own in envelope.classes.values():
        printed(own)
        printed(own.view)
        for key, bounds in own.bounds.items():
            assert len(str(bounds)) <= MAX_CHARACTERS
            printed(own.view.known.get(key))
    told = printed(certificate)
    assert told.startswith(f"Certificate of {name}: {certificate.verdict}\n  gap ")
    plan = printed(certificate.conservative)
    for got in certificate.conservative.classes:
        assert (str(got.configuration.name) if got.configuration else f"{got.class_name}: none") in told
        assert got.sentence in plan


@pytest.mark.parametrize("name", NAMES)
def test_the_states_of_a_loop_print_a_summary(name: str) -> None:
    steps = list(islice(fs.replay(name, policy="grid", engine=fs.Frontier()), 4))
    for step in steps:
        for value in (step, step.sieve, step.experiment, step.sieve.certificate, account(step.sieve)):
            printed(value)
    last = steps[-1].sieve
    assert f"{len(steps)} measurements" in printed(last)
    assert "Certificate of" not in printed(replace(last)), "printing solves nothing"
    printed(fs.history_of(steps))
    for cell in account(last).cells:
        printed(cell)


def test_studies_print_a_summary() -> None:
    folder = fs.read_instance("paper-h100-31b")
    instance, rows = folder.instance, folder.measurements
    study = fs.study(instance, rows, fs.GpusAxis(2, 40))
    found = fs.study_two(instance, rows, fs.GpusAxis(12, 16), fs.DemandAxis(None, 0.8, 1.2))
    (results,) = compare([Case(instance.name, instance, rows)], ["random", "grid"], orders=2, floor=False)
    for value in (study, found, study.stretches[0], study.stretches[0].decision, size(study.base), results):
        printed(value)
    printed(Truth.of(instance, rows))
    assert "12 to 15: certified-feasible" in str(fs.study(instance, rows, fs.GpusAxis(12, 16)))
    assert "grid: " in str(results)


def test_forty_classes_with_long_names_print_no_more() -> None:
    instance = many()
    rows = [fs.Measurement(c.key, throughput_rps=fs.Reading(1.0), ttft_p99_s=fs.Reading(0.5)) for c in instance.cells]
    sieve = fs.Sieve.start(instance, policy=fs.policy_named("grid"), engine=fs.Frontier()).tell(*rows)
    for value in (instance, sieve.envelope, sieve.certificate, sieve.certificate.conservative, sieve):
        assert "and " in printed(value)
    printed(account(sieve))


def test_a_name_that_a_terminal_would_obey_is_spelled_out() -> None:
    assert "\x1b" not in str(replace(many(), name="\x1b[31mred"))


def test_records_print_their_number() -> None:
    values = np.ones(5000)
    records = RequestRecords(values, values, values, values, values > 0.0, 10.0)
    assert "sent_at_s=5,000 values" in printed(records)


def test_cases_whose_summaries_are_alike_are_told_apart() -> None:
    """The digest of a comparison's case is that of every field, not of what is printed."""
    folder = fs.read_instance("paper-h100-31b")
    rows = folder.measurements
    other = replace(folder.instance, noise={"ttft_p99": 0.1})
    assert str(other) == str(folder.instance)
    long = replace(rows[0], source="x" * 2000 + "1"), *rows[1:]
    longer = replace(rows[0], source="x" * 2000 + "2"), *rows[1:]
    cases = [Case("a", *case) for case in ((folder.instance, rows), (other, rows), (other, long), (other, longer))]
    assert len({case.digest for case in cases}) == len(cases)


def test_a_plan_as_a_table_has_the_pool_of_each_class() -> None:
    cells = [fs.Cell(fs.CellKey(name, 1, "c8", pool), 1) for name in ("chat", "code") for pool in ("near", "far")]
    pools = (fs.Pool("near", 2), fs.Pool("far", 2))
    classes = (fs.WorkloadClass("chat", 2.0, fs.Slo(1.0)), fs.WorkloadClass("code", 2.0, fs.Slo(1.0)))
    instance = fs.Instance("pools", fs.Fleet(pools), classes, tuple(cells))
    rows = [
        fs.Measurement(c.key, throughput_rps=fs.Reading(1.0), ttft_p99_s=fs.Reading(0.5))
        for c in cells
        if (c.key.class_name, c.key.pool) != ("chat", "near")
    ]
    certificate = fs.certify(fs.Envelope.of(instance, rows), fs.Milp())
    table = fs.plan_table(certificate)
    assert list(table["pool"]) == ["far", "near"]
    assert list(fs.plan_table(fs.evaluate(certificate.envelope.conservative, {}))["pool"]) == [None, None]
    header, first, *_ = study_csv(fs.study(instance, rows, fs.DemandAxis(None, 1.0, 1.0))).splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert (row["pool:chat"], row["pool:code"]) == ("far", "near")
