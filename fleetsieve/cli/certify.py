"""`fleetsieve certify DIR`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.cli.options import VERDICT_CODES
from fleetsieve.errors import UsageError
from fleetsieve.files import read_instance
from fleetsieve.runs.layout import CERTIFICATE, digests


@click.command("certify")
@options.folder
@click.option("--certificate", "path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="The certificate to check (default: DIR/certificate.json).")  # fmt: skip
@options.as_json
@options.exit_code
def command(folder: str, path: Path | None, as_json: bool, by_verdict: bool) -> int:
    """Check a stored certificate against the files of its instance.

    The plan is evaluated without a solver, the bounds are derived again from the measured rows, and the limit that no plan can
    exceed is proven again: by exact enumeration where the fleet allows it, and so independently of the solver that wrote the
    certificate. Exits with 1 if the certificate does not hold or newer rules supersede it. For a folder without a certificate, a
    new one is computed and shown, but not stored.
    """
    from fleetsieve.answers.shortage import why_infeasible
    from fleetsieve.bounds.envelope import Envelope
    from fleetsieve.certificate import certificate_document, certify
    from fleetsieve.engines.choosing import engine_of
    from fleetsieve.presentation.plans import show_certificate, spent_text
    from fleetsieve.presentation.progress import working
    from fleetsieve.presentation.terminal import messages, results, say, tell_suspicions
    from fleetsieve.runs.rechecking import check_folder

    read = read_instance(folder)
    tell_suspicions(read.suspicions)
    envelope = Envelope.of(read.instance, read.measurements)
    engine = engine_of(envelope)
    stored = path if path is not None else read.path / CERTIFICATE
    if path is None and not stored.is_file():
        say(
            messages(),
            f"{read.path} has no {CERTIFICATE}; this one was computed now (`fleetsieve solve --certificate FILE` stores it)",
        )
        with working("solving"):
            certificate = certify(envelope, engine)
            why = why_infeasible(certificate)
        if as_json:
            emit({"holds": None, "faults": [], **certificate_document(certificate, digests(read.path), why)})
        else:
            spent = spent_text(read.instance, read.measurements)
            show_certificate(results(), certificate, bounds="both", explanation=why, spent=spent)
        return VERDICT_CODES[str(certificate.verdict)] if by_verdict else 0
    document = _read(stored)
    with working("checking"):
        found = check_folder(document, read, engine)
    if as_json:
        answer = {"holds": found.holds, "faults": found.errors, "superseded": found.superseded, "notes": found.notes}
        emit({**document, **answer, "checked_with": engine.name})
    else:
        for head, lines in (("does not hold", found.errors), ("is superseded", found.superseded)):
            if lines:
                say(results(), f"the certificate {stored} {head}:", "bold red")
                for line in lines:
                    say(results(), f"  - {line}")
        if found.holds:
            say(results(), f"the certificate {stored} holds (checked with the {engine.name} engine)", "bold green")
            say(results(), found.explanation)
        for note in found.notes:
            say(results(), f"note: {note}")
    if not found.holds:
        return 1
    return VERDICT_CODES[str(document["verdict"])] if by_verdict else 0


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is not a file", "name a certificate that solve or run wrote")
        text = path.read_text(encoding="utf-8-sig")
        document = json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_once)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path} is not a certificate: its JSON is not an object")
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return dict(pairs)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value
