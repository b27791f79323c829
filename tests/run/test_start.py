"""The first line of a log: written once, read back equal, and damage in it is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsieve.errors import UsageError
from fleetsieve.runs.start import RunStart

STORED = Path(__file__).resolve().parents[1] / "stored" / "v0_1_0"
REPLAYS = st.builds(RunStart, st.text(min_size=1), st.integers(0), st.none() | st.floats(0.1, 1e6))
LIVE = st.builds(
    RunStart,
    st.just("decision-gap"),
    st.integers(0),
    probe=st.just("vllm"),
    config=st.just(Path("/srv/serve.toml")),
    endpoints=st.dictionaries(st.integers(1, 64), st.text(min_size=1)),
    max_servers=st.integers(1, 8),
)


@given(REPLAYS | LIVE)
def test_what_is_written_is_read_back(start: RunStart) -> None:
    assert RunStart.read(json.loads(json.dumps(start.line("an instance")))) == start


def test_runs_of_version_0_1_0_have_the_first_rule_set() -> None:
    logs = sorted(STORED.glob("*/steps.jsonl"))
    assert logs
    for log in logs:
        start = RunStart.read(json.loads(log.read_text().splitlines()[0]))
        assert (start.version, start.rule_set) == ("0.1.0", 1)
        assert start.files


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"policy": 3}, "policy 3"),
        ({"seed": "x"}, "seed 'x'"),
        ({"stop_when_unprofitable_h": "soon"}, "stop_when_unprofitable_h 'soon'"),
        ({"rule_set": "2"}, "rule_set '2'"),
        ({"probe": "vllm", "config": "s.toml"}, "'endpoints'"),
    ],
)
def test_damage_is_named(changed: dict[str, object], named: str) -> None:
    line = RunStart("grid", 0).line("x") | changed
    with pytest.raises(UsageError, match="the first line of the log is damaged") as caught:
        RunStart.read(line)
    assert named in caught.value.message
