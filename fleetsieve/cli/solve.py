"""`fleetsieve solve DIR`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetsieve.answers import what_if
from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.cli.options import VERDICT_CODES, pairs
from fleetsieve.errors import UsageError
from fleetsieve.files import read_instance
from fleetsieve.files.plausibility import wide_slack
from fleetsieve.runs.layout import digests, write_json

if TYPE_CHECKING:
    from fleetsieve.bounds.envelope import Envelope

BOUNDS = click.Choice(["both", "conservative", "optimistic"])
FORMULATIONS = click.Choice(["lexicographic", "fewest-gpus"])


@click.command("solve")
@options.folder
@options.what_if
@click.option("--bounds", type=BOUNDS, default="both", show_default=True, help="Which plans to show.")
@click.option(
    "--eta",
    type=float,
    metavar="F",
    help="Fairness slack of the goodput stage (default: the instance's, or epsilon / 2).",
)
@click.option("--epsilon", type=float, metavar="F", help="Largest gap that certifies (default: the instance's).")
@click.option("--formulation", type=FORMULATIONS, default="lexicographic", show_default=True,
              help="Best service on this fleet, or the fewest GPUs that serve every class in full.")  # fmt: skip
@click.option("--certificate", "out", type=options.ResultFile(), metavar="FILE",
              help="Write the certificate to FILE; `fleetsieve certify` checks it.")  # fmt: skip
@options.as_json
@options.exit_code
def command(
    folder: str,
    demand_scale: float,
    demands: tuple[str, ...],
    floors: tuple[str, ...],
    gpus: int | None,
    only_tp: tuple[int, ...],
    only_variant: tuple[str, ...],
    bounds: str,
    eta: float | None,
    epsilon: float | None,
    formulation: str,
    out: Path | None,
    as_json: bool,
    by_verdict: bool,
) -> int:
    """Find the best plan from what is measured: both plans, the gap and the verdict.

    The conservative plan uses measured cells at their lower bounds; the optimistic one is the best that the bounds allow.
    """
    from fleetsieve.bounds.envelope import Envelope
    from fleetsieve.presentation.plans import spent_text
    from fleetsieve.presentation.terminal import messages, say, tell_suspicions

    _check_fractions(eta, epsilon)
    read = read_instance(folder)
    tell_suspicions(read.suspicions)
    instance = what_if.with_demands(read.instance, pairs("--demand", demands))
    instance = what_if.with_demand_scale(instance, demand_scale)
    instance = what_if.with_floors(instance, pairs("--floor", floors))
    if gpus is not None:
        instance = what_if.with_gpus(instance, gpus)
    if only_tp:
        instance = what_if.with_only_tp(instance, only_tp)
    if only_variant:
        instance = what_if.with_only_variant(instance, only_variant)
    if out is not None and (instance != read.instance or formulation != "lexicographic"):
        raise UsageError(
            "--certificate stores a verdict on the files: it does not work with options that vary the instance",
            "change the files instead, then solve them",
        )
    stated = instance.certificate
    stated = replace(
        stated, epsilon=stated.epsilon if epsilon is None else epsilon, eta=stated.eta if eta is None else eta
    )
    if (eta is not None or epsilon is not None) and (why := wide_slack(stated)):
        say(messages(), f"warning: {why}", "yellow")
    envelope = Envelope.of(replace(instance, certificate=stated), read.measurements)
    spent = spent_text(read.instance, read.measurements)
    if formulation == "fewest-gpus":
        verdict = _fewest_gpus(envelope, bounds, spent, as_json=as_json)
    else:
        verdict = _lexicographic(envelope, bounds, spent, read.path, out, as_json=as_json)
    return VERDICT_CODES[verdict] if by_verdict else 0


def _check_fractions(eta: float | None, epsilon: float | None) -> None:
    if eta is not None and not 0.0 <= eta < 1.0:
        raise UsageError(f"--eta is {eta}, not a fraction in [0, 1)")
    if epsilon is not None and not 0.0 < epsilon < 1.0:
        raise UsageError(f"--epsilon is {epsilon}, not a fraction in (0, 1)")


def _lexicographic(
    envelope: Envelope, bounds: str, spent: str, folder: Path, out: Path | None, *, as_json: bool
) -> str:

    from fleetsieve.answers.shortage import why_infeasible
    from fleetsieve.certificate import certificate_document, certify
    from fleetsieve.engines.solving import Milp
    from fleetsieve.presentation.plans import show_certificate
    from fleetsieve.presentation.progress import working
    from fleetsieve.presentation.terminal import results

    with working("solving"):
        certificate = certify(envelope, Milp())
        why = why_infeasible(certificate)
    document = certificate_document(certificate, digests(folder), why)
    if out is not None:
        write_json(out, document)
    if as_json:
        emit(_shown(document, bounds))
    else:
        show_certificate(results(), certificate, bounds=bounds, explanation=why, spent=spent)
    return str(certificate.verdict)


def _fewest_gpus(envelope: Envelope, bounds: str, spent: str, *, as_json: bool) -> str:

    from fleetsieve.answers.sizing import size, sizing_document
    from fleetsieve.presentation.plans import show_sizing
    from fleetsieve.presentation.progress import working
    from fleetsieve.presentation.terminal import results

    with working("solving"):
        sizing = size(envelope)
    if as_json:
        emit(_shown(sizing_document(sizing), bounds))
    else:
        show_sizing(results(), sizing, bounds=bounds, spent=spent)
    return str(sizing.verdict)


def _shown(document: dict[str, Any], bounds: str) -> dict[str, Any]:
    """The document with the plan that was not asked for taken out."""
    hidden = {"both": (), "conservative": ("optimistic",), "optimistic": ("conservative",)}[bounds]
    return {key: None if key in hidden else value for key, value in document.items()}
