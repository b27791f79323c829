"""`roofline`: every output token takes an iteration, and an iteration reads the weights once.

With w weight bytes, b bytes/s of memory bandwidth per GPU and tensor parallelism TP, an iteration takes at least
t = w / (TP b). So TPOT >= t, and with N requests in flight c <= N / (output_tokens t). Prefill takes
input_tokens x prefill_flop_per_token floating-point operations, so c <= g flops_per_s / (input_tokens prefill_flop_per_token).
Speculative decoding emits several tokens an iteration: then nothing is assumed. (Williams, Waterman, Patterson, 2009.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetsieve.bounds.assumptions.protocol import CAPACITY, EXACT, ClassView, Contradiction, Limit
from fleetsieve.instance import DEFAULT_VARIANT, ArmKey, Cell, LoadKind, ServerKey


@dataclass(frozen=True)
class Roofline:
    """On where the facts are given. It has no slack: datasheet figures are not exceeded."""

    name: str = "roofline"
    across_arms: bool = False

    def describe(self) -> str:
        """One sentence for the certificate."""
        return "no replica beats its datasheet: an iteration reads the weights once, prefill takes its FLOPs"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """A measured capacity above, or a measured TPOT below, what the datasheet allows: the facts are wrong."""
        for arm, cells in view.arms.items():
            for cell in cells:
                known = view.known.get(cell.key)
                if known is None:
                    continue
                upper_rps, lower_s = _max_rps(view, cell), _iteration_s(view, cell)
                if known.capacity_rps is not None and known.capacity_rps.lo > upper_rps * (1.0 + EXACT):
                    text = f"{known.capacity_rps.lo:g} requests/s measured at {cell.key.load}, at most {upper_rps:g} by the facts"
                    yield Contradiction(self.name, arm, CAPACITY, (cell.key,), text)
                if known.tpot_p99_s is not None and known.tpot_p99_s.hi < lower_s * (1.0 - EXACT):
                    text = f"TPOT p99 {known.tpot_p99_s.hi:g} s measured at {cell.key.load}, at least {lower_s:g} s by the facts"
                    yield Contradiction(self.name, arm, "tpot", (cell.key,), text)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """Capacity and TPOT of unmeasured cells are within the datasheet."""
        for arm, cells in view.arms.items():
            capacity, tpot = holds(arm, CAPACITY), holds(arm, "tpot")
            if not _states_anything(view, arm):
                continue
            for cell in cells:
                upper_rps, lower_s = _max_rps(view, cell), _iteration_s(view, cell)
                if capacity and math.isfinite(upper_rps):
                    yield Limit(cell.key, CAPACITY, upper_rps)
                if tpot and lower_s > 0.0:
                    yield Limit(cell.key, "tpot", lower_s)


def _states_anything(view: ClassView, arm: ArmKey) -> bool:
    """Whether the facts show something about the cells of an arm."""
    facts = view.facts.of(arm.server.variant)
    return facts.weight_bytes is not None or bool(_flops_per_s(view, arm.server) and facts.prefill_flop_per_token)


def _flops_per_s(view: ClassView, server: ServerKey) -> float | None:
    """The FLOP/s of a GPU of the server. A pool's own figure is of the default variant's number format, not of another's."""
    pool = view.pools[server.pool].flops_per_s if server.variant == DEFAULT_VARIANT else None
    return pool or view.facts.of(server.variant).flops_per_s


def _iteration_s(view: ClassView, cell: Cell) -> float:
    """The least seconds of one iteration: weight_bytes / (TP x hbm_bytes_per_s); 0 when the facts lack it."""
    facts = view.facts.of(cell.key.variant)
    bandwidth = view.pools[cell.key.pool].hbm_bytes_per_s or facts.hbm_bytes_per_s
    if facts.weight_bytes is None or bandwidth is None or facts.speculative_decoding:
        return 0.0
    return facts.weight_bytes / (cell.key.tp * bandwidth)


def _max_rps(view: ClassView, cell: Cell) -> float:
    """The most requests/s of one replica; inf when the facts lack it."""
    upper_rps = math.inf
    iteration, tokens = _iteration_s(view, cell), view.workload.output_tokens
    closed = cell.load_kind is LoadKind.CONCURRENCY and cell.offered is not None
    if closed and iteration > 0.0 and tokens:
        upper_rps = (cell.offered or 0.0) / (tokens * iteration)
    flops, per_token = _flops_per_s(view, cell.key.server), view.facts.of(cell.key.variant).prefill_flop_per_token
    if flops and per_token and view.workload.input_tokens:
        upper_rps = min(upper_rps, cell.gpus * flops / (view.workload.input_tokens * per_token))
    return upper_rps
