"""A demand of 1e9 requests/s on a few GPUs: a verdict and a page, in the memory of any other fleet."""

from __future__ import annotations

import pytest

MEASURED = (
    "import resource, sys\n"
    "from fleetsieve.cli.main import call\n"
    "code = call(sys.argv[1:])\n"
    "print('MiB', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)\n"
    "raise SystemExit(code)\n"
)
LOADS = (8, 16, 32)


@pytest.fixture(params=["", "5", "1e8"], ids=["no floor", "a floor that is met", "a floor that is not"])
def folder(request, tmp_path):
    path = tmp_path / "fleet"
    path.mkdir()
    (path / "instance.toml").write_text('schema_version = 1\nname = "large"\n[fleet]\ngpus = 16\n', encoding="utf-8")
    classes = f"class,demand_rps,floor_rps,max_e2e_p99_s\nchat,1e9,{request.param},30\ncode,1e9,,30\n"
    (path / "classes.csv").write_text(classes, encoding="utf-8")
    cells = [(c, tp, n) for c in ("chat", "code") for tp in (1, 2, 4) for n in LOADS]
    rows = [f"{c},{tp},c{n},concurrency,{n},{tp}\n" for c, tp, n in cells]
    (path / "cells.csv").write_text("class,tp,load,load_kind,offered,gpus\n" + "".join(rows), encoding="utf-8")
    rows = [
        f"{c},{tp},c{n},0,ok,{12 * tp**0.9 * n / (n + 8):.5g},1,{5 + n / 3:.5g},300\n"
        for c, tp, n in cells
        if (tp, n) != (4, 16)
    ]
    head = "class,tp,load,seed,status,throughput_rps,success_rate,e2e_p99_s,window_s\n"
    (path / "measurements.csv").write_text(head + "".join(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("command", ["solve", "certify", "report"])
def test_it_takes_the_memory_of_any_other_fleet(command, folder, process):
    said = process("-c", MEASURED, command, folder, python=True)
    assert said.code == 0, said.err
    assert int(said.err.split("MiB")[-1]) < 1024
