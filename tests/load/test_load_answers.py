"""Every request that was due has a row, whatever became of it, and the figures follow from the rows alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsieve.files.faults import FaultList
from fleetsieve.files.records import RequestRow, read_records, write_records
from fleetsieve.instance import CellKey, Measurement, Status
from fleetsieve.live.load.answers import (
    CUT,
    NO_COUNT,
    NO_RECORD,
    NO_TOKEN,
    Exit,
    RequestAnswer,
    complete,
    sent_of,
    window_of,
)
from fleetsieve.live.load.outcome import measured, request_records, status_of
from fleetsieve.live.load.protocol import GeneratorEnding, Heard, Sent
from fleetsieve.live.load.schedule import Schedule
from fleetsieve.live.load.unrecorded import why_unrecorded
from fleetsieve.live.load.warnings import places_of_failures

START = 1.8e9  # on the wall clock
DONE = Exit(GeneratorEnding.DONE, 0, 20.0, 3.0)


def open_schedule(due=(-1.0, -0.5, 0.0, 1.0, 2.5, 3.0, 4.5), window=4.0):
    tokens = np.full(len(due), 10)
    return Schedule(np.array(due), tokens * 5, tokens, 1.0, window, 7, (0, 9))


def closed_schedule(concurrency=2, count=40, **told):
    tokens = np.full(count, 10)
    return Schedule(None, tokens * 5, tokens, 1.0, 4.0, 7, (0, 9), concurrency, **told)


def good(request, due, late=0.0, e2e=0.4):
    return RequestAnswer(request, START + due + late, 0.1, e2e, 50, 10)


def answers_to(schedule, late=0.0):
    return {i: good(i, due, late) for i, due in enumerate(schedule.due_s.tolist())}


def loop(concurrency=2, service_s=0.5, until_s=7.0):
    """The answers of a closed loop in which every request takes `service_s`."""
    moments = [turn * service_s for turn in range(int(until_s / service_s)) for _ in range(concurrency)]
    return {i: good(i, at, e2e=service_s) for i, at in enumerate(moments)}


def test_a_load_that_was_answered_whole():
    schedule = open_schedule()
    sent = sent_of(schedule, answers_to(schedule).values(), DONE)
    assert [row.sent_at_s for row in sent.rows] == pytest.approx([-1.0, -0.5, 0.0, 1.0, 2.5, 3.0], abs=1e-6)
    assert [row.scheduled_at_s for row in sent.rows] == [-1.0, -0.5, 0.0, 1.0, 2.5, 3.0]
    assert {row.status for row in sent.rows} == {"ok"}
    assert (sent.as_asked, sent.failures, sent.window_s) == (True, {}, 4.0)
    assert sent.started_unix_s == pytest.approx(START)
    row = measured(Measurement(CellKey("chat", 1, "r1")), sent)
    assert (row.status, row.requests, row.success_rate.value, row.window_s) == (Status.OK, 4, 1.0, 4.0)
    assert row.ttft_p99_s.value == row.ttft_p50_s == 0.1
    assert row.e2e_p99_s.value == row.e2e_p50_s == 0.4
    assert row.tpot_p99_s.value == pytest.approx(0.3 / 9)
    # Those of the warm-up ended before 0, the other four inside.
    assert row.throughput_rps.value == pytest.approx(4 / 4.0)


FAULTS = {
    "missing": (None, NO_RECORD),
    "failed": (good(3, 1.0), CUT),
    "timeout": (replace(good(3, 1.0), failure="timeout", reason="TimeoutError"), "TimeoutError"),
    "rejected": (replace(good(3, 1.0), failure="rejected", reason="503"), "503"),
}


@pytest.mark.parametrize("status", FAULTS)
def test_each_kind_of_failure_counts_against_success_and_never_into_latency(status):
    answer, reason = FAULTS[status]
    schedule = open_schedule()
    answers = answers_to(schedule)
    del answers[3]
    if answer is not None:
        answers[3] = replace(answer, output_tokens=9, e2e_s=99.0, ttft_s=98.0)
    sent = sent_of(schedule, answers.values(), DONE)
    assert [row.status for row in sent.rows] == ["ok", "ok", "ok", status, "ok", "ok"]
    assert sent.failures == {reason: 1}
    row = measured(Measurement(CellKey("chat", 1, "r1")), sent)
    assert (row.requests, row.success_rate.value, row.e2e_p99_s.value) == (4, 0.75, 0.4)


def test_an_error_event_in_a_stream_that_the_program_takes_for_an_answer_is_a_failure():
    schedule = open_schedule()
    answers = answers_to(schedule)
    answers[3] = replace(answers[3], output_tokens=None)
    sent = sent_of(schedule, answers.values(), DONE)
    assert sent.rows[3].status == "failed"
    assert sent.failures == {NO_COUNT: 1}


def test_an_answer_without_a_token_says_so_and_one_of_one_token_is_good():
    tokens = np.array([10, 10, 10, 1, 10, 10, 10])
    schedule = replace(open_schedule(), output_tokens=tokens)
    answers = answers_to(schedule)
    answers[3] = replace(answers[3], ttft_s=0.2, e2e_s=0.2, output_tokens=1)
    answers[4] = replace(answers[4], ttft_s=None, output_tokens=0)
    sent = sent_of(schedule, answers.values(), DONE)
    assert [row.status for row in sent.rows][3:5] == ["ok", "failed"]
    assert (sent.failures, sent.warnings) == ({NO_TOKEN: 1}, ())
    assert measured(Measurement(CellKey("chat", 1, "r1")), sent).ttft_p99_s.value == 0.2


def test_answers_that_come_in_one_piece_are_told():
    schedule = open_schedule()
    answers = {i: replace(answer, ttft_s=answer.e2e_s) for i, answer in answers_to(schedule).items()}
    sent = sent_of(schedule, answers.values(), DONE)
    assert sent.warnings == ("4 of 4 answers came in one piece: their time per output token is not known",)


def test_a_generator_that_ends_well_without_a_record_is_a_failure():
    sent = sent_of(open_schedule(), [], Exit(GeneratorEnding.FAILED, 0, 1.0, 0.5))
    assert [row.status for row in sent.rows] == ["missing"] * 6
    assert [row.sent_at_s for row in sent.rows] == [-1.0, -0.5, 0.0, 1.0, 2.5, 3.0]
    assert not sent.as_asked
    assert sent.started_unix_s is None
    row = measured(Measurement(CellKey("chat", 1, "r1")), sent)
    assert (row.status, row.success_rate.value, row.requests) == (Status.CRASHED, 0.0, 4)
    assert row.e2e_p99_s.value is row.ttft_p50_s is None


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["ok", "timeout", "timeout"], Status.OK),
        (["timeout", "timeout", "failed"], Status.TIMEOUT),
        (["rejected", "rejected", "missing"], Status.REJECTED),
        (["failed", "failed", "timeout"], Status.CRASHED),
        (["missing", "missing"], Status.CRASHED),
        ([], Status.CRASHED),
    ],
)
def test_a_look_without_a_success_failed_as_most_of_its_requests_did(statuses, status):
    warm_up = RequestRow(-1.0, status="ok")
    assert status_of([warm_up, *(RequestRow(1.0, status=one) for one in statuses)]) is status


@pytest.mark.parametrize("tokens", [0, 3])
def test_answers_that_are_too_short_are_no_crash(tokens):
    schedule = open_schedule()
    answers = [replace(answer, output_tokens=tokens) for answer in answers_to(schedule).values()]
    sent = sent_of(schedule, answers, DONE)
    assert measured(Measurement(CellKey("chat", 1, "r1")), sent).status is Status.REJECTED
    assert sent.failures == {CUT: 4}


def test_requests_that_were_sent_late_are_told():
    schedule = open_schedule(due=np.arange(-1.0, 4.0, 0.01).tolist())
    answers = answers_to(schedule)
    for i in range(250, 260):
        answers[i] = replace(answers[i], sent_unix_s=answers[i].sent_unix_s + 0.2)
    sent = sent_of(schedule, answers.values(), DONE)
    assert sent.send_error_p50_s == pytest.approx(0.0, abs=1e-6)
    assert sent.send_error_p99_s == pytest.approx(0.2, abs=1e-6)
    assert sent.warnings == ("1 % of the requests were sent 200 ms late or more (limit 50 ms)",)
    assert sent_of(schedule, answers.values(), DONE, send_error_limit_s=0.3).as_asked


def test_prompts_that_the_server_counts_otherwise_are_told():
    schedule = open_schedule()
    answers = [replace(answer, input_tokens=60) for answer in answers_to(schedule).values()]
    sent = sent_of(schedule, answers, DONE)
    assert sent.warnings == ("the server counted 60.0 tokens a prompt on average, where 50.0 were sent",)
    assert {row.input_tokens for row in sent.rows} == {60}


@given(
    fates=st.lists(st.sampled_from(["ok", "cut", "timeout", "silent"]), min_size=7, max_size=7),
    late=st.lists(st.floats(0.0, 0.4), min_size=7, max_size=7),
)
def test_no_request_that_was_due_is_lost(fates, late):
    schedule = open_schedule()
    answers = []
    for i, (fate, late_s) in enumerate(zip(fates, late, strict=True)):
        answer = replace(good(i, float(schedule.due_s[i]), late_s), output_tokens=9 if fate == "cut" else 10)
        answers += [replace(answer, failure="timeout" if fate == "timeout" else "")] if fate != "silent" else []
    sent = sent_of(schedule, answers, DONE)
    statuses = {"ok": "ok", "cut": "failed", "timeout": "timeout", "silent": "missing"}
    assert [row.status for row in sent.rows] == [statuses[fate] for fate in fates[:6]]
    assert complete(schedule, {answer.request: answer for answer in answers}) == ("silent" not in fates[:6])
    assert (
        request_records(sent.rows, sent.window_s).sent >= 4 - 1
    )  # one of the warm-up may be sent in the window, none lost


def test_records_from_memory_and_from_their_file_are_the_same(tmp_path):
    schedule = open_schedule()
    answers = answers_to(schedule, late=0.001)
    answers[4] = replace(answers[4], failure="timeout")
    del answers[2]
    sent = sent_of(schedule, answers.values(), DONE)
    path = write_records(tmp_path, CellKey("chat", 1, "r1"), 3, sent.rows)
    faults = FaultList("records")
    from_file, in_memory = read_records(path, sent.window_s, faults), request_records(sent.rows, sent.window_s)
    assert not faults.errors
    for name in ("sent_at_s", "ttft_s", "e2e_s", "tpot_s", "ok"):
        assert np.array_equal(getattr(from_file, name), getattr(in_memory, name), equal_nan=name != "ok"), name


def test_the_window_of_a_closed_loop_begins_after_its_warm_up():
    schedule, answers = closed_schedule(), loop()
    window = window_of(schedule, answers)
    assert (window.start_unix_s - START, window.length_s) == pytest.approx((1.0, 4.0))
    slow = loop(service_s=1.5, until_s=12.0)
    assert window_of(schedule, slow).start_unix_s - START == pytest.approx(1.5), "two have to end first"
    sent = sent_of(schedule, answers.values(), DONE)
    assert sent.as_asked
    assert sent.in_flight == pytest.approx(2.0, abs=1e-6)
    assert all(row.sent_at_s < 4.0 and row.scheduled_at_s is None for row in sent.rows)
    assert measured(Measurement(CellKey("chat", 1, "c2")), sent).throughput_rps.value == pytest.approx(4.0, abs=0.5)


def test_a_closed_loop_goes_on_until_it_has_sent_enough():
    answers = loop(until_s=20.0)
    window = window_of(closed_schedule(min_requests=30), answers)
    assert window.length_s == pytest.approx(7.0), "4 a second: the 30th is sent 7 s after the first"
    assert window_of(closed_schedule(min_requests=30, max_window_s=5.0), answers).length_s == pytest.approx(5.0)
    assert window_of(closed_schedule(min_requests=10), answers).length_s == pytest.approx(4.0)
    early = loop(until_s=6.0)
    assert not complete(closed_schedule(min_requests=30), early)
    sent = sent_of(closed_schedule(min_requests=30), early.values(), DONE)
    assert any("before 30 requests were sent" in warning for warning in sent.warnings)


def test_a_closed_loop_is_complete_when_all_that_was_sent_in_the_window_has_ended():
    schedule, answers = closed_schedule(), loop()
    assert complete(schedule, answers)
    assert not complete(schedule, loop(until_s=5.0))
    silent = {i: answer for i, answer in answers.items() if i != 5}
    assert not complete(schedule, silent)
    rows = sent_of(schedule, silent.values(), Exit(GeneratorEnding.DEADLINE, -9, 30.0, 1.0)).rows
    assert [row.status for row in rows].count("missing") == 1
    assert rows[5].status == "missing"


def test_what_was_in_flight_when_a_closed_loop_was_ended_is_missing():
    schedule = closed_schedule(concurrency=3)
    sent = sent_of(schedule, [], Exit(GeneratorEnding.DEADLINE, -9, 30.0, 1.0))
    assert [(row.status, row.sent_at_s) for row in sent.rows] == [("missing", 0.0)] * 3
    some = {i: answer for i, answer in loop(concurrency=3, until_s=3.0).items() if i != 10}
    sent = sent_of(schedule, some.values(), Exit(GeneratorEnding.STOPPED, -2, 30.0, 1.0))
    statuses = [row.status for row in sent.rows]
    assert statuses.count("missing") == 3, "one below the last record, two after it"
    assert not sent.as_asked


def test_a_closed_loop_that_ran_out_of_requests_is_measured_as_long_as_it_lasted():
    schedule = closed_schedule(count=12)
    sent = sent_of(schedule, loop(until_s=3.0).values(), DONE)
    assert sent.window_s == pytest.approx(1.5)
    assert sent.warnings[0] == "the load lasted 1.5 s of a window of 4.0 s"


def test_a_closed_loop_that_held_too_few_is_told():
    answers = {i: replace(answer, e2e_s=0.2) for i, answer in loop().items()}
    sent = sent_of(closed_schedule(), answers.values(), DONE)
    assert sent.warnings == ("0.8 requests were in flight on average, of 2",)


def test_completions_that_disagree_with_littles_law_are_told():
    # Every second record says it took a tenth of the time: then the mean latency is that of another load.
    answers = {
        i: a if i % 8 else replace(a, e2e_s=9.0) for i, a in loop(concurrency=4, service_s=0.25, until_s=9.0).items()
    }
    sent = sent_of(closed_schedule(concurrency=4, count=200), answers.values(), DONE)
    assert any("in flight for" in warning for warning in sent.warnings)


def test_a_last_token_is_never_before_the_first(tmp_path):
    schedule = open_schedule()
    answers = {**answers_to(schedule), 2: replace(good(2, 0.0), ttft_s=0.4001, e2e_s=0.4)}
    sent = sent_of(schedule, answers.values(), DONE)
    path = write_records(tmp_path, CellKey("chat", 1, "r1"), 0, sent.rows)
    faults = FaultList("records")
    assert read_records(path, sent.window_s, faults) is not None
    assert not faults.errors


def test_records_of_other_requests_are_passed_over_and_told():
    schedule = open_schedule()
    for place in (999_999, -1, len(schedule)):
        sent = sent_of(schedule, [*answers_to(schedule).values(), good(place, 0.1)], DONE)
        assert (len(sent.rows), sent.cut, sent.heard.recorded) == (6, "", len(schedule))
        assert sent.warnings == ("1 record names no request of this measurement, and was ignored",)
    assert sent_of(closed_schedule(), [*loop().values(), good(999_999, 0.1)], DONE).rows[-1].status == "ok"


def ended(ending, code=0, at_s=math.inf):
    return Exit(ending, code, 20.0, 3.0, (), START + at_s)


def test_how_a_sending_was_cut():
    schedule = open_schedule()
    some = list(answers_to(schedule).values())[:4]
    assert (
        sent_of(schedule, some, ended(GeneratorEnding.FAILED, 137)).cut == "the load generator failed (exit code 137)"
    )
    assert (
        sent_of(schedule, some, ended(GeneratorEnding.DEADLINE)).cut == "the load generator was stopped at its deadline"
    )
    assert sent_of(schedule, some, ended(GeneratorEnding.STOPPED)).cut == ""
    assert sent_of(schedule, answers_to(schedule).values(), ended(GeneratorEnding.FAILED, 1)).cut == "", "all is there"
    closed = closed_schedule(count=40)
    assert (
        sent_of(closed, loop(until_s=3.0).values(), DONE).cut
        == "the load generator ended by itself after 12 of 40 requests"
    )
    assert sent_of(closed, loop(until_s=3.0).values(), ended(GeneratorEnding.DEADLINE)).cut
    assert sent_of(closed_schedule(count=12), loop(until_s=3.0).values(), DONE).cut == "", "it sent all that it had"
    one_lost = [answer for i, answer in loop().items() if i != 5]
    assert sent_of(closed, one_lost, ended(GeneratorEnding.DEADLINE)).cut == "", "it sent more than the window"


def lacking(count, of=400, ending=GeneratorEnding.DONE, recorded=True, succeeded=True, cut=""):
    """A load of which `count` of the window's requests have no record."""
    rows = [RequestRow(-0.5, status="missing")] + [RequestRow(0.01 * i, status="ok") for i in range(of - count)]
    rows += [RequestRow(1.0, status="missing")] * count
    heard = Heard(of if succeeded else 0, recorded=of if recorded else 0)
    return Sent(tuple(rows), 4.0, START, ending, 0, 9.0, 1.0, heard=heard, cut=cut)


