"""Ways to run the command line: in this process (fast), and as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleetsieve.cli.main import call

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Said:
    """What a call gave: exit code, results and messages."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output; no NaN, no infinity, nothing around it."""
        return json.loads(self.out, parse_constant=_no_number)


def _no_number(text: str) -> float:
    raise AssertionError(f"{text} stands in a JSON document")


Cli = Callable[..., Said]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Call the command line in this process, from an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        code = call([str(argument) for argument in arguments])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return Said(code, told.out, told.err)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Cli:
    """Run `python -m fleetsieve` (or other Python arguments) as a process in an empty folder."""

    def run(*arguments: object, env: Mapping[str, str] | None = None, python: bool = False, **options: Any) -> Said:
        path = os.pathsep.join([*(env or {}).get("PYTHONPATH", "").split(os.pathsep), str(ROOT), str(ROOT / "models")])
        command = [sys.executable, *([] if python else ["-m", "fleetsieve"]), *map(str, arguments)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path, **options}
        variables = {**os.environ, **(env or {}), "PYTHONPATH": path}
        done = subprocess.run(command, check=False, timeout=120, env=variables, **options)
        err = (done.stderr or b"").decode(errors="replace")
        assert "Traceback" not in err
        encoding = variables.get("PYTHONIOENCODING", "utf-8")
        return Said(done.returncode, (done.stdout or b"").decode(encoding), err)

    return run
