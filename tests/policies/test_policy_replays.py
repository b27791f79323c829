"""Every policy ends every replay with the same verdict as the others, and no plan is worse than promised."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from cli.command_line import Cli, cli
from hypothesis import given, settings
from policies.replaying import exact_table, replayed
from policies.small_fleets import CHAT, LADDER, LADDER_ROWS, cell, fleet, looked
from strategies import Situation, situations

from fleetsieve.certificate import Verdict
from fleetsieve.files import read_instance
from fleetsieve.instance import (
    Pool,
    Slo,
    Status,
    WorkloadClass,
)
from fleetsieve.loop.policies import POLICIES
from fleetsieve.studies.judging import Truth

__all__ = ["cli"]

GRID = "sim-chat-code-16gpu"
DESIGNED = {
    "decision-gap", "paper", "random", "grid", "joint-uncertainty", "shared-feature", "targeted", "voi", "constrained-bo",
}  # fmt: skip


def test_the_policies_of_the_design_are_there_each_under_its_own_name() -> None:
    assert set(POLICIES) >= DESIGNED
    assert all(policy.name == name for name, policy in POLICIES.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_is_not_seeded_asks_the_same_for_every_seed(name: str) -> None:
    instance, table = EDGES["both"]
    asked = {tuple(row.key for row in replayed(instance, table, name, seed).measurements) for seed in range(1, 7)}
    assert (len(asked) > 1) == POLICIES[name].seeded


def test_the_help_of_run_names_every_policy(cli: Cli) -> None:
    told = " ".join(cli("run", "--help").out.split()).replace("- ", "-")
    assert [name for name in POLICIES if name not in told] == []


@pytest.mark.parametrize("name", POLICIES)
def test_a_bundled_grid_is_certified_right(name: str) -> None:
    read = read_instance(GRID)
    sieve = replayed(read.instance, read.measurements, name)
    judged = Truth.of(read.instance, read.measurements).judge(sieve.certificate)
    assert (sieve.certificate.verdict, judged.fault) == (Verdict.FEASIBLE, "")
    assert judged.regret <= sieve.certificate.epsilon


@pytest.mark.slow
@settings(max_examples=15)
@given(situations(known=1.0, width=0.0))
def test_all_policies_reach_the_verdict_of_the_truth(drawn: Situation) -> None:
    instance, table = drawn.instance, exact_table(drawn)
    truth = Truth.of(instance, table)
    verdicts = set()
    for name in POLICIES:
        found = replayed(instance, table, name).certificate
        judged = truth.judge(found)
        verdicts.add(found.verdict)
        assert judged.fault == "", name
        assert found.verdict is Verdict.INFEASIBLE or judged.regret <= found.epsilon + 1e-9, name
    assert len(verdicts) == 1
    assert Verdict.UNDECIDED not in verdicts


CODE = WorkloadClass("code", 4.0, Slo(1.0))
UNNAMED = [cell("code", tp, "peak") for tp in (1, 2)]
UNNAMED_ROWS = [looked(UNNAMED[0], 0.7), looked(UNNAMED[1], 1.7)]
FAR = [replace(c, key=c.key._replace(server=c.key.server._replace(pool="far"))) for c in LADDER]
FAR_ROWS = [replace(r, key=r.key._replace(server=r.key.server._replace(pool="far"))) for r in LADDER_ROWS]
EDGES = {
    "one cell": fleet([CHAT], LADDER_ROWS[:1], LADDER[:1]),
    "one arm": fleet([CHAT], LADDER_ROWS[:2], LADDER[:2]),
    "no load numbers": fleet([CODE], UNNAMED_ROWS, UNNAMED),
    "both": fleet([CHAT, CODE], LADDER_ROWS + UNNAMED_ROWS, LADDER + UNNAMED),
    "a class without a demand": fleet(
        [CHAT, replace(CODE, demand_rps=0.0)], LADDER_ROWS + UNNAMED_ROWS, LADDER + UNNAMED
    ),
    "no demand at all": fleet([replace(CODE, demand_rps=0.0)], UNNAMED_ROWS, UNNAMED),
    "no SLO": fleet([replace(CHAT, slo=Slo())], LADDER_ROWS, LADDER),
    "hardly any capacity": fleet([CHAT], [looked(c, 1e-12) for c in LADDER], LADDER),
    "all too slow": fleet([CHAT, CODE], [looked(c, 1.0, 9.0) for c in LADDER] + UNNAMED_ROWS, LADDER + UNNAMED),
    "a class without a cell": fleet([CHAT, CODE], LADDER_ROWS, LADDER),
    "a floor out of reach": fleet([replace(CHAT, demand_rps=90.0, floor_rps=80.0)], LADDER_ROWS, LADDER),
    "two pools": fleet(
        [CHAT, CODE], LADDER_ROWS + FAR_ROWS + UNNAMED_ROWS, LADDER + FAR + UNNAMED, Pool("default", 4), Pool("far", 4)
    ),
    "nodes": fleet([CHAT], LADDER_ROWS, LADDER, Pool("default", 9, 3)),
    "a server that does not start": fleet(
        [CHAT], [replace(r, status=Status.FAILED_START) if r.key.tp == 4 else r for r in LADDER_ROWS], LADDER
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("edge", EDGES)
def test_degenerate_fleets_are_certified_too(edge: str, name: str) -> None:
    instance, table = EDGES[edge]
    sieve = replayed(instance, table, name)
    judged = Truth.of(instance, table).judge(sieve.certificate)
    expected = Verdict.INFEASIBLE if edge == "a floor out of reach" else Verdict.FEASIBLE
    assert (sieve.certificate.verdict, judged.fault) == (expected, "")


@pytest.mark.parametrize("name", POLICIES)
def test_cells_that_straddle_their_slo_are_looked_at_again(name: str) -> None:
    instance, _ = EDGES["one arm"]
    instance = replace(instance, noise={"ttft_p99": 0.12, "throughput": 0.01})
    table = [looked(c, 2.0 * c.gpus, 0.95, seed) for c in LADDER[:2] for seed in range(6)]
    sieve = replayed(instance, table, name)
    assert max(row.seed for row in sieve.measurements) > 0
    assert sieve.certificate.verdict is not Verdict.INFEASIBLE


@pytest.mark.parametrize("name", POLICIES)
def test_crashes_end_a_run_undecided_or_certified_without_those_cells(name: str) -> None:
    table = [
        replace(r, status=Status.CRASHED, seed=seed) if r.key.tp == 2 else replace(r, seed=seed)
        for r in LADDER_ROWS
        for seed in range(2)
    ]
    sieve = replayed(EDGES["no SLO"][0], table, name)
    assert all(key.tp != 2 for key in sieve.certificate.conservative.replica_counts)


@pytest.mark.slow
def test_only_a_surrogate_pays_for_scikit_learn() -> None:
    code = (
        "import sys, fleetsieve.loop.policies as p; assert 'sklearn' not in sys.modules;"
        "from fleetsieve.files import read_instance; from fleetsieve.engines.frontier import Frontier;"
        "from fleetsieve.loop.sieve import Sieve; read = read_instance('sim-chat-code-16gpu');"
        "start = lambda n: Sieve.start(read.instance, policy=p.policy_named(n), engine=Frontier());"
        "[start(n).ask() for n in p.POLICIES if n not in ('shared-feature', 'constrained-bo')];"
        "assert 'sklearn' not in sys.modules;"
        "start('shared-feature').tell(read.measurements[0]).ask(); assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
