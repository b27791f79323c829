"""Measurements that are not what they say, inside random tables: no certificate is wrong by the truth."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.spoiled_tables import NO_SERVER, SPOILED, spoiled_table
from fleetsieve.certificate import Verdict
from fleetsieve.rule_sets import CURRENT, FIRST


@pytest.mark.slow
def test_no_certificate_is_wrong_whatever_spoiled_its_rows() -> None:
    """200 tables (benchmarks/spoiled_tables.py has 2,000); the rules of version 0.1.0 go wrong on the same ones."""
    verdicts: Counter[Verdict] = Counter()
    kinds: Counter[str] = Counter()
    before = 0
    for seed in range(200):
        table = spoiled_table(seed)
        found = table.certificate(CURRENT)
        assert not table.wrong(found), (seed, table.wrong(found), table.kinds)
        verdicts[found.verdict] += 1
        kinds.update(table.kinds.values())
        before += bool(table.wrong(table.certificate(FIRST)))
    assert all(kinds[kind] >= 30 for kind in (*SPOILED, NO_SERVER)), kinds
    assert min(verdicts[verdict] for verdict in Verdict) >= 20, verdicts
    assert before >= 8
