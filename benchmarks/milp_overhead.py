"""What Pyomo, the checks and the recomputation cost: the engine against the same staged MILP in highspy alone.

    python benchmarks/milp_overhead.py [--repeats 30] [--large]

Prints, per instance, the median milliseconds of `Milp().optimise` (presolve on and off) and of the baseline, and the
ratios. The baseline has the same stages, options and holds, no presolve and no checks; both find the same plan, or the
run fails. `--large` adds 50 classes x 64 cells on 4,096 GPUs (the engine alone).
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import highspy
import numpy as np
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool

from fleetsieve.allocation import MAXIMISED, STAGES, evaluate, tolerance
from fleetsieve.engines.solving import Milp
from fleetsieve.engines.solving.highs import OPTIONS


def instance(loads_of: tuple[int, ...], tps: tuple[int, ...], gpus: int, scale: float, seed: int = 7) -> FleetProblem:
    draw = random.Random(seed)
    demands, cells = [], []
    for i, loads in enumerate(loads_of):
        demands.append(ClassDemand(f"class{i}", round(draw.uniform(6, 20) * scale, 3)))
        peak = {tp: draw.uniform(0.5, 2.5) for tp in tps}
        for tp in tps:
            for load in range(loads):
                capacity = round(peak[tp] * tp * (load + 1) / loads * draw.uniform(0.95, 1.0), 4)
                cells.append(Configuration((f"class{i}", tp, load), f"class{i}", tp, capacity))
    return FleetProblem(tuple(demands), tuple(cells), (GpuPool("default", gpus, 8),))


def baseline(problem: FleetProblem) -> dict[object, int]:
    """The stages of one pool where counting GPUs is enough, no critical class, as rows and columns."""
    cells = [q for qs in problem.configurations_of.values() for q in qs]
    place = {q.name: k for k, q in enumerate(problem.configurations, start=1)}
    classes = {c.name: k for k, c in enumerate(problem.classes)}
    k, served, least = len(cells), 2 * len(cells), 2 * len(cells) + len(classes)
    columns = least + 1
    most = [problem.max_replicas(q) for q in cells]
    h = highspy.Highs()
    for name, value in OPTIONS.items():
        h.setOptionValue(name, value)
    demand = [c.demand_rps for c in problem.classes]
    h.addVars(columns, np.zeros(columns), np.array([*most, *[1.0] * k, *demand, 1.0]))
    h.changeColsIntegrality(served, np.arange(served), np.array([highspy.HighsVarType.kInteger] * served))
    inf, rows = highspy.kHighsInf, []
    for name, i in classes.items():
        own = [j for j, q in enumerate(cells) if q.class_name == name]
        rows.append((-inf, 1.0, [k + j for j in own], [1.0] * len(own)))
        rows.append((-inf, 0.0, [served + i, *own], [1.0, *[-cells[j].capacity_rps for j in own]]))
        rows.append((-inf, 0.0, [least, served + i], [demand[i], -1.0]))
    rows += [(-inf, 0.0, [j, k + j], [1.0, -float(most[j])]) for j in range(k)]
    rows.append((-inf, float(problem.pools[0].gpus), list(range(k)), [float(q.gpus) for q in cells]))
    starts = np.cumsum([0] + [len(row[2]) for row in rows[:-1]])
    h.addRows(
        len(rows), np.array([r[0] for r in rows]), np.array([r[1] for r in rows]), sum(len(r[2]) for r in rows), starts,
        np.array([c for r in rows for c in r[2]]), np.array([v for r in rows for v in r[3]], dtype=float),
    )  # fmt: skip
    objectives = {
        "min_fulfilment": {least: 1.0},
        "goodput": {served + i: 1.0 for i in classes.values()},
        "gpus": {j: float(q.gpus) for j, q in enumerate(cells)},
        "spare": {j: q.capacity_rps for j, q in enumerate(cells)},
        "replicas": dict.fromkeys(range(k), 1.0),
        "order": {j: float(place[q.name]) for j, q in enumerate(cells)},
    }
    counts: list[int] = []
    for stage, terms in objectives.items():
        costs = np.zeros(columns)
        costs[list(terms)] = list(terms.values())
        h.changeColsCost(columns, np.arange(columns), costs)
        best = stage in MAXIMISED
        h.changeObjectiveSense(highspy.ObjSense.kMaximize if best else highspy.ObjSense.kMinimize)
        h.run()
        counts = [round(v) for v in h.getSolution().col_value[:k]]
        value = h.getInfo().objective_function_value
        low, high = (value - tolerance(value), inf) if best else (-inf, value + tolerance(value))
        h.addRow(low, high, len(terms), np.array(list(terms)), np.array(list(terms.values())))
    return {q.name: n for q, n in zip(cells, counts, strict=True) if n}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    problems = {
        "2 classes, 21 cells, 16 GPUs": instance((4, 3), (2, 4, 8), 16, 1.0),
        "3 classes, 45 cells, 32 GPUs": instance((5, 5, 5), (1, 2, 4), 32, 1.0),
    }
    for name, problem in problems.items():
        engines = {
            "engine": lambda p=problem: Milp().optimise(p).allocation.replica_counts,
            "engine without presolve": lambda p=problem: Milp(presolve=False).optimise(p).allocation.replica_counts,
            "highspy alone": lambda p=problem: baseline(p),
        }
        plans = {what: dict(solve()) for what, solve in engines.items()}
        values = [[evaluate(problem, plan).value(s) for s in STAGES] for plan in plans.values()]
        if not all(np.allclose(v, values[0], rtol=1e-6, atol=1e-6) for v in values):
            raise SystemExit(f"{name}: different plans: {plans}")
        seconds: dict[str, list[float]] = {what: [] for what in engines}
        for _ in range(options.repeats):
            for what, solve in engines.items():
                start = time.perf_counter()
                solve()
                seconds[what].append(time.perf_counter() - start)
        medians = {what: 1e3 * statistics.median(each) for what, each in seconds.items()}
        print(name)
        for what, median in medians.items():
            print(f"  {what:<24} {median:7.2f} ms   ratio {median / medians['highspy alone']:5.2f}")
    if options.large:
        problem = instance((16,) * 50, (1, 2, 4, 8), 4096, 14.0)
        start = time.perf_counter()
        found = Milp().optimise(problem)
        print(f"50 classes x 64 cells, 4,096 GPUs: {time.perf_counter() - start:.2f} s, proven: {found.proven}")


if __name__ == "__main__":
    main()
