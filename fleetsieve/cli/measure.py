"""`fleetsieve measure DIR`."""

from __future__ import annotations

import fcntl
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.files import Folder, append_measurement, read_instance, resolve
from fleetsieve.instance import Cell, Instance, Measurement
from fleetsieve.runs.layout import STEPS
from fleetsieve.runs.start import VLLM


@click.command("measure")
@options.folder
@click.option("--config", type=click.Path(path_type=Path), required=True, metavar="FILE",
              help="serve.toml: the model, its servers, and the load.")  # fmt: skip
@click.option("--cell", "cells", multiple=True, metavar="CLASS,TP,LOAD", help="The cell to measure (repeatable).")
@click.option("--grid", is_flag=True, help="Measure every cell, server by server (the full grid).")
@click.option("--repeat", type=int, default=1, metavar="N", help="Measurements of each cell (default 1).")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the prompts and arrivals (default 0).")
@click.option("--endpoint", "endpoints", multiple=True, metavar="TP=URL",
              help="Measure a running server with this TP at URL (repeatable).")  # fmt: skip
@options.as_json
def command(
    folder: str,
    config: Path,
    cells: tuple[str, ...],
    grid: bool,
    repeat: int,
    seed: int,
    endpoints: tuple[str, ...],
    as_json: bool,
) -> int:
    """Measure chosen cells on live servers: one row of DIR/measurements.csv and one file in DIR/records for each measurement.

    --grid skips measurements that exist already: the same command continues a grid that was interrupted.
    """
    from fleetsieve.cli import probing as probings
    from fleetsieve.cli.run_loop import FAILED_CELLS, terminated
    from fleetsieve.presentation.live import LiveView
    from fleetsieve.presentation.steps import measured_line
    from fleetsieve.presentation.terminal import messages, results, say

    path = resolve(folder)
    if path != Path(folder):
        raise UsageError(
            f"{folder} is a bundled instance, which cannot be changed", "copy its folder and measure there"
        )
    if grid == bool(cells):
        raise UsageError("measure needs cells: --cell CLASS,TP,LOAD, or --grid for all of them")
    for flag, value, lowest in (("--repeat", repeat, 1), ("--seed", seed, 0)):
        if value < lowest:
            raise UsageError(f"{flag} is {value}, not a whole number >= {lowest}")
    probing = probings.asked(False, VLLM, config, endpoints, None)
    assert probing is not None
    with _held(path):
        read = read_instance(path)
        allowed = probings.prepared(probing, read, seed).cells
        chosen = list(allowed) if grid else [_cell(read.instance, text, allowed) for text in cells]
        looks = [cell for _ in range(repeat) for cell in sorted(chosen, key=lambda c: (c.key.server, c.key))]
        looks = sorted(_missing(looks, read) if grid else looks, key=lambda c: c.key.server)
        rows = list(read.measurements)
        view = LiveView(messages())
        made: list[Measurement] = []
        try:
            with (
                terminated(probing.live),
                probings.opened(probing, read, path, seed, view, way_on="the same command") as probe,
            ):
                for number, cell in enumerate(looks, start=1):
                    row = probe.measure(cell.key, sum(r.key == cell.key for r in rows))
                    try:
                        append_measurement(path, row, rows)
                    except OSError as error:
                        text = f"cannot write {path}/measurements.csv: {error.strerror or error}"
                        raise FleetSieveError(text) from error
                    rows.append(row)
                    made.append(row)
                    if not as_json:
                        say(results(), f"{number} of {len(looks)}  {measured_line(row)}")
        except (KeyboardInterrupt, FleetSieveError) as error:
            if made or isinstance(error, KeyboardInterrupt):
                say(messages(), _how_to_go_on(path, looks, len(made), grid=grid))
            raise
    if as_json:
        emit({"measured": [_document(row) for row in made]})
    return FAILED_CELLS if any(row.status != "ok" for row in made) else 0


def _how_to_go_on(path: Path, looks: list[Cell], made: int, *, grid: bool) -> str:
    """What a command that was interrupted or failed kept, and what gives the rest."""
    kept = f"{made} of {len(looks)} measurements are in {path}/measurements.csv"
    if grid:
        return f"{kept}; continue with the same command"
    waiting = Counter(shlex.quote(_typed(c)) for c in looks[made:])
    rest = ", ".join(f"--cell {text} --repeat {count}" for text, count in waiting.items())
    return f"{kept}; not yet measured: {rest}" if rest else kept


def _missing(looks: list[Cell], read: Folder) -> list[Cell]:
    """The measurements that are not among the rows."""
    left = [row.key for row in read.measurements]
    waiting = []
    for cell in looks:
        if cell.key in left:
            left.remove(cell.key)
        else:
            waiting.append(cell)
    return waiting


def _cell(instance: Instance, text: str, allowed: tuple[Cell, ...]) -> Cell:
    """The cell that `CLASS,TP,LOAD` names (`CLASS,TP VARIANT,LOAD` one of an engine variant)."""
    found = [cell for cell in instance.cells if _typed(cell) == text]
    if not found:
        known = ", ".join(map(_typed, instance.cells[:3]))
        raise UsageError(
            f"--cell {text!r} is not a cell of {instance.name}", f"write it as CLASS,TP,LOAD: {known}, ..."
        )
    if found[0] not in allowed:
        raise UsageError(
            f"--cell {text!r} cannot be measured here", "fleetsieve run DIR --probe vllm --dry-run shows why"
        )
    return found[0]


def _typed(cell: Cell) -> str:
    """A cell as it is typed on the command line."""
    return f"{cell.key.class_name},{cell.key.server.degree},{cell.key.load}"


def _document(row: Measurement) -> dict[str, Any]:
    from fleetsieve.certificate.document import variant_document

    return {
        "class": row.key.class_name,
        "tp": row.key.tp,
        "load": row.key.load,
        **variant_document(row.key),
        "seed": row.seed,
        "status": str(row.status),
        "throughput_rps": row.throughput_rps.value,
        "success_rate": row.success_rate.value,
        "requests": row.requests,
        "ttft_p99_s": row.ttft_p99_s.value,
        "e2e_p99_s": row.e2e_p99_s.value,
        "tpot_p99_s": row.tpot_p99_s.value,
        "window_s": row.window_s,
        "cost_gpu_s": row.cost_gpu_s,
        "source": row.source,
    }


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold an instance folder, so that no two commands measure into it at once; of a run also what the run itself holds."""

    with ExitStack() as held:
        for name in ("instance.toml", STEPS):
            if name == STEPS and not (folder / STEPS).exists():
                continue
            try:
                file = held.enter_context((folder / name).open("rb"))
            except OSError as error:
                raise UsageError(f"cannot read {folder / name}: {error.strerror or error}") from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                message = f"another process is measuring into {folder}"
                raise UsageError(message, "wait for it to end, or stop it") from error
        yield
