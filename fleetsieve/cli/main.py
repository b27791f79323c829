"""The group of commands, and how every failure becomes a message and an exit code.

Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 solver or engine missing, 4 done with failed cells, 130 interrupted, 141 the
reader of the output went away. With `--exit-code` a verdict becomes the code: 0 certified-feasible, 10 undecided, 11
certified-infeasible.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import click

from fleetsieve import __version__
from fleetsieve.errors import Fault, FleetSieveError, InputError, spelled_out

INTERRUPTED = 130
UNREAD = 141
"""128 + SIGPIPE: what a shell reports of a program whose reader went away; 1 would be an answer of its own (`certify`)."""

COMMANDS = {
    "validate": "Check an instance folder and list every error in its files.",
    "solve": "Find the best plan from what is measured: both plans, the gap and the verdict.",
    "explain": "Show what is known about each cell and whether it could change the plan.",
    "certify": "Check a stored certificate against the files of its instance.",
    "run": "Measure the cells that decide, one at a time, until the verdict is certain.",
    "measure": "Measure chosen cells on live servers.",
    "calibrate": "Count wrong certificates under measurement noise, on a table whose truth is known.",
    "compare": "Compare policies on measured tables whose truth is known.",
    "sensitivity": "Show how the plan changes with an SLO limit, the demand, epsilon or the number of GPUs.",
    "simulate": "Make a simulated instance from a simulation.toml.",
    "report": "Write an HTML report of a run or an instance, as one file that needs no network.",
    "plot": "Draw one figure of an instance or run.",
    "doctor": "Check that this machine is set up.",
}


class LazyGroup(click.Group):
    """Loads a command's module when the command runs; `--help` needs none of them."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click, where `--help` may find its reader gone."""
        with _reader_gone():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """As click, where a command may find its reader gone."""
        with _reader_gone():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"fleetsieve.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table above."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, naming what there is when there is no such command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(f"{error.format_message()} Commands: {', '.join(COMMANDS)}.", ctx) from error


@contextmanager
def _reader_gone() -> Iterator[None]:
    """A broken pipe as an exit with UNREAD: click itself would exit with 1."""
    try:
        yield
    except BrokenPipeError as error:
        raise click.exceptions.Exit(UNREAD) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="fleetsieve")
def group() -> None:
    """Choose the tensor-parallel degree, the load and the replicas of each workload class: with as few benchmark runs as
    possible, and proof of how good the plan is.

    DIR is an instance folder, a run folder, or the name of a bundled instance (see `fleetsieve validate --list`).
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; the entry point of `fleetsieve`."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    sys.exit(call(arguments))


def call(arguments: list[str]) -> int:
    """Run one command and give its exit code; failures are reported on standard error, and as a document with --json."""
    try:
        code = _answer(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        code = UNREAD
    except OSError as error:
        code = FleetSieveError.exit_code
        with suppress(OSError):
            click.echo(f"error: cannot write standard output: {error.strerror or error}", err=True)
    _drop_unwritten()
    return code


def _drop_unwritten() -> None:
    """Send what a pager that ended or a full disk did not take nowhere: flushing it at exit would fail once more, with code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


def _answer(arguments: list[str]) -> int:
    as_json = "--json" in arguments
    try:
        result = group.main(arguments, prog_name="fleetsieve", standalone_mode=False)
        return int(result) if isinstance(result, int) else 0
    except click.ClickException as error:
        if as_json:
            emit({"error": _error(type(error).__name__, error.format_message(), _hint(error)), "exit_code": 2})
        _tell(error)
        return 2
    except (KeyboardInterrupt, click.Abort):
        if as_json:
            emit({"error": _error("Interrupted", "interrupted"), "exit_code": INTERRUPTED})
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (FleetSieveError, OSError) as error:
        error = failure_of(error) if isinstance(error, OSError) else error
        if as_json:
            emit({"error": error_document(error), "exit_code": error.exit_code})
        tell_failure(error)
        return error.exit_code
    except Exception as error:
        if as_json:  # a defect of ours, whose traceback follows; scripts have their document all the same
            emit({"error": _error(type(error).__name__, f"internal error of FleetSieve: {error}"), "exit_code": 1})
        raise


def failure_of(fault: OSError, hint: str | None = None) -> FleetSieveError:
    """An error of the system as a failure that names its file or stream, where that is known."""
    place = f"{fault.filename}: " if fault.filename else ""
    return FleetSieveError(f"{place}{fault.strerror or fault}", hint)


def tell_failure(fault: FleetSieveError) -> None:
    """A failure on standard error: its message, with one line for each error of a file, and its hint."""
    click.echo(f"error: {spelled_out(str(fault))}", err=True)


def _tell(fault: click.ClickException) -> None:
    """An error of the command line itself, in the form of all others: what is wrong, and where to look."""
    if isinstance(fault, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # click before 8.2 has none
        fault.show(file=sys.stderr)
        return
    click.echo(f"error: {spelled_out(fault.format_message())}", err=True)
    if hint := _hint(fault):
        click.echo(f"  hint: {hint}", err=True)


def _hint(fault: click.ClickException) -> str | None:
    if not isinstance(fault, click.UsageError) or fault.ctx is None:
        return None
    return f"{fault.ctx.command_path} --help shows how to use it"


def _open_streams() -> None:
    """Give a closed standard stream the null device, so that no file opened later takes its number; print any text."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def error_document(fault: FleetSieveError) -> dict[str, Any]:
    """A failure as JSON values; bad input lists every error."""
    return _error(
        type(fault).__name__, fault.message, fault.hint, fault.faults if isinstance(fault, InputError) else ()
    )


def _error(kind: str, message: str, hint: str | None = None, faults: Iterable[Fault] = ()) -> dict[str, Any]:
    """What is under "error" in every document of a failure."""
    return {"kind": kind, "message": message, "hint": hint, "faults": fault_documents(faults)}


def fault_documents(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """Errors and warnings as JSON values."""
    return [
        {"file": f.file, "line": f.line, "column": f.column, "message": f.message, "severity": f.severity}
        for f in faults
    ]


def emit(document: Any) -> None:
    """Print the one JSON document of a --json call; where standard output has no place for a letter, it is escaped."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, allow_nan=False, indent=2)
    click.echo(text)
