"""Which measured cell makes another one pointless."""

from __future__ import annotations

from collections.abc import Sequence

from fleetsieve_models.problem import Configuration

from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.bounds.envelope import ClassEnvelope, Envelope
from fleetsieve.instance import CellKey


def replacing(
    envelope: Envelope, class_envelope: ClassEnvelope, b: CellBounds, usable: Sequence[Configuration]
) -> CellKey | None:
    """A measured cell that makes `b` pointless: what n replicas of it may serve at best, others are sure to serve on their GPUs.

    The one cell that is given is so for every number n of replicas that fits the pool. What serves as much as one replica does for
    more of them too, since GPUs that n replicas leave over can only add; so where different cells serve as much for different n,
    one for n = 1 does for all. None: nothing measured replaces it. `class_envelope` holds the bounds of the cell's class,
    `usable` those of its configurations that can be committed, at lower capacities; the cell itself comes last among them.
    """
    fleet, demand = envelope.instance.fleet, class_envelope.view.workload.demand_rps
    pool, size = class_envelope.view.pools[b.cell.key.pool], b.cell.gpus
    counts = range(1, pool.gpus // size + 1)

    def outdone(q: Configuration, n: int) -> bool:
        hoped = min(demand, n * b.capacity_rps.hi * fleet.max_utilisation)
        return min(demand, _on_the_same(n, size, q, pool.gpus_per_node)) >= hoped

    others = sorted((q for q in usable if q.pool == pool.name), key=lambda q: q.name == b.cell.key)
    names = (q.name for q in others if counts and all(outdone(q, n) for n in counts))
    return next((name for name in names if isinstance(name, CellKey)), None)


def _on_the_same(n: int, size: int, q: Configuration, gpus_per_node: int | None) -> float:
    """What replicas of `q` serve on the GPUs of n replicas of `size`; on nodes, each within the place of one of these."""
    count = n * (size // q.gpus) if gpus_per_node is not None else n * size // q.gpus
    return count * q.capacity_rps
