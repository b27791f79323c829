"""`vllm bench serve` as the load generator: for cross-checks, and where AIPerf is not at hand.

It draws the prompts itself, of the lengths and from the ids of the schedule: its tokenizer is one that knows these ids and no
others. It writes its records at the end, so a run that is ended at its deadline leaves none, and it has no time-out of a
request. It sends all that it is given: the cool-down is cut short, and a closed loop needs a number of requests. Verified with
vLLM 0.32.0.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path

import numpy as np

from fleetsieve.errors import UsageError
from fleetsieve.live.load.answers import Exit, RequestAnswer, sent_of
from fleetsieve.live.load.process import run_watched
from fleetsieve.live.load.protocol import Flow, GeneratorEnding, GeneratorKind, Sent, Watch
from fleetsieve.live.load.schedule import Schedule
from fleetsieve.live.load.warnings import SEND_ERROR_LIMIT_S
from fleetsieve.live.processes.log import KEPT_LINES, last_lines

RESULT = "result.json"
LOG = "vllm-bench.log"

_ONE_CHUNK = 10**9
"""A chunk longer than any prompt: each row's one hash makes the whole prompt."""


@dataclass(frozen=True, slots=True)
class VllmBench:
    """Sends with `command` bench serve, at most `cooldown_s` of a schedule's cool-down; `arguments` are added.

    A p99 send-time error above `send_error_limit_s` is reported.
    """

    command: tuple[str, ...] = ("vllm",)
    arguments: tuple[str, ...] = ()
    send_error_limit_s: float = SEND_ERROR_LIMIT_S
    cooldown_s: float = 5.0

    @property
    def name(self) -> str:
        """The name in a configuration."""
        return "vllm-bench"

    def send(
        self, schedule: Schedule, url: str, model: str, folder: Path, deadline_s: float, watch: Watch | None = None
    ) -> Sent:
        """Send a schedule, as the protocol requires."""
        if schedule.due_s is None and not schedule.sized:
            raise UsageError(
                "vllm bench cannot end a closed loop in time", "use aiperf, or say how many requests the loop has"
            )
        folder = folder.resolve()
        tokenizer, rows, log = folder / "tokenizer", folder / "trace.jsonl", folder / LOG
        tokenizer.mkdir(parents=True, exist_ok=True)
        _write_tokenizer(tokenizer, schedule.token_ids)
        count = len(schedule)
        if schedule.due_s is not None:
            count = int(np.searchsorted(schedule.due_s, schedule.window_s + self.cooldown_s))
        with rows.open("w") as file:
            file.writelines(trace_rows(schedule, count))
        began_unix_s = time.time()
        ended = run_watched(
            self._arguments(schedule, count, url, model, folder),
            log=log,
            environment=os.environ | {"PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"},
            deadline_s=deadline_s,
            enough=lambda elapsed_s: watch is not None and watch(Flow(elapsed_s)),
        )
        rows.unlink()
        answers = read_result(folder / RESULT)
        if ended.interrupted:
            ending = GeneratorEnding.DEADLINE if ended.interrupted == "deadline" else GeneratorEnding.STOPPED
        else:
            ending = GeneratorEnding.DONE if answers and ended.exit_code == 0 else GeneratorEnding.FAILED
        exit = Exit(
            ending, ended.exit_code, ended.wall_s, ended.cpu_s, last_lines(log, KEPT_LINES), began_unix_s + ended.wall_s
        )
        return sent_of(schedule, answers, exit, self.send_error_limit_s)

    def _arguments(self, schedule: Schedule, count: int, url: str, model: str, folder: Path) -> list[str]:
        pace = [] if schedule.concurrency is None else ["--max-concurrency", str(schedule.concurrency)]
        return [
            *self.command, "bench", "serve", "--backend", "openai", "--base-url", url, "--model", model,
            "--tokenizer", str(folder / "tokenizer"), "--dataset-name", "timed_trace",
            "--dataset-path", str(folder / "trace.jsonl"), "--timed-trace-sec-multiplier", "0.001",
            "--timed-trace-chunk-hash-size", str(_ONE_CHUNK), "--num-prompts", str(count), "--temperature", "0",
            "--percentile-metrics", "ttft,e2el", "--metric-percentiles", "50,99", "--save-result", "--save-detailed",
            "--result-dir", str(folder), "--result-filename", RESULT, "--disable-tqdm", *pace, *self.arguments,
        ]  # fmt: skip


KIND = GeneratorKind(
    "vllm-bench",
    lambda command, _request_timeout_s: VllmBench(command),  # it has no time-out of a request
    ("vllm",),
    "pip install vllm (its `vllm bench serve` sends the load), and [load] command = [the path of vllm]",
    holds_concurrency=False,
)


def trace_rows(schedule: Schedule, count: int) -> Iterator[str]:
    """The lines of the trace, of the first `count` requests: time in milliseconds, lengths, and a hash of its own."""
    due_s = repeat(0.0) if schedule.due_s is None else (schedule.due_s + schedule.warmup_s).tolist()
    lengths = zip(schedule.input_tokens.tolist(), schedule.output_tokens.tolist(), strict=True)
    for i, (moment_s, (inputs, outputs)) in enumerate(islice(zip(due_s, lengths, strict=False), count)):
        row = {"timestamp": round(1e3 * moment_s, 3), "input_length": inputs, "output_length": outputs}
        yield json.dumps(row | {"hash_ids": [f"{schedule.seed}-{i}"]}) + "\n"


def _write_tokenizer(folder: Path, token_ids: tuple[int, int]) -> None:
    # A text of it is one unknown word: an answer without a token count is counted as one token, and so as cut.
    names = {f"t{i}": i for i in range(*token_ids)}
    unknown = {"<unk>": 0 if token_ids[0] else token_ids[1]}
    model = {"type": "WordLevel", "vocab": unknown | names, "unk_token": "<unk>"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def read_result(path: Path) -> list[RequestAnswer]:
    """The answers in the file that the program writes at its end; none when it did not, or not whole."""
    try:
        document = json.loads(path.read_bytes())
        columns = [
            document[name] for name in ("start_times", "ttfts", "latencies", "input_lens", "output_lens", "errors")
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    to_unix_s = time.time() - time.perf_counter()  # one clock for all processes of a machine
    return [
        _answer(i, start_s + to_unix_s, *rest)
        for i, (start_s, *rest) in enumerate(zip(*columns, strict=True))
        if start_s  # 0 where nothing was sent
    ]


def _answer(
    i: int, sent_unix_s: float, ttft_s: float, e2e_s: float, inputs: int, outputs: int, error: str
) -> RequestAnswer:
    if error or not e2e_s:
        return RequestAnswer(
            i, sent_unix_s, failure=_failure(error), reason=(_last_line(error) or "no token came")[:200]
        )
    return RequestAnswer(i, sent_unix_s, ttft_s, e2e_s, inputs, outputs)


_REFUSED = (
    "Service Unavailable",
    "Too Many Requests",
    "Bad Request",
    "Not Found",
    "Unprocessable Entity",
    "Unauthorized",
)


def _failure(error: str) -> str:
    if any(reason in error for reason in _REFUSED):
        return "rejected"
    return "timeout" if "TimeoutError" in error else "failed"


def _last_line(error: str) -> str:
    lines: Sequence[str] = error.strip().splitlines()
    return " ".join(lines[-1].split()) if lines else ""
