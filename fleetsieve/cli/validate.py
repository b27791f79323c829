"""`fleetsieve validate DIR`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit, error_document, fault_documents, tell_failure
from fleetsieve.errors import InputError, UsageError
from fleetsieve.files import Folder, bundled_names, read_instance
from fleetsieve.instance import TAIL_METRICS, Status
from fleetsieve.loop.cost import grid_cost_gpu_s

if TYPE_CHECKING:
    from fleetsieve.bounds.ladder_tops import LadderTop

COUNTS = {
    "classes": ("class", "classes"),
    "arms": ("arm", "arms"),
    "cells": ("cell", "cells"),
    "excluded_cells": ("excluded cell", "excluded cells"),
    "measured_cells": ("measured cell", "measured cells"),
    "rows": ("row", "rows"),
    "gpus": ("GPU", "GPUs"),
}
"""What the summary counts: the key of the document, and its words for one and for many."""


@click.command("validate")
@click.argument("folder", metavar="DIR", required=False)
@click.option("--list", "list_bundled", is_flag=True, help="List the bundled instances.")
@options.as_json
def command(folder: str | None, list_bundled: bool, as_json: bool) -> int:
    """Check an instance folder and list every error in its files, each with file, line, column and value."""
    from fleetsieve.bounds.ladder_tops import ladder_top_sentence
    from fleetsieve.certificate.document import top_document
    from fleetsieve.presentation.terminal import results, say, tell_suspicions

    if list_bundled:
        names = list(bundled_names())
        if as_json:
            emit({"bundled": names})
        else:
            for name in names:
                say(results(), name)
        return 0
    if folder is None:
        raise UsageError("validate needs a folder", "fleetsieve validate DIR, or fleetsieve validate --list")
    try:
        read = read_instance(folder)
    except InputError as error:
        if not as_json:
            raise
        emit({"ok": False, **error_document(error)})
        tell_failure(error)
        return error.exit_code
    tell_suspicions(read.suspicions)
    tops = _tops(read)
    document = _summary(read) | {"ladder_tops": [top_document(top) for top in tops]}
    if as_json:
        emit(document)
        return 0
    say(results(), f"{read.instance.name}: no errors", "bold green")
    say(results(), ", ".join(_counted(document[key], one, many) for key, (one, many) in COUNTS.items()))
    say(results(), f"full grid: {document['full_grid_gpu_s']:,.0f} GPU-seconds")
    needed, each = document["requests_for_p99_bound"], document["requests_for_p99_bound_one_cell"]
    say(
        results(),
        f"an upper p99 bound needs {needed} requests in the first measurement of a cell of this grid ({each} for one bound alone)",
    )
    for sentence in _limits(read):
        say(results(), sentence)
    for top in tops:
        say(results(), ladder_top_sentence(top))
    if read.suspicions:
        say(results(), f"{_counted(len(read.suspicions), 'warning', 'warnings')} (on standard error)")
    return 0


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _tops(read: Folder) -> tuple[LadderTop, ...]:

    from fleetsieve.bounds.envelope import Envelope
    from fleetsieve.bounds.ladder_tops import ladder_tops

    return ladder_tops(Envelope.of(read.instance, read.measurements)) if read.measurements else ()


TITLES = {"ttft": "TTFT", "e2e": "e2e", "tpot": "TPOT"}
LIMITS_SHOWN = 12
"""Classes whose limits the summary shows; the document has all."""


def _limits(read: Folder) -> list[str]:
    """The limits of the classes as they were understood: in seconds, whatever unit the file has."""

    limited = [(c.name, asdict(c.slo)) for c in read.instance.classes]
    lines = []
    for name, limits in limited:
        tails = [
            f"{TITLES[m]} p99 <= {limits[f'max_{m}_p99_s']:g} s"
            for m in TAIL_METRICS
            if limits[f"max_{m}_p99_s"] is not None
        ]
        success = [f"success >= {limits['min_success']:g}"] if limits["min_success"] is not None else []
        lines += [f"SLO of {name}: {', '.join(tails + success)}"] if tails or success else []
    rest = len(lines) - LIMITS_SHOWN
    return lines[:LIMITS_SHOWN] + ([f"... and the SLOs of {rest} more classes (--json shows them)"] if rest > 0 else [])


def _summary(read: Folder) -> dict[str, Any]:

    from fleetsieve.bounds.statistics import Rules, requests_for_p99_bound, requests_for_upper_p99

    instance = read.instance
    cells = [cell for cell in instance.cells if not cell.excluded]
    return {
        "ok": True,
        "instance": instance.name,
        "classes": len(instance.classes),
        "arms": len(instance.arms),
        "cells": len(instance.cells),
        "excluded_cells": len(instance.cells) - len(cells),
        "measured_cells": len({row.key for row in read.measurements if row.status is Status.OK}),
        "rows": len(read.measurements),
        "gpus": instance.fleet.gpus,
        "full_grid_gpu_s": grid_cost_gpu_s(instance, cells),
        "requests_for_p99_bound": requests_for_upper_p99(Rules.of(instance).spent(1)),
        "requests_for_p99_bound_one_cell": requests_for_p99_bound(instance.certificate.confidence),
        "slos": {c.name: asdict(c.slo) for c in instance.classes},
        "suspicions": fault_documents(read.suspicions),
    }
