"""A failed start is a result: told from the exit code and the log, with what can be tried again."""

# ruff: noqa: E501  (a table is read along its rows, and a log's lines are as they are)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hostile import hostile, some_port

from fleetsieve.errors import EngineMissing, FleetSieveError, UsageError
from fleetsieve.instance import ServerKey, Status
from fleetsieve.live.processes.log import last_lines
from fleetsieve.live.serving.failures import About, Failure, death, start_failure
from fleetsieve.live.serving.register import NAME, Register, unfinished
from fleetsieve.live.serving.server import Server
from fleetsieve.live.serving.starts import Starts

LOGS = [
    (1, "(EngineCore pid=9) ERROR 11-30 08:12:57 [core.py:1510] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\nRuntimeError: Engine core initialization failed. See root cause above.", Status.OOM, "out of memory: torch.OutOfMemoryError: CUDA out of memory.", True),
    (1, "ValueError: Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than desired GPU memory utilization (0.9, 19.84 GiB).", Status.OOM, "out of memory: ValueError: Free memory on device cuda:0", True),
    (1, "ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.2 GiB).", Status.OOM, "out of memory", True),
    (1, "RuntimeError: Worker failed with error 'Available memory on node 0 (8.13/9.71 GiB) on kv cache allocation is less than requested memory for kv (900.0 GiB).", Status.OOM, "out of memory", True),
    (2, "usage: vllm serve [model_tag] [options]\nvllm: error: unrecognized arguments: --no-such-flag", Status.FAILED_START, "an argument was rejected: vllm: error: unrecognized arguments: --no-such-flag", False),
    (2, "something strange", Status.FAILED_START, "an argument was rejected (exit code 2)", False),
    (1, "pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, User-specified max_model_len (100000) is greater than the derived [type=value_error, input_value=x]", Status.FAILED_START, "the configuration was rejected: Value error, User-specified max_model_len (100000) is greater than the derived", False),
    (1, "  Value error, Total number of attention heads (52) must be divisible by tensor parallel size (8).", Status.FAILED_START, "TP 8 does not divide the 52 attention heads; TP can be 1, 2, 4, 13, 26, 52", False),
    (1, "ValueError: Tensor parallel size (4) cannot be larger than the number of available GPUs (2).", Status.FAILED_START, "more GPUs are requested than there are", False),
    (1, "OSError: [Errno 98] Address already in use", Status.CRASHED, "a port is in use", True),
    (1, "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:77, unhandled system error\nRuntimeError: Engine core initialization failed.", Status.TIMEOUT, "could not connect", True),
    (1, "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. Repository Not Found for url", Status.FAILED_START, "the model cannot be loaded", False),
    (1, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}", Status.CRASHED, "the engine died at its start", True),
    (1, "a line that nobody knows", Status.CRASHED, "it ended with exit code 1 before it was ready", True),
    (1, "WARNING 11-30 08:12:28 [x.py:1] lower this to be safe from out of memory\nno more", Status.CRASHED, "it ended with exit code 1 before it was ready", True),
    (0, "", Status.CRASHED, "it ended with exit code 0 before it was ready", True),
    (127, "fleetsieve-server: 1: exec: x: not found", Status.FAILED_START, "the command cannot be run (exit code 127)", False),
]  # fmt: skip


@pytest.mark.parametrize(("code", "log", "status", "reason", "retry"), LOGS)
def test_a_log_is_read(code: int, log: str, status: Status, reason: str, retry: bool) -> None:
    failure = start_failure(code, log.splitlines())
    assert (failure.status, failure.retry) == (status, retry)
    assert failure.reason.startswith(reason) or reason in failure.reason
    assert failure.last_lines == tuple(log.splitlines())


