"""What large instances cost: a step of the loop, a study of the demand, and a demand that no fleet meets.

    python benchmarks/large_instances.py [--cells 2000] [--steps 3]

Each figure stands beside that of a small instance of the same kind in the same run, and the ratio says how it grows:
 - the slowest of the first steps of decision-gap on 64 GPUs, for 200 cells and for `--cells`;
 - a study of all demands, 0.8 to 1.5 x, for 50 and for 200 measured cells, with floors that are met and with floors that are not;
 - the peak memory and the seconds of solve, certify and report at a demand of 28 and of 1e9 requests/s.
`--write DIR CLASSES LOADS` writes one such instance instead.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fleetsieve.answers.sensitivity import DemandAxis, study
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.loop.policies import policy_named
from fleetsieve.loop.sieve import Sieve
from fleetsieve.probes import Replay

TPS = (1, 2, 4, 8)
SENT = ("class", "tp", "load")


def write(where: Path, classes: int, loads: int, *, floors: float = 0.3, demand_rps: float | None = None) -> Path:
    """An instance on 64 GPUs: `classes` x 4 TP degrees x `loads` concurrencies, all measured, with bounds of 3 % around each rate.

    The demand is what a quarter of the GPUs and a bit more would serve, `floors` the share of it that is a floor.
    """
    draw = random.Random(7)
    rows = [
        ",".join(
            (*SENT, "seed,status,throughput_rps,throughput_lo_rps,throughput_hi_rps,success_rate,e2e_p99_s,window_s")
        )
    ]
    cells = [",".join((*SENT, "load_kind,offered,gpus"))]
    kinds = ["class,demand_rps,floor_rps,max_e2e_p99_s"]
    for i in range(classes):
        name, scale, best = f"class{i}", draw.uniform(2.0, 6.0), 0.0
        for tp in TPS:
            bend = draw.uniform(0.9, 1.05)
            for k in range(loads):
                n = round(1.0 + k * 63.0 / max(1, loads - 1), 3)
                rate = scale * tp**bend * n / (n + 8.0)
                tail = n / rate * draw.uniform(1.1, 1.15)  # that many requests were in flight
                best = max(best, rate / tp) if tail <= 14.0 else best
                cells.append(f"{name},{tp},c{n:g},concurrency,{n:g},{tp}")
                bounds = f"{rate:.5g},{rate * 0.97:.5g},{rate * 1.03:.5g}"
                rows.append(f"{name},{tp},c{n:g},0,ok,{bounds},1,{tail:.5g},300")
        rate = demand_rps or round(best * 64.0 / classes * 1.2, 3)
        kinds.append(f"{name},{rate:g},{rate * floors:g},14")
    where.mkdir(parents=True, exist_ok=True)
    stated = f'schema_version = 1\nname = "{where.name}"\n[fleet]\ngpus = 64\ngpus_per_node = 8\n'
    (where / "instance.toml").write_text(stated, encoding="utf-8")
    for file, lines in (("classes", kinds), ("cells", cells), ("measurements", rows)):
        (where / f"{file}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return where


def slowest_step_s(where: Path, steps: int) -> tuple[int, float]:
    """Cells of the instance, and CPU seconds of the slowest of the first steps (ask, tell and certify)."""
    read = read_instance(where)
    probe = Replay(read.measurements)
    sieve = Sieve.start(read.instance, policy=policy_named("decision-gap"), engine=Frontier(), looks=probe.looks)
    slowest = 0.0
    for _ in range(steps):
        start = time.process_time()
        if sieve.finished:
            break
        asked = sieve.ask()
        sieve = sieve.tell(probe.measure(asked.key, asked.look))
        slowest = max(slowest, time.process_time() - start)
    return len(read.instance.cells), slowest


def study_s(where: Path) -> tuple[int, float]:
    """Break points of the demand scale from 0.8 to 1.5, and the CPU seconds that they took."""
    read = read_instance(where)
    start = time.process_time()
    found = study(read.instance, read.measurements, DemandAxis(None, 0.8, 1.5))
    return len(found.breaks), time.process_time() - start


def memory_mib(*command: str) -> tuple[int, float]:
    """Peak MiB and CPU seconds of a command."""
    script = (
        "import resource, sys\n"
        "from fleetsieve.cli.main import call\n"
        "code = call(sys.argv[1:])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)\n"
        "raise SystemExit(code)\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int(done.stderr.split()[-1]), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--write", nargs=3, metavar=("DIR", "CLASSES", "LOADS"))
    options = parser.parse_args()
    if options.write:
        print(write(Path(options.write[0]), int(options.write[1]), int(options.write[2])))
        return
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        print("a step of the loop", flush=True)
        small, one = slowest_step_s(write(root / "small", 5, 10), options.steps)
        large, other = slowest_step_s(write(root / "large", 5, options.cells // (5 * len(TPS))), options.steps)
        print(f"  {small} cells: {one:.2f} s   {large} cells: {other:.2f} s   ratio {other / one:.1f}", flush=True)
        for floors in (0.3, 0.85, 1.0):
            print(f"a study of all demands, floors at {floors:g} of the demand", flush=True)
            few, one = study_s(write(root / f"few{floors:g}", 4, 3, floors=floors))
            many, other = study_s(write(root / f"many{floors:g}", 4, 12, floors=floors))
            told = f"  48 cells: {one:.2f} s, {few} breaks   192 cells: {other:.2f} s, {many} breaks"
            print(f"{told}   ratio {other / one:.1f}", flush=True)
        print("peak memory", flush=True)
        usual, huge = (write(root / f"d{rate:g}", 2, 4, demand_rps=rate) for rate in (28.0, 1e9))
        for command in ("solve", "certify", "report"):
            more = ["-o", str(root / "page.html")] if command == "report" else []
            (one_mib, one), (other_mib, other) = (memory_mib(command, str(w), *more) for w in (usual, huge))
            told = f"  {command}: {one_mib} MiB, {one:.1f} s at 28 requests/s   {other_mib} MiB, {other:.1f} s at 1e9"
            print(f"{told}   ratio {other_mib / one_mib:.2f}", flush=True)


if __name__ == "__main__":
    main()
