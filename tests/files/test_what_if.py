"""Variations of an instance speak of what is varied, not of the options of a command line."""

from __future__ import annotations

import math

import pytest
from sample_folder import Sample

from fleetsieve.answers import what_if
from fleetsieve.errors import UsageError


def test_wrong_variations_are_told_in_the_words_of_an_instance(sample: Sample) -> None:
    instance = sample.read().instance
    wrong = [
        (lambda: what_if.with_demand_scale(instance, -1.0), "the demand scale is -1.0, not a finite number >= 0"),
        (lambda: what_if.with_demand_scale(instance, 1e9), "the demand of chat is 1.2e+10 requests/s after scaling by 1e+09"),
        (lambda: what_if.with_gpus(instance, 0), "the number of GPUs is 0, not at least 1"),
        (lambda: what_if.with_gpus(instance, 10**23), f"the number of GPUs is {10**23}, above 100000"),
        (lambda: what_if.with_only_tp(instance, [3]), "no cell has the TP degree 3\n  hint: there are 2, 4"),
        (lambda: what_if.with_demands(instance, {"chat": math.nan}), "the demand of chat is nan, not a finite number"),
        (lambda: what_if.with_floors(instance, {"chat": -1.0}), "the floor of chat is -1.0, not a finite number >= 0"),
        (lambda: what_if.with_floors(instance, {"chta": 1.0}), "a floor is given for 'chta', which is not a class; did you mean"),
    ]  # fmt: skip
    for vary, message in wrong:
        with pytest.raises(UsageError) as caught:
            vary()
        assert str(caught.value).startswith(message)
        assert "--" not in str(caught.value)
