"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fleetsieve.errors import FleetSieveError, UsageError


class ResultFile(click.Path):
    """A file that a command writes at its end: what cannot be written is reported before the work, not after hours of it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path.

        Raises:
            click.BadParameter: when it is empty, or a folder.
            FleetSieveError: when its folder is not there.
        """
        if not str(value):
            self.fail("the name of the file is empty", param, ctx)
        there = Path(os.path.realpath(value))
        if there.is_dir():
            self.fail(f"{os.fspath(value)!r} is a folder; name a file", param, ctx)
        if not there.parent.is_dir():
            raise FleetSieveError(f"cannot write {value}: there is no folder {there.parent}")
        return Path(value)


VERDICT_CODES = {"certified-feasible": 0, "undecided": 10, "certified-infeasible": 11}

folder = click.argument("folder", metavar="DIR")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
exit_code = click.option(
    "--exit-code",
    "by_verdict",
    is_flag=True,
    help="Exit with 0 for certified-feasible, 10 for undecided, 11 for certified-infeasible.",
)


def pairs(flag: str, texts: tuple[str, ...]) -> dict[str, float]:
    """`CLASS=NUMBER` texts as a mapping; the last `=` separates, so a class name may hold one.

    Raises:
        UsageError: when a text has no `=`, its number is none, or a class is named twice.
    """
    values: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {text!r} is not CLASS=NUMBER", f"for example {flag} chat=12")
        try:
            value = float(number)
        except ValueError:
            raise UsageError(f"{flag} {text!r}: {number!r} is not a number", f"for example {flag} chat=12") from None
        if name in values:
            raise UsageError(f"{flag} names class {name!r} twice")
        values[name] = value
    return values


_WHAT_IF = (
    click.option("--demand-scale", type=float, default=1.0, metavar="F", help="Multiply every demand by F; floors do not change."),
    click.option("--demand", "demands", multiple=True, metavar="CLASS=RPS", help="Set a class's demand, requests/s (then scaled)."),
    click.option("--floor", "floors", multiple=True, metavar="CLASS=RPS",
                 help="Set a class's floor, requests/s (makes the class critical)."),
    click.option("--gpus", type=int, metavar="N", help="Plan for a fleet of N GPUs."),
    click.option("--only-tp", "only_tp", type=int, multiple=True, metavar="N", help="Allow this TP degree only (repeatable)."),
    click.option("--only-variant", multiple=True, metavar="NAME", help="Allow this engine variant only (repeatable)."),
)  # fmt: skip


def what_if(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that vary an instance before it is decided."""
    for option in reversed(_WHAT_IF):
        command = option(command)
    return command
