"""Traces of every format give the same requests, and every fault of a file is told by its line."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from fleetsieve.errors import InputError, UsageError
from fleetsieve.live.load.traces import read_trace

PLAIN = "arrival_s,input_tokens,output_tokens\n100.5,374,44\n104.0,396,109\n104.25,879,55\n"
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.1805900,396,109\n"
    "2023-11-16 18:15:50.4305900,879,55\n"
)
AZURE_2024 = AZURE.replace("5900,", "59+00:00,")
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,374,44,418,Conversation log\n"
    "6,GPT-4,12,0,12,API log\n8.5,GPT-4,396,109,505,API log\n8.75,ChatGPT,879,55,934,Conversation log\n"
)
MOONCAKE = "".join(
    json.dumps({"timestamp": ms, "input_length": i, "output_length": o, "hash_ids": [1, 2]}) + "\n"
    for ms, i, o in ((27000, 374, 44), (30500, 396, 109), (30750, 879, 55))
)


@pytest.mark.parametrize(
    ("name", "text", "left_out"),
    [
        ("plain.csv", PLAIN, 0),
        ("azure.csv", AZURE, 0),
        ("azure2024.csv", AZURE_2024, 0),
        ("burst.csv", BURSTGPT, 1),
        ("mooncake.jsonl", MOONCAKE, 0),
        ("bom.csv", "\ufeff" + PLAIN, 0),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_each_format_is_known_by_its_first_line(tmp_path, name, text, left_out, packed):
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    trace = read_trace(path)
    assert trace.arrival_s.tolist() == pytest.approx([0.0, 3.5, 3.75])
    assert trace.input_tokens.tolist() == [374, 396, 879]
    assert trace.output_tokens.tolist() == [44, 109, 55]
    assert (trace.left_out, trace.name) == (left_out, path.name)
    assert trace.rate_rps == pytest.approx(2 / 3.75)


def test_rows_may_stand_in_any_order(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n9,3,30\n1,1,10\n4,2,20\n")
    trace = read_trace(path, "plain")
    assert trace.arrival_s.tolist() == [0.0, 3.0, 8.0]
    assert trace.input_tokens.tolist() == [1, 2, 3]


def faults_of(tmp_path, text, name="t.csv", format=None):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_trace(path, format)
    return [(fault.line, fault.column, fault.message) for fault in caught.value.faults]


def test_all_faults_of_a_csv_are_told_at_once(tmp_path):
    text = "arrival_s,input_tokens,output_tokens\n0,1,2\n1,x,2\n-2,1,1.5\n"
    assert [(line, column) for line, column, _ in faults_of(tmp_path, text)] == [
        (3, "input_tokens"), (4, "arrival_s"), (4, "output_tokens")
    ]  # fmt: skip


def test_all_faults_of_json_lines_are_told_at_once(tmp_path):
    lines = ['{"timestamp": 0, "input_length": 1, "output_length": 2}', "nonsense", "", "[1]"]
    lines += [
        '{"timestamp": "a", "input_length": 1.5}',
        '{"timestamp": NaN, "input_length": -1, "output_length": true}',
    ]
    found = faults_of(tmp_path, "\n".join(lines), "t.jsonl", "mooncake")
    assert [(line, column) for line, column, _ in found] == [
        (2, ""), (4, ""), (5, "timestamp"), (5, "input_length"), (5, "output_length"),
        (6, "timestamp"), (6, "input_length"), (6, "output_length"),
    ]  # fmt: skip


def test_moments_that_cannot_be_meant(tmp_path):
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n2023-11-16 18:15:46,1,1\n"
    ((line, column, message),) = faults_of(tmp_path, text)
    assert (line, column) == (2, "TIMESTAMP")
    assert "'yesterday' is not a time; write it as 2023" in message
    mixed = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46+00:00,1,1\n2023-11-16 18:15:47,1,1\n"
    assert "time zone" in faults_of(tmp_path, mixed)[0][2]


def test_a_header_that_is_nearly_known_is_told_by_its_columns(tmp_path):
    found = faults_of(tmp_path, "arrival_s,input_token,output_tokens\n0,1,1\n")
    assert any("did you mean 'input_tokens'" in message for _, _, message in found)
    ((line, _, message),) = faults_of(tmp_path, "a,b\n1,2\n")
    assert line == 1
    assert "arrival_s,input_tokens,output_tokens; TIMESTAMP,ContextTokens,GeneratedTokens" in message


def test_files_that_are_no_trace(tmp_path):
    with pytest.raises(UsageError, match="there is no trace"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="a trace format 'csv'"):
        read_trace(tmp_path / "none.csv", "csv")
    assert "the file is empty" in faults_of(tmp_path, "")[0][2]
    broken = tmp_path / "t.csv.gz"
    broken.write_bytes(gzip.compress(PLAIN.encode())[:-20])
    with pytest.raises(InputError, match="not a complete gzip file"):
        read_trace(broken)
    with pytest.raises(InputError, match="a folder, not a regular file"):
        read_trace(tmp_path)


@pytest.mark.parametrize("rows", ["0,1,1\n", "3,1,1\n3,1,1\n", "0,1,0\n5,0,1\n7,1,1\n"])
def test_a_trace_without_a_rate_is_refused(tmp_path, rows):
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n" + rows)
    with pytest.raises(UsageError, match="two arrivals at different moments"):
        read_trace(path)


def test_what_does_not_fit_a_server_is_left_out_and_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(PLAIN)
    trace = read_trace(path)
    fitting = trace.fitting(510)
    assert (fitting.arrival_s.tolist(), fitting.left_out) == ([0.0, 3.5], 1)
    shrunk = trace.shrunk(0.01)
    assert (shrunk.input_tokens.tolist(), shrunk.output_tokens.tolist()) == ([4, 4, 9], [1, 1, 1])
    assert np.array_equal(shrunk.arrival_s, trace.arrival_s)
    with pytest.raises(UsageError, match="a token scale of 0"):
        trace.shrunk(0.0)
