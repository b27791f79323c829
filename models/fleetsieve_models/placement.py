"""Replicas on nodes: when counting GPUs is enough, and what to add to a formulation when it is not.

A replica lives on one node, so 3 + 3 free GPUs do not host one replica of 4. Instead of integers per node, which a solver
can permute at will, a formulation counts node PATTERNS: a pattern π is a maximal multiset of replica sizes that fits one
node, a_gπ of them of g GPUs, and the integer z_π says how many nodes are filled that way:

    Σ_{q on the pool, g_q = g} n_q <= Σ_π a_gπ z_π    for every size g
    Σ_{π of full nodes} z_π <= number of full nodes,    Σ_{π of the partial node} z_π <= 1

Equal nodes have no names, so there is nothing to permute; and since every filling of a node is contained in a maximal one,
Σ_π z_π is the number of nodes touched, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fleetsieve_models.problem import GpuPool


def counting_is_enough(pool: GpuPool, sizes: Sequence[int]) -> bool:
    """Whether any replicas of these sizes whose GPUs add up to at most the pool's can be placed on its nodes.

    True when every size divides the next larger one and the largest divides a node: then the largest first into any
    free node leaves no gap that a smaller one could not use.
    """
    if pool.gpus_per_node is None:
        return True
    chain = [*sorted(set(sizes)), pool.gpus_per_node]
    return all(large % small == 0 for small, large in pairwise(chain))


def maximal_patterns(free: int, sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The maximal multisets of replica sizes that fit `free` GPUs, in a fixed order.

    Takes distinct sizes >= 1, and gives for each pattern how many of each size it holds, in the order of `sizes`; none
    when not even the smallest size fits.

    >>> maximal_patterns(8, [3, 4])
    ((0, 2), (1, 1), (2, 0))
    """
    smallest = min(sizes, default=free + 1)
    if smallest > free:
        return ()
    fillings: list[tuple[tuple[int, ...], int]] = [((), free)]
    for size in sizes:
        fillings = [((*held, k), left - k * size) for held, left in fillings for k in range(left // size + 1)]
    return tuple(sorted(held for held, left in fillings if left < smallest))


def nodes_of(pool: GpuPool) -> tuple[int, int]:
    """The full nodes of a pool that has nodes, and the GPUs of its partial node (0: it has none).

    Raises:
        ValueError: when the pool has no nodes.
    """
    if pool.gpus_per_node is None:
        raise ValueError(f"pool {pool.name} has no nodes")
    return divmod(pool.gpus, pool.gpus_per_node)
