"""The hostile server as a `ServeConfig`, and what the tests of servers share."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import psutil

from fleetsieve.live.serving.config import ServeConfig

SCRIPT = Path(__file__).resolve().parents[1] / "live" / "hostile_server.py"
PYTHON = (sys.executable, "-S")
"""Without the packages: it starts in a third of the time."""


def hostile(*arguments: str, **settings: Any) -> ServeConfig:
    """A configuration that starts the hostile server with `arguments`."""
    chosen: dict[str, Any] = {"model": "tiny", "served_name": "tiny", "ready_s": 10.0, "stop_s": 0.5, **settings}
    return ServeConfig(command=(*PYTHON, str(SCRIPT)), arguments=arguments, **chosen)


def some_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_words(marker: str) -> list[int]:
    """The live processes that have `marker` in their command line."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or ()
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(marker in word for word in words):
            found.append(process.pid)
    return found
