"""simulation.toml: every fault at once, each with its key and value."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_machine import INSTANCES

from fleetsieve.errors import InputError
from fleetsieve.simulator import read_spec

GOOD = (INSTANCES / "sim-chat-code-16gpu" / "simulation.toml").read_text()


def faults(tmp_path: Path, *changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = tmp_path / "simulation.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_spec(file)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema_version = 1", "schema_version = 2", "schema_version"),
        ("seed = 31", "seed = -1", "-1 is not a whole number >= 0"),
        ("timeout_s = 60", "timeout_s = 0", "client.timeout_s"),
        ("weight_bytes = 62e9", "weight_bytes = nan", "model.weight_bytes"),
        ("weight_bytes = 62e9", "weight_bytes = inf", "model.weight_bytes"),
        ("layers = 60", "", "model.layers"),
        ("layers = 60", "layers = 60.5", "60.5 is not a whole number"),
        ("hbm_bytes = 80e9", "hbm_byte = 80e9", "gpu.hbm_byte"),
        ("memory_utilisation = 0.9", "memory_utilisation = 90", "90 is a share and exceeds 1"),
        ("max_num_seqs = 256", "max_num_seqs = 4096", "exceeds max_batched_tokens"),
        ("overhead_s = 0.003", 'kv_policy = "swap"', "'swap' is none of recompute, reserve"),
        ('load_kind = "rate"', 'load_kind = "users"', "'users' is none of rate, concurrency"),
        ("least = 16, most = 4096", "least = 16, most = 8", "least 16 exceeds most 8"),
        ("tp2 = [1, 2, 2.5, 4]", "tp2 = [2, 1]", "does not rise strictly"),
        ("tp2 = [1, 2, 2.5, 4]", "two = [2, 1]", "is not a tensor-parallel degree"),
        ("gpus = 16", "gpus = 16\ncolour = 1", "fleet.colour"),
        ("[fleet]", "[fleet]\n[extra]", "extra: is not a key"),
        ("seed = 31", "seed = ", "cannot be read"),
    ],
)
def test_a_fault_names_its_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    message = faults(tmp_path, (old, new))
    assert said.split(":")[0] in message


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    message = faults(tmp_path, ("layers = 60", "layers = 0"), ("gpus = 16", "gpus = -1"), ("demand_rps = 17", ""))
    assert "model.layers" in message
    assert "fleet.gpus" in message
    assert "classes[0].demand_rps" in message


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_spec(tmp_path)


def test_the_instance_says_that_it_is_simulated() -> None:
    instance = read_spec(INSTANCES / "sim-chat-code-16gpu").instance()
    assert instance.name.startswith("sim-")
    assert instance.source == "simulated (fleetsieve simulator, seed 31)"
    assert instance.facts.weight_bytes == 62e9
