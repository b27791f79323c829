"""validate, simulate and doctor beside the documents that they print."""

from __future__ import annotations

import hashlib
import json
import sys

import pytest

from fleetsieve.bounds.statistics.intervals import requests_for_p99_bound
from fleetsieve.files import bundled_names, read_instance

SPEC = """\
schema_version = 1
name = "tiny"
seed = 3

[fleet]
gpus = 4

[measure]
warmup_s = 1
window_s = 10

[client]
timeout_s = 60

[model]
weight_bytes = 16e9
layers = 32
hidden_size = 4096
kv_bytes_per_token = 131072
flop_per_token = 16e9

[gpu]
hbm_bytes = 80e9
hbm_bytes_per_s = 3.35e12
flops_per_s = 989e12
link_bytes_per_s = 250e9
link_latency_s = 1e-6

[engine]
max_num_seqs = 32
max_batched_tokens = 2048

[[classes]]
name = "chat"
demand_rps = 3
max_e2e_p99_s = 30
load_kind = "rate"
input = { median = 100, sigma = 0.2, least = 16, most = 400 }
output = { median = 50, sigma = 0.2, least = 8, most = 100 }
loads = { tp1 = [1, 2], tp2 = [2] }
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(SPEC)
    return path


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir()) if p.is_file()}


def test_simulate_makes_an_instance_that_every_command_takes(cli, spec, tmp_path):
    said = cli("simulate", spec, "--out", "made", "--json")
    assert (said.code, said.document["simulated"]) == (0, "made")
    assert "simulating cells: 3 of 3" in said.err
    assert "\x1b" not in said.err
    assert len(read_instance(tmp_path / "made").measurements) == 3
    for arguments in (["validate", "made"], ["solve", "made"], ["run", "made", "--replay", "--out", "run"]):
        assert cli(*arguments).code == 0


def test_simulate_gives_the_same_bytes_again(cli, spec, tmp_path):
    for out in ("one", "two"):
        assert cli("simulate", spec, "--out", out, "--records").code == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert digests(tmp_path / "one" / "records") == digests(tmp_path / "two" / "records")
    assert cli("simulate", tmp_path / "one", "--out", "three").code == 0
    assert digests(tmp_path / "three") == digests(tmp_path / "one")


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("seed = 3", "seed = -3", "seed"),
        ("seed = 3", 'seed = "three"', "three"),
        ("gpus = 4", "gpus = 0", "gpus"),
        ("[fleet]", "[flete]", "flete"),
        ("[[classes]]", "[classes]", "classes"),
        ("tp1 = [1, 2]", "tp1 = [2, 1]", "rise"),
        ("tp1 = [1, 2]", "tp1 = 1", "tp1"),
        ("tp1 = [1, 2]", 'tp1 = ["many"]', "many"),
        ("loads = { tp1 = [1, 2], tp2 = [2] }", "loads = [1, 2]", "loads"),
        ("loads = { tp1 = [1, 2], tp2 = [2] }", "", "loads"),
        ("layers = 32", "layers = 1.5", "layers"),
        ("timeout_s = 60", "timeout_s = nan", "timeout_s"),
        ('name = "tiny"', "name = 3", "name"),
        ('load_kind = "rate"', 'load_kind = ["rate"]', "load_kind"),
        ("schema_version = 1", "schema_version = 2", "schema_version"),
        ("seed = 3", "seed = 3 = 4", "tiny.toml"),
    ],
)
def test_a_wrong_specification_is_told(cli, spec, tmp_path, old, new, word):
    assert old in SPEC
    spec.write_text(SPEC.replace(old, new, 1))
    said = cli("simulate", spec, "--out", "made", "--json")
    assert said.code == 2
    assert word in said.err
    assert said.document["error"]["faults"]
    assert not (tmp_path / "made").exists()


def test_an_instance_that_was_not_simulated_cannot_be_simulated_again(cli):
    said = cli("simulate", "paper-h100-31b", "--out", "made")
    assert said.code == 2
    assert "paper-h100-31b has no simulation.toml: it was not simulated" in said.err


def test_validate_lists_what_is_bundled(cli):
    assert cli("validate", "--list").out.split() == list(bundled_names())
    assert cli("validate", "--list", "--json").document == {"bundled": list(bundled_names())}


@pytest.mark.parametrize("name", bundled_names())
def test_what_is_bundled_is_valid(cli, name):
    document = cli("validate", name, "--json").document
    assert (document["ok"], document["instance"], document["suspicions"]) == (True, name, [])
    confidence = read_instance(name).instance.certificate.confidence
    assert document["requests_for_p99_bound_one_cell"] == requests_for_p99_bound(confidence)


LADDER = [{"class": "chat", "tp": 2, "pool": "default", "load": "c8", "capacity_rps": 2.0,
           "next_load": "c16", "next_offered": 16.0, "next_at_most_rps": 4.2}]  # fmt: skip


def test_validate_shows_what_it_understood_and_where_ladders_end_too_early(cli, folder):
    folder.change("classes.csv", '"chat",,,8,1,,2', '"chat",,,8,1,,2000ms')
    document = cli("validate", folder.path, "--json").document
    assert document["slos"]["chat"]["max_ttft_p99_s"] == 2.0
    assert document["slos"]["chat"]["min_success"] is None
    assert [top for top in document["ladder_tops"] if top["class"] == "chat"] == LADDER
    assert {(top["class"], top["tp"]) for top in document["ladder_tops"]} == {("chat", 2), ("code", 2)}
    text = cli("validate", folder.path).out
    assert "SLO of chat: TTFT p99 <= 2 s" in text
    assert (
        "chat TP2: the top rung c8 still meets the SLO at 2.000 requests/s of one replica; c16 could bring at most"
        in text
    )
    assert "code TP4" not in text


def test_a_slack_that_may_keep_the_gap_open_is_told(cli, folder):
    assert "eta 0.2 is not below epsilon 0.1" in cli("solve", folder.path, "--eta", 0.2, "--epsilon", 0.1).err
    assert "eta" not in cli("solve", folder.path, "--eta", 0.05, "--epsilon", 0.1).err


def test_doctor(cli):
    document = cli("doctor", "--json").document
    assert document["ok"] is True
    assert all(check.keys() == {"name", "ok", "detail", "hint"} for check in document["checks"])
    assert "self-test" in cli("doctor").out


def test_doctor_on_a_machine_that_cannot_solve(cli, monkeypatch):
    from fleetsieve.doctor import Check

    found = [Check("python", True, "3.12"), Check("highspy", False, "not installed", "pip install highspy")]
    monkeypatch.setattr("fleetsieve.doctor.examine", lambda: found)
    said = cli("doctor", "--json")
    assert (said.code, said.document["ok"]) == (3, False)
    assert "FAIL highspy: not installed (pip install highspy)" in cli("doctor").out


def test_doctor_without_what_a_live_run_needs(cli, tmp_path, monkeypatch):
    """Neither a server's command nor a load generator, and no NVML: the first two are missing, of the GPUs nothing is known."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    (tmp_path / "serve.toml").write_text(
        '[serve]\nmodel = "m"\ncommand = ["/no/vllm"]\ngpus = [0, 1]\n[load]\ncommand = ["/no/aiperf"]\n'
    )
    said = cli("doctor", "--config", "serve.toml", "--no-start")
    assert said.code == 3
    assert "FAIL server: there is no command '/no/vllm'" in said.out
    assert "FAIL load generator: there is no command '/no/aiperf'" in said.out
    assert "?    GPUs: not checked: NVML is not there; serve.toml names 0, 1" in said.out


def test_a_certificate_is_stored_as_it_is_shown(cli, tmp_path):
    shown = cli("solve", "paper-h100-31b", "--json", "--certificate", "c.json").out
    assert (tmp_path / "c.json").read_text() == shown
    assert json.loads(shown)["files"].keys() == {"instance.toml", "classes.csv", "cells.csv", "measurements.csv"}
