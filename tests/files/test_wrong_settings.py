"""instance.toml: every wrong key is told with its line, its value and what would be right."""

# ruff: noqa: E501  (a table is read along its rows)

from __future__ import annotations

import pytest
from sample_folder import TOML, Sample, place

from fleetsieve.bounds.assumptions import DEFAULTS, SETTINGS, assumptions_of
from fleetsieve.instance import Pool

ADDED = [
    ("[certificate]\nepsilon = 5\n", 9, "certificate.epsilon", "epsilon is a fraction; 5 looks like percent, write 0.05"),
    ("[certificate]\nepsilon = 0\n", 9, "certificate.epsilon", "0 is out of range; epsilon must be > 0 and < 1"),
    ("[certificate]\nepsilon = 1\n", 9, "certificate.epsilon", "1 is out of range; epsilon must be > 0 and < 1"),
    ("[certificate]\neta = -0.1\n", 9, "certificate.eta", "-0.1 is negative; eta must be >= 0 and < 1"),
    ("[certificate]\nconfidence = 95\n", 9, "certificate.confidence", "confidence is a fraction; 95 looks like percent, write 0.95"),
    ("[certificate]\nconfidence = nan\n", 9, "certificate.confidence", "nan is not a usable number; confidence must be a number > 0 and < 1"),
    ("[certificate]\nepsilon = \"0.05\"\n", 9, "certificate.epsilon", "'0.05' is not a number; epsilon must be a number > 0 and < 1"),
    ("[certificate]\nepsilon = true\n", 9, "certificate.epsilon", "true is not a number"),
    ("[certificate]\nfamily = \"Grid\"\n", 9, "certificate.family", "'Grid' is unknown; did you mean 'grid'?; family must be one of \"grid\", \"cell\""),
    ("[certificate]\nepsilom = 0.1\n", 9, "certificate.epsilom", "unknown key 'epsilom'; did you mean 'epsilon'? ([certificate] takes epsilon, eta, confidence, family)"),
    ("[certficate]\nepsilon = 0.1\n", 8, "certficate", "unknown section 'certficate'; did you mean 'certificate'? (here takes schema_version, name, source, fleet, facts,"),
    ("[facts]\nweight_bytes = 0\n", 9, "facts.weight_bytes", "0 is out of range; weight_bytes must be > 0"),
    ("[facts]\nspeculative_decoding = 1\n", 9, "facts.speculative_decoding", "1 is not true or false"),
    ("[measure]\nwindow_s = 0\n", 9, "measure.window_s", "0 is out of range; window_s must be > 0"),
    ("[measure]\nmin_requests = 1.5\n", 9, "measure.min_requests", "1.5 is not a whole number"),
    ("[measure]\nwindow_s = 270\n# a note\nmax_window_s = 100\n", 11, "measure.max_window_s", "max_window_s 100 is less than window_s 270"),
    ("[noise]\nttft_p99 = -0.1\n", 9, "noise.ttft_p99", "-0.1 is negative; ttft_p99 must be >= 0"),
    ("[noise]\nttft = 0.1\n", 9, "noise.ttft", "unknown key 'ttft'; did you mean 'ttft_p99'? ([noise] takes ttft_p99, e2e_p99, tpot_p99, throughput)"),
    ("[assumptions]\ntail_monoton = true\n", 9, "assumptions.tail_monoton", "unknown key 'tail_monoton'; did you mean 'tail_monotone'?"),
    ("[assumptions]\nroofline = \"on\"\n", 9, "assumptions.roofline", "'on' is neither true, false nor an inline table; write roofline = true, or roofline = { enabled = ... }"),
    ("[assumptions]\nceiling = { enabled = true, factor = -1 }\n", 9, "assumptions.ceiling.factor", "-1 is negative; factor must be >= 0"),
    ("[assumptions]\nceiling = { slack = 1 }\n", 9, "assumptions.ceiling.slack", "unknown key 'slack' ([assumptions.ceiling] takes enabled, factor)"),
    ("[assumptions]\n[assumptions.ceiling]\nenabled = 1\n", 10, "assumptions.ceiling.enabled", "1 is not true or false; enabled must be true or false"),
    ("[[fleet.pools]]\nname = \"a\"\ngpus = 1\n", 6, "fleet.gpus", "[fleet] gpus and [[fleet.pools]] exclude each other; write gpus in each pool"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), ADDED)
def test_a_wrong_key_is_told(sample: Sample, text: str, line: int, column: str, message: str) -> None:
    sample.write("instance.toml", TOML + text)
    file, at, key, said = place(sample.faults()[0])
    assert (file, at, key) == ("instance.toml", line, column)
    assert message in said


REPLACED = [
    ("schema_version = 1", "schema_version = 2", 1, "schema_version", "schema_version 2: a newer version of FleetSieve made this folder; this version ("),
    ("schema_version = 1", "schema_version = 0", 1, "schema_version", "schema_version 0 is unknown; write 1"),
    ("schema_version = 1\n", "", 0, "schema_version", "the key 'schema_version' is missing; write schema_version = (a whole number >= 0)"),
    ('name = "two-classes"', 'name = ""', 2, "name", "name is empty; write the name of the instance"),
    ('name = "two-classes"', "name = 7", 2, "name", "7 is not a text; name must be a text"),
    ("gpus = 16\n", "", 5, "fleet.gpus", "the key 'gpus' is missing; write gpus = (a whole number >= 1 and <= 100000, in GPUs)"),
    ("gpus = 16\n", "gpus = 16.5\n", 6, "fleet.gpus", "16.5 is not a whole number; gpus must be a whole number >= 1 and <= 100000, in GPUs"),
    ("gpus = 16\n", "gpus = 16\nmax_utilisation = 80\n", 7, "fleet.max_utilisation", "max_utilisation is a fraction; 80 looks like percent, write 0.8"),
    ("[fleet]\ngpus = 16\ngpus_per_node = 8\n", "fleet = 16\n", 5, "fleet", "fleet is a section, not a value; write [fleet] on a line of its own"),
    ("[fleet]\ngpus = 16\ngpus_per_node = 8\n", "", 0, "fleet", "the section [fleet] is missing; write [fleet] with gpus = ..."),
    ("gpus = 16\n", "gpus = \n", 6, "", "this is not TOML: Invalid value (character 8 of the line)"),
    ("gpus = 16\n", "gpus = 16\ngpus = 17\n", 7, "", "this is not TOML: Cannot overwrite a value"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "column", "message"), REPLACED)
