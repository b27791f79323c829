"""An instance folder -> what it states, or every error of all its files at once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fleetsieve.brief import counted, summary
from fleetsieve.errors import Fault, InputError
from fleetsieve.files.bundled import resolve
from fleetsieve.files.cells import read_cells
from fleetsieve.files.classes import ClassesFile, read_classes
from fleetsieve.files.contradictions import suspect_contradictions
from fleetsieve.files.faults import FaultList
from fleetsieve.files.limits import suspect_limits
from fleetsieve.files.measurements import Named, read_rows
from fleetsieve.files.records import attach_records
from fleetsieve.files.settings import Settings, read_settings
from fleetsieve.files.torn import is_torn
from fleetsieve.instance import Cell, Instance, Measurement, Pool

INSTANCE, CLASSES, CELLS, MEASUREMENTS = "instance.toml", "classes.csv", "cells.csv", "measurements.csv"
STEPS = "steps.jsonl"
"""Its presence makes a folder a run."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What an instance folder holds.

    `suspicions` are values that can be, but look as if they were in another unit. `path` is the folder that was read.
    """

    instance: Instance
    measurements: tuple[Measurement, ...]
    suspicions: tuple[Fault, ...]
    path: Path

    def __repr__(self) -> str:
        beside = f" and {counted(len(self.suspicions), 'warning')}" if self.suspicions else ""
        title = f"Folder {self.path} with {counted(len(self.measurements), 'measured row')}{beside}"
        return summary(title, map(str.strip, repr(self.instance).splitlines()))


def read_instance(path: str | Path) -> Folder:
    """The instance in the folder `path`, or the bundled instance of that name, with its measurements.

    The folder holds instance.toml, classes.csv, cells.csv and, when something was measured, measurements.csv, with the requests
    of its measurements in records/ where they were kept.

    Raises:
        InputError: with every error of all its files, each with its file, line, column, value and remedy.
        UsageError: when `path` is neither a folder nor the name of a bundled instance.
    """
    folder = resolve(path)
    lists = {name: FaultList(str(folder / name)) for name in (INSTANCE, CLASSES, CELLS, MEASUREMENTS)}
    settings = read_settings(folder / INSTANCE, lists[INSTANCE])
    if settings.newer:  # columns that are unknown here would be wrong only in a folder of this version
        raise InputError(lists[INSTANCE].errors)
    pools = _known_pools(settings, lists[INSTANCE])
    classes = read_classes(folder / CLASSES, lists[CLASSES])
    cells = read_cells(folder / CELLS, classes, pools, lists[CELLS])
    for name in sorted(cells.trimmed):
        full = classes.with_blanks[name]
        message = f"class {full!r} has a blank around its name, which cells.csv writes without; write {name!r}"
        lists[CLASSES].add((classes.lines or {})[full], "class", "blank around a name", message)
    measurements: tuple[Measurement, ...] = ()
    record_errors: tuple[Fault, ...] = ()
    record_suspicions: tuple[Fault, ...] = ()
    if os.path.lexists(folder / MEASUREMENTS):  # a link that leads nowhere does not mean that nothing was measured
        known = Named(
            cell_keys=cells.keys if cells.complete else None,
            classes=cells.trimmed.union(classes.lines or ()) if classes.complete else None,
            pools={pool.name: pool for pool in pools} if pools is not None else None,
        )
        fit = not lists[CLASSES].errors
        by_name = {c.name: c for c in classes.classes} if fit else {}
        measured = folder / MEASUREMENTS
        measurements = read_rows(measured, known, cells.cells if fit else (), by_name, lists[MEASUREMENTS])
        if cells.complete:
            measurements, record_errors, record_suspicions = attach_records(
                measured, measurements, cells.keys, lists[MEASUREMENTS], of_run=(folder / STEPS).exists()
            )
    errors = [*(fault for faults in lists.values() for fault in faults.errors), *record_errors]
    if errors:
        raise InputError(errors, _resuming(folder) if lists[MEASUREMENTS].errors else None)
    instance = _instance(settings, classes, cells.cells)
    suspect_limits(classes, measurements, lists[CLASSES])
    suspect_contradictions(instance, measurements, lists[MEASUREMENTS])
    suspicions = (*(fault for faults in lists.values() for fault in faults.suspicions), *record_suspicions)
    return Folder(instance, measurements, suspicions, folder)


def read_measurements(path: str | Path, instance: Instance) -> tuple[Measurement, ...]:
    """The measurements in the file `path`, which has the format of measurements.csv, in the order of its rows.

    A run's hidden replay.csv is such a file. Every row must be of a cell of `instance`; a header alone is no measurement. The
    requests of its measurements are read from the folder of its records (`records_of`), where that is there.

    Raises:
        InputError: with every error of the file and of those in records/.
    """
    faults = FaultList(str(path))
    pools = {pool.name: pool for pool in instance.fleet.pools}
    known = Named(tuple(cell.key for cell in instance.cells), instance.class_by_name, pools)
    measurements = read_rows(Path(path), known, instance.cells, instance.class_by_name, faults)
    measurements, record_errors, _ = attach_records(Path(path), measurements, instance.cell_by_key, faults)
    if faults.errors or record_errors:
        raise InputError([*faults.errors, *record_errors])
    return measurements


def _resuming(folder: Path) -> str | None:
    """How a run is fixed whose last row a kill left torn; None where that is not what is wrong."""
    if not (folder / STEPS).is_file() or not is_torn(folder / MEASUREMENTS):
        return None
    return f"the last row is incomplete, as after a kill: fleetsieve run {folder} --resume removes it and continues"


def _known_pools(settings: Settings, faults: FaultList) -> tuple[Pool, ...] | None:
    """The pools, when no error of instance.toml can have hidden one."""
    hidden = faults.has_errors_in(("", "fleet", "fleet.pools", "fleet.pools.name"))
    return None if hidden else settings.pools


def _instance(settings: Settings, classes: ClassesFile, cells: tuple[Cell, ...]) -> Instance:
    return Instance(
        name=settings.name,
        fleet=settings.fleet,
        classes=classes.classes,
        cells=cells,
        source=settings.source,
        facts=settings.facts,
        certificate=settings.certificate,
        measure=settings.measure,
        assumptions=settings.assumptions,
        noise=settings.noise,
    )
