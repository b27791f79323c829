"""AIPerf (NVIDIA) as the load generator: a program in an environment of its own, never imported.

Each request is a whole payload with token ids, so its length is exact and no tokenizer takes part; AIPerf loads one all the
same, and gets an empty one. Its records are read as they are written: the sending stops when every request of the window has
ended. Its summary is not used (an error event in a stream counts as a success there). Verified with 0.13.0.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetsieve.live.load.answers import NO_TOKEN, Exit, RequestAnswer, complete, sent_of, window_of
from fleetsieve.live.load.process import run_watched
from fleetsieve.live.load.protocol import Flow, GeneratorEnding, GeneratorKind, Sent, Watch
from fleetsieve.live.load.schedule import Schedule
from fleetsieve.live.load.warnings import SEND_ERROR_LIMIT_S
from fleetsieve.live.processes.log import KEPT_LINES, last_lines

RECORDS = "profile_export.jsonl"
FREE_SLOTS_SEEN_RPS = 1000
"""How often a closed loop looks for a free slot. Without a rate AIPerf looks all the time: that takes a core, and where cores are
few its own workers wait for it and slots stay empty."""
LOG = "aiperf.log"

_TOKENIZER: Mapping[str, object] = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"},
}
_TOKENIZER_CONFIG: Mapping[str, object] = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
"""With these set AIPerf does not take a local folder for a tokenizer."""


@dataclass(frozen=True, slots=True)
class AIPerf:
    """Sends with `command` profile; `request_timeout_s` ends a request that does not end by itself.

    `arguments` are added to its command line. A p99 send-time error above `send_error_limit_s` is reported.
    """

    command: tuple[str, ...] = ("aiperf",)
    request_timeout_s: float = 120.0
    arguments: tuple[str, ...] = ()
    send_error_limit_s: float = SEND_ERROR_LIMIT_S

    @property
    def name(self) -> str:
        """The name in a configuration."""
        return "aiperf"

    def send(
        self, schedule: Schedule, url: str, model: str, folder: Path, deadline_s: float, watch: Watch | None = None
    ) -> Sent:
        """Send a schedule, as the protocol requires."""
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        payloads, tokenizer, log = folder / "payloads.jsonl", folder / "tokenizer", folder / LOG
        tokenizer.mkdir(exist_ok=True)
        (tokenizer / "tokenizer.json").write_text(json.dumps(_TOKENIZER))
        (tokenizer / "tokenizer_config.json").write_text(json.dumps(_TOKENIZER_CONFIG))
        with payloads.open("w") as file:
            file.writelines(payload_rows(schedule, model))
        tail = _Tail(folder / RECORDS, len(schedule))

        def enough(elapsed_s: float) -> bool:
            tail.read()
            done = complete(schedule, tail.answers)
            return done or (watch is not None and watch(_flow(schedule, tail.answers, elapsed_s)))

        environment = {name: value for name, value in os.environ.items() if name not in _OFFLINE}
        environment["AIPERF_METRICS_EXPORT_FLUSH_INTERVAL"] = "0.2"
        began_unix_s = time.time()
        ended = run_watched(
            self._arguments(schedule, url, model, folder),
            log=log,
            environment=environment,
            deadline_s=deadline_s,
            enough=enough,
        )
        tail.read()
        payloads.unlink()  # it can be made again from the schedule, and is by far the largest file
        whole = complete(schedule, tail.answers)
        if ended.interrupted:
            ending = (
                GeneratorEnding.DONE
                if whole
                else GeneratorEnding.DEADLINE
                if ended.interrupted == "deadline"
                else GeneratorEnding.STOPPED
            )
        else:
            ending = (
                GeneratorEnding.DONE if tail.answers and (ended.exit_code == 0 or whole) else GeneratorEnding.FAILED
            )
        exit = Exit(
            ending, ended.exit_code, ended.wall_s, ended.cpu_s, last_lines(log, KEPT_LINES), began_unix_s + ended.wall_s
        )
        return sent_of(schedule, [*tail.answers.values(), *tail.strangers], exit, self.send_error_limit_s)

    def _arguments(self, schedule: Schedule, url: str, model: str, folder: Path) -> list[str]:
        if schedule.due_s is not None:
            pace = ["--fixed-schedule"]
        else:
            pace = ["--concurrency", str(schedule.concurrency), "--request-count", str(len(schedule))]
            pace += ["--dataset-sampling-strategy", "sequential"]
            pace += ["--request-rate", str(FREE_SLOTS_SEEN_RPS), "--arrival-pattern", "constant"]
        return [
            *self.command, "profile", "--model", model, "--url", url, "--endpoint-type", "completions", "--streaming",
            "--input-file", str(folder / "payloads.jsonl"), "--custom-dataset-type", "mooncake_trace", *pace,
            "--use-server-token-count", "--tokenizer", str(folder / "tokenizer"), "--ui", "none", "--no-gpu-telemetry",
            "--no-server-metrics", "--request-timeout-seconds", f"{self.request_timeout_s:g}", "--random-seed", "1",
            "--export-level", "records", "--artifact-dir", str(folder), *self.arguments,
        ]  # fmt: skip


KIND = GeneratorKind(
    "aiperf",
    AIPerf,
    ("aiperf",),
    "pip install aiperf==0.13.0 in an environment of its own, and [load] command = [its path]",
)


def payload_rows(schedule: Schedule, model: str) -> Iterator[str]:
    """The lines of AIPerf's input: one whole request each, in the order of the schedule, named by its place there."""
    for i in range(len(schedule)):
        tokens = int(schedule.output_tokens[i])
        row: dict[str, object] = {"session_id": str(i)}
        if schedule.due_s is not None:
            row["timestamp"] = round(1e3 * (float(schedule.due_s[i]) + schedule.warmup_s), 3)
        row["payload"] = {
            "model": model,
            "prompt": schedule.prompt(i),
            "max_tokens": tokens,
            "min_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        yield json.dumps(row) + "\n"


class _Tail:
    """The records so far: whole lines of a file that grows. `strangers` name none of the `count` requests."""

    def __init__(self, path: Path, count: int) -> None:
        self._path, self._count, self._read_bytes = path, count, 0
        self.answers: dict[int, RequestAnswer] = {}
        self.strangers: list[RequestAnswer] = []

    def read(self) -> None:
        """Read the lines that were written since; a line that is no record is ignored, so its request stays missing."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                whole = file.read().rpartition(b"\n")[0]
        except OSError:
            return
        self._read_bytes += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            answer = read_record(line)
            if answer is None:
                continue
            if 0 <= answer.request < self._count:
                self.answers.setdefault(answer.request, answer)
            else:
                self.strangers.append(answer)


def read_record(line: bytes) -> RequestAnswer | None:
    """One line of AIPerf's records; None when it is none."""
    try:
        return _read(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def _read(record: Mapping[str, Any]) -> RequestAnswer:
    metadata, metrics, error = record["metadata"], record.get("metrics") or {}, record.get("error")
    request, sent_ns, ended_ns = (
        int(metadata["conversation_id"]),
        int(metadata["request_start_ns"]),
        metadata.get("request_end_ns"),
    )
    values = {name: _value(metrics, name) for name in _METRICS}
    ttft_ms, e2e_ms, tokens_in, tokens_out = values.values()
    e2e_s = e2e_ms / 1e3 if e2e_ms is not None else (int(ended_ns) - sent_ns) / 1e9 if ended_ns else None
    failure, reason = _failure(error, bool(metadata.get("was_cancelled")))
    if error is not None and error.get("type") == _NO_CONTENT:
        tokens_out, reason = 0.0, NO_TOKEN
    return RequestAnswer(
        request,
        sent_ns / 1e9,
        None if ttft_ms is None else ttft_ms / 1e3,
        e2e_s,
        None if tokens_in is None else int(tokens_in),
        None if tokens_out is None else int(tokens_out),
        failure,
        reason,
    )


_NO_CONTENT = "InvalidInferenceResultError"
"""What it calls an answer without any text."""

_METRICS = ("time_to_first_token", "request_latency", "usage_prompt_tokens", "usage_completion_tokens")


def _value(metrics: Mapping[str, Mapping[str, float]], name: str) -> float | None:
    found = metrics.get(name)
    return None if found is None else float(found["value"])


def _failure(error: Mapping[str, object] | None, cancelled: bool) -> tuple[str, str]:
    if error is None:
        return ("failed", "the request was cancelled") if cancelled else ("", "")
    kind, code = str(error.get("type", "")), str(error.get("code", ""))
    reason = " ".join(f"{code} {kind}: {error.get('message', '')}".split())[:200]
    if code == "503" or (code.startswith("4") and code != "408"):
        return "rejected", reason
    return ("timeout" if "timeout" in kind.lower() else "failed"), reason


def _flow(schedule: Schedule, answers: Mapping[int, RequestAnswer], elapsed_s: float) -> Flow:
    """How it goes, from the records so far."""
    window = window_of(schedule, answers)
    last = max((answer.ended_unix_s for answer in answers.values()), default=0.0)
    good: Sequence[RequestAnswer] = [answer for answer in answers.values() if not answer.failure]
    return Flow(
        elapsed_s,
        None if window is None else last - window.start_unix_s,
        len(answers),
        len(good),
        sum(answer.output_tokens or 0 for answer in good),
    )
