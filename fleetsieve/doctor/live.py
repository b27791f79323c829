"""Whether this machine can measure: the server's command, GPUs, ports, disk, the load generator, and the model itself."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from fleetsieve.doctor.check import Check
from fleetsieve.errors import FleetSieveError
from fleetsieve.live.serving.command import program_path, why_not_run
from fleetsieve.live.serving.config import ServeConfig
from fleetsieve.live.serving.gpus import FREE_SHARE, occupied, read_memory, refuse_same
from fleetsieve.live.serving.locks import Locks
from fleetsieve.live.serving.register import Register
from fleetsieve.live.serving.server import Server

LEAST_FREE_BYTES = 5 << 30
"""Disk that a run may need: records, logs, and what the load generator writes meanwhile."""

VERSION_S = 120.0


def examine_live(config: ServeConfig, *, start: bool) -> list[Check]:
    """Examine what serve.toml needs; with `start` one server of TP 1 is started, found ready and stopped."""
    checks = [_command(config), _generator(config), _gpus(config), _ports(config), _disk()]
    if start:
        ready = all(check.ok for check in checks)
        checks.append(_model(config) if ready else Check("model", False, "not tried", "fix the problems above first"))
    return checks


def _command(config: ServeConfig) -> Check:
    path = program_path(config)
    if path is None:
        return Check(
            "server",
            False,
            why_not_run(config.command[0]),
            "give its full path: [serve] command = [...]",
        )
    if Path(path).name != "vllm":
        return Check("server", True, path)
    return _versioned("server", path)


def _versioned(name: str, path: str) -> Check:
    """The version that a program prints: it loads its libraries for that, so a broken installation is seen."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, False, f"{path} --version: {error}", "run it by hand to see the error")
    said = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:] or ["it prints nothing"]
    return Check(
        name,
        done.returncode == 0,
        f"{path}, {said[0][:120]}",
        "" if done.returncode == 0 else "run it by hand to see the error",
    )


def _generator(config: ServeConfig) -> Check:
    command = config.load.program
    path = shutil.which(command[0])
    if path is None:
        return Check("load generator", False, why_not_run(command[0]), config.load.kind.install)
    return (
        Check("load generator", True, path)
        if Path(path).name != config.load.kind.program[0]
        else _versioned("load generator", path)
    )


def _gpus(config: ServeConfig) -> Check:
    if not config.gpus:
        return Check("GPUs", True, "none named: the engine chooses")
    try:
        memory = read_memory(config.gpus)
        if memory is None:
            hint = "pip install nvidia-ml-py, on a machine with NVIDIA's driver"
            detail = f"not checked: NVML is not there; serve.toml names {', '.join(config.gpus)}"
            return Check("GPUs", True, detail, hint, checked=False)
        refuse_same(memory)
    except FleetSieveError as error:
        return Check("GPUs", False, error.message, error.hint or "")
    short = occupied(memory, FREE_SHARE)
    detail = ", ".join(
        f"{gpu}: {one.free_bytes / 2**30:.0f} of {one.total_bytes / 2**30:.0f} GiB free" for gpu, one in memory.items()
    )
    return Check("GPUs", not short, "; ".join(short) or detail, "stop the processes that use them" if short else "")


def _ports(config: ServeConfig) -> Check:
    try:
        with tempfile.TemporaryDirectory() as run, Locks(Path(run)) as locks:
            return Check("ports", True, f"{config.host}:{locks.free_port(config.host, config.ports)} is free")
    except FleetSieveError as error:
        return Check("ports", False, error.message, error.hint or "")


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free
    ok = free >= LEAST_FREE_BYTES
    return Check(
        "disk",
        ok,
        f"{free / 2**30:.0f} GiB free here",
        "" if ok else "free some disk space: records and logs may need several GiB",
    )


def _model(config: ServeConfig) -> Check:
    try:
        with tempfile.TemporaryDirectory() as run, Locks(Path(run)) as locks:
            locks.hold_gpus(config.gpus)
            port = locks.free_port(config.host, config.ports)
            with Server.start(config, 1, config.gpus[:1], port, Path(run) / "log", Register(Path(run))) as server:
                failure = server.wait_ready()
                if failure is not None:
                    return Check("model", False, str(failure), "\n".join(failure.last_lines[-5:]))
                return Check("model", True, f"{config.model} is served after {server.ready_s:.0f} s with TP 1")
    except FleetSieveError as error:
        return Check("model", False, error.message, error.hint or "")
