"""GPU-seconds to a certificate: the decision-gap policy against uniform random orders, on measured and simulated grids.

    python benchmarks/replays.py [DIR ...] [--orders 20] [--jobs 2]

Without DIR: the public measured grids in ../shared/instances when they are there, and the bundled simulated grids. Every run
starts with nothing measured and reveals one cell at a time. The committed plan is then judged against the whole table: `regret`
is the largest of its three stage regrets against the optimum of the table. The decision-gap run uses the MILP under HiGHS, the
random orders the frontier, which gives the same certificates.

`clairvoyant` is the cheapest set of cells that certifies when the table is known (thousand GPU-seconds).
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from fleetsieve.allocation import Engine, evaluate
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
from fleetsieve.files import Folder, read_instance
from fleetsieve.loop.cost import grid_cost_gpu_s
from fleetsieve.loop.policies import policy_named
from fleetsieve.loop.sieve import Sieve
from fleetsieve.probes import Replay
from fleetsieve.studies.clairvoyant import clairvoyant

PUBLIC = Path(__file__).resolve().parents[2] / "shared" / "instances"
BUNDLED = ("sim-chat-code-16gpu", "sim-four-class-64gpu")


def replay(read: Folder, policy: str, seed: int, engine: Engine) -> tuple[Sieve, float]:
    """The finished run, and the seconds of its slowest step (ask, tell and certify)."""
    probe = Replay(read.measurements)
    sieve = Sieve.start(read.instance, policy=policy_named(policy), engine=engine, seed=seed, looks=probe.looks)
    slowest = 0.0
    while not sieve.finished:
        start = time.perf_counter()
        asked = sieve.ask()
        sieve = sieve.tell(probe.measure(asked.key, asked.look))
        _ = sieve.certificate
        slowest = max(slowest, time.perf_counter() - start)
    return sieve, slowest


def regret(read: Folder, sieve: Sieve) -> float:
    """The largest stage regret of the committed plan against the optimum of the whole table."""
    whole = Envelope.of(read.instance, read.measurements)
    best = Milp().optimise(whole.conservative).allocation
    got = evaluate(whole.conservative, sieve.certificate.conservative.replica_counts)
    assert best is not None
    return max(
        got.shortfall - best.shortfall,
        best.min_fulfilment - got.min_fulfilment,
        (best.goodput_rps - got.goodput_rps) / whole.conservative.total_demand_rps,
    )


def random_cost(where: str, seed: int) -> tuple[float, str]:
    """GPU-seconds and verdict of one random order."""
    sieve, _ = replay(read_instance(where), "random", seed, Frontier())
    return sieve.spent_gpu_s, str(sieve.certificate.verdict)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    public = sorted(str(path) for path in PUBLIC.iterdir()) if PUBLIC.is_dir() else []
    if not public and not options.folders:
        print(f"{PUBLIC} is not there: only the bundled grids are replayed")
    folders = options.folders or [*public, *BUNDLED]
    columns = "instance             verdict             grid  random    ours  saved  clairvoyant  ratio  steps  slowest s   regret"
    print(columns + "   (thousand GPU-seconds)")
    ratios = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for where in folders:
            read = read_instance(where)
            orders = pool.map(random_cost, [where] * options.orders, range(options.orders))
            sieve, slowest = replay(read, "decision-gap", 0, Milp())
            costs = [cost for cost, _ in orders]
            mean, ours = statistics.fmean(costs), sieve.spent_gpu_s
            grid = grid_cost_gpu_s(read.instance, read.instance.cells)
            floor = clairvoyant(read.instance, read.measurements).lower_gpu_s
            ratios.append(ours / floor)
            known, ratio = f"{floor / 1e3:.1f}", f"{ratios[-1]:.2f}"
            told = f"{read.instance.name:<20} {sieve.certificate.verdict:<18}"
            told += f" {grid / 1e3:>5.1f} {mean / 1e3:>7.1f} {ours / 1e3:>7.1f} {1 - ours / mean:>6.1%} {known:>12} {ratio:>6}"
            told += f" {len(sieve.measurements):>6} {slowest:>10.2f} {regret(read, sieve):>8.4f}"
            print(told, flush=True)
    if ratios:
        print(f"mean ratio to the clairvoyant cost: {statistics.fmean(ratios):.3f}")


if __name__ == "__main__":
    main()
