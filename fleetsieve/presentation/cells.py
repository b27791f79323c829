"""The account of an instance's cells for a person to read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetsieve.answers.diagnosis import Account, Bound, CellAccount, Next
from fleetsieve.answers.diagnosis.cells import limit_name
from fleetsieve.bounds.assumptions import CAPACITY, MEMORY
from fleetsieve.certificate import Certificate, Verdict, verdict_sentence
from fleetsieve.certificate.sentence import gap_text, listed
from fleetsieve.instance import TAIL_METRICS
from fleetsieve.presentation.plans import STYLES
from fleetsieve.presentation.terminal import literal, say, show_table

FEW = 3
"""Up to this many cells are told of bound by bound."""


def show_account(console: Console, account: Account) -> None:
    """The verdict, one table a class (bound by bound for a few cells), and what a measurement would settle."""
    c = account.certificate
    say(console, verdict_sentence(c), STYLES[c.verdict])
    if len(account.cells) <= FEW:
        for told in account.cells:
            show_cell(console, told)
    else:
        for workload in c.envelope.instance.classes:
            own = [told for told in account.cells if told.key.class_name == workload.name]
            if own:
                show_table(console, cells_table(workload.name, own))
    for line in settling_lines(account):
        say(console, line)


def cells_table(name: str, cells: Sequence[CellAccount]) -> Table:
    """One row a cell of the class `name`: how it is known, what it may do, what removes it, whether it can change the decision."""
    table = Table(title=literal(name), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for title in ("TP", "load"):
        table.add_column(title, justify="right" if title == "TP" else "left")
    limited = [m for m in TAIL_METRICS if any(told.bound(m).limit is not None for told in cells)]
    for title in ("known", "requests/s", *(f"{limit_name(m)}, s" for m in limited), "can it change the decision?"):
        table.add_column(title, overflow="fold")
    for told in cells:
        answer = ("yes: " if told.can_change else "no: ") + told.why
        figures = [short_text(told.bound(quantity)) for quantity in (CAPACITY, *limited)]
        style = "bold" if told.can_change or told.planned_replicas else ""
        server = told.key.server
        row = [literal(server.degree), literal(told.key.load + server.place), Text(told.known), *map(Text, figures)]
        table.add_row(*row, literal(answer, style))
    return table


def show_cell(console: Console, told: CellAccount) -> None:
    """One cell, bound by bound."""
    say(console, f"{told.key} ({told.known}; {told.cell.gpus} GPUs a replica)", "bold")
    for row in told.rows:
        where = f"line {row.line} of measurements.csv" if row.line else "a row of another file"
        ended = f"not counted, because {row.refused}" if row.refused else str(row.status)
        say(console, f"  measurement {row.seed}: {ended} ({where}{'; ' + row.source if row.source else ''})")
    for bound in told.bounds:
        say(console, f"  {bound_text(bound)}")
    say(console, f"  can it change the decision? {'yes' if told.can_change else 'no'}: {told.why}")


def short_text(bound: Bound) -> str:
    """A bound in a table: the interval, "~" before what is not measured, "!" after what breaks its limit."""
    if not bound.known or bound.interval is None:
        return "?"
    low, high = bound.interval.lo, bound.interval.hi
    told = f"{low:.4g}"
    if low != high:
        told = f"<= {high:.4g}" if low == 0.0 else f">= {low:.4g}" if math.isinf(high) else f"{low:.4g} to {high:.4g}"
    return f"{told} !" if bound.removes else told


def bound_text(bound: Bound) -> str:
    """A bound in words: the quantity, its interval, by what, and how it stands to its limit."""
    name = limit_name(bound.quantity)
    if bound.quantity == MEMORY:
        return f"{name}: too small, by {bound.assumption} from {listed([str(key) for key in bound.cells], 3)}"
    if not bound.known:
        limit = "" if bound.limit is None else f" (limit {bound.limit:g})"
        return f"{name}: nothing bounds it{limit}"
    unit = {CAPACITY: " requests/s"}.get(bound.quantity, " s" if bound.quantity in TAIL_METRICS else "")
    by = "measured" if bound.measured else f"by {bound.assumption}"
    if bound.cells:
        by += f" from {listed([str(key) for key in bound.cells], 3)}"
    told = f"{name}: {short_text(bound).removesuffix(' !')}{unit}, {by}"
    if bound.limit is None:
        return told
    stands = "misses" if bound.removes else "meets" if bound.keeps else "may meet"
    return f"{told}; {stands} the limit of {bound.limit:g}{unit}"


def settling_lines(account: Account) -> list[str]:
    """What would settle the verdict, and at what cost."""
    lines = [f"no next measurement: {account.ended}"] if account.ended else []
    if account.next is not None:
        lines.append(next_text(account.next))
    if account.settling:
        cells = listed([str(key) for key in account.settling], 5)
        what = "could settle it" if account.could_settle else "the first to measure"
        cost = f"measuring each once costs {account.settling_gpu_s:,.0f} GPU-seconds in total"
        lines.append(f"{what}: {cells}; {cost}; if all are {_ends(account.at_best, account.at_worst)}")
    if account.without_failed is not None:
        cells = listed([str(key) for key in account.failed], 5)
        told = f"without {'them' if len(account.failed) > 1 else 'it'} the verdict would be {account.without_failed.verdict}"
        lines.append(f"failed, but still possible: {cells}; fix the cause and measure again, or exclude: {told}")
    if len(account.waiting) > len(account.settling) and account.certificate.blocking:
        lines.append(
            f"up to {len(account.waiting)} cells may still be measured, for {account.waiting_gpu_s:,.0f} GPU-seconds in total"
        )
    return lines


def next_text(asked: Next) -> str:
    """The measurement that is asked for next, and what the verdict would be after it."""
    e = asked.experiment
    ends = _ends(asked.at_best, asked.at_worst, "its")
    return f"next ({asked.policy}): {e.key}, {e.expected_cost_gpu_s:,.0f} GPU-seconds, {e.reason}; if it is {ends}"


def _ends(best: Certificate | None, worst: Certificate | None, whose: str = "their") -> str:
    """The verdicts of two imagined outcomes."""
    told = ((f"as good as {whose} bounds allow", best), ("unusable", worst))
    return "; ".join(
        f"{how}: {c.verdict}" + (f" (gap {gap_text(c.gap)})" if c.verdict is Verdict.UNDECIDED else "")
        for how, c in told
        if c is not None
    )
