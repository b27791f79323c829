"""Rows whose figures cannot all be true, and rows that count as failures, are told; rounding, warm-up and drain are not."""

# ruff: noqa: E501  (a table is read along its rows)

from __future__ import annotations

import pytest
from sample_folder import CELLS, CLASSES, Sample, place

HEADER = "class,tp,load,seed,status,throughput_rps,success_rate,requests,window_s,ttft_p99_s,e2e_p99_s\n"
TOLD = [
    ("chat,2,c8,0,ok,1.5,1,9,6,0.9,6", "requests", "9 requests say nothing about a 99th percentile beyond their largest (ttft_p99_s, e2e_p99_s); send 300 or more"),
    ("chat,2,c8,0,ok,4.9,1,100,270,0.9,2", "requests", "4.9 requests/s x 270 s make 1,323 requests, but the row has 100 requests x success 1; check"),
    ("chat,2,c8,0,ok,1.5,1,4000,270,0.9,6", "requests", "1.5 requests/s x 270 s make 405 requests, but the row has 4,000 requests x success 1; check"),
    ("chat,2,c8,0,ok,1.5,,100,270,0.9,6", "requests", "1.5 requests/s x 270 s make 405 requests, but the row has 100 requests; check"),
    ("code,4,r2,0,ok,2,1,60,270,0.9,3", "requests", "2 requests/s x 270 s make 540 requests, but the row has 60 requests x success 1; check"),
    ("code,4,r2,0,ok,2,0.5,5000,270,0.9,3", "requests", "2 requests/s x 270 s make 540 requests, but the row has 5,000 requests x success 0.5; check"),
    ("chat,2,c8,0,ok,0,0.9,400,270,0.9,6", "throughput_rps", "throughput_rps is 0, and success_rate is 0.9: did a request succeed, or none?"),
    ("chat,2,c8,0,ok,1.5,0,400,270,0.9,6", "success_rate", "success_rate is 0, and throughput_rps is 1.5: did a request succeed, or none?"),
    ("chat,2,c8,0,ok,0,0,400,270,0.9,6", "status", "no request succeeded; so the measurement of chat TP2 c8 counts as a failure"),
    ("chat,2,c8,0,ok,0.1,1,30,270,0.9,6", "status", "the load was not held: at most 0.6 requests were in flight, of 8; so the measurement of chat TP2 c8 counts as a failure"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "column", "message"), TOLD)
def test_a_contradiction(sample: Sample, row: str, column: str, message: str) -> None:
    sample.write("measurements.csv", HEADER + row + "\n")
    told = [place(fault) for fault in sample.read().suspicions]
    assert ("measurements.csv", 2, column) in [one[:3] for one in told]
    assert message in " ".join(one[3] for one in told if one[2] == column)


@pytest.mark.parametrize(
    "row",
    [
        "chat,2,c8,0,ok,1.5,1,405,270,0.9,6",
        "chat,2,c8,0,ok,1.5,0.99,412,270,0.9,6",  # four requests failed
        "chat,2,c8,0,ok,1.53,1,405,270,0.9,6",  # what was sent in the warm-up ended in the window
        "chat,2,c8,0,ok,1.3,1,36,27,0.9,6",  # a short window
        "chat,2,c8,0,ok,1.2,1,300,300,0.9,6",  # drained: the window is longer than the sending
        "code,4,r4,0,ok,2,1,1080,270,130,135",  # an overloaded open loop: half of what was sent was served after the window
        "code,4,r4,0,ok,3.9,,,270,1,2",
        "chat,2,c8,0,ok,1.5,1,405,,0.9,6",
        "chat,2,c8,0,ok,1.5,1,9,6,,",  # no percentile is claimed
        "chat,2,c8,0,oom,0,0,9,6,,",
    ],
)
def test_no_contradiction(sample: Sample, row: str) -> None:
    sample.write("measurements.csv", HEADER + row + "\n")
    kinds = [f.message for f in sample.read().suspicions if "lacks" not in f.message]
    assert kinds == []


def test_starts_that_all_failed_are_no_evidence(sample: Sample) -> None:
    rows = [f"{cell},{seed},failed_start,,,,,," for cell in ("chat,2,c8", "code,4,r2") for seed in range(4)]
    sample.write("measurements.csv", HEADER + "\n".join(rows))
    told = [f.message for f in sample.read().suspicions]
    assert told[0] == (
        "no server ever started: that is a fault of the configuration; so this row says nothing about chat TP2 c8"
    )
    assert told[-1] == "... and 3 more of this kind (no evidence)"


