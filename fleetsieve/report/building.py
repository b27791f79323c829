"""From a folder to the page: everything is derived again from the files, then shown by the template."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

from fleetsieve.answers.what_if import largest_demand_scale
from fleetsieve.bounds.assumptions import statement
from fleetsieve.certificate import Certificate, Verdict
from fleetsieve.certificate.document import versions
from fleetsieve.engines.choosing import engine_of
from fleetsieve.errors import SolverMissing
from fleetsieve.figures.grid import states_in
from fleetsieve.figures.html import SCRIPT, STYLE, library, policy
from fleetsieve.figures.palette import style_sheet
from fleetsieve.figures.states import State
from fleetsieve.files import Folder
from fleetsieve.files.shell import shell_word, shell_words
from fleetsieve.instance import Instance
from fleetsieve.report.banner import MEANINGS, caveats, facts, lead, stop_words
from fleetsieve.report.failing import failed_line, failures, undecided_by_failures
from fleetsieve.report.headroom import room, to_serve_all, why_short, with_fewer
from fleetsieve.report.moves import moves
from fleetsieve.report.pictures import pictures
from fleetsieve.report.rounding import RULE
from fleetsieve.report.subject import Report, report_of
from fleetsieve.report.words import (
    asked_rows,
    how_measured,
    idle_end,
    measured_when,
    plan_rows,
    settling,
    statements,
    step_rows,
    verdict_words,
)
from fleetsieve.runs.history import History
from fleetsieve.runs.layout import PRIOR, SERVE, digests
from fleetsieve.runs.rechecking import check_folder
from fleetsieve.runs.start import REPLAY, RunStart

TEMPLATE = "page.html"

CONTENTS = {
    "settling": "Settling the verdict",
    "plan": "Plan",
    "asked": "Requirements and setup",
    "rests": "Assumptions",
    "tails": "Tail latency and capacity",
    "gap": "Gap",
    "grid": "Cells",
    "failures": "Failures",
    "sensitivity": "Sensitivity",
    "reproduce": "Reproduce",
    "words": "Glossary",
}
"""What the contents list calls each section, by its id; those that a page lacks are left out."""


def report_html(read: Folder, named: str, *, sensitivity: bool = True) -> str:
    """The page of an instance or run folder.

    Args:
        read: the folder.
        named: how the person called it; the commands of the page repeat it.
        sensitivity: whether to compute how far the plan stays unchanged, which takes longest.

    Raises:
        SolverMissing: when a library of the extra `report` is not installed, or HiGHS is absent or wrong.
    """
    template = _template()
    report = report_of(read, named)
    c = report.certificate
    planned = bool(c.conservative.replica_counts)
    drawn = pictures(report)
    settled = settling(report.account, read.instance)
    moved = moves(read, planned=planned) if sensitivity and report.counting else []
    shown = {
        "settling": settled,
        "gap": drawn["gap"],
        "grid": drawn["grid"],
        "failures": read.measurements,
        "sensitivity": moved or drawn["demand"],
    }
    return str(
        template.render(
            contents=[(place, heading) for place, heading in CONTENTS.items() if shown.get(place, True)],
            name=read.instance.name,
            source=read.instance.source,
            verdict=str(c.verdict),
            lead=lead(c),
            sentence=verdict_words(c),
            meaning=MEANINGS[c.verdict],
            why=why_short(c),
            caveats=caveats(report),
            failed=failed_line(report.account, report.read.measurements),
            failed_open=undecided_by_failures(report.account),
            room=_room(report),
            stopped=stop_words(report.sieve.stopped),
            facts=facts(report),
            rounding=RULE,
            asked=asked_rows(read.instance),
            how_measured=how_measured(report),
            measured_when=measured_when(read.measurements),
            statements=statements(c),
            named=[(a.name, statement(a)) for a in c.envelope.in_force],
            planned=planned,
            measured=bool(read.measurements),
            plan=plan_rows(c.conservative, c.envelope, lower=True),
            hoped=_hoped(c),
            settling=settled,
            steps=step_rows(report.history),
            idle_end=idle_end(report.history),
            failures=failures(c, read.measurements),
            pictures=drawn,
            ruled_out=State.RULED_OUT in states_in(c),
            moves=moved,
            counting=report.counting,
            sensitivity=shell_words(["fleetsieve", "sensitivity", named, "--demand-scale", _scales(read.instance)]),
            commands=commands(report),
            started=_started(report.history),
            servers=report.history.servers if report.history is not None else (),
            checked=_checked(report),
            digests=digests(read.path),
            versions=_versions(),
            epsilon=c.epsilon,
            eta=c.eta,
            style=style_sheet() + STYLE,
            library=library(),
            script=SCRIPT,
            policy=policy(library(), SCRIPT),
        )
    )


def _scales(instance: Instance) -> str:
    """The demand scales that a reader may study: up to 2, or as far as demands may be stated."""
    return f"0.5:{min(2.0, largest_demand_scale(instance)):g}"


def _hoped(c: Certificate) -> list[dict[str, Any]]:
    """The optimistic plan where it states more than the conservative one: never beside a certified one."""
    if c.optimistic is None or (not c.blocking and c.verdict.value == "certified-feasible"):
        return []
    if c.optimistic.replica_counts == c.conservative.replica_counts:
        return []
    return plan_rows(c.optimistic, c.envelope, lower=False)


def _room(report: Report) -> list[str]:
    """What room the plan leaves, and what fewer and more GPUs would do; nothing of a plan where there is none."""
    c = report.certificate
    if not c.conservative.replica_counts:
        return to_serve_all(c)
    fewer = with_fewer(report.read) if c.verdict is not Verdict.INFEASIBLE else ""
    return [*room(c), *([fewer] if fewer else []), *to_serve_all(c)]


def commands(report: Report) -> list[str]:
    """The commands that make this page's figures again."""
    place = shell_word(report.named)
    again = [f"fleetsieve solve {place}", f"fleetsieve explain {place}", f"fleetsieve report {place} -o report.html"]
    if report.history is None:
        return again
    again.insert(0, _run_command(report, report.history))
    return [f"fleetsieve certify {place}", *again]


