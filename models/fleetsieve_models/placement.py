"""Replicas on nodes: when counting GPUs is enough, and what to add to a formulation when it is not.

A replica lives on one node, so 3 + 3 free GPUs do not host one replica of 4. Instead of integers per node, which a
solver can permute at will, a formulation counts node PATTERNS: the integer z_π states how many nodes are filled as π
states, and for every replica size g

    Σ_q w_gq n_q <= Σ_π a_gπ z_π,
    Σ_{π of full nodes} z_π <= number of full nodes,    Σ_{π of the partial node} z_π <= 1

In general π is a maximal multiset of replica sizes that fits the node, a_gπ of them of g GPUs, and w_gq = 1 for g_q =
g: every filling of a node is contained in a maximal one. Where each size divides the next larger one (1, 2, 4, ...), a
node of F GPUs needs one pattern only, its a_g = floor(F / g) slots of g GPUs, of which a replica takes w_gq = g_q / g
when g_q >= g: placed largest first, a replica fills slots of every smaller size whole, so one of size g finds a node if
and only if a slot of g GPUs is left anywhere. Equal nodes have no names either way, so there is nothing to permute, and
Σ_π z_π is the number of nodes touched, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from fleetsieve_models.problem import GpuPool


def counting_is_enough(pool: GpuPool, sizes: Sequence[int]) -> bool:
    """Whether any replicas of these sizes whose GPUs add up to at most the pool's can be placed on its nodes.

    True when every size divides the next larger one and the largest divides a node: then the largest first into any
    free node leaves no gap that a smaller one could not use.
    """
    return pool.gpus_per_node is None or divisible([*sizes, pool.gpus_per_node])


def divisible(sizes: Sequence[int]) -> bool:
    """Whether every size divides the next larger one."""
    return all(large % small == 0 for small, large in pairwise(sorted(set(sizes))))


def slots(size: int, g: int, sizes: Sequence[int]) -> int:
    """w_gq: what a replica of `size` GPUs takes of the room for size g, on nodes that host replicas of `sizes`."""
    if divisible(sizes):
        return size // g if size >= g else 0
    return 1 if size == g else 0


def rooms(free: int, sizes: Sequence[int]) -> tuple[dict[int, int], ...]:
    """The patterns of a node of `free` GPUs: for each of them, a_g per size g; none where no size fits.

    >>> rooms(8, [3, 4])
    ({3: 0, 4: 2}, {3: 1, 4: 1}, {3: 2, 4: 0})
    >>> rooms(72, [4, 8, 32])
    ({4: 18, 8: 9, 32: 2},)
    """
    if divisible(sizes):
        return ({g: free // g for g in sizes},) if free >= min(sizes, default=free + 1) else ()
    return tuple(dict(zip(sizes, pattern, strict=True)) for pattern in maximal_patterns(free, sizes))


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


def fewest_nodes(pool: GpuPool, sizes: Mapping[int, int]) -> int | None:
    """The fewest nodes of `pool` that host `sizes` (GPUs per replica -> replicas); None when the pool cannot.

    Nodes are full ones of `gpus_per_node`, and one of the GPUs left over when these do not divide the pool's. Exact. The
    search is over how many nodes follow each pattern, never over single nodes: milliseconds for thousands of replicas
    where sizes divide one another or nodes have 8 GPUs; many odd sizes on larger nodes can take long.

    Raises:
        ValueError: when the pool has no nodes.
    """
    full, rest = nodes_of(pool)
    node = pool.gpus_per_node or 0
    items = {size: count for size, count in sorted(sizes.items(), reverse=True) if count}
    used = sum(size * count for size, count in items.items())
    if used > pool.gpus or any(size > node for size in items):
        return None
    search = _Packing(node, rest, items)
    for count in range(-(-used // node), full + (rest > 0) + 1):
        if (count <= full and search.fits(count, False)) or (rest and count > 0 and search.fits(count - 1, True)):
            return count
    return None


class _Packing:
    """Whether given replicas fit a number of equal nodes, with or without one partial node more."""

    def __init__(self, node: int, rest: int, items: Mapping[int, int]) -> None:
        self.node, self.rest = node, rest
        self.items = dict(items)
        self.chain = divisible(list(items))
        self.pairs = 0 if self.chain else self._take_pairs()
        self.sizes, self.counts = tuple(self.items), tuple(self.items.values())
        self.full = () if self.chain else maximal_patterns(node, self.sizes)[::-1]
        self.partial = () if self.chain else maximal_patterns(rest, self.sizes)[::-1]
        self.failed: set[tuple[int, int, tuple[int, ...]]] = set()

    def _take_pairs(self) -> int:
        """Take out the pairs of replicas that fill a node exactly; each has a node of its own in some best packing.

        For a + b = the node: whatever shares a node with a is at most b and can change places with b; and where a
        is on the partial node, whatever shares a node with b is at most a and can change places with a.
        """
        taken = 0
        for size in list(self.items):
            other = self.node - size
            if other == 0:
                pairs = self.items[size]
                self.items[size] = 0
            else:
                pairs = self.items[size] // 2 if other == size else min(self.items[size], self.items.get(other, 0))
                if pairs:
                    self.items[size] -= pairs
                    self.items[other] -= pairs
            taken += pairs
        self.items = {size: count for size, count in self.items.items() if count}
        return taken

    def fits(self, full: int, partial: bool) -> bool:
        if self.chain:
            return all(
                sum(size // g * count for size, count in self.items.items() if size >= g)
                <= full * (self.node // g) + (self.rest // g if partial else 0)
                for g in self.sizes
            )
        if full < self.pairs:
            return False
        fillings = (self.partial if partial else ()) or ((0,) * len(self.sizes),)
        return any(self._filled(0, full - self.pairs, _less(self.counts, filling, 1)) for filling in fillings)

    def _filled(self, k: int, nodes: int, counts: tuple[int, ...]) -> bool:
        """Whether `counts` fit `nodes` full nodes that follow patterns from the k-th on; most per pattern first."""
        if not any(counts):
            return True
        state = (k, nodes, counts)
        if k == len(self.full) or state in self.failed or nodes < self._at_least(counts):
            return False
        pattern, later = self.full[k], self.full[k + 1 :]
        most = min(nodes, max((-(-n // a) for n, a in zip(counts, pattern, strict=True) if a), default=0))
        only_here = [j for j, n in enumerate(counts) if n and not any(p[j] for p in later)]
        least = max((-(-counts[j] // pattern[j]) if pattern[j] else nodes + 1 for j in only_here), default=0)
        for times in range(most, least - 1, -1):
            if self._filled(k + 1, nodes - times, _less(counts, pattern, times)):
                return True
        self.failed.add(state)
        return False

    def _at_least(self, counts: tuple[int, ...]) -> int:
        """Nodes that `counts` need at least (the bound L2 of Martello and Toth).

        For a threshold K up to half a node: replicas over half a node stand alone, those over node - K leave no room
        for any of K or more, and the rest of at least K has to fit what the others leave or nodes of its own.
        """
        items, node = list(zip(self.sizes, counts, strict=True)), self.node
        best = 0
        for threshold in [0, *(g for g in self.sizes if 2 * g <= node)]:
            alone = sum(n for g, n in items if g > node - threshold)
            large = [(g, n) for g, n in items if 2 * g > node and g <= node - threshold]
            small = sum(g * n for g, n in items if threshold <= g and 2 * g <= node)
            left = sum((node - g) * n for g, n in large)
            best = max(best, alone + sum(n for _, n in large) + max(0, -(-(small - left) // node)))
        return best


def _less(counts: tuple[int, ...], pattern: tuple[int, ...], times: int) -> tuple[int, ...]:
    return tuple(max(0, count - times * held) for count, held in zip(counts, pattern, strict=True))
