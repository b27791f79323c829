"""Long work says that it goes on, on standard error alone."""

from __future__ import annotations

import time

from fleetsieve.presentation import progress


def test_short_work_says_nothing_without_a_terminal(capsys):
    with progress.working("solving"):
        pass
    time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_long_work_says_so_once_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_S", 0.01)
    with progress.working("solving"):
        time.sleep(0.3)
    assert capsys.readouterr() == ("", "solving ...\n")


def test_counted_work_tells_each_tenth_without_a_terminal(capsys):
    with progress.progress("simulating cells") as advance:
        for done in range(201):
            advance(done, 200)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [f"simulating cells: {done} of 200" for done in range(0, 201, 20)]
