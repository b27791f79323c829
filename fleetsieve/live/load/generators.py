"""The load generators that a serve.toml can name. A new one is a file of this folder and a line here."""

from __future__ import annotations

from fleetsieve.live.load import aiperf, vllm_bench
from fleetsieve.live.load.protocol import GeneratorKind

DEFAULT = aiperf.KIND.name

GENERATORS: dict[str, GeneratorKind] = {kind.name: kind for kind in (aiperf.KIND, vllm_bench.KIND)}
"""By the name that stands in [load] generator."""


def holding_concurrency() -> tuple[str, ...]:
    """The names of those that can hold a concurrency for a given time."""
    return tuple(kind.name for kind in GENERATORS.values() if kind.holds_concurrency)
