"""Small instances of live runs, and how they are run: on the hostile server, with the fast engine in AIPerf's place."""

from __future__ import annotations

import csv
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = ROOT / "tests" / "live" / "hostile_server.py"
FAST_ENGINE = Path(__file__).with_name("fast_engine.py")
PYTHON = (sys.executable, "-S")
"""Without the packages: it starts in a third of the time."""

TOML = """schema_version = 1
name = "small-live"
source = "made for a test"
[fleet]
gpus = {gpus}
[certificate]
confidence = {confidence}
family = "cell"
epsilon = 0.2
[measure]
warmup_s = 0.2
window_s = {window_s}
startup_s = 0.5
{measure}
"""
CLASSES = "class,input_tokens,output_tokens,demand_rps,priority,floor_rps,max_ttft_p99_s,max_e2e_p99_s,max_tpot_p99_s,min_success\n"
CELLS = "class,tp,load,load_kind,offered,gpus\n"


@dataclass(frozen=True)
class Live:
    """An instance folder with a serve.toml beside its files; `words` marks every process of its servers."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "serve.toml"

    @property
    def words(self) -> str:
        """What stands in the command line of its servers and load generators, and in no other's."""
        return self.path.name

    def arguments(self, out: Path, *more: object) -> list[str]:
        """The command line of a run into `out`."""
        options = ["--probe", "vllm", "--config", self.config, "--out", out, *more]
        return ["run", *map(str, [self.path, *options])]


def make_live(
    path: Path,
    *,
    faults: Sequence[str] = (),
    per_tp: Mapping[int, Sequence[str]] | None = None,
    classes: Iterable[str] = ("chat,20,4,30,1,,,,,0.5",),
    cells: Iterable[str] = ("chat,1,r40,rate,40,1", "chat,2,r40,rate,40,2"),
    gpus: int = 2,
    window_s: float = 1.0,
    confidence: float = 0.6,
    measure: str = "",
    serve: str = "",
    load: str = "",
    fresh_warmup_s: float = 0.0,
    generator: Sequence[str] = (),
) -> Live:
    """One class on TP 1 and TP 2, each at 40 requests/s for 1 s.

    `faults` are arguments of the hostile server, `per_tp` those of one TP. A small `confidence` asks for few requests where a
    tail has a limit, so that no window is longer than `window_s`.
    """
    path.mkdir(parents=True)
    # A word of its own for every folder: processes of other tests must not be taken for these.
    named = path.with_name(f"{path.name}-{random.SystemRandom().randrange(10**9):09d}")
    path.rename(named)
    path = named
    (path / "instance.toml").write_text(
        TOML.format(gpus=gpus, window_s=window_s, confidence=confidence, measure=measure), encoding="utf-8"
    )
    (path / "classes.csv").write_text(CLASSES + "".join(f"{line}\n" for line in classes), encoding="utf-8")
    (path / "cells.csv").write_text(CELLS + "".join(f"{line}\n" for line in cells), encoding="utf-8")
    command = [*PYTHON, str(HOSTILE)]
    sections = [
        "[serve]",
        f'model = "{path.name}"',
        f"command = {json.dumps(command)}",
        f"arguments = {json.dumps(list(faults))}",
        "ready_s = 10",
        "stop_s = 1",
        f"ports = {ports()}",
        serve,
        *(f"[serve.tp.{tp}]\narguments = {json.dumps(list(words))}" for tp, words in (per_tp or {}).items()),
        "[load]",
        f"command = {json.dumps(list(generator) or [*PYTHON, str(FAST_ENGINE)])}",
        "request_timeout_s = 2",
        f"fresh_warmup_s = {fresh_warmup_s}",
        load,
    ]
    (path / "serve.toml").write_text("\n".join(sections) + "\n", encoding="utf-8")
    return Live(path)


def ports() -> list[int]:
    """Some ports that were free a moment ago, far from those of the system's own choice."""
    while True:
        first = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", first))
            except OSError:
                continue
        return [first, first + 8]


def started(
    arguments: Sequence[str], folder: Path, before: Sequence[str] = (), **options: Any
) -> subprocess.Popen[bytes]:
    """A `fleetsieve` process of its own, in a session of its own; `before` are words before its command."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "models")])
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*before, sys.executable, "-m", "fleetsieve", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
        **{**quiet, **options},
    )


def rows(run: Path) -> list[dict[str, str]]:
    """The measured rows of a run."""
    with (run / "measurements.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def events(run: Path) -> list[dict[str, Any]]:
    """What stands in the record of servers."""
    return [json.loads(line) for line in (run / "servers.jsonl").read_text(encoding="utf-8").splitlines()]


def steps(run: Path) -> list[dict[str, Any]]:
    """The log of a run, without its first line."""
    return [json.loads(line) for line in (run / "steps.jsonl").read_text(encoding="utf-8").splitlines()][1:]


def with_words(marker: str) -> list[int]:
    """The live processes that have `marker` in their command line, those of fleetsieve itself left out."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or ()
        own = any(word == "fleetsieve" for word in words)
        if process.info["status"] != psutil.STATUS_ZOMBIE and not own and any(marker in word for word in words):
            found.append(process.pid)
    return found
