"""Patterns of replicas on one node."""

import itertools

import pytest
from fleetsieve_models.placement import counting_is_enough, maximal_patterns, nodes_of
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
