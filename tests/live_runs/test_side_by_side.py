"""Cells measured side by side: GPUs of their own, rows that are right, and a word where they disturbed each other."""

from __future__ import annotations

import tempfile
import time

import numpy as np
import pytest
from live_runs.instances import events, rows, steps

from fleetsieve.files import RequestRow
from fleetsieve.instance import CellKey
from fleetsieve.live.beside import Load, disturbance
from fleetsieve.live.load.protocol import GeneratorEnding, Sent
from fleetsieve.presentation.live import LiveView


def test_two_cells_at_once(cli, live, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # locks of GPUs that are nobody else's
    classes = ("chat,20,4,60,1,,,,,0.5", "code,20,4,60,1,,,,,0.5")
    cells = ("chat,1,r40,rate,40,1", "code,1,r40,rate,40,1")
    both = live(classes=classes, cells=cells, window_s=2.0, serve="gpus = [0, 1]")
    run = tmp_path / "run"
    said = cli(*both.arguments(run, "--max-servers", 2, "--json"))
    assert said.code == 0, said.err
    lives = [event["event"] for event in events(run) if event["event"] in ("started", "stopped")]
    assert lives == ["started"] * 2 + ["stopped"] * 2
    assert [event["gpus"] for event in events(run) if event["event"] == "started"] in ([["0"], ["1"]], [["1"], ["0"]])
    found = rows(run)
    assert {(row["class"], row["status"]) for row in found} == {("chat", "ok"), ("code", "ok")}
    assert all(66 <= int(row["requests"]) <= 85 for row in found), "on a busy machine some are sent after their window"
    assert [step["asked"]["class"] for step in steps(run)] == [row["class"] for row in found]
    assert said.document["cost_gpu_s"] == pytest.approx(sum(float(row["cost_gpu_s"]) for row in found))
    assert cli("certify", run).code == 0


def test_cells_of_one_tp_take_turns_where_there_are_no_gpus_for_two(cli, live, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    classes = ("chat,20,4,60,1,,,,,0.5", "code,20,4,60,1,,,,,0.5")
    cells = ("chat,2,r40,rate,40,2", "code,2,r40,rate,40,2")
    both = live(classes=classes, cells=cells, serve="gpus = [0, 1]", gpus=4)
    assert cli(*both.arguments(tmp_path / "run", "--max-servers", 2)).code == 0
    assert sum(event["event"] == "started" for event in events(tmp_path / "run")) == 1
    assert [row["status"] for row in rows(tmp_path / "run")] == ["ok", "ok"]


CHAT, CODE = CellKey("chat", 1, "r40"), CellKey("code", 1, "r40")


def look(slower: float, *, count: int = 200, beside_from: int = 100, seed: int = 0) -> Sent:
    """A look of one request a second from the moment 1000 on; from `beside_from` on each takes `slower` times as long."""
    noise = np.exp(np.random.default_rng(seed).normal(0.0, 0.05, count))
    e2e_s = [0.2 * n * (slower if i >= beside_from else 1.0) for i, n in enumerate(noise)]
    sent = tuple(RequestRow(float(i), float(i), 20, 10, 0.01, e2e, "ok") for i, e2e in enumerate(e2e_s))
    return Sent(sent, float(count), 1000.0, GeneratorEnding.DONE, 0, float(count), 0.0)


OWN = Load(CHAT, 999.0, 1200.0)


@pytest.mark.parametrize(("slower", "told"), [(1.4, 0.4), (0.7, -0.3)])
def test_a_disturbance_is_told(slower: float, told: float) -> None:
    found = disturbance(look(slower), OWN, [OWN, Load(CODE, 1100.0)])
    assert found is not None
    assert found.startswith("disturbed by code TP1 r40: ")
    change = found.removeprefix("disturbed by code TP1 r40: ").split("%")[0]
    assert float(change) / 100.0 == pytest.approx(told, abs=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_what_does_not_disturb_is_not_told(seed: int) -> None:
    assert disturbance(look(1.0, seed=seed), OWN, [OWN, Load(CODE, 1100.0)]) is None


def test_a_change_that_is_too_small_to_matter_is_not_told() -> None:
    assert disturbance(look(1.03, count=4000, beside_from=2000), Load(CHAT, 999.0), [Load(CODE, 3000.0)]) is None


def test_nothing_is_told_of_load_that_was_before_or_after() -> None:
    assert disturbance(look(1.3), OWN, [OWN, Load(CODE, 100.0, 999.0), Load(CODE, 1200.0)]) is None


def test_a_look_beside_another_all_the_time_cannot_tell() -> None:
    found = disturbance(look(1.3), OWN, [OWN, Load(CODE, 990.0, 1195.0)])
    assert found is not None
    assert "whether that disturbed it is unknown" in found


def test_what_ends_the_run_between_two_steps_ends_the_look_beside(cli, live, tmp_path, monkeypatch) -> None:
    """TP 2 cannot start, and as that is shown Ctrl-C comes: the look on TP 1 has most of its minute to go."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveView, "step", interrupted)
    both = live(per_tp={2: ["--exit-code", "1", "--log-text", "not enough GPUs"]}, gpus=4, window_s=60.0)
    began_s = time.monotonic()
    assert cli(*both.arguments(tmp_path / "run", "--max-servers", 2)).code == 130
    assert time.monotonic() - began_s < 30.0
    assert [row["status"] for row in rows(tmp_path / "run")] == ["failed_start"]
