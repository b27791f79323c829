"""Values that can be, but look as if another unit was meant; and silence on real measurements."""

# ruff: noqa: E501  (a table is read along its rows)

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from sample_folder import CLASSES, Sample, place

from fleetsieve.files import bundled_names, read_instance

HEADER = "class,tp,load,seed,status,throughput_rps,ttft_p50_s,ttft_p99_s,e2e_p50_s,e2e_p99_s,tpot_p99_s,success_rate\n"
ROWS = [
    ("chat,2,c8,0,ok,1,,700,,7000,,1", "ttft_p99_s", "700 s is more than 600 s; in milliseconds? Then write 0.7"),
    ("chat,2,c8,0,ok,1,,,,9000,,1", "e2e_p99_s", "9000 s is more than 7,200 s; in milliseconds? Then write 9"),
    ("chat,2,c8,0,ok,1,,,,,20,1", "tpot_p99_s", "20 s is more than 5 s; in milliseconds? Then write 0.02"),
    ("chat,2,c8,0,ok,1,3,2,,,,1", "ttft_p50_s", "3 is above ttft_p99_s 2: a median is never above the 99th percentile; check the units of both"),
    ("chat,2,c8,0,ok,1,,,9,8,,1", "e2e_p50_s", "9 is above e2e_p99_s 8: a median is never above the 99th percentile; check the units of both"),
    ("chat,2,c8,0,ok,1,,90,,8,,1", "ttft_p99_s", "90 is above e2e_p99_s 8: the first token never comes after the whole answer; check the units of both"),
    ("chat,2,c8,0,ok,1,,,,0.5,0.6,1", "tpot_p99_s", "0.6 is above e2e_p99_s 0.5: one token never takes longer than the whole answer; check the units of both"),
    ("code,4,r2,0,ok,2.3,,,,,,1", "throughput_rps", "2.3 is above the 2 requests/s offered to one replica; is this the throughput of several replicas, or is `offered` wrong?"),
    ("chat,2,c8,0,ok,1,,500,,,,1", "ttft_p99_s", "the median of 'chat' is 250 times its limit of 2 s; in milliseconds?"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "column", "message"), ROWS)
def test_a_suspicious_row(sample: Sample, row: str, column: str, message: str) -> None:
    sample.write("measurements.csv", HEADER + row + "\n")
    assert sample.read().suspicions
    assert place(sample.read().suspicions[0]) == ("measurements.csv", 2, column, message)


@pytest.mark.parametrize(
    "row",
    [
        "chat,2,c8,0,ok,1,,380,,400,,1",  # far beyond the limit, as an overloaded server is
        "chat,2,c8,0,ok,8,0.2,0.2,1,1,,1",  # all requests alike
        "chat,2,c8,0,ok,1,,8.04,,8,,1",  # rounding
        "code,4,r2,0,ok,2.15,,1,,,,1",  # random arrivals over a finite time
        "chat,2,c8,0,ok,90,,1,,9,,1",  # a concurrency bounds no rate
        "code,4,r2,0,ok,2,0,0,0,0,0,1",
    ],
)
def test_no_suspicion(sample: Sample, row: str) -> None:
    sample.write("measurements.csv", HEADER + row + "\n")
    assert sample.read().suspicions == ()


def test_a_whole_file_in_milliseconds_is_a_few_lines(sample: Sample) -> None:
    rows = [f"chat,2,c8,{seed},ok,1,200,900,6000,9000,20,1" for seed in range(100)]
    sample.write("measurements.csv", HEADER + "\n".join(rows))
    suspicions = sample.read().suspicions
    assert len(suspicions) <= 30
    assert {f.column for f in suspicions} == {"ttft_p99_s", "e2e_p99_s", "tpot_p99_s", "status"}
    assert "... and 95 more of this kind (milliseconds)" in [f.message for f in suspicions]


def test_a_floor_without_demand(sample: Sample) -> None:
    sample.write("classes.csv", CLASSES.replace("12,1,6,2,30", "0,1,6,2,30"))
    assert sample.suspicion() == ("classes.csv", 2, "floor_rps", "floor 6 has no effect: the demand of 'chat' is 0")


