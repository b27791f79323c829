"""What each column of an instance's CSV files holds: its kind, its range, and what to write instead of a wrong value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from fleetsieve.instance import MAX_DEMAND_RPS, TAIL_METRICS, LoadKind, Status

LARGEST_INTEGER = 2**53
"""Up to here every whole number is a float of its own, so a column can be checked as floats."""


class ColumnKind(Enum):
    """What the text of a field means."""

    TEXT = auto()
    NUMBER = auto()
    INTEGER = auto()
    CHOICE = auto()
    FLAG = auto()


FLAG_WORDS = {"": False, "false": False, "no": False, "0": False, "true": True, "yes": True, "1": True}
"""How a flag may be written, in any case (spreadsheets write TRUE)."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `least` to `most`; `above` leaves out `least` itself, `below` leaves out `most`."""

    least: float = 0.0
    most: float = math.inf
    above: bool = False
    below: bool = False

    def holds(self, value: float) -> bool:
        """Whether `value` lies in the range."""
        low = value > self.least if self.above else value >= self.least
        return low and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        low = f"{'>' if self.above else '>='} {self.least:g}"
        high = f" and {'<' if self.below else '<='} {self.most:g}" if math.isfinite(self.most) else ""
        return low + high

    def kind_of_fault(self, value: float) -> str:
        """Why a value outside is wrong, in a word or two."""
        if self.most == 1.0 and 1.0 < value <= 100.0:
            return "percent"
        return "negative" if value < 0.0 else "out of range"

    def fault(self, name: str, value: float) -> str:
        """The message about a `value` of `name` that lies outside."""
        shown, kind = number_text(value), self.kind_of_fault(value)
        if kind == "percent":
            fraction = number_text(float(f"{value / 100.0:.12g}"))
            return f"{name} is a fraction; {shown} looks like percent, write {fraction}"
        return f"{shown} is {kind}; {name} must be {self}"


NON_NEGATIVE = Range()
POSITIVE = Range(above=True)
AT_LEAST_ONE = Range(1.0)
FRACTION = Range(0.0, 1.0)
RATE = Range(most=MAX_DEMAND_RPS)
PRIORITY = Range(1e-3, 1e3)
"""Beyond these a missed floor of one class would hide behind the rounding of another's."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `required` means that the file must have it and that no field of it may be empty, `header` only the former.

    `unit` completes "write ..."; `infinite` admits the text `inf` (an upper bound that nothing bounds). `duration` ("s" or "ms") is
    the unit of a time whose fields may bring their own: 500ms.
    """

    name: str
    kind: ColumnKind = ColumnKind.TEXT
    required: bool = False
    range: Range = NON_NEGATIVE
    unit: str = ""
    header: bool = False
    infinite: bool = False
    choices: tuple[str, ...] = ()
    duration: str = ""

    @property
    def numeric(self) -> bool:
        """Whether the fields are numbers."""
        return self.kind in (ColumnKind.NUMBER, ColumnKind.INTEGER)

    @property
    def remedy(self) -> str:
        """What would be right in a field of this column."""
        if self.kind is ColumnKind.CHOICE:
            return f"write one of {', '.join(self.choices)}"
        if self.kind is ColumnKind.FLAG:
            return "write true or false"
        if self.kind is ColumnKind.TEXT:
            return f"write the {self.unit or self.name}"
        what = "a whole number" if self.kind is ColumnKind.INTEGER else "a number"
        units = ", or with its unit (500ms, 0.5s)" if self.duration else ""
        return f"write {what} {self.range}" + (f", in {self.unit}" if self.unit else "") + units


