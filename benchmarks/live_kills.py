"""Kill a live run with SIGKILL at random instants, resume it to its end, and look for what was lost or left.

    python benchmarks/live_kills.py [--kills 17]
    python benchmarks/live_kills.py --kills 3 --vllm FOLDER --aiperf FOLDER

The servers are tests/live/hostile_server.py and the load generator is the fast stand-in of tests/live_runs, or both are the real
ones of two environments (tests/live/vllm_cpu/README.md): no other vLLM may run on the machine then. Beside each run stands a server
of somebody else. The instants are drawn, from a fixed seed, between 0 and the time that an undisturbed run takes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))

from live_runs.instances import HOSTILE, PYTHON, Live, make_live, ports, rows, started, with_words  # noqa: E402

CELLS = "chat,1,r{0},rate,{0},1 chat,1,r{1},rate,{1},1 chat,2,r{2},rate,{2},2 chat,2,r{3},rate,{3},2"
FAST, REAL = (20, 30, 60, 90), (2, 4, 6, 12)
"""Requests/s of the four cells; the highest is the demand."""

TINY_MODEL = ROOT / "tests" / "live" / "vllm_cpu" / "tiny_model.py"
SERVE = """[serve]
model = "{model}"
served_name = "tiny"
command = ["{vllm}/bin/vllm", "serve"]
arguments = ["--load-format", "dummy", "--max-model-len", "2048", "--enforce-eager", "--dtype", "bfloat16", "--max-num-seqs", "32"]
environment = {{ VLLM_CPU_KVCACHE_SPACE = "1", HF_HUB_OFFLINE = "1" }}
ready_s = 300
[serve.tp.1]
environment = {{ VLLM_CPU_OMP_THREADS_BIND = "0" }}
[serve.tp.2]
environment = {{ VLLM_CPU_OMP_THREADS_BIND = "0|1" }}
[load]
command = ["{aiperf}/bin/aiperf"]
request_timeout_s = 20
fresh_warmup_s = 2
token_ids = [100, 1024]
"""
GENERATOR_GONE_S = 3.0
"""How long load generators of a killed run may still be seen."""


@dataclass(frozen=True)
class Engine:
    """What serves and sends: the stand-ins, or the real ones of two environments."""

    vllm: Path | None = None
    aiperf: Path | None = None

    def instance(self, folder: Path) -> Live:
        """Four cells of one class on two servers, all of them needed, asked for in the order of the grid."""
        rates = FAST if self.vllm is None else REAL
        demand = (f"chat,20,4,{max(rates)},1,,,,,0.5",)
        live = make_live(folder, classes=demand, cells=CELLS.format(*rates).split(), gpus=2, measure="max_looks = 1")
        if self.vllm is not None:
            model = live.path / "tiny"
            subprocess.run([self.vllm / "bin" / "python", TINY_MODEL, model], check=True, stdout=subprocess.DEVNULL)
            live.config.write_text(SERVE.format(model=model, vllm=self.vllm, aiperf=self.aiperf))
        return live

    def processes(self, live: Live) -> list[int]:
        """Every process of its servers; vLLM's engines give themselves names without a word of ours."""
        return with_words(live.words) + (with_words("VLLM::") if self.vllm is not None else [])


@dataclass(frozen=True)
class Trial:
    """What a kill left, and what the resumed run made of it. `faults` is empty when all was well."""

    killed_after_s: float
    rows_at_kill: int | None
    servers_left: int
    rows_at_end: int
    faults: tuple[str, ...]


def start(live: Live, out: Path) -> subprocess.Popen[bytes]:
    """A process that begins the run, or goes on with it."""
    quiet = subprocess.DEVNULL
    arguments = live.arguments(out, "--resume", "--policy", "grid")
    return started(arguments, live.path, stdout=quiet, stderr=quiet)


