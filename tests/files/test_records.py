"""Raw records: what is written reads back, every fault is told, and they decide what is known of a look."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_folder import Sample, place

from fleetsieve.bounds.statistics import Rules, summarise
from fleetsieve.errors import Fault, UsageError
from fleetsieve.files import RequestRow, read_instance, read_measurements, read_records, record_name, write_records
from fleetsieve.files.faults import FaultList
from fleetsieve.files.records import RECORDS, STATUSES, attach_records
from fleetsieve.instance import CellKey
from fleetsieve.simulator import simulate

WINDOW_S = 300.0
KEY = CellKey("chat", 2, "c8")
NAME = record_name(KEY, 0)
HEADER = "sent_at_s,scheduled_at_s,input_tokens,output_tokens,ttft_s,e2e_s,status\n"
PARTS = st.text(st.sampled_from("aB-0%./ é"), min_size=1, max_size=8) | st.text("x-", min_size=200, max_size=203)
KEYS = st.builds(CellKey, PARTS, st.integers(1, 12), PARTS, st.sampled_from(["default", "a", "-", "seed1"]))
SECONDS = st.floats(0.0, 1e6)


@st.composite
def requests(draw: st.DrawFn) -> RequestRow:
    status, sent = draw(st.sampled_from(STATUSES)), draw(st.floats(-1e3, WINDOW_S))
    first, rest = draw(SECONDS), draw(SECONDS)
    whole = first + rest if status == "ok" else draw(st.none() | SECONDS)
    due = draw(st.none() | st.floats(-1e3, WINDOW_S))
    return RequestRow(sent, due, draw(st.none() | st.integers(0, 10**6)), draw(st.integers(0, 4)), first, whole, status)


@pytest.mark.slow
@given(rows=st.lists(requests(), min_size=1, max_size=20), key=KEYS, seed=st.integers(0, 9))
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, rows: list[RequestRow], key: CellKey,
                                    seed: int) -> None:  # fmt: skip
    path = write_records(tmp_path_factory.mktemp("run"), key, seed, rows)
    written = path.read_bytes()
    assert write_records(path.parents[1], key, seed, iter(rows)) == path
    assert path.read_bytes() == written

    faults = FaultList(str(path))
    records = read_records(path, WINDOW_S, faults)
    assert records is not None, faults.errors
    assert records.sent_at_s.tolist() == [row.sent_at_s for row in rows]
    assert records.ok.tolist() == [row.status == "ok" for row in rows]
    for row, ttft, e2e, tpot in zip(rows, records.ttft_s, records.e2e_s, records.tpot_s, strict=True):
        if row.status != "ok":
            assert all(map(math.isnan, (ttft, e2e, tpot)))
            continue
        assert (ttft, e2e) == (row.ttft_s, row.e2e_s)
        if row.output_tokens is None or row.output_tokens < 2:
            assert math.isnan(tpot)
        else:
            assert tpot == (e2e - ttft) / (row.output_tokens - 1)


@pytest.mark.slow
@given(looks=st.lists(st.tuples(KEYS, st.integers(0, 20)), min_size=2, max_size=6, unique=True))
def test_no_two_looks_share_a_file_and_every_name_is_safe(looks: list[tuple[CellKey, int]]) -> None:
    names = [record_name(*look) for look in looks]
    assert len(set(names)) == len(looks)
    assert all(len(name.encode()) <= 255 and "/" not in name and name.isascii() and name[0] != "." for name in names)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CellKey("a-tp1-b", 1, "x"), CellKey("a", 1, "b-tp1-x")),
        (CellKey("a", 1, "x-pool-p"), CellKey("a", 1, "x", "p")),
        (CellKey("a%2D", 1, "x"), CellKey("a-", 1, "x")),
        (CellKey("x" * 300 + "1", 1, "x"), CellKey("x" * 300 + "2", 1, "x")),
    ],
)
def test_names_that_would_read_alike_differ(one: CellKey, other: CellKey) -> None:
    assert record_name(one, 0) != record_name(other, 0)


def test_records_are_never_rewritten(tmp_path: Path) -> None:
    path = write_records(tmp_path, KEY, 0, [RequestRow(0.0, e2e_s=1.0)])
    before = path.read_bytes()
    with pytest.raises(UsageError, match="never rewritten"):
        write_records(tmp_path, KEY, 0, [RequestRow(0.0, e2e_s=2.0)])
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="one of ok, failed"):
        write_records(tmp_path, KEY, 1, [RequestRow(0.0, status="fine")])
    assert [p.name for p in path.parent.iterdir()] == [NAME]


def put(sample: Sample, rows: str, name: str = NAME, header: str = HEADER) -> Path:
    """The sample with a file in records/, and a window for each of its rows."""
    text = sample.texts["measurements.csv"].splitlines()
    if not text[0].endswith(",window_s"):
        sample.write("measurements.csv", "\n".join([text[0] + ",window_s", *(f"{row},300" for row in text[1:])]) + "\n")
    folder = sample.path / RECORDS
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(gzip.compress((header + rows).encode(), mtime=0))
    return folder / name


@pytest.mark.parametrize(
    ("rows", "line", "column", "told"),
    [
        ("0,,,9,0.1,1,ok\n1,,,9,x,1,ok\n", 3, "ttft_s", "'x' is not a number"),
        ("0,,,9,0.1,,ok\n", 2, "e2e_s", "e2e_s is empty, and the request is ok"),
        ("0,,,9,0.1,1,ok\n1,,,9,,1,ok\n", 3, "ttft_s", "write it for all or none"),
        ("0,,,9,2,1,ok\n", 2, "ttft_s", "2 is above e2e_s 1"),
        ("0,,,9,0.1,1,ok\n301,,,9,0.1,1,ok\n", 3, "sent_at_s", "301 s is after the end of the window of 300 s"),
        (",,,9,0.1,1,ok\n", 2, "sent_at_s", "sent_at_s is empty"),
        ("0,,,9,0.1,1,okay\n", 2, "status", "did you mean 'ok'?"),
        ("0,,,9,0.1,1,\n", 2, "status", "status is empty; write one of ok, failed"),
        ("0,,,9,-0.1,1,ok\n", 2, "ttft_s", "-0.1 is negative"),
        ("0,,,9.5,0.1,1,ok\n", 2, "output_tokens", "not a whole number"),
        ("0,,,9,0.1,1\n", 2, "", "the row has 6 fields, the header has 7"),
        ("", 0, "", "the file holds no request"),
    ],
)
def test_every_fault_is_told_with_its_place(sample: Sample, rows: str, line: int, column: str, told: str) -> None:
    put(sample, rows)
    name, at, where, message = sample.fault()
    assert (name, at, where) == (NAME, line, column)
    assert told in message


def test_the_faults_of_all_files_are_told_at_once(sample: Sample) -> None:
    put(sample, "0,,,9,0.1,,ok\n")
    put(sample, "0,,,9,0.1,1,ok\n", record_name(KEY, 1), header="sent_at_s,input_tokens,out,ttft_s,e2e_s,status,x\n")
    files = [Path(fault.file).name for fault in sample.faults()]
    assert files[0] == NAME
    assert record_name(KEY, 1) in files


def test_a_file_that_is_no_gzip_is_told(sample: Sample) -> None:
    path = put(sample, "0,,,9,0.1,1,ok\n")
    whole = path.read_bytes()
    for broken in (whole[:-9], HEADER.encode(), whole[:12] + b"\xff" * 8 + whole[20:]):
        path.write_bytes(broken)
        assert "not a complete gzip file" in sample.fault()[3]


def test_records_need_a_window(sample: Sample) -> None:
    path = put(sample, "0,,,9,0.1,1,ok\n")
    sample.replace("measurements.csv", "400,0.2,0.9,6,9,0.02,300", "400,0.2,0.9,6,9,0.02,")
    name, line, column, message = sample.fault()
    assert (name, line, column) == ("measurements.csv", 2, "window_s")
    assert path.name in message


def told(faults: tuple[Fault, ...]) -> list[tuple[str, str]]:
    return [(place(fault)[0], place(fault)[3]) for fault in faults]


def test_a_file_that_nobody_reads_is_suspicious_with_the_name_that_would_be(sample: Sample) -> None:
    right = "0,,,9,0.1,1,ok\n"
    for name in ("chat-tp2-c9-seed0.csv.gz", "chat-tp2-c8.csv.gz", "chat-tp2-c8-seed00.csv.gz", "notes.txt"):
        put(sample, right, name)
    found = told(sample.read().suspicions)
    names = [name for name, _ in found]
    assert names == ["chat-tp2-c8-seed00.csv.gz", "chat-tp2-c8.csv.gz", "chat-tp2-c9-seed0.csv.gz", "notes.txt"]
    assert all("no measurement" in message for _, message in found)
    assert "which is chat-tp2-c8-seed0.csv.gz" in found[0][1]


def test_requests_of_a_look_without_a_row_are_suspicious_and_in_a_run_the_row_may_be_to_come(sample: Sample) -> None:
    put(sample, "0,,,9,0.1,1,ok\n", record_name(KEY, 7))
    ((_, message),) = told(sample.read().suspicions)
    assert "no row of chat TP2 c8 has the seed 7" in message
    (sample.path / "steps.jsonl").write_text("")
    assert not sample.read().suspicions


def test_the_name_of_a_class_with_a_hyphen_or_an_accent_is_told(sample: Sample) -> None:
    key = CellKey("code-révision", 4, "r2")
    plain = "code-révision-tp4-r2-seed1.csv.gz"
    found = attach_records(sample.path / "measurements.csv", (), {key}, FaultList("measurements.csv"))[2]
    assert found == ()
    put(sample, "0,,,9,0.1,1,ok\n", plain)
    (one,) = attach_records(sample.path / "measurements.csv", (), {key}, FaultList("measurements.csv"))[2]
    assert f"which is {record_name(key, 1)}" in one.message


def test_another_number_of_requests_is_suspicious(sample: Sample) -> None:
    put(sample, "-1,,,9,0.1,2,ok\n0,,,9,0.1,1,ok\n1,,,9,,,timeout\n")
    (message,) = [message for name, message in told(sample.read().suspicions) if name == NAME]
    assert message.endswith("has 400 requests in line 2; 2 are here; the 398 that are missing count as failures")


def test_each_row_gets_its_own_requests(sample: Sample) -> None:
    plain = sample.read()
    assert [row.records for row in plain.measurements] == [None] * 4
    put(sample, "".join(f"{i / 10},,,9,0.1,{1 + i / 100},ok\n" for i in range(400)))
    first, second, *others = sample.read().measurements
    assert first.records is not None
    assert first.records.sent == 400
    assert first.records.window_s == WINDOW_S
    assert all(row.records is None for row in (second, *others))
    again = read_measurements(sample.path / "measurements.csv", plain.instance)
    assert again[0].records is not None
    assert np.array_equal(again[0].records.e2e_s, first.records.e2e_s)


def test_the_order_of_columns_and_absent_ones_do_not_matter(sample: Sample) -> None:
    put(sample, "ok,1.5,2\nrejected,,3\n", header="status,e2e_s,sent_at_s\n")
    records = sample.read().measurements[0].records
    assert records is not None
    assert (records.sent, records.succeeded) == (2, 1)
    assert records.latencies_s("e2e").tolist() == [1.5]
    assert not len(records.latencies_s("ttft"))


@pytest.mark.slow
def test_a_simulated_folder_reads_back_with_its_requests_and_they_hold_its_figures(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "instances" / "sim-chat-code-16gpu" / "simulation.toml").read_text()
    spec = tmp_path / "simulation.toml"
    spec.write_text(text.replace("window_s = 270", "window_s = 60"))
    simulate(spec, tmp_path / "grid", records=True)
    read = read_instance(tmp_path / "grid")
    assert not [fault for fault in read.suspicions if "records" in fault.file]
    rules = Rules.of(read.instance, read.measurements)
    recorded = [row for row in read.measurements if row.records is not None]
    assert len(recorded) == len(read.measurements) == 21
    for row in recorded:
        assert row.records is not None
        assert row.records.sent == row.requests
        slo = read.instance.class_by_name[row.key.class_name].slo
        known = summarise(read.instance.cell_by_key[row.key], [row], rules, slo)
        for metric in ("ttft", "e2e", "tpot"):
            bounds, shown = known.tail_s(metric), row.tail(metric).value
            assert bounds is not None
            assert shown is not None
            assert bounds.lo - 1e-6 <= shown <= bounds.hi + 1e-6
        assert known.success is not None
        assert row.success_rate.value is not None
        assert known.success.lo <= row.success_rate.value <= known.success.hi
