"""Servers that a test starts are stopped with it, and nothing of them may be left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile import hostile, some_port

from fleetsieve.live.serving.config import ServeConfig
from fleetsieve.live.serving.register import Register
from fleetsieve.live.serving.server import Server

Starter = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Starts a hostile server with the given arguments, or one of the given configuration."""
    servers: list[Server] = []

    def starter(*arguments: str, config: ServeConfig | None = None, tp: int = 1, port: int | None = None) -> Server:
        chosen = config or hostile(*arguments)
        log = tmp_path / f"server-{len(servers)}.log"
        server = Server.start(chosen, tp, (), port or some_port(), log, Register(tmp_path))
        servers.append(server)
        return server

    yield starter
    for server in servers:
        server.stop(0.0)
