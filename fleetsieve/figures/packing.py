"""Which GPUs the replicas of a plan may take: one packing of them onto nodes, for a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetsieve_models.placement import maximal_patterns

from fleetsieve.allocation import Allocation, replica_sizes

TRIES = 20_000
"""Partial packings that are measured; sizes that divide one another need as many as there are nodes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One replica of a class: the GPUs from `first` on, in one node (or in the pool, where it has no nodes)."""

    class_name: str
    name: object
    first: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Node:
    """GPUs that stand together, and the replicas on them; `count` equal ones are listed once."""

    pool: str
    number: int
    gpus: int
    placed: tuple[Placed, ...]
    count: int = 1


def pack(plan: Allocation) -> tuple[Node, ...]:
    """The nodes of every pool with the replicas on them; a pool without nodes is one. None of them are merged.

    Gives no nodes for a pool whose packing is too hard to find: there is one, or the plan would not be.
    """
    nodes: list[Node] = []
    for pool, sizes in replica_sizes(plan.problem, plan.replica_counts).items():
        space = [pool.gpus] if pool.gpus_per_node is None else _spaces(pool.gpus, pool.gpus_per_node)
        filled = _packed(space, sizes)
        if filled is None:
            continue
        waiting = _waiting(plan, pool.name)
        for number, (gpus, held) in enumerate(zip(space, filled, strict=True), start=1):
            placed, first = [], 0
            for size in sorted(held, reverse=True):
                class_name, name = waiting[size].pop(0)
                placed.append(Placed(class_name, name, first, size))
                first += size
            nodes.append(Node(pool.name, number, gpus, tuple(placed)))
    return tuple(nodes)


def merged_nodes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with neighbours that hold the same counted once."""
    together: list[Node] = []
    for node in nodes:
        last = together[-1] if together else None
        if last is not None and (last.pool, last.gpus, last.placed) == (node.pool, node.gpus, node.placed):
            together[-1] = Node(last.pool, last.number, last.gpus, last.placed, last.count + 1)
        else:
            together.append(node)
    return tuple(together)


def _spaces(gpus: int, node: int) -> list[int]:
    full, rest = divmod(gpus, node)
    return [node] * full + ([rest] if rest else [])


def _waiting(plan: Allocation, pool: str) -> dict[int, list[tuple[str, object]]]:
    """The replicas of each size on a pool, class by class."""
    waiting: dict[int, list[tuple[str, object]]] = {}
    for class_plan in plan.classes:
        q = class_plan.configuration
        if q is not None and q.pool == pool:
            waiting.setdefault(q.gpus, []).extend([(class_plan.class_name, q.name)] * class_plan.replicas)
    return waiting


def _packed(space: Sequence[int], sizes: Mapping[int, int]) -> list[list[int]] | None:
    """The sizes on each node: the largest first where that works, else a search; None when it gives up."""
    filled = _largest_first(space, sizes)
    return filled if filled is not None else _searched(space, sizes)


def _largest_first(space: Sequence[int], sizes: Mapping[int, int]) -> list[list[int]] | None:
    free = list(space)
    filled: list[list[int]] = [[] for _ in space]
    for size in sorted(Counter(sizes).elements(), reverse=True):
        place = next((k for k, left in enumerate(free) if left >= size), None)
        if place is None:
            return None
        free[place] -= size
        filled[place].append(size)
    return filled


def _searched(space: Sequence[int], sizes: Mapping[int, int]) -> list[list[int]] | None:
    """Node by node, each filled to its brim in every way."""
    order = sorted((size for size, count in sizes.items() if count), reverse=True)
    patterns = {gpus: maximal_patterns(gpus, order)[::-1] for gpus in set(space)}
    failed: set[tuple[int, tuple[int, ...]]] = set()

    def fill(place: int, left: tuple[int, ...]) -> list[list[int]] | None:
        if not any(left):
            return [[] for _ in space[place:]]
        if place == len(space) or (place, left) in failed or len(failed) > TRIES:
            return None
        for pattern in patterns[space[place]] or (tuple(0 for _ in order),):
            taken = tuple(min(a, b) for a, b in zip(pattern, left, strict=True))
            rest = fill(place + 1, tuple(b - a for a, b in zip(taken, left, strict=True)))
            if rest is not None:
                return [[size for size, count in zip(order, taken, strict=True) for _ in range(count)], *rest]
        failed.add((place, left))
        return None

    return fill(0, tuple(sizes[size] for size in order))