@pytest.mark.parametrize(
    ("sent", "held", "why"),
    [
        (lacking(0), 0, ""),
        (lacking(4), 0, ""),
        (lacking(5), 0, "5 of 400 requests of the window left no record"),
        (lacking(1, of=40), 0, ""),
        (lacking(2, of=40), 0, "2 of 40 requests of the window left no record"),
        (lacking(1, cut="it failed"), 0, "1 of 400 requests of the window left no record: it failed"),
        (lacking(0, cut="it failed"), 0, "the load was cut short: it failed"),
        (lacking(90, ending=GeneratorEnding.DEADLINE, cut="late"), 90, ""),
        (
            lacking(90, ending=GeneratorEnding.DEADLINE, cut="late"),
            9,
            "90 of 400 requests of the window left no record: late",
        ),
        (lacking(400, ending=GeneratorEnding.DEADLINE, cut="late", recorded=False), 9, ""),
        (lacking(300, ending=GeneratorEnding.STOPPED, succeeded=False), 0, ""),
        (lacking(300, ending=GeneratorEnding.STOPPED), 0, "300 of 400 requests of the window left no record"),
    ],
)
def test_requests_that_a_living_server_was_not_seen_to_answer(sent, held, why):
    assert why_unrecorded(sent, held) == why


def test_only_what_was_sent_before_the_end_of_the_program_can_be_unheard():
    schedule = open_schedule(due=tuple(0.1 * i for i in range(-10, 60)))
    some = {i: answer for i, answer in answers_to(schedule).items() if i < 52}
    assert sent_of(schedule, some.values(), DONE).heard.unheard == 18
    assert sent_of(schedule, some.values(), ended(GeneratorEnding.DONE, at_s=4.35)).heard.unheard == 2


def test_failures_explain_empty_places_as_far_as_they_would_have_filled_them():
    rows = [RequestRow(0.1, e2e_s=0.5, status="ok")] * 20
    refused = [RequestRow(0.1, e2e_s=0.1, status="rejected")] * 10
    lost = [RequestRow(0.1, status="missing")] * 10
    assert places_of_failures([*rows, *lost], 4.0) == 0.0
    assert places_of_failures([*rows, *refused, *lost], 4.0) == pytest.approx(10 * 0.4 / 4.0)
    assert places_of_failures(refused, 4.0) == math.inf
