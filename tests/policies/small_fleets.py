"""Small fleets of one class, and their tables, from which tests make degenerate ones."""

from __future__ import annotations

from fleetsieve.instance import (
    Cell,
    CellKey,
    CertificateSettings,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    Pool,
    Reading,
    Slo,
    WorkloadClass,
)


def cell(name: str, tp: int, load: str, offered: float | None = None, pool: str = "default") -> Cell:
    return Cell(CellKey(name, tp, load, pool), tp, LoadKind.CONCURRENCY, offered)


def looked(where: Cell, rate: float, ttft_s: float = 0.5, seed: int = 0) -> Measurement:
    return Measurement(where.key, seed, throughput_rps=Reading(rate), ttft_p99_s=Reading(ttft_s))


def fleet(
    classes: list[WorkloadClass], rows: list[Measurement], cells: list[Cell], *pools: Pool
) -> tuple[Instance, list[Measurement]]:
    certificate = CertificateSettings(0.05)
    return Instance(
        "small", Fleet(pools or (Pool("default", 8),)), tuple(classes), tuple(cells), certificate=certificate
    ), rows


CHAT = WorkloadClass("chat", 6.0, Slo(1.0))
LADDER = [cell("chat", tp, f"c{n}", float(n)) for tp in (1, 2, 4) for n in (4, 8)]
LADDER_ROWS = [looked(c, 0.2 * c.offered**0.8 * c.gpus**0.9, 0.15 * c.offered / c.gpus) for c in LADDER]