@contextmanager
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A server that somebody else runs."""
    words = [*PYTHON, str(HOSTILE), "stranger", "--port", str(ports()[0])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def well(process: subprocess.Popen[bytes]) -> bool:
    """Whether a stranger still answers."""
    port = list(map(str, process.args))[-1]  # type: ignore[arg-type]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
        return process.poll() is None and answer.status == 200


def undisturbed(engine: Engine, folder: Path) -> tuple[int, float]:
    """The rows of a run left alone, and the seconds that its process takes."""
    live, began_s = engine.instance(folder / "alone"), time.monotonic()
    if start(live, folder / "run").wait() != 0:
        raise SystemExit("the undisturbed run failed")
    return len(rows(folder / "run")), time.monotonic() - began_s


def trial(engine: Engine, folder: Path, instant_s: float, expected_rows: int) -> Trial | None:
    """Kill a run after `instant_s`, then let it be resumed to its end; None when it ended before."""
    live, run = engine.instance(folder / "killed"), folder / "run"
    faults: list[str] = []
    with stranger() as other:
        process = start(live, run)
        try:
            process.wait(instant_s)
            return None
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        until_s = time.monotonic() + GENERATOR_GONE_S
        while (sending := with_words(str(run / "load"))) and time.monotonic() < until_s:
            time.sleep(0.05)
        if sending:
            faults.append(f"load generators left: {sending}")
        table = run / "measurements.csv"
        before = table.read_bytes() if table.is_file() else b""
        before = before[: before.rfind(b"\n") + 1]
        left = [pid for pid in engine.processes(live) if pid not in sending]
        again = start(live, run)
        if again.wait() != 0:
            faults.append(f"the resumed run ended with {again.returncode}")
        if not table.read_bytes().startswith(before):
            faults.append("rows were lost")
        found = rows(run)
        faults += _of_rows(run, found, expected_rows)
        if remaining := engine.processes(live):
            faults.append(f"processes left: {remaining}")
        if not well(other):
            faults.append("a server of somebody else was touched")
    at_kill = None if not before else before.count(b"\n") - 1
    return Trial(instant_s, at_kill, len(left), len(found), tuple(faults))


def _of_rows(run: Path, found: list[dict[str, str]], expected_rows: int) -> list[str]:
    """What is wrong with the rows of a resumed run."""
    faults = []
    if len(found) != expected_rows:
        faults.append(f"{len(found)} rows, {expected_rows} without a kill")
    looks = Counter((row["class"], row["tp"], row["load"]) for row in found)
    faults += [f"{cell} was measured {count} times" for cell, count in looks.items() if count > 1]
    for row in found:
        name = f"{row['class']}-tp{row['tp']}-{row['load']}"
        if row["status"] != "ok" or "load generator" in row["source"] or "client counts" in row["source"]:
            faults.append(f"{name}: {row['status']}, {row['source']}")
        late = "ms late or more" in row["source"]  # a busy machine: some were sent after their window
        if not late and abs(int(row["requests"]) - int(row["load"][1:])) > 2:
            faults.append(f"{name}: {row['requests']} requests")
        if not (run / "records" / f"{name}-seed{row['seed']}.csv.gz").is_file():
            faults.append(f"{name}: its requests are not there")
    stray = len(list((run / "records").iterdir())) - len(found)
    return [*faults, f"{stray} record files without a row"] if stray > 1 else faults


def instants(count: int, duration_s: float, seed: int = 20_261) -> list[float]:
    """`count` instants, seeded; one in four right after the start of the process, while nothing is there yet."""
    drawn = random.Random(seed)
    return [drawn.uniform(0.0, duration_s * (0.25 if number % 4 == 3 else 1.0)) for number in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=17)
    parser.add_argument("--vllm", type=Path)
    parser.add_argument("--aiperf", type=Path)
    options = parser.parse_args()
    if (options.vllm is None) != (options.aiperf is None):
        parser.error("--vllm and --aiperf belong together")
    count, engine, done = options.kills, Engine(options.vllm, options.aiperf), []
    with tempfile.TemporaryDirectory() as scratch:
        expected, duration_s = undisturbed(engine, Path(scratch) / "undisturbed")
        print(f"{expected} rows in {duration_s:.1f} s, undisturbed")
        print("| kill | after (s) | rows at the kill | processes left by it | rows at the end | faults |")
        print("|---:|---:|---:|---:|---:|:---|")
        for number, instant_s in enumerate(instants(count, duration_s), start=1):
            while (got := trial(engine, Path(tempfile.mkdtemp(dir=scratch)), instant_s, expected)) is None:
                instant_s *= 0.7  # the machine is faster than it was
            done.append(got)
            at_kill = "no run yet" if got.rows_at_kill is None else got.rows_at_kill
            faults = "; ".join(got.faults) or "none"
            print(
                f"| {number} | {got.killed_after_s:.2f} | {at_kill} | {got.servers_left} | {got.rows_at_end} | {faults} |",
                flush=True,
            )
    good = sum(not got.faults for got in done)
    orphans = sum(got.servers_left > 0 for got in done)
    print(f"{good} of {count} kills: nothing lost, nothing left; {orphans} of them left a server, which was stopped")
    return 0 if good == count else 1


if __name__ == "__main__":
    sys.exit(main())
