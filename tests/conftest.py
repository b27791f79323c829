"""Every run of the tests draws the same examples: a failure is found again by running it again."""

import os
import sys

# The tests start hundreds of Python processes: without compiled modules on disk each takes a second longer.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""
# Two processes share the cores that there are: threads of BLAS and OpenMP in each would only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from draws import ALL
from hypothesis import HealthCheck, settings

sys.dont_write_bytecode = False

settings.register_profile(
    "fleetsieve",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("fleetsieve")

PROCESSES = {"aiperf", "browser", "live", "process", "vllm"}
"""Fixtures of tests that start programs and wait for them: seconds each, most of them idle."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that start processes as slow; of a slow test with several cases run the first one, unless
    it is marked `every_case`.

    All cases run where tests are named (`file::test`, `-k`), and where all draws were asked for.
    """
    for item in items:
        if PROCESSES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    if ALL or config.option.keyword or any("::" in argument for argument in config.args):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("every_case"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = {one.nodeid for several in cases.values() for one in several[1:]}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


@pytest.fixture(autouse=True)
def _no_width_from_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output without a terminal has its own width; a test runner's COLUMNS is not what a person has set."""
    monkeypatch.delenv("COLUMNS", raising=False)
    # The readline of the runner may have set it behind os.environ's back, where children still see it.
    os.unsetenv("COLUMNS")
