"""What one iteration of a replica costs: a roofline per kernel, all-reduces, overhead.

Per iteration with T tokens in the batch (1 per decoding sequence, a chunk per prefilling one), S sequences, R tokens of
KV cache read by attention and P (query, key) pairs of prefill attention, on g = TP GPUs:

    linear      max(W / (e_m B), T F / (e_c C)) / g     weights are read once, or the arithmetic takes longer
    attention   (R k / (e_m B) + P A / (e_c C)) / g     decode reads the cache; prefill attention is arithmetic
    all-reduce  2 L (2 (g - 1) α + 2 (g - 1) / g · T h b / β)
    overhead    o + S o_s

W weight bytes, F FLOP per token, k KV bytes per token, A FLOP per pair, L layers, h hidden size, b bytes per activation;
B HBM bytes/s, C FLOP/s, α seconds per hop, β bytes/s of a link; e_m, e_c the shares of B and C that kernels reach.

Linear layers and attention are separate kernels that run one after the other, so each has its own roofline (Williams,
Waterman, Patterson, CACM 2009) and the times add up; the sum is never less than the roofline of the whole iteration.
A tensor-parallel layer needs two all-reduces (Shoeybi et al., Megatron-LM, 2019); a ring all-reduce takes 2 (g - 1) hops
and moves 2 (g - 1) / g of the data through each link (Patarasuk, Yuan, JPDC 2009). That term grows with g while the
others shrink, which is why performance is not monotone in the tensor-parallel degree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ALL_REDUCES_PER_LAYER = 2
KV_POLICIES = ("recompute", "reserve")


@dataclass(frozen=True, slots=True)
class Llm:
    """A dense model. All values > 0, but `attention_flop_per_pair` >= 0.

    `weight_bytes` are read once per iteration, `kv_bytes_per_token` = 2 x layers x KV heads x head size x bytes per
    value, `flop_per_token` about 2 x parameters, `attention_flop_per_pair` = 4 x layers x heads x head size.
    """

    weight_bytes: float
    layers: int
    hidden_size: int
    kv_bytes_per_token: float
    flop_per_token: float
    attention_flop_per_pair: float = 0.0
    activation_bytes: float = 2.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU from its datasheet, and its link to the others of a replica (bytes/s one way, seconds per hop)."""

    hbm_bytes: float
    hbm_bytes_per_s: float
    flops_per_s: float
    link_bytes_per_s: float
    link_latency_s: float


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """A continuous-batching engine.

    `max_num_seqs` sequences run at once (>= 1) and share `max_batched_tokens` tokens per iteration (>= max_num_seqs).
    Of each GPU's memory `memory_utilisation` in (0, 1] is used, less `reserved_bytes_per_gpu` for activations.
    `kv_policy` "recompute" admits a sequence when its prompt fits and evicts the youngest when memory runs out (vLLM);
    "reserve" admits it only when prompt and output fit, and never evicts. `watermark` in [0, 1) is the share of the KV
    cache that an admission leaves free. Overheads are seconds per iteration, and per sequence in it.
    """

    max_num_seqs: int
    max_batched_tokens: int
    memory_utilisation: float = 0.9
    reserved_bytes_per_gpu: float = 2e9
    memory_efficiency: float = 0.8
    compute_efficiency: float = 0.6
    overhead_s: float = 0.002
    overhead_per_sequence_s: float = 0.0
    kv_policy: str = "recompute"
    watermark: float = 0.01


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica at a tensor-parallel degree: the coefficients of an iteration's time, in seconds, and its KV cache.

    `kv_tokens` is the KV cache's size in tokens (0 when the weights do not fit); block rounding is left out (at most
    15 tokens per sequence with blocks of 16).
    """

    tp: int
    kv_tokens: int
    weights_s: float
    linear_s_per_token: float
    kv_s_per_token: float
    pair_s: float
    link_s_per_token: float
    fixed_s: float
    sequence_s: float

    def iteration_s(self, tokens: int, sequences: int, kv_read: float, pairs: float = 0.0) -> float:
        """Seconds of an iteration with `tokens` in the batch; affine in `kv_read`, the tokens of KV cache read."""
        return (
            max(self.weights_s, tokens * self.linear_s_per_token)
            + kv_read * self.kv_s_per_token
            + pairs * self.pair_s
            + tokens * self.link_s_per_token
            + sequences * self.sequence_s
            + self.fixed_s
        )


def kv_cache_tokens(llm: Llm, gpu: Gpu, engine: EngineSpec, tp: int) -> int:
    """Tokens that fit the KV cache: floor((g (u M - reserved) - W) / k), at least 0 (vLLM, SOSP 2023, section 4)."""
    per_gpu = gpu.hbm_bytes * engine.memory_utilisation - engine.reserved_bytes_per_gpu
    return max(0, math.floor((tp * per_gpu - llm.weight_bytes) / llm.kv_bytes_per_token))


def all_reduce_s(llm: Llm, gpu: Gpu, tp: int, tokens: int) -> float:
    """Seconds that one iteration spends in all-reduces; 0 with one GPU (formula above)."""
    hops = 2 * (tp - 1)
    payload = tokens * llm.hidden_size * llm.activation_bytes
    return ALL_REDUCES_PER_LAYER * llm.layers * (hops * gpu.link_latency_s + hops / tp * payload / gpu.link_bytes_per_s)


def replica(llm: Llm, gpu: Gpu, engine: EngineSpec, tp: int) -> ReplicaSpec:
    """The replica of `llm` on `tp` >= 1 GPUs."""
    hbm = tp * gpu.hbm_bytes_per_s * engine.memory_efficiency
    flops = tp * gpu.flops_per_s * engine.compute_efficiency
    latency = all_reduce_s(llm, gpu, tp, 0)
    return ReplicaSpec(
        tp=tp,
        kv_tokens=kv_cache_tokens(llm, gpu, engine, tp),
        weights_s=llm.weight_bytes / hbm,
        linear_s_per_token=llm.flop_per_token / flops,
        kv_s_per_token=llm.kv_bytes_per_token / hbm,
        pair_s=llm.attention_flop_per_pair / flops,
        link_s_per_token=all_reduce_s(llm, gpu, tp, 1) - latency,
        fixed_s=engine.overhead_s + latency,
        sequence_s=engine.overhead_per_sequence_s,
    )
