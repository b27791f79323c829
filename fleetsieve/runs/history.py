"""What a run did, read from its folder by those who look: nothing is written, and a run in progress is not disturbed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetsieve.brief import brief
from fleetsieve.certificate.document import key_of
from fleetsieve.errors import UsageError
from fleetsieve.files.shell import shell_words
from fleetsieve.instance import CellKey
from fleetsieve.live.serving.register import NAME as SERVERS
from fleetsieve.runs.layout import CERTIFICATE, STEPS
from fleetsieve.runs.start import RunStart


@dataclass(frozen=True)
class LoggedStep:
    """One step of a log: the cell asked, why, what it changed, and the state after it. A gap is None where nothing was proven."""

    number: int
    key: CellKey
    reason: str
    expected_cost_gpu_s: float
    status: str
    changed: str
    spent_gpu_s: float
    verdict: str
    blocking: str
    gap: Mapping[str, float | None]


@dataclass(frozen=True)
class History:
    """The log of a run: its first line, its steps, and the certificate that it ended with (None while it has none).

    `servers` are the commands of the servers that a live run started, each reported once.
    """

    start: Mapping[str, Any]
    steps: tuple[LoggedStep, ...]
    certificate: Mapping[str, Any] | None
    servers: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return brief(self)

    @property
    def policy(self) -> str:
        """The policy that chose the cells."""
        return RunStart.read(self.start).policy if self.start else ""

    @property
    def seed(self) -> int:
        """The run's seed."""
        return RunStart.read(self.start).seed if self.start else 0

    @property
    def horizon_h(self) -> float | None:
        """The hours of --stop-when-unprofitable; None where it was not given."""
        return RunStart.read(self.start).horizon_h if self.start else None


def read_history(folder: Path) -> History | None:
    """The history of the run in `folder`; None where it is no run. A last line that is torn is left out.

    Raises:
        UsageError: when a line is damaged.
    """
    path = folder / STEPS
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1].split("\n")[:-1]
    try:
        lines = [json.loads(line) for line in whole]
        if not lines:
            raise ValueError("it is empty")
        stored = folder / CERTIFICATE
        certificate = json.loads(stored.read_text(encoding="utf-8")) if stored.is_file() else None
        steps = tuple(_step(line) for line in lines[1:])
        return History(lines[0], steps, certificate, _servers(folder / SERVERS))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged: {type(error).__name__} at {error}") from error


def _servers(path: Path) -> tuple[str, ...]:
    """The commands in the record of what was started, in order."""
    if not path.is_file():
        return ()
    text = path.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return tuple(dict.fromkeys(shell_words(map(str, line["command"])) for line in lines if line.get("command")))


def _step(line: Mapping[str, Any]) -> LoggedStep:
    gap = {name: line["gap"][name] for name in ("shortfall", "min_fulfilment", "goodput")}
    return LoggedStep(
        int(line["step"]),
        key_of(line["asked"]),
        str(line["reason"]),
        float(line["expected_cost_gpu_s"]),
        str(line["status"]),
        str(line["changed"]),
        float(line["spent_gpu_s"]),
        str(line["verdict"]),
        str(line["blocking"]),
        gap,
    )
