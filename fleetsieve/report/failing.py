"""What failed, by its cause: which cells, what it cost, and what follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fleetsieve.answers.diagnosis import Account
from fleetsieve.bounds.statistics import KnownCell
from fleetsieve.certificate import Certificate, Verdict
from fleetsieve.certificate.sentence import listed
from fleetsieve.instance import CellKey, Instance, Measurement, Status
from fleetsieve.loop.cost import row_cost_gpu_s, server_after

Row = dict[str, Any]

ENDINGS = {
    Status.FAILED_START: "the server did not start",
    Status.OOM: "out of memory",
    Status.TIMEOUT: "timed out",
    Status.CRASHED: "the server crashed",
    Status.REJECTED: "requests were rejected",
}
"""How a measurement ended, for somebody who does not know the names in the files."""


def lost_gpu_s(instance: Instance, rows: Sequence[Measurement]) -> dict[int, float]:
    """GPU-seconds of each failed row, by its place in `rows` (those of a run, in the order in which they were measured)."""
    lost: dict[int, float] = {}
    running = None
    for place, row in enumerate(rows):
        if row.status is not Status.OK:
            lost[place] = row_cost_gpu_s(instance, row, running)
        running = server_after(instance, row)
    return lost


def last_failures(certificate: Certificate) -> list[KnownCell]:
    """The cells whose last measurement failed, in the fixed order of names."""
    known = [
        k
        for class_envelope in certificate.envelope.classes.values()
        for k in class_envelope.view.known.values()
        if k.failed
    ]
    return sorted(known, key=lambda k: k.key)


def failures(certificate: Certificate, rows: Sequence[Measurement]) -> list[Row]:
    """One row a cause: how it ended, the cells, the measurements, what they cost, and what follows; the dearest cause first."""
    lost = lost_gpu_s(certificate.envelope.instance, rows)
    groups: dict[tuple[Status, str, str], list[int]] = {}
    for place in lost:
        row = rows[place]
        groups.setdefault((row.status, row.source or "not recorded", _follows(certificate, row.key)), []).append(place)
    causes = []
    for (status, cause, follows), places in groups.items():
        cells = list(dict.fromkeys(str(rows[place].key) for place in places))
        causes.append(
            {
                "ended": ENDINGS[status],
                "cause": cause,
                "cells": ", ".join(cells),
                "count": len(cells),
                "measurements": len(places),
                "lost_gpu_s": sum(lost[place] for place in places),
                "follows": follows,
            }
        )
    return sorted(causes, key=lambda row: -row["lost_gpu_s"])


def _follows(certificate: Certificate, key: CellKey) -> str:
    class_envelope = certificate.envelope.classes[key.class_name]
    known = class_envelope.view.known[key]
    if key in class_envelope.closed:
        return (
            f"closed, {class_envelope.closed[key]}: no plan uses it and no run asks for it again; a measurement by hand that"
            " succeeds, once the cause is fixed, opens it again"
        )
    if not known.failed:
        return "a later measurement succeeded, and counts"
    if known.given_up:
        return (
            "no plan uses it and no run asks for it again; it still counts as possible, as the failure may be"
            " transient: fix the cause and"
            " measure it again, or exclude it in cells.csv"
        )
    return "no plan uses it; it is tried once more if it can still change the decision"


def failed_line(account: Account, rows: Sequence[Measurement]) -> str:
    """For the top of the page: how many cells failed and how, and what that cost; "" where none did."""
    c = account.certificate
    failed = last_failures(c)
    if not failed:
        return ""
    cells = [cell for cell in c.envelope.instance.cells if not cell.excluded]
    how = Counter(ENDINGS[known.rows[-1].status] for known in failed)
    lost = sum(lost_gpu_s(c.envelope.instance, rows).values())
    causes = ", ".join(f"{ending}: {count}" for ending, count in how.most_common())
    spent = f"; failed measurements took {lost:,.0f} GPU-seconds" if lost else ""
    return f"{len(failed)} of {len(cells)} cells failed ({causes}){spent}."


def undecided_by_failures(account: Account) -> str:
    """What failures keep open and what to do; "" where no failed cell is still possible.

    That the verdict waits for them alone is stated only where it would be reached without them.
    """
    if account.without_failed is None:
        return ""
    c, many = account.certificate, len(account.failed) > 1
    ended = {key: c.envelope.classes[key.class_name].view.known[key] for key in account.failed}
    endings = [
        f"{key} ({ENDINGS[known.rows[-1].status]}{f', {len(known.rows)} times' if len(known.rows) > 1 else ''})"
        for key, known in ended.items()
    ]
    them, it = ("these cells", "them") if many else ("this cell", "it")
    verdict = account.without_failed.verdict
    decided = verdict is not Verdict.UNDECIDED
    why = "Undecided because of" if decided else "Still possible:"
    without = f"then the verdict would be {verdict}" if decided else "then it would be undecided all the same"
    return (
        f"{why} {listed(endings, 6)}: the last measurement of {them} failed, but the next one may succeed. "
        f"Fix the cause and measure {it} again, or exclude {it} in cells.csv: {without}."
    )
