"""The noise study on real requests: each look is a bootstrap of the public LLM-Pilot records on H100.

    python benchmarks/llmpilot_requests.py [--trials 200] [--jobs 2] [--treat both] [--policy decision-gap] [--json]

The records (../shared/data/grids/llmpilot_h100_requests.parquet: 130,581 requests of two models at TP 1/2/4 and 1 to 128 users,
120 s a cell) are read where they are. The instance is that of ../shared/instances/llmpilot-h100 with the classes that have records,
their demands scaled so that the two compete for the GPUs of three; the truth of a cell is what its own records say. All requests of
the file succeeded, so success is bounded and never scatters.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fleetsieve.files import read_instance
from fleetsieve.instance import CellKey, Instance, Measurement
from fleetsieve.presentation.calibration import show_calibration
from fleetsieve.presentation.progress import progress
from fleetsieve.presentation.terminal import results
from fleetsieve.records import RequestRecords
from fleetsieve.studies.calibrate import TREATMENTS, settings, trials
from fleetsieve.studies.calibrate_counts import Counts, calibration_document

SHARED = Path(__file__).resolve().parents[2] / "shared"
REQUESTS = SHARED / "data" / "grids" / "llmpilot_h100_requests.parquet"
INSTANCE = SHARED / "instances" / "llmpilot-h100"
WINDOW_S = 120.0


def recorded() -> tuple[Instance, tuple[Measurement, ...]]:
    """The instance of the classes that have records, and one row with its records for each of their cells."""
    read = read_instance(INSTANCE)
    columns = ["model", "tp", "users"]
    rows = {}
    for (model, tp, users), own in pd.read_parquet(REQUESTS).groupby(columns):
        key = CellKey(str(model), int(str(tp)), f"c{users}")
        seconds = {name: own[f"{name}_ms"].to_numpy(np.float64) / 1e3 for name in ("t_start", "ttft", "e2e", "tpot")}
        seconds["tpot"][own["n_out"].to_numpy() < 2] = np.nan
        ok = np.isfinite(seconds["e2e"]) & np.isfinite(seconds["ttft"])
        requests = RequestRecords(
            seconds["t_start"], seconds["ttft"], seconds["e2e"], seconds["tpot"], ok, window_s=WINDOW_S
        )
        cost = read.instance.cell_by_key[key].cost_gpu_s
        rows[key] = Measurement(key, records=requests, cost_gpu_s=cost, window_s=WINDOW_S, source=str(REQUESTS.name))
    names = {key.class_name for key in rows}
    share = len(read.instance.classes) / len(names)
    instance = replace(
        read.instance,
        name="llmpilot-h100-requests",
        classes=tuple(replace(c, demand_rps=c.demand_rps * share) for c in read.instance.classes if c.name in names),
        cells=tuple(cell for cell in read.instance.cells if cell.key in rows),
    )
    return instance, tuple(rows.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--treat", choices=[*TREATMENTS, "both"], default="both")
    parser.add_argument("--policy", default="decision-gap")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-looks", type=int, help="looks at one cell (default: the instance's)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not REQUESTS.is_file():
        print(f"{REQUESTS} is not there: nothing is resampled")
        return
    instance, table = recorded()
    if options.max_looks is not None:
        instance = replace(instance, measure=replace(instance.measure, max_looks=options.max_looks))
    treatments = TREATMENTS if options.treat == "both" else (options.treat,)
    chosen = settings(instance, table, None, treatments=treatments, policy=options.policy, seed=options.seed)
    exact = chosen[0].exact_cost_gpu_s(options.trials)
    with progress("trials") as advance:
        outcomes = trials(chosen, options.trials, jobs=options.jobs, progress=advance)
    counts = [Counts.of(s.treatment, own, exact) for s, own in zip(chosen, outcomes, strict=True)]
    nominal = 1.0 - instance.certificate.confidence
    if options.json:
        print(
            json.dumps(
                calibration_document(instance.name, "records", options.policy, options.seed, nominal, counts), indent=2
            )
        )
    else:
        show_calibration(results(), instance.name, "requests resampled", nominal, counts)


if __name__ == "__main__":
    main()
