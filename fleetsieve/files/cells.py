"""cells.csv -> cells: which (class, TP, load) exist, on which pool, in which order of load."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fleetsieve.files.classes import ClassesFile
from fleetsieve.files.faults import FaultList, close_match, listed_values
from fleetsieve.files.schema import CELLS, FLAG_WORDS, VARIANT, number_text
from fleetsieve.files.spelling import SPELLED_TWICE, composed
from fleetsieve.files.table import Table, optional, read_table
from fleetsieve.instance import DEFAULT_POOL, DEFAULT_VARIANT, ArmKey, Cell, CellKey, LoadKind, Pool, ServerKey


@dataclass(frozen=True, slots=True)
class CellsFile:
    """What cells.csv states. `keys` are the distinct keys in file order; `complete`: none is missing.

    `cells` is empty when the file has an error. `trimmed` are classes that the rows name without the blank around the name that
    classes.csv has: the error is there, and not reported here.
    """

    cells: tuple[Cell, ...] = ()
    keys: tuple[CellKey, ...] = ()
    complete: bool = False
    trimmed: frozenset[str] = frozenset()


class _Row(NamedTuple):
    line: int
    key: CellKey
    kind: str
    offered: float
    gpus: float


def read_cells(path: Path, classes: ClassesFile, pools: Sequence[Pool] | None, faults: FaultList) -> CellsFile:
    """The cells of the file at `path`, checked against the classes and the GPU pools (None: not known)."""
    table = read_table(path, CELLS, faults)
    if table is None:
        return CellsFile()
    if not len(table):
        if not faults.errors:
            faults.add(0, "", "no rows", "the file has a header and no row; write one row for each cell")
        return CellsFile()
    faulty_load = faults.has_errors_in(("load",))  # asked before duplicates are, which hide no key
    table = table.respelled("class", classes.lines or ()).respelled("pool", [pool.name for pool in pools or ()])
    rows = list(_rows(table))
    seen: dict[CellKey, _Row] = {}
    for row in rows:
        if not _complete(row.key):
            continue
        first = seen.setdefault(row.key._replace(load=composed(row.key.load)), row)
        if first is not row:
            remedy = " too; keep one row" if first.key == row.key else f" too, {SPELLED_TWICE}"
            faults.add(row.line, "load", "duplicate cell", f"cell {row.key} is on line {first.line}{remedy}")
    trimmed: frozenset[str] = frozenset()
    if classes.complete and classes.lines is not None:
        trimmed = frozenset(classes.with_blanks).intersection(row.key.class_name for row in rows)
        for row in rows:
            if row.key.class_name and row.key.class_name not in classes.lines and row.key.class_name not in trimmed:
                faults.add(row.line, "class", "unknown class", unknown_class(row.key.class_name, classes.lines))
        _suspect_without_cells(classes, rows, faults)
    _check_multiples(rows, faults)
    if pools is not None:
        _check_pools(rows, {pool.name: pool for pool in pools}, faults)
    _check_arms(rows, faults)
    keys = tuple(dict.fromkeys(row.key for row in rows if _complete(row.key)))
    complete = not (faulty_load or faults.has_errors_in(("", "class", "tp", "pool")))
    return CellsFile(() if faults.errors else _cells(table, rows), keys, complete, trimmed)


def unknown_class(name: str, known: Iterable[str]) -> str:
    """The message about a class that classes.csv does not have."""
    names = list(known)
    return f"class {name!r} is not in classes.csv" + (close_match(name, names) or f"; it has {listed_values(names)}")


def unknown_pool(name: str, known: Mapping[str, Pool]) -> str:
    """The message about a pool that instance.toml does not have."""
    if name == DEFAULT_POOL:
        return f"no pool is named here, and the fleet has no pool {name!r}; write one of {listed_values(known)} in column pool"
    return f"pool {name!r} is not in instance.toml" + (close_match(name, known) or f"; it has {listed_values(known)}")


def _rows(table: Table) -> Iterator[_Row]:
    numbers = table.numbers
    for line, name, tp, load, pool, variant, kind, offered, gpus in zip(
        table.lines.tolist(),
        table.text["class"],
        numbers["tp"].tolist(),
        table.text["load"],
        table.text["pool"],
        table.text[VARIANT],
        table.text["load_kind"],
        numbers["offered"].tolist(),
        numbers["gpus"].tolist(),
        strict=True,
    ):
        server = ServerKey(0 if math.isnan(tp) else int(tp), pool or DEFAULT_POOL, variant or DEFAULT_VARIANT)
        key = CellKey(name, server, load)
        yield _Row(line, key, kind, offered, gpus)


def _complete(key: CellKey) -> bool:
    """Whether no part of the key was wrong."""
    return bool(key.class_name and key.tp and key.load)


def _check_multiples(rows: Sequence[_Row], faults: FaultList) -> None:
    for row in rows:
        if row.key.tp and row.gpus % row.key.tp > 0:  # False where gpus is absent (NaN)
            message = f"{int(row.gpus)} is not a multiple of tp {row.key.tp}; gpus per replica = tp x pp"
            faults.add(row.line, "gpus", "not a multiple of tp", message)


def _check_pools(rows: Sequence[_Row], pools: Mapping[str, Pool], faults: FaultList) -> None:
    """Replicas that no node or pool can hold: one error for all rows of one size on one pool."""
    too_large: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        pool = pools.get(row.key.pool)
        if pool is None:
            faults.add(row.line, "pool", "unknown pool", unknown_pool(row.key.pool, pools))
        elif why := _too_large(row, pool):
            too_large.setdefault(why, []).append(row.line)
    for (column, kind, message), lines in too_large.items():
        of_all = f" ({len(lines):,} rows: lines {listed_values(lines, limit=5)})" if len(lines) > 1 else ""
        faults.add(lines[0], column, kind, message + of_all)


def _too_large(row: _Row, pool: Pool) -> tuple[str, str, str] | None:
    """Column, kind and message of what is too large for the pool; None when the replica fits."""
    tp, gpus = row.key.tp, row.gpus
    where = "" if pool.name == DEFAULT_POOL else f" of pool {pool.name!r}"
    node, one_node = f"a node{where} has ({pool.gpus_per_node})", "a replica runs on one node"
    fleet = f"the fleet{where} has ({pool.gpus})"
    if pool.gpus_per_node is not None and tp > pool.gpus_per_node:
        return "tp", "more than a node", f"tp {tp} needs more GPUs than {node}; {one_node}"
    if pool.gpus and tp > pool.gpus:
        return "tp", "more than the pool", f"tp {tp} needs more GPUs than {fleet}"
    if pool.gpus_per_node is not None and gpus > pool.gpus_per_node:
        return "gpus", "more than a node", f"{int(gpus)} is more GPUs than {node}; {one_node}"
    if pool.gpus and gpus > pool.gpus:
        return "gpus", "more than the pool", f"{int(gpus)} is more GPUs than {fleet}"
    return None


def _check_arms(rows: Sequence[_Row], faults: FaultList) -> None:
    """One load kind in an arm, and the offered load strictly increasing down the file."""
    first: dict[ArmKey, _Row] = {}
    last: dict[ArmKey, _Row] = {}
    for row in rows:
        if not (row.key.class_name and row.key.tp):
            continue
        arm = row.key.arm
        if row.kind and first.setdefault(arm, row).kind != row.kind:
            message = f"{row.kind!r}, but line {first[arm].line} has {first[arm].kind!r}; an arm ({arm}) has one kind"
            faults.add(row.line, "load_kind", "two load kinds", message)
        if math.isnan(row.offered):
            continue
        before = last.get(arm)
        if before is not None and row.offered <= before.offered:
            message = (
                f"{number_text(row.offered)} does not exceed {number_text(before.offered)} of line {before.line}; "
                f"in an arm ({arm}) the offered load increases from row to row"
            )
            faults.add(row.line, "offered", "unordered ladder", message)
        last[arm] = row


def _suspect_without_cells(classes: ClassesFile, rows: Sequence[_Row], faults: FaultList) -> None:
    used = {row.key.class_name for row in rows}
    for name in classes.lines or {}:
        if name not in used:
            faults.suspect(0, "class", "class without cells", f"class {name!r} has no cell, so no plan can serve it")


def _cells(table: Table, rows: Sequence[_Row]) -> tuple[Cell, ...]:
    return tuple(
        Cell(row.key, int(row.gpus), LoadKind(row.kind), offered, cost, FLAG_WORDS[excluded])
        for row, offered, cost, excluded in zip(
            rows,
            optional(table.numbers["offered"]),
            optional(table.numbers["cost_gpu_s"]),
            table.text["excluded"],
            strict=True,
        )
    )
