"""Every run of the tests draws the same examples: a failure is found again by running it again."""

import os

# Two processes share the cores that there are: threads of BLAS and OpenMP in each would only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start processes of their own are slow, beside those that are marked so where they stand."""
    for item in items:
        if PROCESSES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _no_width_from_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output without a terminal has its own width; a test runner's COLUMNS is not what a person has set."""
    monkeypatch.delenv("COLUMNS", raising=False)
    # The readline of the runner may have set it behind os.environ's back, where children still see it.
    os.unsetenv("COLUMNS")
