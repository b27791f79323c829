"""What goes into a load generator's files and what is read from them, by lines that the programs wrote."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fleetsieve.errors import UsageError
from fleetsieve.live.load.aiperf import payload_rows, read_record
from fleetsieve.live.load.answers import RequestAnswer, answer_status
from fleetsieve.live.load.schedule import Shape, Tokens, closed_loop, open_loop
from fleetsieve.live.load.vllm_bench import VllmBench, read_result, trace_rows

SHAPE = Shape(Tokens(3, 9), Tokens(5, 7))
FRAME = {"warmup_s": 1.0, "window_s": 4.0, "seed": 11, "token_ids": (50, 60)}
OPEN = open_loop(SHAPE, 3.0, cooldown_s=4.0, **FRAME)
METADATA = {
    "session_num": 12,
    "conversation_id": "12",
    "request_start_ns": 1796025449814179599,
    "request_end_ns": 1796025449907595758,
    "was_cancelled": False,
}
METRICS = {
    "request_latency": {"value": 93.416159, "unit": "ms"},
    "time_to_first_token": {"value": 58.001971, "unit": "ms"},
    "usage_prompt_tokens": {"value": 50, "unit": "tokens"},
    "usage_completion_tokens": {"value": 20, "unit": "tokens"},
}


def record(metrics=METRICS, **told):
    return read_record(json.dumps({"metadata": METADATA, "metrics": metrics, **told}).encode())


def test_a_record_of_aiperf():
    answer = record()
    assert answer.sent_unix_s == pytest.approx(1796025449.8141796, abs=1e-6)
    assert (answer.request, answer.input_tokens, answer.output_tokens, answer.failure) == (12, 50, 20, "")
    assert (answer.ttft_s, answer.e2e_s) == (pytest.approx(0.058001971), pytest.approx(0.093416159))
    assert answer_status(answer, 20) == ("ok", "")
    assert answer_status(answer, 21)[0] == "failed"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 503, "type": "Service Unavailable", "message": "overloaded"}, "rejected"),
        ({"code": "429", "type": "Too Many Requests", "message": "slow down"}, "rejected"),
        ({"code": 400, "type": "Bad Request", "message": "maximum context length"}, "rejected"),
        ({"type": "TimeoutError", "message": "TimeoutError()"}, "timeout"),
        ({"code": 500, "type": "Internal Server Error", "message": "engine\ndied"}, "failed"),
        ({"type": "ClientPayloadError", "message": "not completed"}, "failed"),
    ],
)
def test_an_error_of_aiperf(error, status):
    answer = record(metrics={}, error=error)
    assert answer_status(answer, 20)[0] == status
    assert str(error["message"]).split()[0] in answer.reason
    assert answer.e2e_s == pytest.approx(0.093416159)


def test_an_answer_without_text_is_one_without_a_token():
    """As AIPerf 0.13 wrote it of a server that answers with nothing but its usage."""
    message = "InvalidInferenceResultError('Invalid inference result: No responses with actual content were received')"
    answer = record(metrics={}, error={"type": "InvalidInferenceResultError", "message": message})
    assert (answer.output_tokens, answer_status(answer, 1)) == (0, ("failed", "the answer brought no token"))


def test_a_success_of_aiperf_that_has_no_token_count_is_none():
    # What it writes of a stream that ended in an error event: error is absent.
    answer = record(metrics={name: METRICS[name] for name in ("request_latency", "time_to_first_token")})
    assert answer_status(answer, 20)[0] == "failed"


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"null", b'{"metadata": {}}', b'{"metadata": {"conversation_id": "x"}}']
)
def test_a_line_that_is_no_record_is_passed_over(line):
    assert read_record(line) is None


def test_aiperf_is_given_whole_requests_by_their_place():
    rows = [json.loads(line) for line in payload_rows(OPEN, "tiny")]
    assert [row["session_id"] for row in rows] == [str(i) for i in range(len(OPEN))]
    assert [row["timestamp"] for row in rows] == pytest.approx(1e3 * (OPEN.due_s + 1.0), abs=1e-3)
    for i, payload in enumerate(row["payload"] for row in rows):
        assert payload["prompt"] == OPEN.prompt(i)
        assert len(payload["prompt"]) == OPEN.input_tokens[i]
        assert payload["max_tokens"] == payload["min_tokens"] == OPEN.output_tokens[i]
        assert payload["stream_options"] == {"include_usage": True}
    closed = closed_loop(SHAPE, 2, max_requests=3, **FRAME)
    assert all("timestamp" not in json.loads(line) for line in payload_rows(closed, "tiny"))


def test_vllm_bench_is_given_lengths_and_a_hash_of_each_look():
    rows = [json.loads(line) for line in trace_rows(OPEN, 5)]
    assert len(rows) == 5
    assert [row["input_length"] for row in rows] == OPEN.input_tokens[:5].tolist()
    other = open_loop(SHAPE, 3.0, **FRAME | {"seed": 12})
    hashes = [
        json.loads(line)["hash_ids"][0] for schedule in (OPEN, other) for line in trace_rows(schedule, len(schedule))
    ]
    assert len(set(hashes)) == len(hashes) == len(OPEN) + len(other)
    assert not np.isin(OPEN.due_s[:5] >= OPEN.window_s, True).any()


def test_a_result_of_vllm_bench(tmp_path):
    path = tmp_path / "result.json"
    told = {
        "start_times": [100.0, 100.5, 101.0, 0.0],
        "ttfts": [0.05, 0.0, 0.06, 0.0],
        "latencies": [0.4, 0.0, 0.5, 0.0],
        "input_lens": [50, 50, 50, 50],
        "output_lens": [20, 0, 19, 0],
        "errors": ["", "Service Unavailable", "", ""],
    }
    path.write_text(json.dumps(told))
    answers = read_result(path)
    assert [answer.request for answer in answers] == [0, 1, 2], "the last was never sent"
    assert [answer_status(answer, 20)[0] for answer in answers] == ["ok", "rejected", "failed"]
    assert answers[2].sent_unix_s - answers[0].sent_unix_s == pytest.approx(1.0)
    path.write_text(json.dumps(told)[:-5])
    assert read_result(path) == read_result(tmp_path / "none.json") == []


def test_vllm_bench_refuses_a_closed_loop_without_a_number(tmp_path):
    with pytest.raises(UsageError, match="cannot end a closed loop in time"):
        VllmBench(("true",)).send(closed_loop(SHAPE, 2, **FRAME), "http://127.0.0.1:1", "m", tmp_path, 5.0)


def test_a_program_that_writes_nothing_is_a_failure_of_every_request(tmp_path):
    sent = VllmBench(("true",)).send(OPEN, "http://127.0.0.1:1", "m", tmp_path / "load", 30.0)
    assert {row.status for row in sent.rows} == {"missing"}
    assert len(sent.rows) == 15
    assert not sent.as_asked


def test_what_is_judged_of_an_answer_without_latencies():
    assert answer_status(RequestAnswer(0, 1.0, output_tokens=5), 5)[0] == "failed"
