"""A run that ends undecided says why, and what it says is true of that ending."""

from __future__ import annotations

import pytest
from cli.small_folder import CELLS

from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.loop.policies.grid import Grid
from fleetsieve.loop.sieve import Sieve
from fleetsieve.presentation.endings import ending

COLUMNS = "class,tp,load,seed,status,throughput_rps,ttft_p99_lo_s,ttft_p99_hi_s\n"
SETTLE = "no further measurement can settle the verdict"


@pytest.fixture
def made(folder):
    """Chat and code each have a TP2 cell that serves half of their demand, and better ones whose rows a test gives."""

    def write(*rows: str, keys=(("chat", 2), ("chat", 4), ("code", 2), ("code", 4))):
        cells = [f"{name},{tp},c8,concurrency,8,{tp}\n" for name, tp in keys]
        (folder.path / "cells.csv").write_text(CELLS + "".join(cells))
        known = ["chat,2,c8,0,ok,1,1,1\n", "code,2,c8,0,ok,1,1,1\n"]
        (folder.path / "measurements.csv").write_text(COLUMNS + "".join([*known, *(f"{row}\n" for row in rows)]))
        return folder.path

    return write


def ended(cli, path, *options):
    said = cli("run", path, "--replay", "--out", "made", *options)
    assert said.code in (0, 4), said.err
    document = cli("run", "made", "--resume", "--json").document
    if document["ended"] is not None:
        assert f"\n{document['ended']}\n" in said.out
    return document["verdict"], document["ended"]


def test_cells_that_the_table_has_no_row_of(cli, made):
    verdict, why = ended(cli, made("code,4,c8,0,ok,4,1,1"))
    assert verdict == "undecided"
    assert why == f"{SETTLE}: the table has no row for chat TP4 c8; measure it, or relax an SLO or the demand"


CHAT_ALONE = (("chat", 2), ("chat", 4), ("code", 2))


def test_cells_whose_rows_are_used_up(cli, made, folder):
    """Noise makes a band of the tail that holds the limit of 2 s; the table has one row of the cell."""
    with (folder.path / "instance.toml").open("a") as file:
        file.write("[noise]\nttft_p99 = 0.1\n")
    verdict, why = ended(cli, made("chat,4,c8,0,ok,4,1.9,1.9", keys=CHAT_ALONE))
    assert verdict == "undecided"
    assert (
        why
        == f"{SETTLE}: the table has no further row for chat TP4 c8; measure it again, or relax an SLO or the demand"
    )


def test_cells_of_which_another_row_would_say_no_more(cli, made):
    verdict, why = ended(cli, made("chat,4,c8,0,ok,4,1.9,2.1", keys=CHAT_ALONE))
    assert verdict == "undecided"
    assert why == (
        f"{SETTLE}: chat TP4 c8 may or may not meet the SLO, and another measurement cannot decide that; "
        "exclude it, or relax an SLO or the demand"
    )


def test_cells_that_failed_and_are_not_tried_again(cli, made):
    rows = ["code,4,c8,0,ok,4,1,1", *(f"chat,4,c8,{k},crashed,,," for k in range(3))]
    verdict, why = ended(cli, made(*rows))
    assert verdict == "undecided"
    assert why.startswith(f"{SETTLE}: chat TP4 c8 failed and is not tried again")
    assert "no row" not in why
    assert "no further row" not in why


def test_several_reasons_are_all_told(cli, made):
    verdict, why = ended(cli, made(*(f"chat,4,c8,{k},crashed,,," for k in range(3))))
    assert verdict == "undecided"
    assert "the table has no row for code TP4 c8" in why
    assert "chat TP4 c8 failed and is not tried again" in why


def test_a_run_that_the_stop_rule_ended(cli, made):
    verdict, why = ended(
        cli, made("code,4,c8,0,ok,4,1,1", "chat,4,c8,0,ok,4,1,1"), "--stop-when-unprofitable", "0.000001"
    )
    assert verdict == "undecided"
    assert why.startswith("stopped: over 1e-06 h")


def test_a_run_with_a_verdict_says_nothing_of_the_kind(cli, made):
    assert ended(cli, made("code,4,c8,0,ok,4,1,1", "chat,4,c8,0,ok,4,1,1")) == ("certified-feasible", None)


@pytest.mark.slow
def test_cells_that_are_left_and_cannot_help(cli, made):
    """Chat on TP4 straddles its SLO with no further row; whatever code on TP4 shows, chat stays open."""
    verdict, why = ended(cli, made("chat,4,c8,0,ok,4,1.9,2.1", "code,4,c8,0,ok,1.1,1,1"), "--policy", "grid")
    assert verdict == "undecided"
    assert why.startswith(f"{SETTLE}, not even one of the cell that is left: chat TP4 c8 may or may not meet the SLO")


def test_a_live_run_speaks_of_what_it_may_measure(made, folder):
    with (folder.path / "instance.toml").open("a") as file:
        file.write("[noise]\nttft_p99 = 0.1\n")
    read = read_instance(made("chat,4,c8,0,ok,4,1.9,1.9", "code,4,c8,0,ok,4,1,1"))
    looks = dict.fromkeys((row.key for row in read.measurements), 1)
    sieve = Sieve.start(read.instance, policy=Grid(), engine=Frontier(), looks=looks)
    assert ending(sieve.tell(*read.measurements), live=True) == (
        f"{SETTLE}: chat TP4 c8 was measured as often as max_looks allows; "
        "give cells a longer window or more repeats, or relax an SLO or the demand"
    )
