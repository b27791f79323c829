"""Values that can be, but look as if something else was meant: mostly milliseconds in a column of seconds.

Suspicions never stop a run. A rule is worth having only if it stays silent on real measurements, so each one asks for what
cannot happen (a first token after the whole answer) or for a distance that no overload explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fleetsieve.files.faults import FaultList
from fleetsieve.files.schema import number_text
from fleetsieve.files.table import Table
from fleetsieve.instance import TAIL_METRICS, Cell, LoadKind, WorkloadClass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONGEST_S = {"ttft_p50_s": 600.0, "ttft_p99_s": 600.0, "e2e_p50_s": 7_200.0, "e2e_p99_s": 7_200.0, "tpot_p99_s": 5.0}
"""Above this many seconds a latency is more likely one in milliseconds: clients give up long before."""

TIMES_SLO = 200.0
"""A class whose median tail is this many times its limit was hardly measured on purpose: lighter loads exist."""

NEVER_ABOVE = (
    ("ttft_p50_s", "ttft_p99_s", "a median is never above the 99th percentile"),
    ("e2e_p50_s", "e2e_p99_s", "a median is never above the 99th percentile"),
    ("ttft_p99_s", "e2e_p99_s", "the first token never comes after the whole answer"),
    ("tpot_p99_s", "e2e_p99_s", "one token never takes longer than the whole answer"),
)
ROUNDING = 1.01
"""Room for the rounding of published figures, and for percentiles over slightly different requests."""

ABOVE_OFFERED = 1.10
"""A finite run at random arrivals can serve a few per cent more than the offered rate, not 10 %."""


def suspect_measurements(
    table: Table,
    places: NDArray[np.int64],
    cells: Sequence[Cell],
    classes: Mapping[str, WorkloadClass],
    faults: FaultList,
) -> None:
    """Add the suspicions about the rows of a measurements file; `places` gives each row's place in `cells`."""
    numbers = table.numbers
    for name, longest in LONGEST_S.items():
        values = numbers[name]
        wrong = values > longest
        messages = (long_time(value, longest) for value in values[wrong].tolist())
        faults.suspect_all(name, "milliseconds", table.lines[wrong].tolist(), messages)
    for low, high, reason in NEVER_ABOVE:
        wrong = (numbers[low] > numbers[high] * ROUNDING) & ~(numbers[low] > LONGEST_S[low])
        messages = (
            f"{number_text(value)} is above {high} {number_text(other)}: {reason}; check the units of both"
            for value, other in zip(numbers[low][wrong].tolist(), numbers[high][wrong].tolist(), strict=True)
        )
        faults.suspect_all(low, f"above {high}", table.lines[wrong].tolist(), messages)
    if cells:
        _suspect_overserved(table, places, cells, faults)
        _suspect_far_from_slo(table, places, cells, classes, faults)


def long_time(value: float, longest: float) -> str:
    """What to say of a latency or limit of `value` seconds that is longer than any that makes sense."""
    return f"{number_text(value)} s is more than {longest:,.0f} s; in milliseconds? Then write {value / 1000.0:.6g}"


def _suspect_overserved(table: Table, places: NDArray[np.int64], cells: Sequence[Cell], faults: FaultList) -> None:
    """More requests/s served than one replica was offered."""
    import numpy as np

    offered = np.array([cell.offered or np.nan if cell.load_kind is LoadKind.RATE else np.nan for cell in cells])
    inside = (places >= 0) & (places < len(cells))
    offered_to_row = np.where(inside, offered[np.where(inside, places, 0)], np.nan)
    served = table.numbers["throughput_rps"]
    wrong = served > offered_to_row * ABOVE_OFFERED
    messages = (
        f"{number_text(value)} is above the {number_text(rate)} requests/s offered to one replica; "
        "is this the throughput of several, or is `offered` wrong?"
        for value, rate in zip(served[wrong].tolist(), offered_to_row[wrong].tolist(), strict=True)
    )
    faults.suspect_all("throughput_rps", "above offered", table.lines[wrong].tolist(), messages)


def _suspect_far_from_slo(
    table: Table,
    places: NDArray[np.int64],
    cells: Sequence[Cell],
    classes: Mapping[str, WorkloadClass],
    faults: FaultList,
) -> None:
    """A class whose usual tail is hundreds of times its limit: one of the two is in milliseconds."""
    import numpy as np

    inside = (places >= 0) & (places < len(cells))
    class_names = np.array([list(classes).index(cell.key.class_name) for cell in cells])
    class_of_row = np.where(inside, class_names[np.where(inside, places, 0)], -1)
    for number, (name, workload) in enumerate(classes.items()):
        for metric in TAIL_METRICS:
            limit, column = workload.slo.limit_s(metric), f"{metric}_p99_s"
            values = table.numbers[column]
            rows = np.flatnonzero((class_of_row == number) & ~np.isnan(values))
            if limit is None or not len(rows) or np.median(values[rows]) <= TIMES_SLO * limit:
                continue
            times = float(np.median(values[rows])) / limit
            message = f"the median of {name!r} is {times:,.0f} times its limit of {limit:g} s; in milliseconds?"
            faults.suspect(int(table.lines[rows[0]]), column, "far from the limit", message)
