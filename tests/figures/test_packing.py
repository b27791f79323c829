"""A plan is drawn as a packing that holds: each GPU once, each replica whole on one node."""

from __future__ import annotations

from collections import Counter

import pytest
from fleetsieve_models.placement import fewest_nodes
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool
from hypothesis import given
from hypothesis import strategies as st

from fleetsieve.allocation import evaluate
from fleetsieve.figures.allocation import IN_A_ROW, MANY_NODES, allocation_rows
from fleetsieve.figures.packing import merged_nodes, pack

POOLS = st.builds(GpuPool, st.just("a"), st.integers(1, 40), st.sampled_from([None, 4, 6, 8]))


def plan(pool, counts, demand=100.0):
    classes = tuple(ClassDemand(f"c{size}", demand) for size in counts)
    configurations = tuple(Configuration(f"q{size}", f"c{size}", size, 1.0, pool.name) for size in counts)
    return evaluate(FleetProblem(classes, configurations, (pool,)), {f"q{size}": n for size, n in counts.items()})


def held(nodes):
    return Counter(replica.gpus for node in nodes for replica in node.placed)


@given(POOLS, st.dictionaries(st.integers(1, 8), st.integers(1, 6), min_size=1, max_size=4))
def test_every_replica_has_gpus_of_its_own_on_one_node(pool, counts):
    used = sum(size * n for size, n in counts.items())
    if used > pool.gpus or (pool.gpus_per_node is not None and fewest_nodes(pool, counts) is None):
        return
    nodes = pack(plan(pool, counts))
    assert sum(node.gpus for node in nodes) == pool.gpus
    assert held(nodes) == Counter(counts)
    for node in nodes:
        taken = [gpu for replica in node.placed for gpu in range(replica.first, replica.first + replica.gpus)]
        assert len(taken) == len(set(taken))
        assert all(0 <= gpu < node.gpus for gpu in taken)


def test_odd_sizes_that_fill_every_node_are_packed():
    nodes = pack(plan(GpuPool("a", 18, 9), {5: 2, 4: 2}))
    assert held(nodes) == Counter({5: 2, 4: 2})
    nodes = pack(plan(GpuPool("a", 16, 8), {3: 2, 5: 2}))
    assert held(nodes) == Counter({3: 2, 5: 2})


def test_a_small_rest_of_the_pool_stays_free():
    nodes = pack(plan(GpuPool("a", 9, 8), {8: 1}))
    assert [len(node.placed) for node in nodes] == [1, 0]


@pytest.mark.parametrize("node", [None, 8])
def test_each_gpu_is_one_box(node):
    boxes, frames = allocation_rows(plan(GpuPool("default", 20, node), {4: 3, 1: 2}))
    assert len(boxes) == 20
    assert len({(box["row"], box["x"]) for box in boxes}) == 20
    assert sum(box["class"] == "free" for box in boxes) == 6
    assert max(box["x2"] for box in boxes) == IN_A_ROW
    assert len(frames) == 5


def test_a_large_fleet_draws_equal_nodes_once():
    many = plan(GpuPool("default", 8 * 500, 8), {8: 400})
    nodes = pack(many)
    assert len(nodes) == 500 > MANY_NODES
    assert sum(node.count for node in merged_nodes(nodes)) == 500
    boxes, frames = allocation_rows(many)
    assert len(boxes) == 16
    assert len(frames) == 1
    assert boxes[0]["row"] == "400 nodes like 1"
