"""A small machine whose numbers are easy to follow, and where the bundled instances are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fleetsieve.simulator.hardware import EngineSpec, Gpu, Llm, ReplicaSpec, replica

INSTANCES = Path(__file__).resolve().parents[2] / "instances"

LLM = Llm(weight_bytes=60e9, layers=60, hidden_size=5000, kv_bytes_per_token=5e5, flop_per_token=60e9)
GPU = Gpu(hbm_bytes=80e9, hbm_bytes_per_s=3e12, flops_per_s=1e15, link_bytes_per_s=250e9, link_latency_s=1e-6)
ENGINE = EngineSpec(max_num_seqs=64, max_batched_tokens=1024)


def machine(tp: int = 2, engine: EngineSpec = ENGINE, kv_tokens: int | None = None) -> ReplicaSpec:
    whole = replica(LLM, GPU, engine, tp)
    return whole if kv_tokens is None else replace(whole, kv_tokens=kv_tokens)
