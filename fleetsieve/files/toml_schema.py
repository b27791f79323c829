"""What each key of instance.toml holds: its section, its kind and its range."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fleetsieve.files.schema import AT_LEAST_ONE, NON_NEGATIVE, POSITIVE, Range
from fleetsieve.instance import NOISE_KEYS

SCHEMA_VERSION = 1
"""The version of the folder's format that this program reads and writes."""


class Type(Enum):
    """The type of a value; its text completes "must be ..."."""

    TEXT = "a text"
    INTEGER = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    TEXTS = "a list of texts"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section; `unit` and `choices` are for the message about a wrong value."""

    type: Type
    range: Range = NON_NEGATIVE
    unit: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """What a right value is."""
        if self.choices:
            return "one of " + ", ".join(f'"{choice}"' for choice in self.choices)
        if self.type in (Type.TEXT, Type.FLAG, Type.TEXTS):
            return str(self.type.value)
        return f"{self.type.value} {self.range}" + (f", in {self.unit}" if self.unit else "")


_SHARE = Range(0.0, 1.0, above=True)
_OPEN_FRACTION = Range(0.0, 1.0, above=True, below=True)
MAX_GPUS = 100_000
"""More than any fleet of one kind; a number beyond is a slip, and curves over so many GPUs would not fit into memory."""

_GPUS = Key(Type.INTEGER, Range(1.0, MAX_GPUS), "GPUs", required=True)
_POOL = {
    "gpus": _GPUS,
    "gpus_per_node": Key(Type.INTEGER, AT_LEAST_ONE, "GPUs"),
    "price_per_gpu_h": Key(Type.NUMBER, unit="money per GPU and hour"),
    "hbm_bytes_per_s": Key(Type.NUMBER, POSITIVE, "bytes/s"),
    "flops_per_s": Key(Type.NUMBER, POSITIVE, "FLOP/s"),
}

TOP = {
    "schema_version": Key(Type.INTEGER, required=True),
    "name": Key(Type.TEXT, required=True),
    "source": Key(Type.TEXT),
}
POOL = {"name": Key(Type.TEXT, required=True)} | _POOL
FLEET_WITHOUT_POOLS = _POOL
"""[fleet] itself describes the one pool, called "default"."""

FLEET = {"max_utilisation": Key(Type.NUMBER, _SHARE)}
FACTS = {
    "weight_bytes": Key(Type.NUMBER, POSITIVE, "bytes"),
    "hbm_bytes_per_s": Key(Type.NUMBER, POSITIVE, "bytes/s"),
    "flops_per_s": Key(Type.NUMBER, POSITIVE, "FLOP/s"),
    "prefill_flop_per_token": Key(Type.NUMBER, POSITIVE, "FLOP"),
    "speculative_decoding": Key(Type.FLAG),
}
CERTIFICATE = {
    "epsilon": Key(Type.NUMBER, _OPEN_FRACTION),
    "eta": Key(Type.NUMBER, Range(0.0, 1.0, below=True)),
    "confidence": Key(Type.NUMBER, _OPEN_FRACTION),
    "family": Key(Type.TEXT, choices=("grid", "cell")),
}
MEASURE = {
    "warmup_s": Key(Type.NUMBER, unit="seconds"),
    "window_s": Key(Type.NUMBER, POSITIVE, "seconds"),
    "max_window_s": Key(Type.NUMBER, POSITIVE, "seconds"),
    "min_requests": Key(Type.INTEGER),
    "startup_s": Key(Type.NUMBER, unit="seconds"),
    "max_looks": Key(Type.INTEGER, AT_LEAST_ONE),
}
NOISE = {name: Key(Type.NUMBER) for name in NOISE_KEYS.values()}
SECTIONS = ("fleet", "facts", "certificate", "measure", "assumptions", "noise")
