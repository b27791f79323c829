"""The load generators that a serve.toml can name. A new one is a file of this folder and a line here, or comes from outside."""

from __future__ import annotations

from fleetsieve.errors import UsageError
from fleetsieve.extensions import LOAD_GENERATOR, installed, is_outside, load
from fleetsieve.live.load import aiperf, vllm_bench
from fleetsieve.live.load.protocol import GeneratorKind

DEFAULT = aiperf.KIND.name

GENERATORS: dict[str, GeneratorKind] = {kind.name: kind for kind in (aiperf.KIND, vllm_bench.KIND)}
"""By the name in [load] generator."""


def generator_named(name: str) -> GeneratorKind:
    """The load generator called `name`: a bundled one, one that an installed package brings, or `module:NAME`.

    Raises:
        UsageError: when there is none, which names those that are known, or when it is no `GeneratorKind`.
    """
    if name in GENERATORS:
        return GENERATORS[name]
    if not is_outside(LOAD_GENERATOR, name):
        known = ", ".join(f'"{one}"' for one in (*GENERATORS, *installed(LOAD_GENERATOR)))
        raise UsageError(f"{name!r} is unknown; generator must be one of {known}, or module:NAME")
    kind: GeneratorKind = load(LOAD_GENERATOR, name)
    return kind


def holding_concurrency() -> tuple[str, ...]:
    """The names of the bundled ones that can hold a concurrency for a given time."""
    return tuple(kind.name for kind in GENERATORS.values() if kind.holds_concurrency)
