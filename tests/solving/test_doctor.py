"""What the doctor finds on a good machine, and on bad ones."""

import sys
from importlib import metadata

import highspy
import pytest

from fleetsieve import doctor
from fleetsieve.engines import solving
from fleetsieve.errors import SolverMissing


def check(name):
    return next(c for c in doctor.examine() if c.name == name)


def test_a_good_machine_passes_in_silence(capfd):
    checks = doctor.examine()
    assert [c.name for c in checks] == ["python", "pyomo", "highspy", "numpy", "pandas", "self-test", "threads"]
    assert all(c.ok and c.detail and not c.hint for c in checks)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("version", "ok"), [("1.14.0", False), ("1.15.0", True), ("2.0", True), ("1.15rc1", True)])
def test_versions_of_the_solver(monkeypatch, version, ok):
    known = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: version if name == "highspy" else known(name))
    found = check("highspy")
    assert found.ok is (ok and "rc" not in version)
    assert found.hint == ("" if found.ok else "pip install 'highspy>=1.15'")


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    def gone(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", gone)
    found = check("pandas")
    assert (found.ok, found.detail, found.hint) == (False, "not installed", "pip install 'pandas>=2.2'")


def test_an_old_python(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    assert not check("python").ok


def test_a_solver_that_is_not_fit(monkeypatch):
    def broken():
        raise SolverMissing("HiGHS 1.16.0 fails its self-test: status unknown", "reinstall highspy (>= 1.15)")

    monkeypatch.setattr(solving, "ready", broken)
    monkeypatch.setattr(solving, "threads_in_use", broken)
    assert (check("self-test").ok, check("threads").ok) == (False, False)
    assert "self-test" in check("self-test").detail
    assert check("self-test").hint.startswith("reinstall")


def test_other_code_that_solves_on_more_threads():
    solving.ready()
    highspy.Highs.resetGlobalScheduler(True)
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    other.setOptionValue("threads", 2)
    other.addVar(0, 1)
    other.run()
    try:
        found = check("threads")
        assert (found.ok, found.detail) == (False, "HiGHS solves on 2 threads")
        assert found.hint
    finally:
        solving.highs.ready.cache_clear()
    assert check("threads").ok
