"""One wrong field at a time: its file, line and column, the value, and what would be right."""

# ruff: noqa: E501  (a table is read along its rows)

from __future__ import annotations

import pytest
from sample_folder import Sample

FIELDS = [
    ("classes.csv", "code,2048", ",2048", 3, "class", "class is empty; write the name of the class"),
    ("classes.csv", "256,12,1", "256,,1", 2, "demand_rps", "demand_rps is empty; write a number >= 0, in requests/s"),
    ("classes.csv", "256,12,1", "256,-12,1", 2, "demand_rps", "-12 is negative; demand_rps must be >= 0"),
    ("classes.csv", "256,12,1", "256,twelve,1", 2, "demand_rps", "'twelve' is not a number; write a number >= 0, in requests/s"),
    ("classes.csv", "256,12,1", "256,nan,1", 2, "demand_rps", "'nan' is not a finite number"),
    ("classes.csv", "256,12,1", "256,inf,1", 2, "demand_rps", "'inf' is not a finite number"),
    ("classes.csv", "256,12,1", "256,1e999,1", 2, "demand_rps", "the number is too large for a double"),
    ("classes.csv", "256,12,1", "256,1_2,1", 2, "demand_rps", "'1_2' is not a number"),
    ("classes.csv", "256,12,1", "256,１２,1", 2, "demand_rps", "'１２' is not a number"),
    ("classes.csv", "256,12,1", '256,"12,5",1', 2, "demand_rps", "'12,5' has a decimal comma; write 12.5"),
    ("classes.csv", "256,12,1", '256,"1,700",1', 2, "demand_rps", "'1,700' has a comma; write 1700 if it stands between thousands, 1.7 if before decimals"),
    ("classes.csv", "256,12,1", '256,"1,700,000",1', 2, "demand_rps", "'1,700,000' has a comma between thousands; write 1700000"),
    ("classes.csv", "256,12,1", '256,"1,700.5",1', 2, "demand_rps", "'1,700.5' has a comma between thousands; write 1700.5"),
    ("classes.csv", "256,12,1", '256,"0,700",1', 2, "demand_rps", "'0,700' has a decimal comma; write 0.700"),
    ("measurements.csv", "0.995,400", '0.995,"1,400"', 2, "requests", "'1,400' has a comma between thousands; write 1400"),
    ("measurements.csv", "0.995,400", '0.995,"1,40"', 2, "requests", "'1,40' is not a number; write a whole number >= 0"),
    ("classes.csv", "256,12,1", "256,12 rps,1", 2, "demand_rps", "'12 rps' is not a number: leave out the unit 'rps'"),
    ("classes.csv", "128,16,2", "128,16,0", 3, "priority", "0 is out of range; priority must be >= 0.001"),
    ("classes.csv", "128,16,2", "128,16,-2", 3, "priority", "-2 is negative; priority must be >= 0.001"),
    ("classes.csv", "0.99", "99.5", 2, "min_success", "min_success is a fraction; 99.5 looks like percent, write 0.995"),
    ("classes.csv", "0.99", "250", 2, "min_success", "250 is out of range; min_success must be >= 0 and <= 1"),
    ("classes.csv", "6,2,30", "6,0,30", 2, "max_ttft_p99_s", "0 is out of range; max_ttft_p99_s must be > 0"),
    ("cells.csv", "chat,2,c8,concurrency,8,2", "chat,two,c8,concurrency,8,2", 2, "tp", "'two' is not a number"),
    ("cells.csv", "chat,2,c8,concurrency,8,2", "chat,2.5,c8,concurrency,8,5", 2, "tp", "2.5 is not a whole number; write a whole number >= 1"),
    ("cells.csv", "chat,2,c8,concurrency,8,2", "chat,0,c8,concurrency,8,2", 2, "tp", "0 is out of range; tp must be >= 1"),
    ("cells.csv", "chat,2,c8,concurrency,8,2", "chat,16,c8,concurrency,8,16", 2, "tp", "tp 16 needs more GPUs than a node has (8); a replica runs on one node"),
    ("cells.csv", "chat,2,c8,concurrency,8,2", "chat,2,c8,concurrency,8,3", 2, "gpus", "3 is not a multiple of tp 2; gpus per replica = tp x pp"),
    ("cells.csv", "chat,2,c8,concurrency,8,2", "chat,2,c8,concurrency,8,10", 2, "gpus", "10 is more GPUs than a node has (8)"),
    ("cells.csv", "chat,2,c8,concurrency,8,2", "chat,2,c8,concurrency,8,", 2, "gpus", "gpus is empty; write a whole number >= 1, in GPUs per replica (tp x pp)"),
    ("cells.csv", "chat,2,c8,concurrency,8", "chat,2,c8,concurrency,-8", 2, "offered", "-8 is negative; offered must be > 0"),
    ("cells.csv", "chat,2,c8,concurrency,8,2,600", "chat,2,c8,concurrency,8,2,0", 2, "cost_gpu_s", "0 is out of range; cost_gpu_s must be > 0"),
    ("cells.csv", "chat,2,c8,concurrency", "chat,2,c8,concurency", 2, "load_kind", "'concurency' is not a load_kind; did you mean 'concurrency'? write one of rate, concurrency"),
    ("cells.csv", "chat,2,c8,concurrency", "chat,2,c8,rate", 3, "load_kind", "'concurrency', but line 2 has 'rate'; an arm (chat TP2) has one kind"),
    ("cells.csv", "concurrency,16,2", "concurrency,8,2", 3, "offered", "8 does not exceed 8 of line 2; in an arm (chat TP2) the offered load increases"),
    ("cells.csv", "code,4,r4,rate,4", "code,4,r4,rate,1.5", 6, "offered", "1.5 does not exceed 2 of line 5"),
    ("cells.csv", "chat,4,peak", "chatt,4,peak", 4, "class", "class 'chatt' is not in classes.csv; did you mean 'chat'?"),
    ("cells.csv", "chat,4,peak", "zzz,4,peak", 4, "class", "class 'zzz' is not in classes.csv; it has chat, code"),
    ("cells.csv", "chat,4,peak", "chat,4,", 4, "load", "load is empty; write the label of the load"),
    ("cells.csv", "chat,2,c16,concurrency,16", "chat,2,c8,concurrency,16", 3, "load", "cell chat TP2 c8 is on line 2 too; keep one row"),
    ("measurements.csv", "code,4,r2,0,ok", "code,4,r2,0,okay", 4, "status", "'okay' is not a status; did you mean 'ok'? write one of ok, failed_start, oom, timeout, crashed, rejected"),
    ("measurements.csv", "code,4,r2,0,ok", "code,4,r2,0,", 4, "status", "status is empty; write one of ok"),
    ("measurements.csv", "code,4,r2,0,ok", "code,4,r3,0,ok", 4, "load", "load 'r3' of code TP4 is not in cells.csv; it has r2, r4"),
    ("measurements.csv", "code,4,r2,0,ok", "code,4,zzz,0,ok", 4, "load", "load 'zzz' of code TP4 is not in cells.csv; it has r2, r4"),
    ("measurements.csv", "code,4,r2,0,ok", "code,8,r2,0,ok", 4, "load", "the cell code TP8 r2 is not in cells.csv; code has tp 4"),
    ("measurements.csv", "code,4,r2,0,ok", "Code,4,r2,0,ok", 4, "class", "class 'Code' is not in classes.csv; did you mean 'code'?"),
    ("measurements.csv", "code,4,r2,0,ok", "code,4.5,r2,0,ok", 4, "tp", "4.5 is not a whole number"),
    ("measurements.csv", "chat,2,c8,1,ok", "chat,2,c8,0,ok", 3, "seed", "seed 0 of chat TP2 c8 is on line 2 too; give each measurement of a cell its own seed"),
    ("measurements.csv", "chat,2,c8,1,ok", "chat,2,c8,,ok", 3, "seed", "seed 0 of chat TP2 c8 is on line 2 too"),
    ("measurements.csv", "chat,2,c8,1,ok", "chat,2,c8,-1,ok", 3, "seed", "-1 is negative; seed must be >= 0"),
    ("measurements.csv", "chat,2,c8,1,ok", "chat,2,c8,1e300,ok", 3, "seed", "1e+300 is too large"),
    ("measurements.csv", "0.995", "99.5", 2, "success_rate", "success_rate is a fraction; 99.5 looks like percent, write 0.995"),
    ("measurements.csv", "0.995", "99.5%", 2, "success_rate", "'99.5%' is not a number: leave out the unit '%'; 99.5 % is 0.995"),
    ("measurements.csv", "0.995,400", "0.995,400.5", 2, "requests", "400.5 is not a whole number; write a whole number >= 0"),
    ("measurements.csv", "ok,1.5", "ok,-1.5", 2, "throughput_rps", "-1.5 is negative; throughput_rps must be >= 0"),
    ("measurements.csv", "0.2,0.8", "0.2,NaN", 3, "ttft_p99_s", "'NaN' is not a finite number; write a number >= 0, in seconds, or leave it empty"),
    ("measurements.csv", "0.2,0.8", "0.2,infinity", 3, "ttft_p99_s", "'infinity' is not a finite number"),
    ("measurements.csv", "0.2,0.8", "0.2,0x1p3", 3, "ttft_p99_s", "'0x1p3' is not a number"),
    ("measurements.csv", "0.2,0.8", "0.2,800 ms", 3, "ttft_p99_s", "'800 ms' is not a number: leave out the unit 'ms'; 800 ms is 0.8 s"),
    ("classes.csv", "6,2,30", "6,2 min,30", 2, "max_ttft_p99_s", "'2 min' is not a number; write a number > 0, in seconds, or with its unit (500ms, 0.5s), or leave it empty"),
    ("classes.csv", "6,2,30", "6,-200ms,30", 2, "max_ttft_p99_s", "-0.2 is negative; max_ttft_p99_s must be > 0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "line", "column", "message"), FIELDS)
def test_a_wrong_field_is_told(
    sample: Sample, name: str, old: str, new: str, line: int, column: str, message: str
) -> None:
    sample.replace(name, old, new)
    file, at, field, said = sample.fault()
    assert (file, at, field) == (name, line, column)
    assert message in said


def test_more_gpus_than_the_pool(sample: Sample) -> None:
    sample.replace("instance.toml", "gpus = 16\ngpus_per_node = 8", "gpus = 3")
    assert sample.fault()[1:] == (4, "tp", "tp 4 needs more GPUs than the fleet has (3) (3 rows: lines 4, 5, 6)")


def test_rows_too_large_for_a_node_are_one_fault_for_each_size(sample: Sample) -> None:
    sample.replace("instance.toml", "gpus_per_node = 8", "gpus_per_node = 6")
    rows = [f"chat,{tp},r{load},rate,{load},{tp}" for tp in (4, 8, 12) for load in range(1, 51)]
    sample.write("cells.csv", "\n".join(["class,tp,load,load_kind,offered,gpus", *rows]))
    sample.write("measurements.csv", "class,tp,load,status\n")
    told = [(f.line, f.column, f.message) for f in sample.faults()]
    assert told == [
        (52, "tp", "tp 8 needs more GPUs than a node has (6); a replica runs on one node (50 rows: lines 52, 53, 54, 55, 56 and 45 more)"),
        (102, "tp", "tp 12 needs more GPUs than a node has (6); a replica runs on one node (50 rows: lines 102, 103, 104, 105, 106 and 45 more)"),
    ]  # fmt: skip


def test_the_pool_of_a_cell(sample: Sample) -> None:
    sample.write(
        "instance.toml",
        'schema_version = 1\nname = "p"\n[[fleet.pools]]\nname = "h100"\ngpus = 8\n[[fleet.pools]]\nname = "l4"\ngpus = 2\n',
    )
    sample.write(
        "cells.csv",
        "class,tp,load,load_kind,offered,gpus,pool\nchat,1,a,rate,,1,h200\ncode,4,a,rate,,4,l4\nchat,1,b,rate,,1,\n",
    )
    sample.write("measurements.csv", "class,tp,load,pool,status\nchat,1,a,h20,ok\n")
    told = [(f.line, f.column, f.message) for f in sample.faults()]
    assert told == [
        (2, "pool", "pool 'h200' is not in instance.toml; did you mean 'h100'?"),
        (3, "tp", "tp 4 needs more GPUs than the fleet of pool 'l4' has (2)"),
        (4, "pool", "no pool is named here, and the fleet has no pool 'default'; write one of h100, l4 in column pool"),
        (2, "pool", "pool 'h20' is not in instance.toml; it has h100, l4"),
    ]
    sample.write("cells.csv", "class,tp,load,load_kind,offered,gpus,pool\nchat,1,a,rate,,1,h100\ncode,2,a,rate,,2,l4\n")
    assert sample.fault() == ("measurements.csv", 2, "pool", "pool 'h20' is not in instance.toml; it has h100, l4")
    sample.write("measurements.csv", "class,tp,load,pool,status\nchat,1,a,l4,ok\n")
    assert sample.fault() == (
        "measurements.csv",
        2,
        "load",
        "the cell chat TP1 a on l4 is not in cells.csv; chat has no cell on this pool",
    )


def test_a_duplicate_class_names_both_lines(sample: Sample) -> None:
    sample.replace("classes.csv", "code,2048", "chat,2048")
    told = [(f.line, f.column, f.message) for f in sample.faults()]
    assert told[0] == (3, "class", "class 'chat' is on line 2 too; keep one row")


def test_a_blank_around_a_class_name_is_one_fault(sample: Sample) -> None:
    sample.replace("classes.csv", "chat,512", "chat ,512")
    told = "class 'chat ' has a blank around its name, which cells.csv writes without; write 'chat'"
    assert sample.fault() == ("classes.csv", 2, "class", told)


def test_a_blank_around_a_class_name_does_not_hide_other_faults(sample: Sample) -> None:
    sample.replace("classes.csv", "chat,512", '" chat",512')
    sample.replace("cells.csv", "chat,4,peak", "chatt,4,peak")
    sample.replace("measurements.csv", "chat,2,c8,1", "chat,2,c9,1")
    sample.replace("measurements.csv", "code,4,r2", "Code,4,r2")
    told = [(f.line, f.column) for f in sample.faults()]
    assert told == [(2, "class"), (4, "class"), (4, "class")]
    assert "write 'chat'" in sample.faults()[0].message


def test_blanks_that_all_files_have_are_part_of_the_name(sample: Sample) -> None:
    for name in ("classes.csv", "cells.csv", "measurements.csv"):
        sample.write(name, sample.texts[name].replace("chat,", "chat ,"))
    assert sample.read().instance.classes[0].name == "chat "


BOUNDS = [
    ("throughput_rps", "throughput_lo_rps", "throughput_hi_rps", "1.5,1.6,2", "1.5 is below throughput_lo_rps 1.6; a value lies between its bounds", "throughput_rps"),
    ("success_rate", "success_rate_lo", "success_rate_hi", "0.9,0.5,0.8", "0.9 is above success_rate_hi 0.8; a value lies between its bounds", "success_rate"),
    ("ttft_p99_s", "ttft_p99_lo_s", "ttft_p99_hi_s", ",3,2", "3 is above ttft_p99_hi_s 2; a value lies between its bounds", "ttft_p99_lo_s"),
    ("e2e_p99_s", "e2e_p99_lo_s", "e2e_p99_hi_s", "9,3,2", "3 is above e2e_p99_hi_s 2; a value lies between its bounds", "e2e_p99_lo_s"),
    ("tpot_p99_s", "tpot_p99_lo_s", "tpot_p99_hi_s", "0.1,-1,2", "-1 is negative; tpot_p99_lo_s must be >= 0", "tpot_p99_lo_s"),
    ("success_rate", "success_rate_lo", "success_rate_hi", ",0.5,99", "success_rate_hi is a fraction; 99 looks like percent, write 0.99", "success_rate_hi"),
    ("tpot_p99_s", "tpot_p99_lo_s", "tpot_p99_hi_s", "0.1,inf,", "'inf' is not a finite number; write a number >= 0, in seconds, or leave it empty", "tpot_p99_lo_s"),
    ("tpot_p99_s", "tpot_p99_lo_s", "tpot_p99_hi_s", "0.1,,-inf", "'-inf' is not a finite number; write a number >= 0, in seconds, or leave it empty", "tpot_p99_hi_s"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "low", "high", "fields", "message", "column"), BOUNDS)
def test_bounds(sample: Sample, value: str, low: str, high: str, fields: str, message: str, column: str) -> None:
    sample.write("measurements.csv", f"class,tp,load,status,{value},{low},{high}\nchat,2,c8,ok,{fields}\n")
    assert sample.fault() == ("measurements.csv", 2, column, message)


def test_an_upper_bound_may_be_infinite(sample: Sample) -> None:
    """Too few requests bound no 99th percentile from above, which is not the same as no bound given."""
    sample.write(
        "measurements.csv", "class,tp,load,status,ttft_p99_s,ttft_p99_lo_s,ttft_p99_hi_s\nchat,2,c8,ok,1,0.5,inf\n"
    )
    (measurement,) = sample.read().measurements
    assert measurement.ttft_p99_s.hi == float("inf")
    assert measurement.ttft_p99_s.lo == 0.5
