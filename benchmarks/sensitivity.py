"""Are sensitivity's intervals those of plain solves? Random instances, random values, and both sides of every break point.

    python benchmarks/sensitivity.py [--instances 500] [--values 200] [--kinds slo,success,gpus,epsilon,demand,scale] [--jobs 2]

Per kind of axis: instances, values compared (each by an independent solve of the instance as it would stand in its files), break
points, disagreements (each is printed: a value at which the interval says something else, or a break point with two like sides),
intervals that were sampled, and the mean and the longest seconds of a study. Ends with 1 when anything disagrees.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "sensitivity"))

from drawn import axes_of, drawn, faults

from fleetsieve.answers.sensitivity import study

KINDS = ("slo", "success", "gpus", "epsilon", "demand", "scale")


def compared(kind: str, values: int, seed: int) -> tuple[int, int, list[str], int, float]:
    """(values compared, break points, disagreements, sampled intervals, seconds of the study) of one instance."""
    instance, rows = drawn(seed)
    draw = random.Random(f"{kind} {seed}")
    axis = axes_of(instance, draw)[kind]
    start = time.perf_counter()
    found = study(instance, rows, axis)
    seconds = time.perf_counter() - start
    wrong, count = faults(instance, rows, found, draw, values)
    told = [f"seed {seed}: {fault}" for fault in wrong]
    return count, len(found.breaks), told, sum(not s.exact for s in found.stretches), seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--values", type=int, default=200)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    total = 0
    print(f"{'axis':<8} instances   values  breaks  wrong  sampled  s mean   s max", flush=True)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for kind in options.kinds.split(","):
            work = partial(compared, kind, options.values)
            done = list(pool.map(work, range(options.instances), chunksize=5))
            wrong = [fault for one in done for fault in one[2]]
            seconds = [one[4] for one in done]
            print(
                f"{kind:<8} {len(done):>9} {sum(one[0] for one in done):>8} {sum(one[1] for one in done):>7} {len(wrong):>6}"
                f" {sum(one[3] for one in done):>8} {sum(seconds) / len(seconds):>7.2f} {max(seconds):>7.2f}",
                flush=True,
            )
            for fault in wrong:
                print(f"  {fault}")
            total += len(wrong)
    raise SystemExit(1 if total else 0)


if __name__ == "__main__":
    main()