def test_fractions_are_told_as_written(sample: Sample) -> None:
    sample.write("classes.csv", CLASSES.replace("12,1,6,2,30", "3.12,1,3.21,2,30"))
    assert sample.suspicion()[3] == "floor 3.21 is above the demand 3.12 of 'chat'; it counts as the demand"


LACKING = [
    ("chat,2,c8,0,ok,,,0.9,,9,,1", "throughput_rps", "1 row with status ok lacks throughput_rps (line 2); alone, it supports no plan"),
    ("chat,2,c8,0,ok,1,,,,9,,1", "ttft_p99_s", "1 row with status ok lacks ttft_p99_s, which the SLO of its class needs (line 2); alone, it supports no plan"),
    ("chat,2,c8,0,ok,1,,0.9,,,,1", "e2e_p99_s", "1 row with status ok lacks e2e_p99_s"),
    ("chat,2,c8,0,ok,1,,0.9,,9,,", "success_rate", "1 row with status ok lacks success_rate"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "column", "message"), LACKING)
def test_a_row_that_supports_no_plan(sample: Sample, row: str, column: str, message: str) -> None:
    sample.write("measurements.csv", HEADER + row + "\n")
    file, line, at, said = sample.suspicion()
    assert (file, line, at) == ("measurements.csv", 2, column)
    assert said.startswith(message)


def test_what_many_rows_lack_is_one_suspicion(sample: Sample) -> None:
    rows = [f"chat,2,c8,{seed},ok,1,,,,9,,1" for seed in range(1200)]
    sample.write("measurements.csv", HEADER + "\n".join(rows))
    assert sample.suspicion()[3] == (
        "1,200 rows with status ok lack ttft_p99_s, which the SLO of their class needs "
        "(lines 2, 3, 4, 5, 6 and 1,195 more); alone, they support no plan"
    )


BOUNDED = "class,tp,load,seed,status,throughput_rps,throughput_lo_rps,throughput_hi_rps,ttft_p99_s,ttft_p99_lo_s,ttft_p99_hi_s,e2e_p99_s,success_rate,success_rate_hi\n"


@pytest.mark.parametrize(
    "row",
    [
        "chat,2,c8,0,ok,,1,,,,1.5,9,1,",  # bounds say enough
        "chat,2,c8,0,ok,,,4,,,,9,,",  # only what could be at most
        "chat,2,c8,0,ok,1,,,3,,,,,",  # misses its SLO by a value
        "chat,2,c8,0,ok,,,,,3,,,,",  # by a lower bound
        "chat,2,c8,0,ok,1,,,,,,,0.5,",
        "chat,2,c8,0,ok,1,,,,,,,,0.5",
        "chat,2,c8,0,oom,,,,,,,,,",
    ],
)
def test_rows_that_lack_nothing(sample: Sample, row: str) -> None:
    sample.write("measurements.csv", BOUNDED + row + "\n")
    assert sample.read().suspicions == ()


def test_suspicious_classes(sample: Sample) -> None:
    sample.write("classes.csv", CLASSES.replace("12,1,6,2,30", "12,1,15,2,30000"))
    told = [place(f) for f in sample.read().suspicions]
    assert told == [
        ("classes.csv", 2, "floor_rps", "floor 15 is above the demand 12 of 'chat'; it counts as the demand"),
        (
            "classes.csv",
            2,
            "max_e2e_p99_s",
            "a limit of 30000 s is above 3,600 s, and limits nothing; was 30000 ms meant? Then write 30000ms",
        ),
    ]


def test_a_class_without_cells(sample: Sample) -> None:
    sample.write("classes.csv", CLASSES + "batch,1,1,1,1,,,,,\n")
    assert sample.suspicion() == ("cells.csv", 0, "class", "class 'batch' has no cell, so no plan can serve it")


def test_no_demand_is_fine(sample: Sample) -> None:
    sample.replace("classes.csv", "128,16,2", "128,0,2")
    assert sample.read().suspicions == ()


def test_public_measurements_have_no_fault_and_no_suspicion(public_instances: Mapping[str, Path]) -> None:
    assert len(public_instances) == 5
    for name, path in public_instances.items():
        folder = read_instance(path)
        assert folder.suspicions == (), name
        assert len(folder.measurements) == len(folder.instance.cells)


def test_bundled_instances_have_no_fault_and_no_suspicion() -> None:
    for name in bundled_names():
        assert read_instance(name).suspicions == (), name
