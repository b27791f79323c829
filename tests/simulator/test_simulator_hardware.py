"""The cost of an iteration: never below the roofline, not monotone in the tensor-parallel degree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_machine import ENGINE, GPU, LLM

from fleetsieve.simulator.hardware import all_reduce_s, kv_cache_tokens, replica


def test_kv_cache_holds_what_weights_and_activations_leave() -> None:
    assert kv_cache_tokens(LLM, GPU, ENGINE, 2) == (2 * (72 - 2) - 60) * 10**9 // (5 * 10**5)
    assert kv_cache_tokens(replace(LLM, weight_bytes=80e9), GPU, ENGINE, 1) == 0


def test_all_reduce_follows_the_ring() -> None:
    assert all_reduce_s(LLM, GPU, 1, 1000) == 0.0
    per_layer = 2 * 3 * 1e-6 + 2 * 3 / 4 * (1000 * 5000 * 2) / 250e9
    assert all_reduce_s(LLM, GPU, 4, 1000) == pytest.approx(2 * 60 * per_layer)


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    tokens=st.integers(1, 4096),
    kv_read=st.integers(0, 10**6),
    pairs=st.floats(0, 1e7),
)
def test_no_iteration_beats_the_roofline(tp: int, tokens: int, kv_read: int, pairs: float) -> None:
    llm = replace(LLM, attention_flop_per_pair=1e6)
    seconds = replica(llm, GPU, ENGINE, tp).iteration_s(tokens, 1, kv_read, pairs)
    memory = (llm.weight_bytes + kv_read * llm.kv_bytes_per_token) / (tp * GPU.hbm_bytes_per_s)
    compute = (tokens * llm.flop_per_token + pairs * 1e6) / (tp * GPU.flops_per_s)
    assert seconds >= max(memory, compute)


def test_more_gpus_can_be_slower() -> None:
    slow_link = replace(GPU, link_latency_s=2e-5)
    seconds = [replica(LLM, slow_link, ENGINE, tp).iteration_s(8, 8, 4000) for tp in (1, 2, 4, 8)]
    assert seconds.index(min(seconds)) in (1, 2)
