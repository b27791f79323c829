"""`fleetsieve calibrate DIR`."""

from __future__ import annotations

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.extensions import look_in_current_folder
from fleetsieve.files import read_instance

RECORDS = "records"


@click.command("calibrate")
@options.folder
@click.option("--noise", default="reference", show_default=True, metavar="SPREAD",
              help="Noise to draw: reference, a multiple of it (2x), ttft=0.12,throughput=0.01,..., or records.")  # fmt: skip
@click.option(
    "--trials", type=click.IntRange(1), default=200, show_default=True, metavar="N", help="Trials of each treatment."
)
@click.option("--treat", type=click.Choice(["intervals", "points", "both"]), default="intervals", show_default=True,
              help="Turn measurements into intervals and repeat them, or take one measurement of a cell as exact.")  # fmt: skip
@click.option(
    "--policy", default="decision-gap", show_default=True, metavar="NAME", help="The policy that chooses the next cell."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="S", help="Seed of the draws.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="J", help="Number of processes.")
@options.as_json
def command(folder: str, noise: str, trials: int, treat: str, policy: str, seed: int, jobs: int, as_json: bool) -> int:
    """Count wrong certificates under measurement noise: the table of DIR is the truth, and measurements are drawn around it.

    A certified-feasible is wrong when a committed configuration truly violates its SLO, a floor is truly not met, or the plan is
    truly worse than the best by more than epsilon; a certified-infeasible when every floor can be met. With --noise records a
    measurement is a bootstrap of the cell's requests in DIR/records.
    """
    from fleetsieve.bounds.statistics import REFERENCE_SPREAD
    from fleetsieve.presentation.calibration import show_calibration
    from fleetsieve.presentation.progress import progress
    from fleetsieve.presentation.terminal import messages, results, say, tell_suspicions
    from fleetsieve.studies import calibrate as study
    from fleetsieve.studies.calibrate_counts import Counts, calibration_document

    look_in_current_folder(policy)
    read = read_instance(folder)
    tell_suspicions(read.suspicions)
    spread = None if noise == RECORDS else study.spread_of(noise, REFERENCE_SPREAD)
    treatments = study.TREATMENTS if treat == "both" else (treat,)
    chosen = study.settings(read.instance, read.measurements, spread, treatments=treatments, policy=policy, seed=seed)
    exact = chosen[0].exact_cost_gpu_s(trials)
    try:
        with progress("trials") as advance:
            outcomes = study.trials(chosen, trials, jobs=jobs, progress=advance)
    except KeyboardInterrupt:
        say(
            messages(),
            "no results are stored: the next call starts from the first trial; fewer --trials or more --jobs take less time",
        )
        raise
    counts = [Counts.of(s.treatment, of_trials, exact) for s, of_trials in zip(chosen, outcomes, strict=True)]
    nominal = 1.0 - read.instance.certificate.confidence
    if as_json:
        emit(
            calibration_document(
                read.instance.name, RECORDS if spread is None else spread, policy, seed, nominal, counts
            )
        )
    else:
        spreads = (
            "requests resampled" if spread is None else "sigma " + ", ".join(f"{k} {v:g}" for k, v in spread.items())
        )
        show_calibration(results(), read.instance.name, spreads, nominal, counts)
    return 0
