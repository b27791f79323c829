"""Why a server did not start, or did not live: from its exit code and the end of its log.

Only what would fail again every time is a `failed_start`; memory, time-outs and deaths have statuses that may be flakes, and
closing a cell for good needs more than one of them. And only what is about the cell shows anything about it: a refused argument
or a model that is not there would stop a server of any TP, and is no evidence about GPUs (`About`).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleetsieve.instance import Status
from fleetsieve.live.processes.log import KEPT_LINES

_BEFORE = re.compile(r"^(\([^)]*pid=\d+\)\s*)?((ERROR|CRITICAL) [\d-]+ [\d:]+ \[[^]]*\]\s*)?")
_AFTER = re.compile(r" \[type=\w+, input_value=.*")
_HARMLESS = re.compile(r"\b(DEBUG|INFO|WARNING) \d\d-\d\d ")
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
"""Signals that somebody else sends: the server itself stated nothing."""


class About(StrEnum):
    """What a failure shows something about."""

    CELL = "cell"
    """The TP, its memory or its port, or the load: another server may be well."""
    CONFIGURATION = "configuration"
    """What serve.toml states, or the model: it would stop the server of any TP."""
    COMMAND = "command"
    """The command that starts a server, which is missing or cannot be run."""
    UNKNOWN = "unknown"
    """Nobody knows: the server ended at its start with words that nothing here recognises."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed start or a death: what it is in a few words, whether another try can help, and the last lines of the log.

    `log` is where the log lies, "" where there is none.
    """

    status: Status
    reason: str
    retry: bool
    last_lines: tuple[str, ...] = ()
    about: About = About.CELL
    log: str = ""

    def __str__(self) -> str:
        return f"{self.status.value}: {self.reason}"


@dataclass(frozen=True, slots=True)
class _Sign:
    """A pattern in the log, and what it means; `{line}` in the reason is the line that has it."""

    pattern: re.Pattern[str]
    status: Status
    reason: str
    retry: bool
    about: About


def _sign(pattern: str, status: Status, reason: str, *, retry: bool = False, about: About = About.CELL) -> _Sign:
    return _Sign(re.compile(pattern, re.IGNORECASE), status, reason, retry, about)


HEADS = re.compile(r"attention heads \((\d+)\)\s*must be divisible by tensor parallel size \((\d+)\)", re.IGNORECASE)

_MEMORY = _sign(
    r"out of memory|OutOfMemoryError|cudaErrorMemoryAllocation|No available memory for the cache blocks"
    r"|larger than the available KV cache memory|less than desired (GPU|CPU) memory utili[sz]ation"
    r"|can't allocate memory|Cannot allocate memory|\bMemoryError\b|is less than requested memory",
    Status.OOM,
    "out of memory: {line}",
    retry=True,
)
_ENGINE = _sign(
    r"Engine core initialization failed|Engine process failed|EngineDeadError|EngineCore .*died|WorkerProc init\w* failed",
    Status.CRASHED,
    "the engine died at its start: {line}",
    retry=True,
    about=About.UNKNOWN,
)
_STARTS = (
    _sign(r"Address already in use|EADDRINUSE", Status.CRASHED, "a port is in use: {line}", retry=True),
    _sign(
        r"(larger than|exceeds?|cannot be larger than).*(available|number of) GPUs|invalid device ordinal|not enough GPUs",
        Status.FAILED_START,
        "more GPUs are requested than there are: {line}",
    ),
    _sign(
        r"No CUDA GPUs are available|Found no NVIDIA driver|Failed to infer device type",
        Status.FAILED_START,
        "the server finds no GPU: {line}",
        about=About.CONFIGURATION,
    ),
    _MEMORY,
    _sign(
        r"NCCL (error|WARN)|ncclUnhandled|ncclSystemError|ncclInternalError|ncclRemoteError|DistBackendError|DistStoreError"
        r"|DistNetworkError|Watchdog caught collective|Rendezvous\w*Error|connectFullMesh|socket timeout|wait timeout after",
        Status.TIMEOUT,
        "the processes of the server could not connect (NCCL or similar): {line}",
        retry=True,
    ),
    _sign(
        r"\d+ is not divisible by \d+\.?$"
        r"|(?=.*divisible)(?=.*(tensor[ _-]?parallel|\btp(_size)?\b|world[ _]size|partition|block_[nk]\b|number of GPUs))",
        Status.FAILED_START,
        "the model cannot be split this way: {line}",
    ),
    _sign(
        r"unrecognized arguments|: error: |expected one argument|invalid choice|Unexpected keyword argument",
        Status.FAILED_START,
        "an argument was rejected: {line}",
        about=About.CONFIGURATION,
    ),
    _sign(
        r"is not a valid model identifier|Repository Not Found|GatedRepo|gated repo|No such file or directory.*config"
        r"|does not appear to have a file named|No model architectures are specified|architectures .* (are )?not supported"
        r"|Repo id must |LocalEntryNotFoundError|OfflineModeIsEnabled|Invalid repository ID or local directory"
        r"|cannot find any model weights|HFValidationError|outgoing traffic has been disabled|couldn't connect to",
        Status.FAILED_START,
        "the model cannot be loaded: {line}",
        about=About.CONFIGURATION,
    ),
    _sign(
        r"Value error, |validation errors? for|ValidationError",
        Status.FAILED_START,
        "the configuration was rejected: {line}",
        about=About.CONFIGURATION,
    ),
    _ENGINE,
)
"""In the order in which they count: the root cause is before what follows from it."""


def start_failure(
    exit_code: int | None, log: Sequence[str], *, waited_s: float | None = None, valid_tps: Sequence[int] | None = None
) -> Failure:
    """Why a start failed. `exit_code` is None when the server still lived as its deadline of `waited_s` was over.

    `valid_tps` are named where the TP does not divide the heads; unknown, they follow from the heads in the log.
    """
    kept = tuple(log[-KEPT_LINES:])
    for line in log:
        if match := HEADS.search(line):
            heads, tp = int(match[1]), int(match[2])
            valid = valid_tps or [n for n in range(1, heads + 1) if heads % n == 0]
            reason = f"TP {tp} does not divide the {heads} attention heads; TP can be {', '.join(map(str, valid))}"
            return Failure(Status.FAILED_START, reason, False, kept)
    for sign in _STARTS:
        if found := _last(sign.pattern, log):
            return Failure(sign.status, sign.reason.format(line=found), sign.retry, kept, sign.about)
    if exit_code is None:
        reason = f"not ready after {waited_s:g} s" if waited_s is not None else "not ready in time"
        return Failure(Status.TIMEOUT, reason, True, kept)
    if exit_code == 2:
        return Failure(Status.FAILED_START, "an argument was rejected (exit code 2)", False, kept, About.CONFIGURATION)
    if exit_code in (126, 127):
        reason = f"the command cannot be run (exit code {exit_code})"
        return Failure(Status.FAILED_START, reason, False, kept, About.COMMAND)
    about = About.CELL if -exit_code in _FROM_OUTSIDE else About.UNKNOWN
    return Failure(Status.CRASHED, _ended(exit_code, "before it was ready"), True, kept, about)


def death(exit_code: int | None, log: Sequence[str], health: int | None = None) -> Failure:
    """Why a server that had been ready is gone (`exit_code`), or lives (None) and answers /health with the status `health`."""
    kept = tuple(log[-KEPT_LINES:])
    if found := _last(_MEMORY.pattern, log):
        return Failure(Status.OOM, _MEMORY.reason.format(line=found), True, kept)
    what = f"it answers /health with {health or 'nothing'}" if exit_code is None else _ended(exit_code, "while serving")
    return Failure(Status.CRASHED, what, True, kept)


def _last(pattern: re.Pattern[str], log: Sequence[str]) -> str | None:
    """The last line with the pattern, of a traceback that is the error itself; what loggers put around it is left out.

    Lines of information and warning speak of what might be, and count for nothing.
    """
    found = next((line for line in reversed(log) if pattern.search(line) and not _HARMLESS.search(line)), None)
    return None if found is None else _AFTER.sub("", _BEFORE.sub("", found)).strip()[:200]


def _ended(exit_code: int, when: str) -> str:
    if exit_code >= 0:
        return f"it ended with exit code {exit_code} {when}"
    hint = " (the kernel does that when memory runs out)" if exit_code == -9 else ""
    return f"it was killed by signal {-exit_code} {when}{hint}"
