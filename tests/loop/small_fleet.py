"""A small fleet whose whole table is known: two classes, two degrees, three loads each."""

from __future__ import annotations

from dataclasses import replace

from fleetsieve.instance import (
    Cell,
    CellKey,
    CertificateSettings,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    MeasureSettings,
    Pool,
    Reading,
    Slo,
    WorkloadClass,
)

CELLS = tuple(
    Cell(CellKey(name, tp, f"c{n}"), tp, LoadKind.CONCURRENCY, float(n))
    for name in ("chat", "code")
    for tp in (1, 2)
    for n in (4, 8, 16)
)
INSTANCE = Instance(
    "small",
    Fleet((Pool("default", 8),)),
    (WorkloadClass("chat", 9.0, Slo(1.0), floor_rps=2.0), WorkloadClass("code", 5.0, Slo(1.5))),
    CELLS,
    certificate=CertificateSettings(0.05),
    measure=MeasureSettings(warmup_s=30.0, window_s=270.0, startup_s=100.0),
)
CELL_BY_KEY = {cell.key: cell for cell in CELLS}


def row(key: CellKey, seed: int = 0) -> Measurement:
    """What the table says of a cell: capacity grows with load and degree, and so does the tail with load."""
    load = CELL_BY_KEY[key].offered or 1.0
    capacity = round(0.3 * load**0.7 * key.tp**0.8 * (1.0 if key.class_name == "chat" else 0.6), 3)
    return Measurement(key, seed, throughput_rps=Reading(capacity), ttft_p99_s=Reading(0.11 * load / key.tp))


def excluding(key: CellKey) -> Instance:
    """The same fleet with the operator's veto on one cell."""
    return replace(INSTANCE, cells=tuple(replace(c, excluded=c.key == key) for c in CELLS))
