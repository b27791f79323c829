"""A run that is killed with SIGKILL at random instants, again and again, ends with the bytes of one that was left alone.

Six instants here; benchmarks/kill_resume.py does more and prints a table.
"""

from __future__ import annotations

import pytest

from benchmarks.kill_resume import instants, trial, undisturbed

INSTANCE = "sim-chat-code-16gpu"
COUNT = 6


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    return undisturbed(INSTANCE, tmp_path_factory.mktemp("left") / "alone")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(COUNT))
def test_a_killed_run_ends_with_the_same_bytes(tmp_path, left_alone, number):
    expected, duration_s = left_alone
    first_s, later_s = instants(COUNT, duration_s)[number]
    got = trial(INSTANCE, tmp_path / "run", expected, first_s, later_s[:1])
    assert got.identical, got
    assert got.leftovers == 0
