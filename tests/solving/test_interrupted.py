"""Ctrl-C during a solve ends the command: a truncated solve is no answer."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

LONG_SOLVE = """
import random, sys
import pyomo.environ as pyo
from fleetsieve.engines.solving.highs import SolverSession

draw = random.Random(3)
m = pyo.ConcreteModel()
m.x = pyo.Var(range(50), domain=pyo.Binary)
m.off = pyo.Var(range(6), [-1, 1], bounds=(0, None))
m.rows = pyo.ConstraintList()
for row in range(6):
    weight = [draw.randrange(100) for _ in range(50)]
    m.rows.add(sum(w * m.x[k] for k, w in enumerate(weight)) + m.off[row, 1] - m.off[row, -1] == sum(weight) // 2)
m.value = pyo.Objective(expr=sum(m.off[...]))
m.value.deactivate()
session = SolverSession(m)
print("solving", file=sys.stderr, flush=True)
try:
    print(session.solve(m.value))
except KeyboardInterrupt:
    sys.exit(130)
"""

COMMAND = """
import sys
from fleetsieve.cli.main import main
from fleetsieve.engines.solving.highs import SolverSession

whole = SolverSession.solve

def told(self, objective):
    if objective.name == "gpus":
        print("solving", file=sys.stderr, flush=True)
    return whole(self, objective)

SolverSession.solve = told
main(sys.argv[1:])
"""


def interrupted(code, *arguments, after_s=0.5):
    """Run code, send SIGINT half a second after it says that it is solving; gives the process, its output, the delay."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        while (line := process.stderr.readline()) and "solving" not in line:
            pass
        time.sleep(after_s)
        assert process.poll() is None, process.communicate()
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        return process, out, time.monotonic() - sent
    finally:
        process.kill()


@pytest.fixture(scope="module")
def three_pools(tmp_path_factory):
    """Twenty classes that may use TP 1, 2 and 4 on each of three pools, nodes of 8, 8 and 6 GPUs."""
    draw, folder = random.Random(1), tmp_path_factory.mktemp("three")
    pools = {"h100": (400, 8), "b200": (200, 8), "a100": (120, 6)}
    classes = ["class,demand_rps,priority,floor_rps,max_ttft_p99_s,max_e2e_p99_s,max_tpot_p99_s,min_success"]
    cells = ["class,tp,load,pool,load_kind,offered,gpus"]
    rows = ["class,tp,load,pool,seed,status,throughput_rps,success_rate,ttft_p99_s"]
    for i in range(20):
        classes.append(f"c{i:02},{draw.randint(50, 400)},1,{draw.choice(['', 20])},2,,,")
        for pool in pools:
            for tp in (1, 2, 4):
                tail, rate = 0.3, draw.uniform(0.4, 0.8)
                for load in range(1, 5):
                    offered = round(load * tp * rate, 3)
                    cells.append(f"c{i:02},{tp},r{load},{pool},rate,{offered},{tp}")
                    tail *= draw.uniform(1, 1.9)
                    if draw.random() < 0.7:
                        done = offered * draw.uniform(0.9, 1)
                        rows.append(f"c{i:02},{tp},r{load},{pool},0,ok,{done:.3f},1,{tail:.3f}")
    stated = ['schema_version = 1\nname = "three"']
    stated += [f'[[fleet.pools]]\nname = "{n}"\ngpus = {g}\ngpus_per_node = {node}' for n, (g, node) in pools.items()]
    (folder / "instance.toml").write_text("\n".join(stated) + "\n")
    for name, lines in (("classes", classes), ("cells", cells), ("measurements", rows)):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.slow
def test_ctrl_c_stops_a_long_solve_at_once():
    process, out, delay_s = interrupted(LONG_SOLVE)
    assert (process.returncode, out) == (130, "")
    assert delay_s < 5.0


@pytest.mark.slow
def test_an_interrupted_solve_says_nothing_and_writes_nothing(three_pools, tmp_path):
    process, out, delay_s = interrupted(COMMAND, "solve", three_pools, "--certificate", tmp_path / "certificate.json")
    assert (process.returncode, out) == (130, "")
    assert delay_s < 5.0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_interrupted_run_stores_no_step_of_a_truncated_solve(three_pools, tmp_path):
    process, out, _ = interrupted(COMMAND, "run", three_pools, "--replay", "--out", tmp_path / "run")
    assert (process.returncode, out) == (130, "")
    assert [json.loads(line)["step"] for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()] == [0]
    assert not (tmp_path / "run" / "certificate.json").exists()
