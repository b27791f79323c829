"""Patterns of replicas on one node."""

import itertools
import random
import time

import pytest
from fleetsieve_models.placement import counting_is_enough, fewest_nodes, maximal_patterns, nodes_of, rooms, slots
from fleetsieve_models.problem import GpuPool


@pytest.mark.parametrize("free", range(9))
@pytest.mark.parametrize("sizes", [(1,), (2, 3), (3, 4), (2, 4, 8), (1, 3, 5), (5, 3)])
def test_patterns_fit_cover_every_filling_and_none_covers_another(free, sizes):
    patterns = maximal_patterns(free, sizes)
    assert len(set(patterns)) == len(patterns)
    for pattern in patterns:
        assert sum(g * k for g, k in zip(sizes, pattern, strict=True)) <= free
    for filling in itertools.product(*(range(free // g + 1) for g in sizes)):
        if 0 < sum(g * k for g, k in zip(sizes, filling, strict=True)) <= free:
            assert any(all(a >= b for a, b in zip(p, filling, strict=True)) for p in patterns)
    for a, b in itertools.permutations(patterns, 2):
        assert not all(x <= y for x, y in zip(a, b, strict=True))


def test_no_size_no_pattern():
    assert maximal_patterns(8, ()) == ()
    assert maximal_patterns(0, (1,)) == ()


def test_counting():
    pool = GpuPool("default", 16, 8)
    assert counting_is_enough(pool, [1, 2, 4, 8])
    assert counting_is_enough(pool, [4])
    assert counting_is_enough(pool, [])
    assert not counting_is_enough(pool, [3])
    assert not counting_is_enough(pool, [2, 3])
    assert counting_is_enough(GpuPool("default", 16), [3, 5])


def test_nodes():
    assert nodes_of(GpuPool("default", 20, 8)) == (2, 4)
    with pytest.raises(ValueError, match="has no nodes"):
        nodes_of(GpuPool("default", 20))


def by_trying(pool, sizes):
    """The fewest nodes, one replica after another into every node that has room."""
    full, rest = nodes_of(pool)
    bins = [pool.gpus_per_node] * full + [rest] * (rest > 0)
    items = tuple(sorted((g for g, n in sizes.items() for _ in range(n)), reverse=True))

    def fits(left, rest_of_items):
        if not rest_of_items:
            return True
        g = rest_of_items[0]
        return any(
            fits(tuple(sorted((*left[:k], room - g, *left[k + 1 :]))), rest_of_items[1:])
            for k, room in enumerate(left)
            if room >= g and (k == 0 or left[k - 1] != room)
        )

    for count in range(len(bins) + 1):
        if any(fits(tuple(sorted(chosen)), items) for chosen in set(itertools.combinations(bins, count))):
            return count
    return None


@pytest.mark.parametrize("seed", range(150))
def test_fewest_nodes_against_trying(seed):
    draw = random.Random(seed)
    pool = GpuPool("default", draw.randint(1, 22), draw.randint(2, 9))
    chain = seed % 3 == 0
    sizes = {draw.choice([1, 2, 4] if chain else range(1, 10)): draw.randint(0, 4) for _ in range(draw.randint(0, 3))}
    expected = None if sum(g * n for g, n in sizes.items()) > pool.gpus else by_trying(pool, sizes)
    assert fewest_nodes(pool, sizes) == expected


@pytest.mark.parametrize(
    ("gpus", "node", "sizes", "nodes"),
    [
        (4096, 8, {2: 83, 3: 328, 4: 232, 8: 201}, 481),
        (4096, 8, {1: 158, 2: 172, 3: 83, 5: 552, 7: 25}, None),
        (4096, 8, {1: 228, 2: 204, 3: 407, 5: 279, 7: 62}, 461),
        (2304, 72, {4: 202, 8: 28, 16: 49, 32: 13}, 31),
        (4096, 8, {5: 512}, 512),
        (4096, 8, {5: 513}, None),
    ],
)
def test_thousands_of_gpus_are_placed_quickly(gpus, node, sizes, nodes):
    start = time.perf_counter()
    assert fewest_nodes(GpuPool("default", gpus, node), sizes) == nodes
    assert time.perf_counter() - start < 2.0


def test_sizes_in_a_chain_need_one_pattern_however_large_the_node():
    assert rooms(72, [1, 2, 4, 8, 16, 32]) == ({1: 72, 2: 36, 4: 18, 8: 9, 16: 4, 32: 2},)
    assert rooms(3, [4, 8]) == ()
    assert [slots(32, g, [8, 16, 32]) for g in (8, 16, 32)] == [4, 2, 1]
    assert [slots(3, g, [2, 3]) for g in (2, 3)] == [0, 1]
