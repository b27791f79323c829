"""From what a load generator recorded to what came of the schedule: every request that was due has a row, also the silent ones.

A request succeeded when it ended without an error and brought as many tokens as it was asked for. One without a record
is missing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from fleetsieve.files.records import RequestRow
from fleetsieve.live.load import warnings
from fleetsieve.live.load.protocol import GeneratorEnding, Heard, Sent
from fleetsieve.live.load.schedule import Schedule

NO_RECORD = "no record of the request"
NO_COUNT = "the answer ended without a token count: an error in the stream, or a server that reports no usage"
NO_TOKEN = "the answer brought no token"
CUT = "fewer tokens than asked for"

CUT_WITHIN_S = 2.0
"""Requests that were sent so long after the last one with a record may have been answered as the sending was cut."""


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """What was recorded of one request, by its place in the schedule.

    `sent_unix_s` is on the wall clock; `ttft_s` and `e2e_s` (until it ended, well or not) count from it. `failure` is "failed",
    "rejected" or "timeout", "" when the program saw no error, and `reason` its words.
    """

    request: int
    sent_unix_s: float
    ttft_s: float | None = None
    e2e_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    failure: str = ""
    reason: str = ""

    @property
    def ended_unix_s(self) -> float:
        """When it ended; when it was sent, where nothing shows it."""
        return self.sent_unix_s + (self.e2e_s or 0.0)


@dataclass(frozen=True, slots=True)
class Window:
    """Where the window lies on the wall clock."""

    start_unix_s: float
    length_s: float

    @property
    def end_unix_s(self) -> float:
        """The end of the window."""
        return self.start_unix_s + self.length_s


@dataclass(frozen=True, slots=True)
class Exit:
    """How the program that sent the requests ended, and when on the wall clock (infinity: not known)."""

    ending: GeneratorEnding
    exit_code: int | None
    wall_s: float
    client_cpu_s: float
    last_lines: tuple[str, ...] = ()
    ended_unix_s: float = math.inf


Answers = Mapping[int, RequestAnswer]
"""What was recorded, by the place of the request in the schedule."""


def answer_status(answer: RequestAnswer, asked_tokens: int) -> tuple[str, str]:
    """The status of an answer to a request for `asked_tokens`, and the reason when it is not "ok"."""
    if answer.failure:
        return answer.failure, answer.reason
    if answer.output_tokens is None or answer.e2e_s is None:
        return "failed", NO_COUNT
    if answer.ttft_s is None:
        return "failed", NO_TOKEN
    return ("ok", "") if answer.output_tokens >= asked_tokens else ("failed", CUT)


def window_of(schedule: Schedule, answers: Answers) -> Window | None:
    """Where the window lies, as far as the answers tell; None before it is known.

    Open loop: the request that was sent most on time (against the others) was sent on time. Closed loop: the window begins when
    the warm-up's time is over and as many requests have ended as are in flight.
    """
    if not answers:
        return None
    if schedule.due_s is not None:
        start = min(answer.sent_unix_s - float(schedule.due_s[i]) for i, answer in answers.items())
        return Window(start, schedule.window_s)
    assert schedule.concurrency is not None
    ends = np.sort([answer.ended_unix_s for answer in answers.values()])
    if len(ends) < schedule.concurrency:
        return None
    sent = np.sort([answer.sent_unix_s for answer in answers.values()])
    start = max(float(sent[0]) + schedule.warmup_s, float(ends[schedule.concurrency - 1]))
    length = schedule.window_s
    if schedule.min_requests is not None:
        inside = sent[sent >= start]
        enough = len(inside) >= schedule.min_requests
        last = float(inside[schedule.min_requests - 1]) - start if enough else np.inf
        length = max(length, float(np.nextafter(last, np.inf)))  # the last one is in it
    if schedule.max_window_s is not None:
        length = min(length, max(schedule.window_s, schedule.max_window_s))
    return Window(start, length)


def complete(schedule: Schedule, answers: Answers) -> bool:
    """Whether every request of the warm-up and the window has ended, so that sending more shows nothing."""
    window = window_of(schedule, answers)
    if window is None:
        return False
    if schedule.due_s is not None:
        return all(int(i) in answers for i in np.flatnonzero(schedule.due_s < schedule.window_s))
    after = min((i for i, answer in answers.items() if answer.sent_unix_s > window.end_unix_s), default=None)
    return after is not None and all(i in answers for i in range(after))


def sent_of(
    schedule: Schedule,
    found: Iterable[RequestAnswer],
    exit: Exit,
    send_error_limit_s: float = warnings.SEND_ERROR_LIMIT_S,
) -> Sent:
    """What came of `schedule`, given the answers that were recorded (of one request the first counts).

    A record that names no request of the schedule is ignored and reported.
    """
    answers: dict[int, RequestAnswer] = {}
    strangers = 0
    for one in found:
        if 0 <= one.request < len(schedule):
            answers.setdefault(one.request, one)
        else:
            strangers += 1
    cut = _cut(schedule, answers, exit)
    window = window_of(schedule, answers) or _unseen_window(schedule, answers)
    found_warnings = [] if exit.ending is GeneratorEnding.DONE else [_ended(exit)]
    if schedule.due_s is None:
        window, ran_out = _until_it_ran_out(window, schedule, answers, exit)
        found_warnings += ran_out
    else:
        window = _with_its_last(window, schedule, answers)
    rows: list[RequestRow] = []
    failures: Counter[str] = Counter()
    for i, due_s, answer in _due(schedule, answers, window, exit):
        sent_at_s = due_s if answer is None else answer.sent_unix_s - window.start_unix_s
        if sent_at_s >= window.length_s:
            continue
        row, reason = _row(schedule, i, sent_at_s, answer)
        rows.append(row)
        if reason and sent_at_s >= 0.0:
            failures[reason] += 1
    late_s = [
        answer.sent_unix_s - window.start_unix_s - float(schedule.due_s[i])
        for i, answer in answers.items()
        if schedule.due_s is not None and 0.0 <= schedule.due_s[i] < window.length_s
    ]
    in_flight = warnings.mean_in_flight(rows, window.length_s) if schedule.concurrency is not None and answers else None
    found_warnings += warnings.of_strangers(strangers)
    found_warnings += warnings.of_sending(late_s, send_error_limit_s)
    found_warnings += warnings.of_closed_loop(rows, window.length_s, schedule.concurrency, in_flight)
    counted = [
        (int(schedule.input_tokens[i]), a.input_tokens) for i, a in answers.items() if a.input_tokens is not None
    ]
    found_warnings += warnings.of_lengths(counted)
    found_warnings += warnings.of_pieces([row for row in rows if row.status == "ok" and row.sent_at_s >= 0.0])
    median, tail = warnings.median_and_p99(late_s)
    return Sent(
        tuple(rows),
        window.length_s,
        window.start_unix_s if answers else None,
        exit.ending,
        exit.exit_code,
        exit.wall_s,
        exit.client_cpu_s,
        median,
        tail,
        in_flight,
        tuple(found_warnings),
        MappingProxyType(dict(failures.most_common())),
        exit.last_lines,
        _heard(schedule, answers, window, exit),
        warnings.of_window(len(late_s), len(late_s) - _after(schedule, answers, window)),
        cut,
    )


def _cut(schedule: Schedule, answers: Answers, exit: Exit) -> str:
    """How the sending ended before all was recorded; "" where it ended as planned, or whoever watched asked for it.

    A closed loop that lost a record is never complete. It was not cut where it sent all that it had, or more than the window.
    """
    if exit.ending is GeneratorEnding.STOPPED or complete(schedule, answers):
        return ""
    if schedule.due_s is not None:
        return "" if exit.ending is GeneratorEnding.DONE else _ended(exit)
    assert schedule.concurrency is not None
    window = window_of(schedule, answers)
    known = max(answers, default=-1) + 1
    if window is not None and max(answer.sent_unix_s for answer in answers.values()) > window.end_unix_s:
        return ""
    if exit.ending is not GeneratorEnding.DONE:
        return _ended(exit)
    if known + schedule.concurrency > len(schedule):
        return ""
    return f"the load generator ended by itself after {known:,} of {len(schedule):,} requests"


def _after(schedule: Schedule, answers: Answers, window: Window) -> int:
    """How many requests of an open loop were due in the window and sent after it."""
    if schedule.due_s is None:
        return 0
    due = schedule.due_s
    return sum(0.0 <= due[i] < window.length_s and a.sent_unix_s >= window.end_unix_s for i, a in answers.items())


def _heard(schedule: Schedule, answers: Answers, window: Window, exit: Exit) -> Heard:
    good = [answer for i, answer in answers.items() if answer_status(answer, int(schedule.output_tokens[i]))[0] == "ok"]
    if schedule.due_s is None:
        unheard = schedule.concurrency or 0
    else:
        until_s = max((float(schedule.due_s[i]) for i in answers), default=-schedule.warmup_s) + CUT_WITHIN_S
        if answers:  # nothing was sent after the program's end
            until_s = min(until_s, exit.ended_unix_s - window.start_unix_s)
        unheard = max(0, int(np.count_nonzero(schedule.due_s <= until_s)) - len(answers))
    ttft_s = [answer.ttft_s for answer in good if answer.ttft_s is not None]
    e2e_s = [answer.e2e_s for answer in good if answer.e2e_s is not None]
    mean_ttft_s, mean_e2e_s = (float(np.mean(values)) if values else None for values in (ttft_s, e2e_s))
    return Heard(len(good), mean_ttft_s, mean_e2e_s, unheard, len(answers))


_ENDED = {
    GeneratorEnding.DEADLINE: "the load generator was stopped at its deadline",
    GeneratorEnding.STOPPED: "the load generator was stopped",
    GeneratorEnding.FAILED: "the load generator failed",
}


def _ended(exit: Exit) -> str:
    """How the program ended, where it was not as it should be; of one that failed with its last words."""
    if exit.ending is not GeneratorEnding.FAILED:
        return _ENDED[exit.ending]
    words = f": {exit.last_lines[-1].strip()[:200]}" if exit.last_lines else ""
    return f"{_ENDED[exit.ending]} (exit code {exit.exit_code}){words}"


def _unseen_window(schedule: Schedule, answers: Answers) -> Window:
    """The window of a closed loop that never came out of its warm-up, or of a measurement without an answer."""
    first = min((answer.sent_unix_s for answer in answers.values()), default=0.0)
    return Window(first + schedule.warmup_s, schedule.window_s)


def _with_its_last(window: Window, schedule: Schedule, answers: Answers) -> Window:
    """The window of an open loop, with the requests that were due in it and sent a moment after its end.

    A measurement that is to have so many requests, because so many bound a p99, then has them.
    """
    assert schedule.due_s is not None
    due = [answer.sent_unix_s - window.start_unix_s for i, answer in answers.items()
           if 0.0 <= schedule.due_s[i] < window.length_s]  # fmt: skip
    last_s = max((at_s for at_s in due if at_s < window.length_s + warnings.SEND_ERROR_LIMIT_S), default=0.0)
    return window if last_s < window.length_s else Window(window.start_unix_s, float(np.nextafter(last_s, np.inf)))


def _until_it_ran_out(window: Window, schedule: Schedule, answers: Answers, exit: Exit) -> tuple[Window, list[str]]:
    """The window of a closed loop, ended where its load ended, and the warning about it."""
    last = max((answer.sent_unix_s for answer in answers.values()), default=window.start_unix_s)
    length_s = last - window.start_unix_s
    if length_s >= window.length_s or complete(schedule, answers):
        return window, []
    reason = f"the load lasted {max(0.0, length_s):.1f} s of a window of {window.length_s:.1f} s"
    if np.isinf(window.length_s):
        reason = f"the load ended before {schedule.min_requests} requests were sent in the window"
        window = Window(window.start_unix_s, schedule.window_s)
    if exit.ending is GeneratorEnding.DONE and length_s > 0.0:
        window = Window(window.start_unix_s, length_s)
    return window, [reason]


def _due(
    schedule: Schedule, answers: Answers, window: Window, exit: Exit
) -> Iterable[tuple[int, float, RequestAnswer | None]]:
    """Every request that was due, or was sent in a closed loop, with its moment in the window and its answer."""
    if schedule.due_s is not None:
        for i, due_s in enumerate(schedule.due_s.tolist()):
            yield i, due_s, answers.get(i)
        return
    assert schedule.concurrency is not None
    known = max(answers, default=-1) + 1
    moment = (
        -schedule.warmup_s if not answers else 0.0
    )  # of a request without a record: when the one before it was sent
    silent = 0
    for i in range(known):
        answer = answers.get(i)
        moment = moment if answer is None else answer.sent_unix_s - window.start_unix_s
        silent += answer is None
        yield i, moment, answer
    if exit.ending is not GeneratorEnding.DONE or not answers:
        # A program that was ended in the middle had as many requests in flight as it was to hold.
        for i in range(known, min(len(schedule), known + schedule.concurrency - silent)):
            yield i, max(moment, 0.0), None


def _row(schedule: Schedule, i: int, sent_at_s: float, answer: RequestAnswer | None) -> tuple[RequestRow, str]:
    due_s = None if schedule.due_s is None else float(schedule.due_s[i])
    asked_in = int(schedule.input_tokens[i])
    if answer is None:
        return RequestRow(sent_at_s, due_s, asked_in, None, None, None, "missing"), NO_RECORD
    status, reason = answer_status(answer, int(schedule.output_tokens[i]))
    counted_in = asked_in if answer.input_tokens is None else answer.input_tokens
    e2e_s = answer.e2e_s  # two clocks of a client may put the last token microseconds before the first
    if e2e_s is not None and answer.ttft_s is not None:
        e2e_s = max(e2e_s, answer.ttft_s)
    return RequestRow(sent_at_s, due_s, counted_in, answer.output_tokens, answer.ttft_s, e2e_s, status), reason
