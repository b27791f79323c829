"""`fleetsieve doctor`."""

from __future__ import annotations

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.errors import SolverMissing


@click.command("doctor")
@options.as_json
def command(as_json: bool) -> int:
    """Examine whether this machine can solve: versions, the solver's self-test, its threads. Exits with 3 when it cannot."""
    from fleetsieve.doctor import examine
    from fleetsieve.presentation.terminal import results, say

    checks = examine()
    healthy = all(check.ok for check in checks)
    if as_json:
        told = [{"name": c.name, "ok": c.ok, "detail": c.detail, "hint": c.hint or None} for c in checks]
        emit({"ok": healthy, "checks": told})
    else:
        for c in checks:
            hint = f" ({c.hint})" if c.hint else ""
            say(results(), f"{'ok  ' if c.ok else 'FAIL'} {c.name}: {c.detail}{hint}", "" if c.ok else "bold red")
    return 0 if healthy else SolverMissing.exit_code