def number_text(value: float) -> str:
    """A number as a person would have written it: whole numbers without a point, others to the last digit."""
    return str(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 1e15 else repr(value)


def _text(name: str, unit: str = "", required: bool = False) -> Column:
    return Column(name, ColumnKind.TEXT, required, unit=unit)


def _whole(name: str, range: Range, unit: str = "", required: bool = False) -> Column:
    return Column(name, ColumnKind.INTEGER, required, range, unit)


def _number(name: str, unit: str, range: Range = NON_NEGATIVE, required: bool = False) -> Column:
    return Column(name, ColumnKind.NUMBER, required, range, unit)


def _limit(name: str, unit: str = "seconds", duration: str = "s") -> Column:
    return Column(name, ColumnKind.NUMBER, range=POSITIVE, unit=unit, duration=duration)


CLASSES = (
    _text("class", "name of the class", required=True),
    _number("input_tokens", "tokens"),
    _number("output_tokens", "tokens"),
    _number("demand_rps", "requests/s", required=True),
    _number("priority", "", PRIORITY),
    _number("floor_rps", "requests/s"),
    _limit("max_ttft_p99_s"),
    _limit("max_e2e_p99_s"),
    _limit("max_tpot_p99_s"),
    _number("min_success", "", FRACTION),
)

LIMITS_MS = tuple(_limit(f"max_{metric}_p99_ms", "milliseconds", "ms") for metric in TAIL_METRICS)
"""Columns of classes.csv in place of those in seconds; they are read and never written."""

VARIANT = "variant"
"""The column of engine variants: it is written where a cell has another than the default one."""

CELLS = (
    _text("class", "name of a class of classes.csv", required=True),
    _whole("tp", AT_LEAST_ONE, "GPUs", required=True),
    _text("load", "label of the load, such as c16 or r2.5", required=True),
    _text("pool"),
    _text(VARIANT),
    Column("load_kind", ColumnKind.CHOICE, required=True, choices=tuple(kind.value for kind in LoadKind)),
    Column("offered", ColumnKind.NUMBER, range=POSITIVE, unit="requests/s or requests in flight", header=True),
    _whole("gpus", AT_LEAST_ONE, "GPUs per replica (tp x pp)", required=True),
    _number("cost_gpu_s", "GPU-seconds", POSITIVE),
    Column("excluded", ColumnKind.FLAG),
)

BOUNDED = ("throughput_rps", "success_rate", "ttft_p99_s", "e2e_p99_s", "tpot_p99_s")
"""Columns of measurements.csv that may bring bounds of their own."""


def bound_names(column: str) -> tuple[str, str]:
    """The names of the lower and upper bound of `column`.

    >>> bound_names("ttft_p99_s"), bound_names("success_rate")
    (('ttft_p99_lo_s', 'ttft_p99_hi_s'), ('success_rate_lo', 'success_rate_hi'))
    """
    stem, _, unit = column.rpartition("_")
    if unit in ("s", "rps"):
        return f"{stem}_lo_{unit}", f"{stem}_hi_{unit}"
    return f"{column}_lo", f"{column}_hi"


def _bounds(name: str) -> tuple[Column, Column]:
    low, high = bound_names(name)
    if name == "success_rate":
        return _number(low, "", FRACTION), _number(high, "", FRACTION)
    unit = "requests/s" if name == "throughput_rps" else "seconds"
    range = RATE if name == "throughput_rps" else NON_NEGATIVE
    return _number(low, unit, range), Column(high, ColumnKind.NUMBER, unit=unit, infinite=True)


MEASUREMENTS = (
    _text("class", "name of a class of classes.csv", required=True),
    _whole("tp", AT_LEAST_ONE, "GPUs", required=True),
    _text("load", "label of a load of cells.csv", required=True),
    _text("pool"),
    _text(VARIANT),
    _whole("seed", NON_NEGATIVE),
    Column("status", ColumnKind.CHOICE, required=True, choices=tuple(status.value for status in Status)),
    _number("throughput_rps", "requests/s", RATE),
    _number("success_rate", "", FRACTION),
    _whole("requests", NON_NEGATIVE),
    _number("ttft_p50_s", "seconds"),
    _number("ttft_p99_s", "seconds"),
    _number("e2e_p50_s", "seconds"),
    _number("e2e_p99_s", "seconds"),
    _number("tpot_p99_s", "seconds"),
    *(bound for name in BOUNDED for bound in _bounds(name)),
    _number("window_s", "seconds"),
    _number("cost_gpu_s", "GPU-seconds"),
    _text("started_at"),
    _text("source"),
)
