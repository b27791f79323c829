"""measurements.csv -> measurements. The file may have a million rows, so checks run on whole columns."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetsieve.files.building import build_measurements
from fleetsieve.files.cells import unknown_class, unknown_pool
from fleetsieve.files.faults import FaultList, close_match, listed_values
from fleetsieve.files.plausibility import suspect_measurements
from fleetsieve.files.schema import BOUNDED, MEASUREMENTS, VARIANT, bound_names, number_text
from fleetsieve.files.spelling import composed
from fleetsieve.files.table import Table, read_table
from fleetsieve.instance import (
    DEFAULT_POOL,
    DEFAULT_VARIANT,
    Cell,
    CellKey,
    Measurement,
    Pool,
    ServerKey,
    WorkloadClass,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FAULTY = -1
"""The place of a key that has a wrong part."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a row may name. None: not known, because the file that lists it has errors of its own."""

    cell_keys: tuple[CellKey, ...] | None
    classes: Collection[str] | None
    pools: Mapping[str, Pool] | None


def read_rows(
    path: Path, known: Named, cells: Sequence[Cell], classes: Mapping[str, WorkloadClass], faults: FaultList
) -> tuple[Measurement, ...]:
    """The measurements of the file at `path`, in the order of its rows; its errors are added to `faults`.

    `cells` (in the order of `known.cell_keys`) and `classes` serve the warnings; without them there are none. With an
    error in `faults` the answer is empty.
    """
    table = read_table(path, MEASUREMENTS, faults)
    if table is None or not len(table):
        return ()
    table = table.respelled("class", known.classes or ()).respelled("pool", known.pools or ())
    table = table.respelled(VARIANT, {key.variant for key in known.cell_keys or ()})
    places, keys = _places(table, known.cell_keys or ())
    _check_keys(table, places, keys, known, faults)
    _check_repeats(table, places, keys, faults)
    _check_bounds(table, faults)
    suspect_measurements(table, places, cells, classes, faults)
    return () if faults.errors else build_measurements(table, keys, places)


def _places(table: Table, cell_keys: Sequence[CellKey]) -> tuple[NDArray[np.int64], list[CellKey]]:
    """The place of each row's key in the list of keys: the cells' keys first, then those that are no cell's."""
    import numpy as np

    keys = list(cell_keys)
    # 4.0 equals 4, so no key has to be built to be found.
    known = {(k.class_name, float(k.tp), k.load, k.pool, k.variant): place for place, k in enumerate(keys)}
    alike = {(k.class_name, k.tp, composed(k.load), k.pool, k.variant): place for place, k in enumerate(keys)}
    pools = [pool or DEFAULT_POOL for pool in table.text["pool"]]
    variants = [variant or DEFAULT_VARIANT for variant in table.text[VARIANT]]
    places = []
    for key in zip(table.text["class"], table.numbers["tp"].tolist(), table.text["load"], pools, variants, strict=True):
        place = known.get(key)
        if place is None:
            name, tp, load, pool, variant = key
            place = alike.get((name, tp, composed(load), pool, variant), FAULTY)
            if place != FAULTY:
                known[key] = place
            elif name and load and not math.isnan(tp):
                place = known[key] = len(keys)
                keys.append(CellKey(name, ServerKey(int(tp), pool, variant), load))
        places.append(place)
    return np.array(places, dtype=np.int64), keys


def _check_keys(
    table: Table, places: NDArray[np.int64], keys: Sequence[CellKey], known: Named, faults: FaultList
) -> None:
    """Rows of a class, a pool or a cell that is not there: one error a row, for the widest of the three."""
    import numpy as np

    wrong: dict[str, list[int]] = {"class": [], "pool": [], "load": []}
    for place in range(len(known.cell_keys or ()), len(keys)):
        key = keys[place]
        if known.classes is not None and key.class_name not in known.classes:
            wrong["class"].append(place)
        elif known.pools is not None and key.pool not in known.pools:
            wrong["pool"].append(place)
        elif known.cell_keys is not None:
            wrong["load"].append(place)
    for column, wrong_places in wrong.items():
        if not wrong_places:
            continue
        rows = np.flatnonzero(np.isin(places, wrong_places))

        found = (keys[place] for place in places[rows].tolist())
        kind = {"class": "unknown class", "pool": "unknown pool", "load": "not in cells.csv"}[column]
        faults.add_all(column, kind, table.lines[rows].tolist(), (_unknown(column, key, known) for key in found))


