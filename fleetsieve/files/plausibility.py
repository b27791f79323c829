"""Values that can be, but look as if something else was meant: mostly milliseconds in a column of seconds.

Suspicions never stop a run. A rule is worth having only if it stays silent on real measurements, so each one asks for what
cannot happen (a first token after the whole answer) or for a distance that no overload explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fleetsieve.files.faults import PRINTED_SUSPICIONS, FaultList, listed_values
from fleetsieve.files.schema import bound_names, number_text
from fleetsieve.files.table import Table
from fleetsieve.instance import TAIL_METRICS, Cell, CertificateSettings, LoadKind, Status, WorkloadClass

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
    """Add the warnings about the rows of a measurements file; `places` gives each row's place in `cells`."""
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
        _suspect_unknown(table, places, cells, classes, faults)


def long_time(value: float, longest: float) -> str:
    """The message about a latency or limit of `value` seconds that is longer than any that makes sense."""
    return f"{number_text(value)} s is more than {longest:,.0f} s; in milliseconds? Then write {value / 1000.0:.6g}"


def wide_slack(certificate: CertificateSettings) -> str:
    """The message about a fairness slack η that is not below ε; "" where it is."""
    eta, epsilon = certificate.fairness_slack, certificate.epsilon
    if eta < epsilon:
        return ""
    return (
        f"eta {number_text(eta)} is not below epsilon {number_text(epsilon)}: the goodput stage may give up as much fulfilment as "
        "the gap may have, so a plan may stay undecided with every cell measured; write eta < epsilon (default: epsilon / 2)"
    )


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
        "is this the throughput of several replicas, or is `offered` wrong?"
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

    class_of_row = _class_of_row(places, cells, classes)
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


def _class_of_row(
    places: NDArray[np.int64], cells: Sequence[Cell], classes: Mapping[str, WorkloadClass]
) -> NDArray[np.int64]:
    """The place of each row's class in `classes`; -1 where the row belongs to no cell."""
    import numpy as np

    number_of = {name: number for number, name in enumerate(classes)}
    inside = (places >= 0) & (places < len(cells))
    class_of_cell = np.array([number_of[cell.key.class_name] for cell in cells], dtype=np.int64)
    return np.where(inside, class_of_cell[np.where(inside, places, 0)], -1)


def _suspect_unknown(
    table: Table,
    places: NDArray[np.int64],
    cells: Sequence[Cell],
    classes: Mapping[str, WorkloadClass],
    faults: FaultList,
) -> None:
    """A row that went well, but without its throughput or a value that decides on its class's SLO: alone, it supports no plan.

    Bounds in place of a value are enough. A row that misses the SLO by another value needs no more, and one that bounds its
    throughput from above only was written to limit what could be, not to be planned with.
    """
    import numpy as np

    class_of_row = _class_of_row(places, cells, classes)
    went_well = np.array([status == Status.OK.value for status in table.text["status"]], dtype=bool)
    planned = went_well & (class_of_row >= 0) & ~_missing_slo(table, class_of_row, classes)
    unserved = ~_given(table, "throughput_rps")
    rows = {"throughput_rps": planned & unserved & np.isnan(table.numbers["throughput_hi_rps"])}
    planned &= ~unserved | rows["throughput_rps"]
    for column, limits in _limits(classes).items():
        limited = np.isin(class_of_row, [number for number, limit in enumerate(limits) if limit is not None])
        rows[column] = planned & limited & ~_given(table, column) & np.isnan(table.numbers[bound_names(column)[1]])
    for column, lacking in rows.items():
        lines = table.lines[lacking].tolist()
        if lines:
            one = len(lines) == 1
            which = f"line {lines[0]}" if one else f"lines {listed_values(lines, PRINTED_SUSPICIONS)}"
            why = "" if column == "throughput_rps" else f", which the SLO of {'its' if one else 'their'} class needs"
            message = (
                f"{len(lines):,} row{'' if one else 's'} with status ok lack{'s' if one else ''} {column}{why} ({which}); "
                f"alone, {'it supports' if one else 'they support'} no plan"
            )
            faults.suspect(lines[0], column, "not known", message)


def _given(table: Table, column: str) -> NDArray[np.bool_]:
    """Whether a value or its lower bound is there."""
    import numpy as np

    return ~np.isnan(table.numbers[column]) | ~np.isnan(table.numbers[bound_names(column)[0]])


def _limits(classes: Mapping[str, WorkloadClass]) -> dict[str, list[float | None]]:
    """What each class demands of the columns that decide on its SLO, in the order of the classes."""
    limits = {f"{metric}_p99_s": [c.slo.limit_s(metric) for c in classes.values()] for metric in TAIL_METRICS}
    return limits | {"success_rate": [c.slo.min_success or None for c in classes.values()]}


def _missing_slo(
    table: Table, class_of_row: NDArray[np.int64], classes: Mapping[str, WorkloadClass]
) -> NDArray[np.bool_]:
    """Whether a row misses its class's SLO by what is known of it."""
    import numpy as np

    missed = np.zeros(len(table), dtype=bool)
    for column, limits in _limits(classes).items():
        low, high = (table.numbers[bound] for bound in bound_names(column))
        value = table.numbers[column]
        limit = np.array([*(np.nan if x is None else x for x in limits), np.nan])[class_of_row]
        if column == "success_rate":
            missed |= (value < limit) | (high < limit)
        else:
            missed |= (value > limit) | (low > limit)
    return missed