def test_records_of_another_load_are_told_in_the_words_of_the_certificate(sample: Sample) -> None:
    import gzip

    (sample.path / "records").mkdir()
    sent = "".join(f"{2.7 * i + 20},{2.7 * i},,128,0.1,1,ok\n" for i in range(90))
    text = "sent_at_s,scheduled_at_s,input_tokens,output_tokens,ttft_s,e2e_s,status\n" + sent
    (sample.path / "records" / "code-tp4-r2-seed0.csv.gz").write_bytes(gzip.compress(text.encode()))
    sample.write("measurements.csv", HEADER + "code,4,r2,0,ok,1.9,,,270,0.8,2\n")
    assert sample.suspicion() == (
        "measurements.csv", 2, "status",
        "the load is another one: 0.333 requests/s were sent, of 2; so the measurement of code TP4 r2 counts as a failure",
    )  # fmt: skip


def test_a_slack_that_is_not_below_epsilon(sample: Sample) -> None:
    sample.replace(
        "instance.toml", "gpus_per_node = 8\n", "gpus_per_node = 8\n[certificate]\nepsilon = 0.02\neta = 0.05\n"
    )
    file, line, column, message = sample.suspicion()
    assert (file, line, column) == ("instance.toml", 10, "certificate.eta")
    assert message.startswith("eta 0.05 is not below epsilon 0.02: ")
    sample.replace("instance.toml", "eta = 0.05", "eta = 0.019")
    assert sample.read().suspicions == ()


LIMITS = [
    ("2", "500", "max_ttft_p99_s", "a limit of 500 s is above 100 s, and limits nothing; was 500 ms meant? Then write 500ms"),
    ("30", "30000", "max_e2e_p99_s", "a limit of 30000 s is above 3,600 s, and limits nothing; was 30000 ms meant? Then write 30000ms"),
    ("2", "0.0005", "max_ttft_p99_s", "a limit of 0.0005 s is below 0.005 s, which no server meets; was 0.5 s meant? Then write 0.5s"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "column", "message"), LIMITS)
def test_a_limit_of_another_unit_without_a_measurement(
    sample: Sample, old: str, new: str, column: str, message: str
) -> None:
    (sample.path / "measurements.csv").unlink()
    sample.write("classes.csv", CLASSES.replace("6,2,30", "6,2,30".replace(old, new)))
    assert sample.suspicion() == ("classes.csv", 2, column, message)


def test_a_limit_hundreds_of_times_what_was_measured(sample: Sample) -> None:
    """60 s alone is a limit that a class may have; 0.2 s measured, it is one of 60 ms."""
    sample.write("classes.csv", CLASSES.replace("6,2,30", "6,60,30"))
    rows = [f"chat,2,{load},0,ok,{rate},1,400,,0.2,6" for load, rate in (("c8", 1.5), ("c16", 3))]
    sample.write("measurements.csv", HEADER + "\n".join(rows))
    assert sample.suspicion() == (
        "classes.csv", 2, "max_ttft_p99_s",
        "a limit of 60 s is 300 times the median of the measured ttft_p99_s (0.2 s); was 60 ms meant? Then write 60ms",
    )  # fmt: skip
    sample.write("classes.csv", CLASSES.replace("6,2,30", "6,20,30"))
    assert sample.read().suspicions == ()


@pytest.mark.parametrize(
    ("column", "text", "limit_s"),
    [
        ("max_ttft_p99_s", "500ms", 0.5),
        ("max_ttft_p99_s", "0.5 s", 0.5),
        ("max_ttft_p99_ms", "34.2", 0.0342),
        ("max_ttft_p99_ms", "34.2ms", 0.0342),
        ("max_ttft_p99_ms", "2s", 2.0),
    ],
)
def test_a_limit_with_its_unit(sample: Sample, column: str, text: str, limit_s: float) -> None:
    sample.write("classes.csv", CLASSES.replace("max_ttft_p99_s", column).replace("6,2,30", f"6,{text},30"))
    chat, code = sample.read().instance.classes
    assert chat.slo.max_ttft_p99_s == limit_s
    assert code.slo.max_ttft_p99_s == (5.0 if column.endswith("_s") else 0.005)


def test_one_limit_in_two_columns(sample: Sample) -> None:
    sample.write("classes.csv", "class,demand_rps,max_ttft_p99_s,max_ttft_p99_ms\nchat,1,2,\n")
    sample.write("cells.csv", CELLS.splitlines()[0] + "\nchat,2,c8,concurrency,8,2,\n")
    (sample.path / "measurements.csv").unlink()
    assert sample.fault() == (
        "classes.csv", 1, "max_ttft_p99_ms", "max_ttft_p99_s and max_ttft_p99_ms state one limit; keep one of the two columns"
    )  # fmt: skip


def test_a_limit_in_milliseconds_is_told_in_its_own_column(sample: Sample) -> None:
    sample.write("classes.csv", CLASSES.replace("max_ttft_p99_s", "max_ttft_p99_ms").replace("6,2,30", "6,0.5,30"))
    sample.write("classes.csv", sample.texts["classes.csv"].replace("16,2,,5", "16,2,,5000"))
    assert sample.read().suspicions[0].column == "max_ttft_p99_ms"
