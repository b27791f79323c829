"""Values that can be, but look as if another unit was meant; and silence on real measurements."""

# ruff: noqa: E501  (a table is read along its rows)

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from sample_folder import CLASSES, Sample, place

from fleetsieve.files import bundled_names, read_instance

HEADER = "class,tp,load,seed,status,throughput_rps,ttft_p50_s,ttft_p99_s,e2e_p50_s,e2e_p99_s,tpot_p99_s\n"
ROWS = [
    ("chat,2,c8,0,ok,1,,700,,7000,", "ttft_p99_s", "700 s is more than 600 s; in milliseconds? Then write 0.7"),
    ("chat,2,c8,0,ok,1,,,,9000,", "e2e_p99_s", "9000 s is more than 7,200 s; in milliseconds? Then write 9"),
    ("chat,2,c8,0,ok,1,,,,,20", "tpot_p99_s", "20 s is more than 5 s; in milliseconds? Then write 0.02"),
    ("chat,2,c8,0,ok,1,3,2,,,", "ttft_p50_s", "3 is above ttft_p99_s 2: a median is never above the 99th percentile; check the units of both"),
    ("chat,2,c8,0,ok,1,,,9,8,", "e2e_p50_s", "9 is above e2e_p99_s 8: a median is never above the 99th percentile; check the units of both"),
    ("chat,2,c8,0,ok,1,,90,,8,", "ttft_p99_s", "90 is above e2e_p99_s 8: the first token never comes after the whole answer; check the units of both"),
    ("chat,2,c8,0,ok,1,,,,0.5,0.6", "tpot_p99_s", "0.6 is above e2e_p99_s 0.5: one token never takes longer than the whole answer; check the units of both"),
    ("code,4,r2,0,ok,2.3,,,,,", "throughput_rps", "2.3 is above the 2 requests/s offered to one replica; is this the throughput of several, or is `offered` wrong?"),
    ("chat,2,c8,0,ok,1,,500,,,", "ttft_p99_s", "the median of 'chat' is 250 times its limit of 2 s; in milliseconds?"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "column", "message"), ROWS)
def test_a_suspicious_row(sample: Sample, row: str, column: str, message: str) -> None:
    sample.write("measurements.csv", HEADER + row + "\n")
    assert sample.read().suspicions
    assert place(sample.read().suspicions[0]) == ("measurements.csv", 2, column, message)


@pytest.mark.parametrize(
    "row",
    [
        "chat,2,c8,0,ok,1,,380,,400,",  # far beyond the limit, as an overloaded server is
        "chat,2,c8,0,ok,1,0.2,0.2,1,1,",  # all requests alike
        "chat,2,c8,0,ok,1,,8.04,,8,",  # rounding
        "code,4,r2,0,ok,2.15,,,,,",  # random arrivals over a finite time
        "chat,2,c8,0,ok,90,,,,,",  # a concurrency bounds no rate
        "chat,2,c8,0,ok,0,0,0,0,0,0",
    ],
)
def test_no_suspicion(sample: Sample, row: str) -> None:
    sample.write("measurements.csv", HEADER + row + "\n")
    assert sample.read().suspicions == ()


def test_a_whole_file_in_milliseconds_is_a_few_lines(sample: Sample) -> None:
    rows = [f"chat,2,c8,{seed},ok,1,200,900,6000,9000,20" for seed in range(100)]
    sample.write("measurements.csv", HEADER + "\n".join(rows))
    suspicions = sample.read().suspicions
    assert len(suspicions) <= 25
    assert {f.column for f in suspicions} == {"ttft_p99_s", "e2e_p99_s", "tpot_p99_s"}
    assert "... and 95 more of this kind (milliseconds)" in [f.message for f in suspicions]


def test_suspicious_classes(sample: Sample) -> None:
    sample.write("classes.csv", CLASSES.replace("12,1,6,2,30", "12,1,15,2,30000"))
    told = [place(f) for f in sample.read().suspicions]
    assert told == [
        ("classes.csv", 2, "floor_rps", "floor 15 is above the demand 12 of 'chat'; it counts as the demand"),
        ("classes.csv", 2, "max_e2e_p99_s", "30000 s is more than 7,200 s; in milliseconds? Then write 30"),
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
