"""Fixtures of the tests of accounts: the command line, and a replay stopped in the middle."""

from __future__ import annotations

import pytest
from cli.command_line import cli
from cli.small_folder import Folder, make_folder

from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.loop.policies import DecisionGap
from fleetsieve.loop.sieve import Sieve
from fleetsieve.probes import Replay

__all__ = ["cli"]


@pytest.fixture
def folder(tmp_path) -> Folder:
    return make_folder(tmp_path / "small")


@pytest.fixture(scope="session")
def states() -> list[Sieve]:
    """Every state of a replay of the small bundled grid, first to last."""
    read = read_instance("sim-chat-code-16gpu")
    probe = Replay(read.measurements)
    sieve = Sieve.start(read.instance, policy=DecisionGap(), engine=Frontier(), looks=probe.looks)
    told = [sieve]
    while not sieve.finished:
        asked = sieve.ask()
        sieve = sieve.tell(probe.measure(asked.key, asked.look))
        told.append(sieve)
    return told