def _run_command(report: Report, h: History) -> str:
    """The command of a run like this one, from what the run's folder has."""
    place, path = shell_word(report.named), report.read.path
    parts = [f"fleetsieve run {place}"]
    began = RunStart.read(h.start)
    if began.probe == REPLAY:
        parts.append("--replay")
    else:
        parts.append(f"--probe {shell_word(began.probe)} --config {shell_word(f'{report.named}/{SERVE}')}")
        parts += [f"--endpoint {shell_word(f'{tp}={url}')}" for tp, url in began.endpoints.items()]
        if began.max_servers != 1:
            parts.append(f"--max-servers {began.max_servers}")
    parts.append(f"--policy {shell_word(h.policy)} --seed {h.seed}")
    if h.horizon_h is not None:
        parts.append(f"--stop-when-unprofitable {h.horizon_h:g}")
    if (path / PRIOR).is_file():
        parts.append(f"--prior {shell_word(f'{report.named}/{PRIOR}')}")
    return " ".join([*parts, "--out again"])


def _started(history: History | None) -> dict[str, str]:
    """What the first line of a run's log states, files apart."""
    if history is None:
        return {}
    return {key: str(value) for key, value in history.start.items() if key not in ("step", "files")}


def _checked(report: Report) -> dict[str, Any] | None:
    """Whether the certificate that the run stored follows from the files as they are; None where there is none."""
    stored = report.history.certificate if report.history is not None else None
    if stored is None:
        return None
    engine = engine_of(report.certificate.envelope)
    found = check_folder(stored, report.read, engine)
    return {"faults": [*found.errors, *found.superseded], "engine": engine.name}


def _versions() -> Mapping[str, str]:
    found = {**versions(), "python": python_version()}
    for name in ("altair", "vl-convert-python"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def _template() -> Any:
    """The page's template, which escapes whatever is not stated to be safe.

    Raises:
        SolverMissing: when the template library is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise SolverMissing(f"a report needs {error.name}", "pip install 'fleetsieve[report]'") from error
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(TEMPLATE)
