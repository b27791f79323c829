"""The certificate of a folder checked again, with all that is around it: its engine, its last words, its stop rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from fleetsieve.allocation import Engine
from fleetsieve.answers.shortage import why_infeasible
from fleetsieve.certificate import Certificate, Checked, Verdict, check, under
from fleetsieve.files import Folder
from fleetsieve.loop.stopping import Stop
from fleetsieve.rule_sets import FIRST, RULE_SETS
from fleetsieve.runs.history import History, read_history
from fleetsieve.runs.layout import digests
from fleetsieve.runs.state import state_of


def check_folder(document: Mapping[str, Any], read: Folder, engine: Engine) -> Checked:
    """Whether a stored certificate follows from the files of the folder `read`; `engine` proves the upper values again.

    A run that a stop rule ended is asked again whether, and by which figures, it would end there.

    Raises:
        UsageError, InputError: when the log or the table of a run is damaged.
        SolverMissing, SolveFailed: when the engine cannot answer.
    """
    stop = _stop(document, read, engine)

    def words(certificate: Certificate) -> str:
        why = why_infeasible(certificate) if certificate.verdict is Verdict.INFEASIBLE else ""
        return f"{why} {stop.sentence}".strip() if stop is not None else why

    figures = asdict(stop) if stop is not None else None
    return check(document, read.instance, read.measurements, engine, digests(read.path), words=words, stopped=figures)


def _ends(document: Mapping[str, Any], history: History) -> bool:
    """Whether a certificate is the one that its run ended with."""
    return history.certificate is not None and dict(history.certificate) == dict(document)


def _stop(document: Mapping[str, Any], read: Folder, engine: Engine) -> Stop | None:
    """By which figures the run's stop rule ends it where it is; None where it has none, or where that does not end it."""
    history = read_history(read.path)
    if history is None or history.horizon_h is None:
        return None
    if document.get("stopped") is None and not _ends(document, history):
        return None  # `solve` stores certificates of a run's folder too, which no stop rule has ended
    number = document.get("rule_set", FIRST)
    kept = under(read.instance, number) if number in RULE_SETS else read.instance
    return state_of(replace(read, instance=kept), history, engine).stopped