def _unknown(column: str, key: CellKey, known: Named) -> str:
    if column == "class":
        return unknown_class(key.class_name, known.classes or ())
    if column == "pool":
        return unknown_pool(key.pool, known.pools or {})
    return _unknown_cell(key, known.cell_keys or ())


def _unknown_cell(key: CellKey, cell_keys: Sequence[CellKey]) -> str:
    loads = [cell.load for cell in cell_keys if cell._replace(load=key.load) == key]
    if loads:
        close = close_match(key.load, loads) or f"; it has {listed_values(loads)}"
        return f"load {key.load!r} of {key.arm} is not in cells.csv{close}"
    alike = [cell for cell in cell_keys if cell.class_name == key.class_name and cell.pool == key.pool]
    degrees = sorted({cell.tp for cell in alike if cell.variant == key.variant})
    variants = sorted({cell.variant for cell in alike})
    if degrees:
        has = f"{key.class_name} has tp {listed_values(degrees)}"
    elif alike:
        has = f"{key.class_name} has variant {listed_values(variants)}" + close_match(key.variant, variants)
    else:
        has = f"{key.class_name} has no cell on this pool"
    return f"the cell {key} is not in cells.csv; {has}"


def _check_repeats(table: Table, places: NDArray[np.int64], keys: Sequence[CellKey], faults: FaultList) -> None:
    """Two rows of one cell with one seed: every row after the first is reported with the first one's line."""
    import numpy as np

    seeds = table.numbers["seed"]
    usable = places != FAULTY
    if faults.has_errors_in(("seed",)):
        usable &= ~np.isnan(seeds)
    rows = np.flatnonzero(usable)
    seeds = np.nan_to_num(seeds[rows])
    order = np.lexsort((seeds, places[rows]))
    sorted_places, sorted_seeds = places[rows][order], seeds[order]
    same = np.zeros(len(order), dtype=bool)
    same[1:] = (sorted_places[1:] == sorted_places[:-1]) & (sorted_seeds[1:] == sorted_seeds[:-1])
    if not same.any():
        return
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    repeated = rows[order[same]]
    originals = rows[order[first[same]]]
    in_file = np.argsort(repeated)
    repeated, originals = repeated[in_file], originals[in_file]

    seed_of = np.nan_to_num(table.numbers["seed"])
    messages = (
        f"seed {int(seed_of[row])} of {keys[places[row]]} is on line {table.lines[original]} too; "
        "give each measurement of a cell its own seed"
        for row, original in zip(repeated, originals, strict=True)
    )
    faults.add_all("seed", "repeated seed", table.lines[repeated].tolist(), messages)


def _check_bounds(table: Table, faults: FaultList) -> None:
    """lo <= value <= hi wherever two of them are given."""
    for name in BOUNDED:
        low_name, high_name = bound_names(name)
        value, low, high = table.numbers[name], table.numbers[low_name], table.numbers[high_name]
        crossed = low > high  # a comparison with NaN, an absent value, is False
        _tell_order(table, crossed, low_name, low, "is above", high_name, high, faults)
        _tell_order(table, (value < low) & ~crossed, name, value, "is below", low_name, low, faults)
        _tell_order(table, (value > high) & ~crossed, name, value, "is above", high_name, high, faults)


def _tell_order(
    table: Table,
    wrong: NDArray[np.bool_],
    name: str,
    values: NDArray[np.float64],
    relation: str,
    bound_name: str,
    bounds: NDArray[np.float64],
    faults: FaultList,
) -> None:
    if not wrong.any():
        return
    messages = (
        f"{number_text(value)} {relation} {bound_name} {number_text(bound)}; a value lies between its bounds"
        for value, bound in zip(values[wrong].tolist(), bounds[wrong].tolist(), strict=True)
    )
    faults.add_all(name, f"{relation} {bound_name}", table.lines[wrong].tolist(), messages)
