"""`fleetsieve simulate SPEC`."""

from __future__ import annotations

from pathlib import Path

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.errors import UsageError
from fleetsieve.files import resolve


@click.command("simulate")
@click.argument("spec", metavar="SPEC")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="The instance folder to create.",
)
@click.option("--records", is_flag=True, help="Also store per-request records in DIR/records.")
@options.as_json
def command(spec: str, out: Path, records: bool, as_json: bool) -> int:
    """Make a simulated instance; the same specification always gives the same bytes.

    SPEC is a simulation.toml, a folder that holds one, or the name of a bundled simulated instance.
    """
    from fleetsieve.presentation.progress import progress
    from fleetsieve.presentation.terminal import results, say
    from fleetsieve.simulator import SPEC_NAME, simulate

    place = Path(spec)
    path = place if place.is_file() else resolve(spec) / SPEC_NAME
    if not path.exists():
        raise UsageError(
            f"{path.parent} has no {SPEC_NAME}: it was not simulated",
            "name a simulation.toml, or a folder that holds one",
        )
    with progress("simulating cells") as advance:
        simulate(path, out, records=records, progress=advance)
    if as_json:
        emit({"simulated": str(out), "specification": str(path), "records": records})
    else:
        say(results(), f"simulated: {out}")
    return 0