def test_a_wrong_line_is_told(sample: Sample, old: str, new: str, line: int, column: str, message: str) -> None:
    sample.replace("instance.toml", old, new)
    file, at, key, said = place(sample.faults()[0])
    assert (file, at, key) == ("instance.toml", line, column)
    assert message in said


def test_the_known_keys_are_listed_once(sample: Sample) -> None:
    sample.write("instance.toml", TOML + "[noise]\nfirst = 1\nsecond = 2\nttft_p9 = 3\n")
    told = [fault.message for fault in sample.faults()]
    assert told == [
        "unknown key 'first' ([noise] takes ttft_p99, e2e_p99, tpot_p99, throughput)",
        "unknown key 'second'",
        "unknown key 'ttft_p9'; did you mean 'ttft_p99'?",
    ]


def test_a_newer_version_is_told_before_what_it_added(sample: Sample) -> None:
    sample.replace("instance.toml", "schema_version = 1", "schema_version = 2\nowner = 'me'")
    sample.replace("classes.csv", "priority", "importance")
    sample.replace("measurements.csv", "status", "state")
    assert sample.fault()[:3] == ("instance.toml", 1, "schema_version")
    assert sample.fault()[3].endswith("reads schema_version 1: install the newer version")


def test_pools(sample: Sample) -> None:
    text = 'schema_version = 1\nname = "pools"\n\n[[fleet.pools]]\nname = "h100"\ngpus = 8\n\n[[fleet.pools]]\nname = "h100"\ngpus = -1\n\n[[fleet.pools]]\ngpu = 4\n'
    sample.write("instance.toml", text)
    told = [
        (line, column, message)
        for file, line, column, message in map(place, sample.faults())
        if file == "instance.toml"
    ]
    assert told == [
        (9, "fleet.pools.name", "a second pool is called 'h100'; names must differ"),
        (10, "fleet.pools.gpus", "-1 is negative; gpus must be >= 1 and <= 100000"),
        (12, "fleet.pools.name", "the key 'name' is missing; write name = (a text)"),
        (12, "fleet.pools.gpus", "the key 'gpus' is missing; write gpus = (a whole number >= 1 and <= 100000, in GPUs)"),
        (13, "fleet.pools.gpu", "unknown key 'gpu'; did you mean 'gpus'? ([fleet.pools] takes name, gpus, gpus_per_node, price_per_gpu_h, hbm_bytes_per_s, flops_per_s)"),
    ]  # fmt: skip


def test_every_setting_arrives(sample: Sample) -> None:
    sample.write(
        "instance.toml",
        """
schema_version = 1
name = "everything"
source = '''
[fleet]
gpus = "not here"
'''
fleet.max_utilisation = 0.9
[[fleet.pools]]
name = "default"
gpus = 16
gpus_per_node = 8
price_per_gpu_h = 2
hbm_bytes_per_s = 3.35e12
flops_per_s = 1e15
[facts]
weight_bytes = 7e10
speculative_decoding = true
[certificate]
epsilon = 0.1
eta = 0
confidence = 0.9
family = "cell"
[measure]
warmup_s = 10
window_s = 60
max_window_s = 600
min_requests = 300
startup_s = 45
[assumptions]
roofline = false
tail_monotone = { slack_ttft = 0.5 }
ceiling = { enabled = true, factor = 2 }
[noise]
ttft_p99 = 0.12
throughput = 0
""",
    )
    instance = sample.read().instance
    assert instance.source == '[fleet]\ngpus = "not here"\n'
    assert instance.fleet.pools == (Pool("default", 16, 8, 2.0, 3.35e12, 1e15),)
    assert instance.fleet.max_utilisation == 0.9
    assert (instance.facts.weight_bytes, instance.facts.speculative_decoding) == (7e10, True)
    assert instance.certificate.fairness_slack == 0.0
    assert (instance.measure.min_requests, instance.measure.startup_s) == (300, 45.0)
    assert instance.assumptions == {
        "tail_monotone": {"slack_ttft": 0.5},
        "roofline": {"enabled": False},
        "ceiling": {"enabled": True, "factor": 2.0},
    }
    assert instance.noise == {"ttft_p99": 0.12, "throughput": 0.0}


def test_every_assumption_can_be_set_with_all_its_numbers(sample: Sample) -> None:
    keys = {name: ", ".join(f"{number} = 2" for number in numbers) for name, numbers in SETTINGS.items()}
    lines = [f"{name} = {{ {text or 'enabled = true'} }}" for name, text in keys.items()]
    sample.write("instance.toml", TOML + "[assumptions]\n" + "\n".join(lines) + "\n")
    assert [assumption.name for assumption in assumptions_of(sample.read().instance)] == list(DEFAULTS)
