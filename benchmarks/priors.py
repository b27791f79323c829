"""What is a prior worth? GPU-seconds of decision-gap without one, with a tool's predictions, and with badly wrong ones.

    python benchmarks/priors.py [--jobs 2] [--seeds 5]

The predictions are those of AIConfigurator 0.12.0 in ../shared/data/grids (Llama-3.1-70B FP8, vLLM), converted to seconds here; its
latencies are means and stand for p99 as they are, so TTFT is 3 to 8 times too low. Wrong priors: the TP order of each class
reversed, all values x 0.1, x 10, throughput x 10 with latencies x 0.1 (everything fits) and the reverse (nothing does), and the
cells of each class shuffled. `regret` is the largest stage regret of the committed plan against the whole table: correct is a
regret <= ε and a verdict that does not move.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import numpy as np
from replays import regret

from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import Folder, read_instance
from fleetsieve.instance import CellKey, Instance
from fleetsieve.loop.policies import policy_named
from fleetsieve.loop.predictions import Prediction, Predictions
from fleetsieve.loop.sieve import Sieve
from fleetsieve.probes import Replay

SHARED = Path(__file__).resolve().parents[2] / "shared"
ESTIMATES = SHARED / "data" / "grids" / "aiconfigurator_estimates.csv"
MODEL = "nvidia/Llama-3.1-70B-Instruct-FP8"
GRIDS = {"h100-vllm-llama70b": "h100_sxm", "h200-vllm-llama70b": "h200_sxm", "h200-trt-llama70b": "h200_sxm"}
"""Each measured grid and the GPU whose predictions serve it; there are none for TensorRT-LLM, so vLLM's stand in."""

Change = Callable[[Predictions], Predictions]


def estimates(gpu: str, instance: Instance) -> Predictions:
    """The tool's predictions of the cells of an instance; milliseconds become seconds here."""
    found = {}
    with ESTIMATES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = CellKey(row["workload"], int(row["tp"]), f"c{row['load']}")
            if row["model"] == MODEL and row["gpu"] == gpu and not row["error"] and key in instance.cell_by_key:
                ttft, e2e, tpot = (float(row[f"{metric}_est_ms"]) / 1e3 for metric in ("ttft", "e2e", "tpot"))
                found[key] = Prediction(float(row["request_rps"]), ttft, e2e, tpot)
    return found


def scaled(throughput: float, latency: float, prior: Predictions) -> Predictions:
    """All predictions times a factor."""
    return {
        key: Prediction(
            *(
                None if value is None else value * factor
                for value, factor in (
                    (p.throughput_rps, throughput),
                    (p.ttft_p99_s, latency),
                    (p.e2e_p99_s, latency),
                    (p.tpot_p99_s, latency),
                )
            )
        )
        for key, p in prior.items()
    }


def reversed_tp(prior: Predictions) -> Predictions:
    """Each class's predictions with the TP degrees in reverse: the largest gets what was said of the smallest."""
    turned = {}
    for name in sorted({key.class_name for key in prior}):
        degrees = sorted({key.tp for key in prior if key.class_name == name})
        other = dict(zip(degrees, reversed(degrees), strict=True))
        turned |= {
            key._replace(server=key.server._replace(tp=other[key.tp])): p
            for key, p in prior.items()
            if key.class_name == name
        }
    return turned


def shuffled(seed: int, prior: Predictions) -> Predictions:
    """Each class's predictions dealt out anew among its cells."""
    generator = np.random.default_rng(seed)
    dealt: dict[CellKey, Prediction] = {}
    for name in sorted({key.class_name for key in prior}):
        keys = sorted(key for key in prior if key.class_name == name)
        dealt |= {key: prior[keys[place]] for key, place in zip(keys, generator.permutation(len(keys)), strict=True)}
    return dealt


def measured(read: Folder) -> Predictions:
    """The table itself as predictions: the most that a prior could be worth to this policy."""
    return {
        m.key: Prediction(m.throughput_rps.value, m.ttft_p99_s.value, m.e2e_p99_s.value, m.tpot_p99_s.value)
        for m in read.measurements
    }


def priors(read: Folder, gpu: str, seeds: int) -> dict[str, Predictions | None]:
    """The priors to compare, by name."""
    tool = estimates(gpu, read.instance)
    changes: dict[str, Change] = {
        "TP order reversed": reversed_tp,
        "all x 0.1": partial(scaled, 0.1, 0.1),
        "all x 10": partial(scaled, 10.0, 10.0),
        "everything fits": partial(scaled, 10.0, 0.1),
        "nothing fits": partial(scaled, 0.1, 10.0),
    } | {f"shuffled, seed {seed}": partial(shuffled, seed) for seed in range(seeds)}
    return {"none": None, "the tool's": tool, "the table itself": measured(read)} | {
        name: change(tool) for name, change in changes.items()
    }


def run(grid: str, name: str, prior: Predictions | None) -> tuple[str, str, float, int, str, float]:
    """GPU-seconds, steps, verdict and regret of one run."""
    read = read_instance(SHARED / "instances" / grid)
    probe = Replay(read.measurements)
    sieve = Sieve.start(
        read.instance, policy=policy_named("decision-gap"), engine=Frontier(), looks=probe.looks, prior=prior
    )
    while not sieve.finished:
        asked = sieve.ask()
        sieve = sieve.tell(probe.measure(asked.key, asked.look))
    verdict = str(sieve.certificate.verdict)
    return grid, name, sieve.spent_gpu_s, len(sieve.measurements), verdict, regret(read, sieve)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if not ESTIMATES.is_file():
        print(f"{ESTIMATES} is not there: nothing to compare")
        return
    print(f"{'instance':<20} {'prior':<20} {'GPU-s':>8} {'to none':>8} {'steps':>6} {'verdict':<20} {'regret':>7}")
    without: dict[str, float] = {}
    ratios: dict[str, list[float]] = {}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        questions = [
            (grid, name, prior)
            for grid, gpu in GRIDS.items()
            for name, prior in priors(read_instance(SHARED / "instances" / grid), gpu, options.seeds).items()
        ]
        for grid, name, spent, steps, verdict, lost in pool.map(run, *zip(*questions, strict=True)):
            without.setdefault(grid, spent)
            ratio = spent / without[grid]
            ratios.setdefault(name.split(",")[0], []).append(ratio)
            told = f"{grid:<20} {name:<20} {spent:>8,.0f} {ratio:>8.2f} {steps:>6} {verdict:<20} {lost:>7.4f}"
            print(told, flush=True)
    print("mean of GPU-seconds to those without a prior:")
    for name, values in ratios.items():
        print(f"  {name:<20} {fmean(values):.2f} (worst {max(values):.2f})")


if __name__ == "__main__":
    main()
