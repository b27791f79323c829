"""The clairvoyant floor: what the cheapest certifying set of cells costs when the whole table is known.

No policy can do with less, so it is what a policy is measured against. An implicit hitting set finds it: a set T of cells that
fails the monotone relaxation R (see `relaxation`) has no certifying subset, so every certifying set has a cell outside T. The
master chooses the cheapest set that hits the complements of all T found so far; while its optimum fails R, it is grown to maximal
failing sets, which become new constraints. The master's value is a proven lower bound at all times. A set that passes R and
certifies as well is optimal; one that passes R and does not certify is forbidden alone. (Reiter 1987; Moreno-Centeno, Karp 2013.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from fleetsieve.allocation import Engine
from fleetsieve.bounds.envelope import Envelope, fits
from fleetsieve.certificate import Verdict, certify
from fleetsieve.engines.choosing import Automatic
from fleetsieve.engines.frontier import Frontier
from fleetsieve.instance import CellKey, Instance, Measurement
from fleetsieve.loop.cost import grid_cost_gpu_s
from fleetsieve.probes import Replay
from fleetsieve.studies.relaxation import Relaxation

Cells = frozenset[CellKey]
GROWTHS = 4
"""Maximal failing sets that each failing optimum of the master is grown to."""


@dataclass(frozen=True)
class Floor:
    """What the cheapest certifying set costs, in GPU-seconds: proven to lie between the two bounds, which agree if `exact`.

    `cells` certify and cost `upper_gpu_s`; with nothing that certifies they are empty and the bound is infinite. `reason` states
    why the bounds differ.
    """

    lower_gpu_s: float
    upper_gpu_s: float
    cells: tuple[CellKey, ...]
    exact: bool
    constraints: int = 0
    reason: str = ""


def clairvoyant(
    instance: Instance,
    table: Iterable[Measurement],
    *,
    engine: Engine | None = None,
    start: Iterable[CellKey] = (),
    time_limit_s: float | None = None,
) -> Floor:
    """The floor of an instance whose whole table is known; each cell counts with its first measurement.

    Args:
        instance: with ε and η as the loop uses them.
        table: the measured rows.
        engine: what certifies; the one that fits each problem if None.
        start: cells that are known to certify (of a finished run), for a good upper bound early.
        time_limit_s: after this the bounds that were found come back as they are; None is no limit.
    """
    return _Search(instance, table, engine if engine is not None else Automatic(), time_limit_s).run(frozenset(start))


class _Search:
    def __init__(
        self, instance: Instance, table: Iterable[Measurement], engine: Engine, time_limit_s: float | None
    ) -> None:
        probe = Replay(table)
        self._rows: dict[CellKey, Measurement] = {}
        for cell in instance.cells:
            asked = instance.class_by_name[cell.key.class_name].demand_rps > 0.0 and not cell.excluded
            if cell.key in probe.looks and asked and fits(cell, instance.fleet.pool(cell.key.pool)):
                self._rows[cell.key] = probe.measure(cell.key, 0)
        self._instance, self._engine = instance, engine
        self._keys = sorted(self._rows)
        self._relaxation = Relaxation(instance, self._rows)
        self._counting = Frontier.accepts(Envelope.of(instance).optimistic)
        self._master = _Master(instance, self._keys)
        self._certified: dict[Cells, bool] = {}
        self._ends = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
        self._generator = np.random.default_rng(0)
        self._best: Cells | None = None

    def run(self, start: Cells) -> Floor:
        everything = frozenset(self._keys)
        if not self._certifies(everything) and not (start and self._certifies(start)):
            return Floor(0.0, math.inf, (), False, reason="the whole table does not certify")
        for known in (start, everything):
            if known and self._certifies(known):
                self._keep(self._pruned(known))
        if not self._counting:
            reason = "no lower bound is known with several pools, or nodes that matter"
            return Floor(0.0, self._upper, self._found, False, reason=reason)
        lower, reason = 0.0, "the time limit was reached"
        while time.monotonic() < self._ends:
            chosen = self._master.cheapest()
            if chosen is None:
                return Floor(
                    lower, self._upper, self._found, False, self._master.count, "the master problem was not solved"
                )
            lower = max(lower, self._cost(chosen))
            if lower >= self._upper * (1.0 - 1e-9):
                return Floor(self._upper, self._upper, self._found, True, self._master.count)
            if not self._relaxation.holds(chosen):
                for order in self._orders(chosen):
                    self._master.hit(everything - self._grown(chosen, order))
            elif self._certifies(chosen):
                self._keep(chosen)
            else:
                self._master.forbid(chosen)
                self._keep(self._completed(chosen))
        return Floor(lower, self._upper, self._found, False, self._master.count, reason)

    @property
    def _upper(self) -> float:
        return self._cost(self._best) if self._best is not None else math.inf

    @property
    def _found(self) -> tuple[CellKey, ...]:
        return tuple(sorted(self._best or ()))

    def _cost(self, cells: Cells) -> float:
        return grid_cost_gpu_s(self._instance, (self._instance.cell_by_key[key] for key in cells))

    def _keep(self, cells: Cells) -> None:
        if self._certifies(cells) and self._cost(cells) < self._upper:
            self._best = cells

    def _certifies(self, cells: Cells) -> bool:
        if cells not in self._certified:
            envelope = Envelope.of(self._instance, (self._rows[key] for key in sorted(cells)))
            self._certified[cells] = certify(envelope, self._engine).verdict is not Verdict.UNDECIDED
        return self._certified[cells]

    def _orders(self, chosen: Cells) -> list[list[CellKey]]:
        """Orders in which a failing set is grown: the dear cells first and last, and shuffled."""
        rest = sorted(set(self._keys) - chosen, key=lambda key: (self._instance.cell_by_key[key].gpus, key))
        shuffled = [[rest[place] for place in self._generator.permutation(len(rest))] for _ in range(GROWTHS - 2)]
        return [rest, rest[::-1], *shuffled]

    def _grown(self, failing: Cells, order: Sequence[CellKey]) -> Cells:
        """A maximal set that fails R and holds `failing`: blocks of cells are added whole where that still fails."""
        blocks = [list(order)]
        while blocks:
            block = blocks.pop()
            if block and not self._relaxation.holds(failing | frozenset(block)):
                failing |= frozenset(block)
            elif len(block) > 1:
                blocks += [block[len(block) // 2 :], block[: len(block) // 2]]
        return failing

    def _pruned(self, certifying: Cells) -> Cells:
        """A certifying set from which no cell can be left out, the dearest tried first."""
        for key in sorted(certifying, key=lambda key: (-self._instance.cell_by_key[key].gpus, key)):
            if time.monotonic() < self._ends and self._certifies(certifying - {key}):
                certifying -= {key}
        return certifying

    def _completed(self, cells: Cells) -> Cells:
        """The set with the cheapest single cell that makes it certify; as it is when there is none."""
        for key in sorted(set(self._keys) - cells, key=lambda key: (self._instance.cell_by_key[key].gpus, key)):
            if self._cost(cells | {key}) >= self._upper or time.monotonic() >= self._ends:
                break
            if self._certifies(cells | {key}):
                return cells | {key}
        return cells


class _Master:
    """The cheapest set that meets all constraints so far: a binary per cell, and one per server that must be started."""

    def __init__(self, instance: Instance, keys: Sequence[CellKey]) -> None:
        self._keys = list(keys)
        self._place = {key: place for place, key in enumerate(self._keys)}
        cells = [instance.cell_by_key[key] for key in self._keys]
        servers = sorted({cell.key.server for cell in cells})
        alone = [grid_cost_gpu_s(instance, [cell]) for cell in cells]
        starts = {cell.key.server: instance.measure.startup_s * cell.gpus for cell in cells}
        self._costs = np.array(
            [cost - starts[cell.key.server] for cost, cell in zip(alone, cells, strict=True)]
            + [starts[s] for s in servers]
        )
        self._rows: list[NDArray[np.float64]] = []
        self._lower: list[float] = []
        self._seen: set[Cells] = set()
        for place, cell in enumerate(cells):  # a cell needs its server
            row = np.zeros(len(self._costs))
            row[place], row[len(cells) + servers.index(cell.key.server)] = -1.0, 1.0
            self._rows.append(row)
            self._lower.append(0.0)
        self.count = 0

    def hit(self, cells: Cells) -> None:
        """At least one of `cells` is chosen."""
        if cells not in self._seen:
            self._seen.add(cells)
            self._add([self._place[key] for key in cells], [], 1.0)

    def forbid(self, cells: Cells) -> None:
        """The choice is not exactly `cells`."""
        outside = [place for key, place in self._place.items() if key not in cells]
        self._add(outside, [self._place[key] for key in cells], 1.0 - len(cells))

    def _add(self, plus: Sequence[int], minus: Sequence[int], lower: float) -> None:
        row = np.zeros(len(self._costs))
        row[list(plus)] = 1.0
        row[list(minus)] = -1.0
        self._rows.append(row)
        self._lower.append(lower)
        self.count += 1

    def cheapest(self) -> Cells | None:
        """The optimum; None when the solver proves none."""
        if not self._keys:  # no class asks for anything that a cell could show
            return None if self._rows else frozenset()
        constraints = LinearConstraint(np.array(self._rows), np.array(self._lower), np.inf) if self._rows else ()
        result = milp(
            self._costs,
            integrality=np.ones(len(self._costs), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        if not result.success:
            return None
        return frozenset(key for key, value in zip(self._keys, result.x, strict=False) if value > 0.5)