HEADS = "Value error, Total number of attention heads (52) must be divisible by tensor parallel size (8)."
MARLIN = "ValueError: Weight input_size_per_partition = 3420 is not divisible by min_thread_k = 128. Consider reducing tensor_parallel_size."
WORLD = "Value error, World size (8) is larger than the number of available GPUs (4) in this node."
ABOUT = [
    (2, "vllm: error: unrecognized arguments: --max-modl-len", About.CONFIGURATION),
    (2, "", About.CONFIGURATION),
    (2, "api_server.py: error: argument --dtype: invalid choice: 'f16'", About.CONFIGURATION),
    (1, "OSError: no is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'", About.CONFIGURATION),
    (1, "  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len", About.CONFIGURATION),
    (1, "RuntimeError: No CUDA GPUs are available", About.CONFIGURATION),
    (126, "fleetsieve-server: 1: exec: x: Permission denied", About.COMMAND),
    (127, "fleetsieve-server: 1: exec: x: not found", About.COMMAND),
    (1, HEADS, About.CELL),
    (1, WORLD, About.CELL),
    (1, MARLIN, About.CELL),
    (1, "AssertionError: 29568 is not divisible by 5", About.CELL),
    (1, "torch.OutOfMemoryError: CUDA out of memory", About.CELL),
    (1, "OSError: [Errno 98] Address already in use", About.CELL),
    (None, "", About.CELL),
    (-9, "", About.CELL),
    (-11, "", About.UNKNOWN),
    (1, "a line that nobody knows", About.UNKNOWN),
    (1, "RuntimeError: Engine core initialization failed. See root cause above.", About.UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("code", "log", "about"), ABOUT)
def test_what_a_failed_start_is_about(code: int | None, log: str, about: About) -> None:
    """Only what is about the cell is evidence about GPUs: a fault of the configuration would stop any TP."""
    assert start_failure(code, log.splitlines(), waited_s=5.0).about is about


def unknown(*log: str, code: int = 1) -> Failure:
    return start_failure(code, log)


class _Ready:
    """As much of a server as `Starts` gives back."""


def made(starts: Starts, tp: int, *ends: Failure | _Ready, way_on: str = "x") -> object:
    """What `starts` gives for a server with `tp` whose starts end so, one after the other; all of them are made."""
    left = list(ends)
    given = starts.started(ServerKey(tp), lambda: left.pop(0), way_on)  # type: ignore[arg-type,return-value]
    assert not left
    return given


def test_two_unknown_failures_end_a_run_unless_a_server_was_ready() -> None:
    """Whatever their words: a temporary name differs from start to start."""
    notes: list[str] = []
    one, other = (replace(unknown(f"cannot open /tmp/{n}"), log=f"run/logs/{n}.log") for n in ("xk", "qf"))
    with pytest.raises(UsageError, match="no server has started, and two starts failed:") as caught:
        made(Starts(tell=notes.append), 1, one, other)
    for name in ("xk", "qf"):
        words = f"that of TP 1: {one.reason}\n  its log is run/logs/{name}.log; its last lines:\n    cannot open /tmp/{name}"
        assert words in caught.value.message
    assert "where TP 1 alone cannot start" in (caught.value.hint or "")
    assert notes == [f"the server of TP 1 did not start, and none has yet: {one.reason}; one more start is tried"]
    side_by_side, memory = Starts(), start_failure(1, ["CUDA out of memory"])
    assert made(side_by_side, 1, one, memory) is memory, "that is about the cell"
    with pytest.raises(UsageError, match=r"that of TP 1: .*\n.*\n.*\n  that of TP 2: ") as caught:
        made(side_by_side, 2, other)
    assert "alone" not in (caught.value.hint or "")


def test_once_a_server_was_ready_an_unknown_failure_is_evidence() -> None:
    starts, ready, failure = Starts(), _Ready(), unknown("strange")
    assert made(starts, 1, failure, ready) is ready, "it was a flake"
    for proven in (starts, Starts(ever_ready=True)):
        for tp in (1, 2, 2):
            assert made(proven, tp, failure) is failure


def test_a_fault_of_the_configuration_ends_a_run_at_once_and_at_any_time() -> None:
    fault = replace(start_failure(2, ["usage: x", "x: error: unrecognized arguments: --no"]), log="run/logs/a.log")
    with pytest.raises(
        UsageError, match=r"unrecognized arguments: --no\n  its log is run/logs/a.log; its last lines:\n    usage"
    ) as caught:
        made(Starts(ever_ready=True), 4, fault, way_on="fleetsieve run RUN --resume")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(
        "fix serve.toml, then continue with: fleetsieve run RUN --resume; or, where TP 4 alone"
    )
    with pytest.raises(EngineMissing, match="the command cannot be run"):
        made(Starts(), 1, start_failure(127, []))
    for about in ("CUDA out of memory", HEADS, WORLD):
        for _ in range(3):
            assert isinstance(made(Starts(), 1, start_failure(1, [about])), Failure)


PROVOKED = [
    (("--exit-code", "1", "--log-text", "CUDA out of memory"), Status.OOM, "out of memory: CUDA out of memory", True),
    (("--no-such-flag",), Status.FAILED_START, "an argument was rejected: hostile_server: error: unrecognized", False),
    (("--exit-code", "0"), Status.CRASHED, "it ended with exit code 0 before it was ready", True),
    (("--killed",), Status.CRASHED, "it was killed by signal 9 before it was ready (the kernel does that when memory runs out)", True),
    (("--wrong-model", "big"), Status.FAILED_START, "the server names big, not tiny", False),
    (("--listen-on", "0.0.0.0"), Status.FAILED_START, "the server listens on 0.0.0.0, open to others", False),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "status", "reason", "retry"), PROVOKED)
