"""`fleetsieve doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.errors import SolverMissing


@click.command("doctor")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE",
              help="serve.toml of a live run: also check that this machine can measure.")  # fmt: skip
@click.option("--no-start", is_flag=True, help="Do not start a server to check that the model loads.")
@options.as_json
def command(config: Path | None, no_start: bool, as_json: bool) -> int:
    """Check that this machine is set up: versions, the solver's self-test, its threads.

    Exits with 3 if something is missing or unusable: the solver or, with --config, the server's command, the load generator or
    anything else that a live run needs.
    """
    from fleetsieve.doctor import examine, examine_live
    from fleetsieve.live.serving.config import read_serve_config
    from fleetsieve.presentation.progress import working
    from fleetsieve.presentation.terminal import results, say

    checks = examine()
    if config is not None:
        stated = read_serve_config(config)
        with working("trying the server and the load generator"):
            checks += examine_live(stated, start=not no_start)
    healthy = all(check.ok for check in checks)
    if as_json:
        documents = [{"name": c.name, "ok": c.ok, "detail": c.detail, "hint": c.hint or None} for c in checks]
        emit({"ok": healthy, "checks": documents})
    else:
        for c in checks:
            hint = f" ({c.hint})" if c.hint else ""
            mark = "FAIL" if not c.ok else "ok  " if c.checked else "?   "
            say(results(), f"{mark} {c.name}: {c.detail}{hint}", "" if c.ok else "bold red")
    return 0 if healthy else SolverMissing.exit_code
