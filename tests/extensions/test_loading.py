"""An extension is found by its name, checked against its protocol, and refused in words that say what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from extensions.conftest import Module

from fleetsieve.errors import UsageError
from fleetsieve.extensions import (
    ASSUMPTION,
    LOAD_GENERATOR,
    POLICY,
    Kind,
    is_outside,
    load,
    look_in_current_folder,
    origin_of,
    settings_of,
)
from fleetsieve.live.load.generators import GENERATORS
from fleetsieve.loop.policies import POLICIES, policy_named

FIRST = """
from fleetsieve.loop.policies import Choice


class First:
    name = "first"
    seeded = False

    def choose(self, situation):
        return Choice(situation.candidates[0], "it is the first", {})
"""


def test_a_module_of_the_current_folder(module: Module) -> None:
    module("mine", FIRST)
    with pytest.raises(UsageError, match=r"there is no module 'mine' here\n.*PYTHONPATH"):
        policy_named("mine:First")
    look_in_current_folder("decision-gap")
    with pytest.raises(UsageError, match="no module 'mine'"):
        policy_named("mine:First")
    look_in_current_folder("mine:First")
    look_in_current_folder("mine:First")
    assert sys.path.count(sys.path[-1]) == 1
    policy = policy_named("mine:First")
    assert (policy.name, policy.seeded, origin_of(policy)) == ("first", False, "mine:First")


def test_what_is_installed_goes_before_the_current_folder(module: Module) -> None:
    module("json", FIRST)
    look_in_current_folder("json:First")
    with pytest.raises(UsageError, match=r"module 'json' \(.*\) has no 'First'"):
        policy_named("json:First")


@pytest.mark.parametrize(
    ("source", "name", "told"),
    [
        (FIRST, "mine:Second", "module 'mine' .* has no 'Second'"),
        (FIRST, "mine:", "'mine:' is no name of a policy"),
        (FIRST, "../mine:First", "is no name of a policy"),
        (FIRST, "mine.inner:First", "cannot be imported|no module 'mine.inner'"),
        ("import nowhere_at_all", "mine:First", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("1 +", "mine:First", "cannot be imported: SyntaxError"),
        ("raise SystemError('by hand')", "mine:First", "cannot be imported: SystemError: by hand"),
        ("First = 3", "mine:First", "has no 'name'"),
        (FIRST.replace("choose", "chose"), "mine:First", "has no 'choose'"),
        (FIRST.replace("    seeded = False\n", ""), "mine:First", "has no 'seeded'"),
        (FIRST.replace("seeded = False", "seeded = 0"), "mine:First", "its 'seeded' is 0, not True or False"),
        (FIRST.replace('name = "first"', "name = 7"), "mine:First", "its 'name' is 7, not a text"),
        (f"{FIRST}\n    def __init__(self, k): ...", "mine:First", "cannot be made: TypeError"),
    ],
)
def test_what_is_no_policy_is_told(module: Module, source: str, name: str, told: str) -> None:
    module("mine", source)
    look_in_current_folder(name)
    with pytest.raises(UsageError, match=told):
        policy_named(name)


def test_a_class_that_is_something_else_is_never_called(module: Module) -> None:
    module("mine", "class First:\n    def __init__(self):\n        raise SystemExit('called')\n")
    look_in_current_folder("mine:First")
    with pytest.raises(UsageError, match="has no 'choose'"):
        policy_named("mine:First")


def test_an_object_is_taken_as_it_is(module: Module) -> None:
    module("mine", f"{FIRST}\nFIRST = First()\n")
    look_in_current_folder("mine:FIRST")
    assert load(POLICY, "mine:FIRST") is load(POLICY, "mine:FIRST")
    with pytest.raises(UsageError, match="is no class, so it takes no settings: k"):
        load(POLICY, "mine:FIRST", k=1.0)


def test_settings_are_the_parameters_with_a_number_as_default(module: Module) -> None:
    module("mine", f"{FIRST}\n    def __init__(self, k=2.0, n=3, label='x', on=True):\n        self.k = k\n")
    look_in_current_folder("mine:First")
    assert settings_of(POLICY, "mine:First") == ("k", "n")
    assert load(POLICY, "mine:First", k=5.0).k == 5.0
    with pytest.raises(UsageError, match=r"unknown setting 'label' .*\n.*its settings: k, n"):
        load(POLICY, "mine:First", label=1.0)


@pytest.mark.parametrize("kind", [POLICY, ASSUMPTION, LOAD_GENERATOR], ids=lambda kind: kind.what)
def test_an_entry_point(module: Module, package: Callable[[str, str, str], None], kind: Kind) -> None:
    module("mine", FIRST)
    assert not is_outside(kind, "first")
    package("mine", kind.group, "first = mine:First")
    assert is_outside(kind, "first")
    if kind is POLICY:
        assert policy_named("first").name == "first"
        with pytest.raises(UsageError, match=r"known: .*constrained-bo, first; or module:Class"):
            policy_named("frist")
    else:
        with pytest.raises(UsageError, match=rf"{kind.what} 'first' has no '"):
            load(kind, "first")


def test_two_packages_of_one_name(package: Callable[[str, str, str], None]) -> None:
    package("one", POLICY.group, "first = one:First")
    package("two", POLICY.group, "first = two:First")
    with pytest.raises(UsageError, match="comes from several packages: one, two"):
        policy_named("first")


def test_no_package_takes_a_bundled_name(package: Callable[[str, str, str], None]) -> None:
    package("mine", POLICY.group, "grid = mine:Grid")
    assert policy_named("grid") is POLICIES["grid"]


def test_the_bundled_ones_meet_the_protocols() -> None:
    for kind, ones in ((POLICY, POLICIES), (LOAD_GENERATOR, GENERATORS)):
        for one in ones.values():
            assert all(isinstance(getattr(one, name), wanted) for name, wanted in kind.attributes.items())
            assert origin_of(one) == ""
