"""The project's speed figures in one table: each is a ratio or a limit, measured in this one run.

   python benchmarks/figures.py [--instance DIR]

- one decision of a 16-GPU instance through Pyomo and HiGHS, against the same staged MILP through highspy alone;
- `fleetsieve --help`: seconds of CPU, the median of five processes;
- one loop step (ask, tell, certify) on a measured grid: the slowest of a whole run;
- 50 classes x 64 cells on 4,096 GPUs: from measured rows to a verdict, by both engines.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from milp_overhead import baseline, instance
from replays import PUBLIC, replay

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
from fleetsieve.files import read_instance
from fleetsieve.instance import Cell, CellKey, Fleet, Instance, LoadKind, Measurement, Pool, Reading, Slo, WorkloadClass


def overhead(repeats: int = 30) -> tuple[float, float]:
    """Median seconds of one staged decision of 16 GPUs, 2 classes, 21 cells: the engine, and highspy alone."""
    problem = instance((4, 3), (2, 4, 8), 16, 1.0)
    seconds: list[list[float]] = [[], []]
    for _ in range(repeats):
        for taken, solve in zip(seconds, (Milp().optimise, baseline), strict=True):
            start = time.perf_counter()
            solve(problem)
            taken.append(time.perf_counter() - start)
    return statistics.median(seconds[0][1:]), statistics.median(seconds[1][1:])


def help_cpu_s() -> float:
    """Median CPU seconds (user and system) of `fleetsieve --help`."""
    taken = []
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, "-m", "fleetsieve", "--help"], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return statistics.median(taken)


def large(classes: int = 50, loads: int = 16, gpus: int = 4096, seed: int = 3) -> tuple[Instance, list[Measurement]]:
    """Classes with cells at TP 1, 2, 4 and 8 and `loads` loads each, all measured within 1 %."""
    draw = random.Random(seed)
    workloads, cells, rows = [], [], []
    for i in range(classes):
        floor = 20.0 if i % 5 == 0 else None
        workloads.append(
            WorkloadClass(f"class{i:02}", draw.uniform(100, 300), Slo(max_e2e_p99_s=30.0), floor_rps=floor)
        )
        for tp in (1, 2, 4, 8):
            peak = draw.uniform(0.5, 1.5) * tp ** draw.uniform(0.7, 1.1)
            for load in range(1, loads + 1):
                key = CellKey(f"class{i:02}", tp, f"c{8 * load}")
                cells.append(Cell(key, tp, LoadKind.CONCURRENCY, 8.0 * load))
                value = peak * load / loads * draw.uniform(0.999, 1.001)
                capacity = Reading(value, lo=0.99 * value, hi=1.01 * value)
                rows.append(Measurement(key, throughput_rps=capacity, e2e_p99_s=Reading(2.0 + 2.2 * load)))
    return Instance("large", Fleet((Pool("default", gpus, 8),)), tuple(workloads), tuple(cells)), rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instance", type=Path, default=PUBLIC / "h100-vllm-llama70b")
    options = parser.parse_args()
    where = str(options.instance) if options.instance.is_dir() else "sim-chat-code-16gpu"
    rows: list[tuple[str, str, str]] = []
    ours, alone = overhead()
    rows.append(
        (
            "16 GPUs, 21 cells: engine / highspy alone",
            f"{ours * 1e3:.1f} / {alone * 1e3:.1f} ms = {ours / alone:.2f}x",
            "3x",
        )
    )
    rows.append(("fleetsieve --help, CPU", f"{help_cpu_s():.3f} s", "0.3 s"))
    read = read_instance(where)
    sieve, slowest = replay(read, "decision-gap", 0, Milp())
    rows.append((f"slowest of {len(sieve.measurements)} loop steps, {read.instance.name}", f"{slowest:.2f} s", "1 s"))
    big, measured = large()
    for engine in (Milp(), Frontier()):
        start = time.perf_counter()
        verdict = certify(Envelope.of(big, measured), engine).verdict
        rows.append(
            (f"50 x 64 cells, 4,096 GPUs by {engine.name}: {verdict}", f"{time.perf_counter() - start:.2f} s", "10 s")
        )
    width = max(len(what) for what, _, _ in rows)
    for what, figure, limit in rows:
        print(f"{what:<{width}}  {figure:<32}  limit {limit}")


if __name__ == "__main__":
    main()
