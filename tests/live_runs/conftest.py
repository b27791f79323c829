"""Whole live runs on the hostile server; whatever a test does, nothing of its servers and load generators may be left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import cli, process
from live_runs.instances import Live, make_live, with_words

__all__ = ["cli", "process"]


@pytest.fixture(autouse=True)
def _soon_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of these tests start in a tenth of a second: they are asked as often whether they are ready."""
    for module in ("server", "external"):
        monkeypatch.setattr(f"fleetsieve.live.serving.{module}._POLL_S", 0.02)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Callable[..., Live]]:
    """Makes small live instances; when the test is over, no process of theirs may be left."""
    made: list[Live] = []

    def make(**settings: Any) -> Live:
        made.append(make_live(tmp_path / f"live{len(made)}", **settings))
        return made[-1]

    yield make
    left = []
    for one in made:
        until_s = time.monotonic() + 3.0  # a load generator whose run was killed ends by itself
        while (found := with_words(one.words)) and time.monotonic() < until_s:
            time.sleep(0.05)
        left += found
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left"
