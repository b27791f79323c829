"""Which measured cell makes another one pointless."""

from __future__ import annotations

from collections.abc import Sequence

from fleetsieve_models.problem import Configuration

from fleetsieve.envelope import CellBounds, ClassEnvelope, Envelope
from fleetsieve.instance import CellKey


def replacing(envelope: Envelope, own: ClassEnvelope, b: CellBounds, usable: Sequence[Configuration]) -> CellKey | None:
    """A measured cell that makes `b` pointless: what n replicas of it may serve at best, others are sure to serve on their GPUs.

    Exact for every number n of replicas that fits the pool; where different cells are needed for different n, the one for the
    most replicas is given. None: nothing measured replaces it. `own` are the bounds of the cell's class, `usable` those of its
    configurations that can be committed, at lower capacities.
    """
    fleet, demand = envelope.instance.fleet, own.view.workload.demand_rps
    pool, size = own.view.pools[b.cell.key.pool], b.cell.gpus
    others = [q for q in usable if q.pool == pool.name]
    best: CellKey | None = None
    for n in range(1, pool.gpus // size + 1):
        hoped = min(demand, n * b.capacity_rps.hi * fleet.max_utilisation)
        better = [q.name for q in others if min(demand, _on_the_same(n, size, q, pool.gpus_per_node)) >= hoped]
        if not better:
            return None
        best = better[0] if isinstance(better[0], CellKey) else None
    return best


def _on_the_same(n: int, size: int, q: Configuration, gpus_per_node: int | None) -> float:
    """What replicas of `q` serve on the GPUs of n replicas of `size`; on nodes, each within the place of one of these."""
    count = n * (size // q.gpus) if gpus_per_node is not None else n * size // q.gpus
    return count * q.capacity_rps
