"""`fleetsieve explain DIR`."""

from __future__ import annotations

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.errors import UsageError
from fleetsieve.extensions import look_in_current_folder
from fleetsieve.files import read_instance
from fleetsieve.files.faults import close_match
from fleetsieve.files.spelling import respelled
from fleetsieve.instance import CellKey, Instance


@click.command("explain")
@options.folder
@click.option("--class", "class_name", metavar="C", help="Cells of this class only.")
@click.option("--tp", type=int, metavar="N", help="Cells of this TP degree only.")
@click.option("--load", metavar="L", help="Cells of this load label only.")
@click.option(
    "--policy",
    metavar="NAME",
    help="The policy that chooses the next cell (default: the run's policy, or decision-gap).",
)
@options.as_json
def command(
    folder: str, class_name: str | None, tp: int | None, load: str | None, policy: str | None, as_json: bool
) -> int:
    """Show what is known about each cell, which limit rules it out, and whether it could change the plan.

    Also shows which measurements could settle the verdict, and what they cost. Up to three cells are shown bound by bound.
    """
    from fleetsieve.answers.diagnosis import account, account_document
    from fleetsieve.engines.solving import Milp
    from fleetsieve.presentation.cells import show_account
    from fleetsieve.presentation.progress import working
    from fleetsieve.presentation.terminal import results, tell_suspicions
    from fleetsieve.runs.history import read_history
    from fleetsieve.runs.state import state_of

    look_in_current_folder(policy or "")
    read = read_instance(folder)
    tell_suspicions(read.suspicions)
    keys = _chosen(read.instance, class_name, tp, load)
    with working("solving"):
        found = account(state_of(read, read_history(read.path), Milp(), policy), keys)
    if as_json:
        emit(account_document(found))
    else:
        show_account(results(), found)
    return 0


def _chosen(instance: Instance, class_name: str | None, tp: int | None, load: str | None) -> list[CellKey]:
    """The cells that are asked for."""

    keys = [cell.key for cell in instance.cells]
    wanted = {"class_name": ("--class", class_name), "tp": ("--tp", tp), "load": ("--load", load)}
    for field, (flag, value) in wanted.items():
        there = list(dict.fromkeys(getattr(key, field) for key in keys))
        value = respelled([value], there)[0] if isinstance(value, str) else value
        keys = [key for key in keys if value is None or getattr(key, field) == value]
        if not keys:
            meant = close_match(value, there) if isinstance(value, str) else ""
            raise UsageError(f"{flag} {value}: no cell has it{meant}", f"there are {', '.join(map(str, there))}")
    return keys
