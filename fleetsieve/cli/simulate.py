"""`fleetsieve simulate SPEC`."""

from __future__ import annotations

from pathlib import Path

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit


@click.command("simulate")
@click.argument("spec", type=click.Path(exists=True, path_type=Path), metavar="SPEC")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="The instance folder to make.",
)
@click.option("--records", is_flag=True, help="Store per-request records in DIR/records too.")
@options.as_json
def command(spec: Path, out: Path, records: bool, as_json: bool) -> int:
    """Make a simulated instance from a simulation.toml; the same specification always gives the same bytes."""
    from fleetsieve.presentation.progress import progress
    from fleetsieve.presentation.terminal import results, say
    from fleetsieve.simulator import SPEC_NAME, simulate

    path = spec / SPEC_NAME if spec.is_dir() else spec
    with progress("simulating cells") as advance:
        simulate(path, out, records=records, progress=advance)
    if as_json:
        emit({"simulated": str(out), "specification": str(path), "records": records})
    else:
        say(results(), f"simulated: {out}")
    return 0
