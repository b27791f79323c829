"""Files that are no such table: missing, empty, in another encoding or with other delimiters, with a wrong header."""

# ruff: noqa: E501  (a table is read along its rows)

from __future__ import annotations

import codecs
import os
from pathlib import Path

import pytest
from sample_folder import CELLS, CLASSES, MEASUREMENTS, Sample, place

from fleetsieve.errors import InputError
from fleetsieve.files import read_instance, read_measurements
from fleetsieve.instance import CellKey


def test_the_sample_is_right(sample: Sample) -> None:
    folder = sample.read()
    assert folder.suspicions == ()
    assert folder.path == sample.path
    assert [len(folder.instance.classes), len(folder.instance.cells), len(folder.measurements)] == [2, 5, 4]
    assert [m.line for m in folder.measurements] == [2, 3, 4, 5]


@pytest.mark.parametrize("name", ["instance.toml", "classes.csv", "cells.csv"])
def test_a_missing_file(sample: Sample, name: str) -> None:
    (sample.path / name).unlink()
    assert sample.fault() == (name, 0, "", f"the file is missing; every instance folder needs {name}")


def test_an_empty_folder_misses_three_files(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_instance(tmp_path)
    assert [Path(f.file).name for f in caught.value.faults] == ["instance.toml", "classes.csv", "cells.csv"]


def test_nothing_measured(sample: Sample) -> None:
    sample.write("measurements.csv", MEASUREMENTS.splitlines()[0] + "\n")
    assert sample.read().measurements == ()
    (sample.path / "measurements.csv").unlink()
    assert sample.read().measurements == ()


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file(sample: Sample, content: str) -> None:
    for name in ("classes.csv", "cells.csv", "measurements.csv"):
        sample.write(name, content)
    told = [place(fault) for fault in sample.faults()]
    assert [(file, line, column) for file, line, column, _ in told] == [
        ("classes.csv", 0, ""), ("cells.csv", 0, ""), ("measurements.csv", 0, "")
    ]  # fmt: skip
    assert all(
        message.startswith("the file is empty; its first line must name the columns: class, ") for *_, message in told
    )


def test_a_header_without_rows(sample: Sample) -> None:
    sample.write("classes.csv", CLASSES.splitlines()[0])
    assert sample.fault() == (
        "classes.csv",
        0,
        "",
        "the file has a header and no row; write one row for each workload class",
    )
    sample.write("classes.csv", CLASSES)
    sample.write("cells.csv", CELLS.splitlines()[0])
    told = [place(fault) for fault in sample.faults()]
    assert told == [("cells.csv", 0, "", "the file has a header and no row; write one row for each cell")]


def test_a_byte_order_mark_is_fine(sample: Sample) -> None:
    for name, text in list(sample.texts.items()):
        sample.write(name, codecs.BOM_UTF8 + text.encode())
    assert len(sample.read().measurements) == 4


def test_line_ends_of_other_systems_are_fine(sample: Sample) -> None:
    for name, text in list(sample.texts.items()):
        sample.write(name, text.replace("\n", "\r\n"))
    assert [m.line for m in sample.read().measurements] == [2, 3, 4, 5]
    sample.write("cells.csv", CELLS.replace("\n", "\r"))
    assert len(sample.read().instance.cells) == 5


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf_16(sample: Sample, encoding: str) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"
    for name, text in list(sample.texts.items()):
        sample.write(name, (mark + text).encode(encoding))
    assert [place(f) for f in sample.faults()] == [
        (name, 1, "", "the file is UTF-16; save it as UTF-8")
        for name in ("instance.toml", "classes.csv", "cells.csv", "measurements.csv")
    ]


def test_utf_16_without_a_mark(sample: Sample) -> None:
    sample.write("cells.csv", CELLS.encode("utf-16-le"))
    file, line, column, message = sample.fault()
    assert (file, line, column) == ("cells.csv", 1, "")
    assert message.startswith("a NUL byte at offset 1: this is not UTF-8 text")


def test_a_byte_that_is_no_text(sample: Sample) -> None:
    sample.write("classes.csv", CLASSES.replace("code", "codé").encode("latin-1"))
    told = place(sample.faults()[0])
    assert told == ("classes.csv", 3, "", "byte 0xe9 at offset 153 is not UTF-8; save it as UTF-8")


def test_semicolons_and_decimal_commas_are_one_fault(sample: Sample) -> None:
    rows = [f"chat;2;c8;{seed};ok;1,{seed}" for seed in range(300)]
    sample.write("measurements.csv", "\n".join(["class;tp;load;seed;status;throughput_rps", *rows]))
    assert sample.fault() == (
        "measurements.csv", 1, "",
        "the file uses ';' between fields and a decimal comma (as in '1,0'); "
        "save as CSV with ',' between fields and '.' in numbers",
    )  # fmt: skip


def test_other_delimiters(sample: Sample) -> None:
    sample.write("cells.csv", CELLS.replace(",", "\t"))
    assert sample.fault()[3] == "the file uses a tab between fields; save as CSV with ',' between fields"
    sample.write("cells.csv", "sep=;\n" + CELLS.replace(",", ";"))
    assert sample.fault()[3].startswith("the file uses ';' between fields; save as CSV")


def test_a_missing_column_does_not_hide_other_faults(sample: Sample) -> None:
    sample.replace("classes.csv", "demand_rps", "demand")
    sample.replace("classes.csv", "0.99", "99")
    assert [place(f) for f in sample.faults()] == [
        ("classes.csv", 1, "demand", "unknown column 'demand'; did you mean 'demand_rps'?"),
        ("classes.csv", 1, "demand_rps", "the column 'demand_rps' is missing; write a number >= 0, in requests/s"),
        ("classes.csv", 2, "min_success", "min_success is a fraction; 99 looks like percent, write 0.99"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "column", "message"),
    [
        ("ttft_p99_s", "ttft_p99_ms", "ttft_p99_ms", "unknown column 'ttft_p99_ms'; did you mean 'ttft_p99_s'? It is in seconds: divide by 1000"),
        ("ttft_p99_s", "TTFT_P99_S", "TTFT_P99_S", "unknown column 'TTFT_P99_S'; did you mean 'ttft_p99_s'?"),
        ("ttft_p99_s", "ttft_p50_s", "ttft_p50_s", "column 'ttft_p50_s' appears twice, as field 9 and as field 10; keep one"),
        ("ttft_p99_s", "", "", "field 10 of the header is empty; name it or remove the column"),
        ("tpot_p99_s", "gpu temperature", "gpu temperature", "unknown column 'gpu temperature'; the columns are class, tp, load, pool"),
    ],
)  # fmt: skip
def test_a_wrong_column(sample: Sample, old: str, new: str, column: str, message: str) -> None:
    sample.replace("measurements.csv", old, new)
    file, line, at, said = sample.fault()
    assert (file, line, at) == ("measurements.csv", 1, column)
    assert message in said


BENCHMARK = (
    "workload,gpu,tp,request_rate,max_concurrency,num_prompts,request_throughput,p99_ttft_ms,p99_tpot_ms,duration_s"
)


def test_a_raw_benchmark_table_is_told_the_columns_once_and_only_near_names(sample: Sample) -> None:
    sample.write("measurements.csv", f"{BENCHMARK}\nchat,H100,2,1,,300,1.0,181.5,32.46,300.1\n")
    told = {fault.column: fault.message for fault in sample.faults()}
    assert list(told) == [*(name for name in BENCHMARK.split(",") if name != "tp"), "class", "load", "status"]
    assert sum("the columns are class, tp" in message for message in told.values()) == 1
    assert "the columns are class, tp" in told["workload"]
    meant = {name: message for name, message in told.items() if "did you mean" in message}
    assert meant == {
        "p99_ttft_ms": "unknown column 'p99_ttft_ms'; did you mean 'ttft_p99_s'? It is in seconds: divide by 1000",
        "p99_tpot_ms": "unknown column 'p99_tpot_ms'; did you mean 'tpot_p99_s'? It is in seconds: divide by 1000",
    }


def test_spaces_around_fields_are_fine(sample: Sample) -> None:
    sample.write("cells.csv", "class, tp, load , load_kind, offered, gpus\nchat, 2, c8, concurrency, 8 , 2\n")
    sample.write("measurements.csv", "class, tp, load, status\nchat, 2, c8, ok\n")
    folder = sample.read()
    assert folder.instance.cells[0].key == folder.measurements[0].key == CellKey("chat", 2, "c8")


def test_ragged_rows(sample: Sample) -> None:
    sample.replace("cells.csv", "chat,2,c16,concurrency,16,2,600", "chat,2,c16,concurrency,16")
    sample.replace("cells.csv", "code,4,r2,rate,2,4,", "code,4,r2,rate,2,4,,")
    told = [place(f) for f in sample.faults()]
    assert told == [
        ("cells.csv", 3, "", "the row has 5 fields, the header has 7; write the empty fields at the end of the row too"),
        ("cells.csv", 5, "", "the row has 8 fields, the header has 7; quote a field that holds a comma, and write decimals with '.'"),
    ]  # and no follow-up on the measurement of code TP4 r2  # fmt: skip


def test_blank_rows_are_passed_over(sample: Sample) -> None:
    sample.replace("measurements.csv", "code,4,r2", "\n,,,,,,,,,,,,\ncode,4,r2")
    assert [m.line for m in sample.read().measurements] == [2, 3, 6, 7]


def test_line_breaks_in_a_field_do_not_shift_the_lines(sample: Sample) -> None:
    note = '"first\nsecond, ""third""\r\nfourth"'
    sample.write(
        "measurements.csv",
        f"class,tp,load,seed,status,source\nchat,2,c8,0,ok,{note}\nchat,2,c8,1,okay,\nchat,2,c8,x,ok,\n",
    )
    told = [(line, column) for _, line, column, _ in map(place, sample.faults())]
    assert told == [(5, "status"), (6, "seed")]
    sample.replace("measurements.csv", "okay", "ok")
    sample.replace("measurements.csv", "c8,x", "c8,2")
    measurements = sample.read().measurements
    assert measurements[0].source == 'first\nsecond, "third"\r\nfourth'
    assert [m.line for m in measurements] == [2, 5, 6]


def test_an_open_quote_is_told_where_it_opens(sample: Sample) -> None:
    sample.replace("measurements.csv", "code,4,r2,0", '"code,4,r2,0')
    sample.replace("measurements.csv", "0.995", "99.5")
    told = [place(f) for f in sample.faults()]
    assert [(line, column) for _, line, column, _ in told] == [(2, "success_rate"), (4, "")]
    assert "the row that starts here cannot be read" in told[1][3]


def test_names_may_hold_anything(sample: Sample) -> None:
    for name in ("meta/llama 3", "<script>alert(1)</script>", "größe 🚀", "a,b", 'say "hi"', "a\nb", "=1+1"):
        quoted = '"' + name.replace('"', '""') + '"'
        sample.write("classes.csv", f"class,demand_rps\n{quoted},1\n")
        sample.write("cells.csv", f"class,tp,load,load_kind,offered,gpus\n{quoted},1,{quoted},rate,1,1\n")
        sample.write("measurements.csv", f"class,tp,load,status\n{quoted},1,{quoted},ok\n")
        assert sample.read().measurements[0].key == CellKey(name, 1, name)


def test_all_faults_of_all_files_at_once(sample: Sample) -> None:
    sample.replace("instance.toml", "gpus = 16", "gpus = 0")
    sample.replace("classes.csv", "0.99", "99")
    sample.replace("classes.csv", "code,2048", "code,many")
    sample.replace("cells.csv", "chat,4,peak", "chatt,4,peak")
    sample.replace("cells.csv", "rate,4,4", "rate,1,4")
    sample.replace("measurements.csv", "0,oom", "0,exploded")
    sample.replace("measurements.csv", "0.2,0.9", "0.2,-0.9")
    told = [(file, line, column) for file, line, column, _ in map(place, sample.faults())]
    assert told == [
        ("instance.toml", 6, "fleet.gpus"),
        ("classes.csv", 2, "min_success"),
        ("classes.csv", 3, "input_tokens"),
        ("cells.csv", 4, "class"),
        ("cells.csv", 6, "offered"),
        ("measurements.csv", 2, "ttft_p99_s"),
        ("measurements.csv", 5, "status"),
    ]
    with pytest.raises(InputError, match=r"^7 errors:\n  .*instance\.toml:6 \[fleet\.gpus\]: 0 is out of range"):
        sample.read()


def test_a_duplicate_hides_no_later_fault(sample: Sample) -> None:
    sample.replace("cells.csv", "chat,2,c16,concurrency,16", "chat,2,c8,concurrency,16")
    sample.replace("measurements.csv", "chat,2,c8,1", "chat,2,c9,1")
    told = [place(fault)[:3] for fault in sample.faults()]
    assert told == [("cells.csv", 3, "load"), ("measurements.csv", 3, "load")]
    sample.replace("classes.csv", "code,2048", "chat,2048")
    assert [place(fault)[:3] for fault in sample.faults()] == [
        ("classes.csv", 3, "class"),
        ("cells.csv", 3, "load"),
        ("cells.csv", 5, "class"),
        ("cells.csv", 6, "class"),
        ("measurements.csv", 4, "class"),
        ("measurements.csv", 5, "class"),
    ]


def test_a_hidden_table_is_read_against_an_instance(sample: Sample) -> None:
    instance = sample.read().instance
    sample.write("replay.csv", MEASUREMENTS)
    assert len(read_measurements(sample.path / "replay.csv", instance)) == 4
    sample.replace("replay.csv", "code,4,r2", "core,4,r2")
    with pytest.raises(InputError) as caught:
        read_measurements(sample.path / "replay.csv", instance)
    assert place(caught.value.faults[0]) == (
        "replay.csv", 4, "class", "class 'core' is not in classes.csv; did you mean 'code'?"
    )  # fmt: skip


def test_many_faults_stay_readable_and_counted(sample: Sample) -> None:
    rows = 50_000
    lines = [f"chat,2,c8,{seed},ok,x{seed}" for seed in range(rows)]
    sample.write("measurements.csv", "\n".join(["class,tp,load,seed,status,throughput_rps", *lines]))
    faults = sample.faults()
    assert [f.line for f in faults] == [*range(2, 52), 0]
    assert faults[0].message.startswith("'x0' is not a number")
    assert faults[-1].message == "... and 49,950 more of this kind (not a number)"
    assert sum(fault.count for fault in faults) == rows
    with pytest.raises(InputError, match=r"^50,000 errors:"):
        sample.read()


@pytest.mark.slow
def test_many_rows(sample: Sample) -> None:
    rows = [f"chat,2,c{load},{seed},ok,{seed / 7!r}" for seed in range(25_000) for load in (8, 16)]
    sample.write("measurements.csv", "\n".join(["class,tp,load,seed,status,throughput_rps", *rows]))
    measurements = sample.read().measurements
    assert [len(measurements), measurements[-1].line, measurements[-1].seed] == [50_000, 50_001, 24_999]
    assert all(m.throughput_rps.value == m.seed / 7 for m in measurements)


FOUR = ("instance.toml", "classes.csv", "cells.csv", "measurements.csv")


@pytest.mark.parametrize("name", FOUR)
def test_a_link_that_leads_nowhere(sample: Sample, name: str) -> None:
    (sample.path / name).unlink()
    (sample.path / name).symlink_to("nowhere")
    told = (name, 0, "", "this is a link to 'nowhere', which is not there; put the file itself here")
    assert sample.fault() == told


@pytest.mark.parametrize("name", FOUR)
def test_a_link_to_itself(sample: Sample, name: str) -> None:
    (sample.path / name).unlink()
    (sample.path / name).symlink_to(name)
    file, line, column, message = sample.fault()
    assert (file, line, column) == (name, 0, "")
    assert message.startswith("the file cannot be read: ")


@pytest.mark.parametrize("name", FOUR)
def test_a_pipe_is_not_waited_for(sample: Sample, name: str) -> None:
    (sample.path / name).unlink()
    os.mkfifo(sample.path / name)
    assert sample.fault() == (name, 0, "", "this is a pipe, not a regular file; put the file itself here")


@pytest.mark.parametrize("name", FOUR)
def test_a_device_or_a_folder_is_no_file(sample: Sample, name: str) -> None:
    (sample.path / name).unlink()
    (sample.path / name).symlink_to("/dev/zero")
    assert sample.fault()[3].startswith("this is a device or a socket, not a regular file")
    (sample.path / name).unlink()
    (sample.path / name).mkdir()
    assert sample.fault()[3].startswith("this is a folder, not a regular file")


def test_a_hidden_table_that_is_a_pipe(sample: Sample) -> None:
    instance = sample.read().instance
    os.mkfifo(sample.path / "replay.csv")
    with pytest.raises(InputError, match="this is a pipe"):
        read_measurements(sample.path / "replay.csv", instance)
