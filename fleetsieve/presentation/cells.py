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
"""Up to this many cells are shown bound by bound."""


def show_account(console: Console, account: Account) -> None:
    """The verdict, one table a class (bound by bound for a few cells), and what a measurement would settle."""
    c = account.certificate
    say(console, verdict_sentence(c), STYLES[c.verdict])
    if len(account.cells) <= FEW:
        for cell in account.cells:
            show_cell(console, cell)
    else:
        for workload in c.envelope.instance.classes:
            of_class = [cell for cell in account.cells if cell.key.class_name == workload.name]
            if of_class:
                show_table(console, rich_cells_table(workload.name, of_class))
    for line in settling_lines(account):
        say(console, line)


def rich_cells_table(name: str, cells: Sequence[CellAccount]) -> Table:
    """One row a cell of the class `name`: how it is known, what it may do, what removes it, whether it can change the decision."""
    table = Table(title=literal(name), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for title in ("TP", "load"):
        table.add_column(title, justify="right" if title == "TP" else "left")
    limited = [m for m in TAIL_METRICS if any(cell.bound(m).limit is not None for cell in cells)]
    for title in ("known", "requests/s", *(f"{limit_name(m)}, s" for m in limited), "can it change the decision?"):
        table.add_column(title, overflow="fold")
    for cell in cells:
        answer = ("yes: " if cell.can_change else "no: ") + cell.why
        figures = [short_text(cell.bound(quantity)) for quantity in (CAPACITY, *limited)]
        style = "bold" if cell.can_change or cell.planned_replicas else ""
        server = cell.key.server
        row = [literal(server.degree), literal(cell.key.load + server.place), Text(cell.known), *map(Text, figures)]
        table.add_row(*row, literal(answer, style))
    return table


def show_cell(console: Console, cell: CellAccount) -> None:
    """One cell, bound by bound."""
    say(console, f"{cell.key} ({cell.known}; {cell.cell.gpus} GPUs a replica)", "bold")
    for row in cell.rows:
        where = f"line {row.line} of measurements.csv" if row.line else "a row of another file"
        ended = f"not counted, because {row.refused}" if row.refused else str(row.status)
        say(console, f"  measurement {row.seed}: {ended} ({where}{'; ' + row.source if row.source else ''})")
    for bound in cell.bounds:
        say(console, f"  {bound_text(bound)}")
    say(console, f"  can it change the decision? {'yes' if cell.can_change else 'no'}: {cell.why}")


def short_text(bound: Bound) -> str:
    """A bound in a table: the interval, "~" before what is not measured, "!" after what breaks its limit."""
    if not bound.known or bound.interval is None:
        return "?"
    low, high = bound.interval.lo, bound.interval.hi
    text = f"{low:.4g}"
    if low != high:
        text = f"<= {high:.4g}" if low == 0.0 else f">= {low:.4g}" if math.isinf(high) else f"{low:.4g} to {high:.4g}"
    return f"{text} !" if bound.removes else text


def bound_text(bound: Bound) -> str:
    """A bound in words: the quantity, its interval, by what, and how it compares with its limit."""
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
    text = f"{name}: {short_text(bound).removesuffix(' !')}{unit}, {by}"
    if bound.limit is None:
        return text
    stands = "misses" if bound.removes else "meets" if bound.keeps else "may meet"
    return f"{text}; {stands} the limit of {bound.limit:g}{unit}"


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
        without = f"without {'them' if len(account.failed) > 1 else 'it'} the verdict would be {account.without_failed.verdict}"
        lines.append(f"failed, but still possible: {cells}; fix the cause and measure again, or exclude: {without}")
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
    """The verdicts of two simulated outcomes."""
    ends = ((f"as good as {whose} bounds allow", best), ("unusable", worst))
    return "; ".join(
        f"{how}: {c.verdict}" + (f" (gap {gap_text(c.gap)})" if c.verdict is Verdict.UNDECIDED else "")
        for how, c in ends
        if c is not None
    )
