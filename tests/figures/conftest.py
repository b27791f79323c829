"""Certificates and histories that figures are drawn of."""

from __future__ import annotations

import pytest
from cli.command_line import cli
from cli.small_folder import Folder, make_folder

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance

pytest.importorskip("altair", reason="figures need the extra plots")
pytest.importorskip("vl_convert", reason="figures need the extra plots")

__all__ = ["cli"]


@pytest.fixture
def folder(tmp_path) -> Folder:
    return make_folder(tmp_path / "small")


def certified(name, rows=None) -> Certificate:
    read = read_instance(name)
    return certify(Envelope.of(read.instance, read.measurements if rows is None else rows), Frontier())


@pytest.fixture(scope="session")
def paper() -> Certificate:
    return certified("paper-h100-31b")


@pytest.fixture(scope="session")
def four_classes() -> Certificate:
    """The four-class grid with every third row measured."""
    return certified("sim-four-class-64gpu", read_instance("sim-four-class-64gpu").measurements[::3])
