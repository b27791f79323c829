"""Variants of the measured and simulated grids: other SLOs, other demands, other fleets; the study's instances.

    python benchmarks/variants.py --out DIR        write them all as instance folders
    python benchmarks/variants.py                  only list them

A variant keeps the table of its base and draws, per class, a factor on every tail limit (log-uniform 0.7 to 1.5) and one on the
demand (log-uniform 0.6 to 1.6), and for the fleet 8 to 64 GPUs. With the demands of the base a large fleet is an easy question, a
small one is overloaded; so every second variant also scales the demands with the fleet (regime "scaled-demand"; the others are
"same-demand"). Floors are rates and stay. The drawing depends on SEED, the base and the variant's number alone; it was fixed before
any policy ran on it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fleetsieve.files import read_instance, write_instance
from fleetsieve.instance import TAIL_METRICS, Instance, Measurement, WorkloadClass

PUBLIC = Path(__file__).resolve().parents[2] / "shared" / "instances"
SEED = 20261130
GPUS = (8, 16, 24, 32, 40, 48, 56, 64)
SLO_FACTORS = (0.7, 1.5)
DEMAND_FACTORS = (0.6, 1.6)
REGIMES = ("same-demand", "scaled-demand")

BASES: tuple[tuple[str, str, int], ...] = (
    ("inferencemax", "b200-vllm-llama70b", 40),
    ("inferencemax", "h100-vllm-llama70b", 40),
    ("inferencemax", "h200-trt-llama70b", 40),
    ("inferencemax", "h200-vllm-llama70b", 40),
    ("llmpilot", "llmpilot-h100", 70),
    ("simulated", "sim-chat-code-16gpu", 70),
    ("simulated", "sim-four-class-64gpu", 24),
)
"""Family, base and number of variants; the first two families are public measurements, read where they are."""


@dataclass(frozen=True)
class Variant:
    """One instance of the study, with the whole table behind it."""

    family: str
    regime: str
    instance: Instance
    table: tuple[Measurement, ...]


def variants(families: frozenset[str] = frozenset({"inferencemax", "llmpilot", "simulated"})) -> Iterator[Variant]:
    """The variants of the families whose data are there, in a fixed order."""
    for place, (family, base, count) in enumerate(BASES):
        folder = base if family == "simulated" else str(PUBLIC / base)
        if family not in families or (family != "simulated" and not (PUBLIC / base).is_dir()):
            continue
        read = read_instance(folder)
        for number in range(count):
            regime = REGIMES[number % 2]
            generator = np.random.default_rng([SEED, place, number])
            yield Variant(family, regime, vary(read.instance, number, regime, generator), tuple(read.measurements))


def vary(base: Instance, number: int, regime: str, generator: np.random.Generator) -> Instance:
    """One variant of an instance with one pool."""
    (pool,) = base.fleet.pools
    gpus = int(generator.choice(GPUS))
    more = gpus / pool.gpus if regime == "scaled-demand" else 1.0
    classes = []
    for c in base.classes:
        slo, demand = _log_uniform(generator, SLO_FACTORS), _log_uniform(generator, DEMAND_FACTORS)
        classes.append(_varied(c, slo, demand * more))
    fleet = replace(base.fleet, pools=(replace(pool, gpus=gpus),))
    return replace(base, name=f"{base.name}-v{number:02d}-{gpus}gpu", fleet=fleet, classes=tuple(classes))


def _varied(c: WorkloadClass, slo_factor: float, demand_factor: float) -> WorkloadClass:
    limits = {f"max_{m}_p99_s": limit * slo_factor for m in TAIL_METRICS if (limit := c.slo.limit_s(m)) is not None}
    return replace(c, slo=replace(c.slo, **limits), demand_rps=c.demand_rps * demand_factor)


def _log_uniform(generator: np.random.Generator, ends: tuple[float, float]) -> float:
    return math.exp(generator.uniform(math.log(ends[0]), math.log(ends[1])))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not PUBLIC.is_dir():
        print(f"{PUBLIC} is not there: only the variants of the bundled grids")
    for variant in variants():
        instance = variant.instance
        demands = ", ".join(f"{c.name} {c.demand_rps:.3g}" for c in instance.classes)
        print(f"{variant.family:<13} {variant.regime:<14} {instance.name:<34} requests/s: {demands}")
        if options.out is not None:
            write_instance(options.out / instance.name, instance, variant.table)


if __name__ == "__main__":
    main()