def test_a_failed_start_is_noticed_at_once(start, arguments, status: Status, reason: str, retry: bool) -> None:
    server = start(*arguments)
    failure = server.wait_ready()
    assert failure is not None
    assert (failure.status, failure.retry) == (status, retry)
    assert failure.reason.startswith(reason)
    assert server.stop().left == ()
    assert server.held_s < 5.0


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["--never-ready", "--silent", "--ready-after-s=60"])
def test_one_that_is_never_ready_ends_at_its_deadline(start, fault: str) -> None:
    server = start(config=hostile(fault, ready_s=0.6))
    failure = server.wait_ready()
    assert failure is not None
    assert (failure.status, failure.reason, failure.retry) == (Status.TIMEOUT, "not ready after 0.6 s", True)
    assert 0.6 <= server.held_s < 4.0
    assert not server.alive()


@pytest.mark.slow
def test_one_that_is_late_but_in_time_is_ready(start) -> None:
    server = start("--ready-after-s", "0.5")
    assert server.wait_ready() is None
    assert server.ready_s is not None
    assert server.ready_s >= 0.5


def test_a_port_in_use_ends_the_start_and_the_one_who_has_it_is_left_alone(start) -> None:
    first = start()
    assert first.wait_ready() is None
    second = start(port=first.port)
    failure = second.wait_ready()
    assert failure is not None
    assert failure.status is Status.CRASHED
    assert failure.retry
    assert f"our port {first.port}" in failure.reason or "a port is in use" in failure.reason
    assert first.alive()
    assert first.failure() is None


def test_a_stranger_who_shares_our_port_is_not_measured(start) -> None:
    """Both listen, as vLLM's own server lets them; the answer may come from either."""
    first = start("--reuse-port")
    assert first.wait_ready() is None
    failure = start("--reuse-port", port=first.port).wait_ready()
    assert failure is not None
    assert f"process {first.pid} " in failure.reason
    assert first.alive()


def test_a_server_that_answers_where_ours_only_loads_is_not_ours(start) -> None:
    """It serves the very model that is asked for."""
    stranger = start()
    assert stranger.wait_ready() is None
    server = start("--bind-after-s", "60", port=stranger.port)
    failure = server.wait_ready()
    assert failure is not None
    assert failure.retry
    assert failure.reason.startswith(f"process {stranger.pid} (python")
    assert server.held_s < 3.0


def test_an_impossible_tp_or_command_starts_nothing(tmp_path: Path) -> None:
    config = hostile(attention_heads=8)
    with pytest.raises(UsageError, match="TP 3 does not divide the 8 attention heads"):
        Server.start(config, 3, (), some_port(), tmp_path / "log", Register(tmp_path))
    with pytest.raises(UsageError, match="TP 2 needs 2 GPUs, and the server gets 1"):
        Server.start(config, 2, ("0",), some_port(), tmp_path / "log", Register(tmp_path))
    with pytest.raises(EngineMissing, match="there is no command 'no-such-command'"):
        Server.start(
            replace(config, command=("no-such-command",)), 1, (), some_port(), tmp_path / "log", Register(tmp_path)
        )
    assert not (tmp_path / NAME).exists()
    assert not (tmp_path / "log").exists()


def test_a_record_that_cannot_be_written_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(FleetSieveError, match=r"cannot write .*servers\.jsonl"):
        Server.start(hostile(), 1, (), some_port(), tmp_path / "log", Register(tmp_path))
    assert "serving" not in (tmp_path / "log").read_text()
    assert unfinished(tmp_path) == ()


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(FleetSieveError, match="cannot start a server with its log"):
        Server.start(hostile(), 1, (), some_port(), tmp_path, Register(tmp_path))


def test_deaths() -> None:
    assert death(0, []).reason == "it ended with exit code 0 while serving"
    assert death(None, ["x"]).reason == "it answers /health with nothing"
    assert death(-9, ["CUDA out of memory"]).status is Status.OOM
    assert death(1, []).status is Status.CRASHED


def test_the_end_of_a_log_is_read_from_where_this_start_began(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old out of memory\n" + b"new\r\xff\n\n" + b"x" * 1000)
    assert last_lines(path, since=18) == ("new", "\ufffd", "x" * 400)
    path.write_bytes(b"line\n" * 1_000_000)
    assert len(last_lines(path)) < 60_000
    assert last_lines(tmp_path / "none") == ()
