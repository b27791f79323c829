"""What an operator states and what a measurement states: plain, frozen values with units in their names.

Seconds, requests/s, GPU-seconds and fractions everywhere.
Nothing here reads a file or knows a bound; `files` builds these objects and reports every error of the text, so the
checks here guard programs that build instances themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleetsieve.brief import brief, counted, summary
from fleetsieve.errors import UsageError
from fleetsieve.interval import Interval
from fleetsieve.keys import DEFAULT_POOL as DEFAULT_POOL
from fleetsieve.keys import DEFAULT_VARIANT as DEFAULT_VARIANT
from fleetsieve.keys import ArmKey as ArmKey
from fleetsieve.keys import CellKey as CellKey
from fleetsieve.keys import ServerKey as ServerKey
from fleetsieve.rule_sets import CURRENT

if TYPE_CHECKING:
    from fleetsieve.records import RequestRecords

TAIL_METRICS = ("ttft", "e2e", "tpot")
THROUGHPUT = "throughput"
NOISE_KEYS: Mapping[str, str] = MappingProxyType({**{m: f"{m}_p99" for m in TAIL_METRICS}, THROUGHPUT: THROUGHPUT})
"""Each quantity that varies from run to run, and its key in `[noise]`."""


MAX_DEMAND_RPS = 1e9
"""Demands above this are no question about a fleet, and numbers beside such a demand are lost in a solver's tolerances."""


class LoadKind(StrEnum):
    """How load is offered: open loop at a rate, or closed loop at a concurrency, to ONE replica."""

    RATE = "rate"
    CONCURRENCY = "concurrency"


class Status(StrEnum):
    """How a measurement ended. Every status but `ok` closes the cell for the conservative plan."""

    OK = "ok"
    FAILED_START = "failed_start"
    OOM = "oom"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits of a class: p99 tails in seconds and the least success fraction; None is no limit."""

    max_ttft_p99_s: float | None = None
    max_e2e_p99_s: float | None = None
    max_tpot_p99_s: float | None = None
    min_success: float | None = None

    def limit_s(self, metric: str) -> float | None:
        """The p99 limit in seconds of `metric`, one of "ttft", "e2e", "tpot"; None is no limit."""
        return {"ttft": self.max_ttft_p99_s, "e2e": self.max_e2e_p99_s, "tpot": self.max_tpot_p99_s}[metric]


@dataclass(frozen=True, slots=True)
class WorkloadClass:
    """A workload class: its demand, SLO, priority p_i > 0 and, when it is critical, its floor in requests/s."""

    name: str
    demand_rps: float
    slo: Slo = field(default_factory=Slo)
    priority: float = 1.0
    floor_rps: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None

    @property
    def floor_fulfilment(self) -> float | None:
        """δ_i = min(1, floor_rps / λ_i); None when the class is not critical or demands nothing."""
        if self.floor_rps is None or self.demand_rps <= 0.0:
            return None
        return min(1.0, self.floor_rps / self.demand_rps)


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs of one kind. `gpus_per_node` None means that a replica may take any free GPUs of the pool."""

    name: str
    gpus: int
    gpus_per_node: int | None = None
    price_per_gpu_h: float | None = None
    hbm_bytes_per_s: float | None = None
    flops_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The GPU pools, and the share of a capacity that a plan may use (0 < max_utilisation <= 1)."""

    pools: tuple[Pool, ...]
    max_utilisation: float = 1.0

    @property
    def gpus(self) -> int:
        """GPUs of all pools together."""
        return sum(pool.gpus for pool in self.pools)

    def pool(self, name: str) -> Pool:
        """The pool called `name`; KeyError when there is none."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Facts:
    """Datasheet and model facts for the roofline; None where unknown. A pool's own figures go first."""

    weight_bytes: float | None = None
    hbm_bytes_per_s: float | None = None
    flops_per_s: float | None = None
    prefill_flop_per_token: float | None = None
    speculative_decoding: bool = False
    variants: Mapping[str, Facts] = field(default_factory=dict)

    def of(self, variant: str) -> Facts:
        """The facts of an engine variant: its own, and of the GPUs those that all have in common.

        Weight bytes and FLOP per token of the default variant show nothing about another: they would bound its cells unsoundly.
        """
        if variant == DEFAULT_VARIANT:
            return self
        stated = self.variants.get(variant)
        if stated is None:
            return Facts(hbm_bytes_per_s=self.hbm_bytes_per_s)
        return replace(stated, hbm_bytes_per_s=stated.hbm_bytes_per_s or self.hbm_bytes_per_s)


@dataclass(frozen=True, slots=True)
class CertificateSettings:
    """ε and η (None: ε/2) of the certificate, the confidence of its bounds and how errors are shared out.

    `rule_set` is no setting of a file: a run that is resumed, and a certificate that is checked, keep the set that they began with.
    """

    epsilon: float = 0.05
    eta: float | None = None
    confidence: float = 0.95
    family: str = "grid"
    rule_set: int = CURRENT

    @property
    def fairness_slack(self) -> float:
        """η: how far the goodput stage may go below the greatest min fulfilment."""
        return self.epsilon / 2 if self.eta is None else self.eta


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """How long one measurement takes, in seconds; `startup_s` is paid once per server start.

    A cell is measured `max_looks` times at most.
    """

    warmup_s: float = 30.0
    window_s: float = 270.0
    max_window_s: float | None = None
    min_requests: int | None = None
    startup_s: float = 0.0
    max_looks: int = 16


@dataclass(frozen=True, slots=True)
class Cell:
    """One (class, TP, load) on one pool: what one measurement reveals and what an allocation can choose.

    `gpus` is g_q, the GPUs of one replica. `offered` is the load's number (requests/s or requests in flight, by
    `load_kind`); None puts the cell outside its arm's ladder. `excluded` is the operator's veto.
    """

    key: CellKey
    gpus: int
    load_kind: LoadKind = LoadKind.CONCURRENCY
    offered: float | None = None
    cost_gpu_s: float | None = None
    excluded: bool = False

    @property
    def arm(self) -> ArmKey:
        """The arm that the cell belongs to."""
        return self.key.arm


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured quantity: a value, bounds of its own, both or neither."""

    value: float | None = None
    lo: float | None = None
    hi: float | None = None

    def interval(self, whole: Interval) -> Interval | None:
        """What the reading states, inside `whole` (the range of the quantity); None when it shows nothing.

        A side without a bound of its own takes the value; without a value, the end of `whole`.
        """
        if self.value is None and self.lo is None and self.hi is None:
            return None
        low = self.lo if self.lo is not None else self.value if self.value is not None else whole.lo
        high = self.hi if self.hi is not None else self.value if self.value is not None else whole.hi
        return Interval(low, high)


NOTHING_READ = Reading()


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of measurements.csv: one measurement of one cell. `line` is its line in the file (0: from elsewhere).

    With `records`, per request, these decide and the row's own figures are only shown. `refused` explains why a measurement that
    ended well does not count (see `statistics.counting`).
    """

    key: CellKey
    seed: int = 0
    status: Status = Status.OK
    throughput_rps: Reading = NOTHING_READ
    success_rate: Reading = NOTHING_READ
    ttft_p99_s: Reading = NOTHING_READ
    e2e_p99_s: Reading = NOTHING_READ
    tpot_p99_s: Reading = NOTHING_READ
    requests: int | None = None
    ttft_p50_s: float | None = None
    e2e_p50_s: float | None = None
    window_s: float | None = None
    cost_gpu_s: float | None = None
    started_at: str = ""
    source: str = ""
    line: int = field(default=0, compare=False)
    records: RequestRecords | None = field(default=None, compare=False, repr=False)
    refused: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return brief(self)

    def tail(self, metric: str) -> Reading:
        """The p99 reading of `metric`, one of "ttft", "e2e", "tpot"."""
        return {"ttft": self.ttft_p99_s, "e2e": self.e2e_p99_s, "tpot": self.tpot_p99_s}[metric]


@dataclass(frozen=True)
class Instance:
    """Everything an operator states. Measurements come beside it, never inside.

    `assumptions` maps an assumption's name to its settings (`{"enabled": bool, ...}`); a name that is absent keeps its
    default. `noise` maps a metric to the declared between-run σ of ln(one run / long-run value).

    Raises:
        UsageError: when classes or cells repeat a name, a cell names a class or pool that is not there, or `noise` a metric that
            does not vary.
    """

    name: str
    fleet: Fleet
    classes: tuple[WorkloadClass, ...]
    cells: tuple[Cell, ...]
    source: str = ""
    facts: Facts = field(default_factory=Facts)
    certificate: CertificateSettings = field(default_factory=CertificateSettings)
    measure: MeasureSettings = field(default_factory=MeasureSettings)
    assumptions: Mapping[str, Mapping[str, float | bool]] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts = Counter(cell.key.class_name for cell in self.cells)
        classes = [f"{c.name}: {c.demand_rps:g} requests/s, {counted(counts[c.name], 'cell')}" for c in self.classes]
        return summary(
            f"Instance {self.name}: {counted(self.fleet.gpus, 'GPU')}, {counted(len(self.cells), 'cell')}", classes
        )

    def __getstate__(self) -> dict[str, object]:
        """What pickling keeps: the fields; what derives from them is derived again (a read-only view cannot be pickled)."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __post_init__(self) -> None:
        names = [c.name for c in self.classes]
        if len(set(names)) != len(names):
            raise UsageError(f"a class name repeats in {names}")
        if len(self.cell_by_key) != len(self.cells):
            raise UsageError(f"instance {self.name}: two cells share one key (class, tp, load, pool)")
        if strange := sorted(set(self.noise) - set(NOISE_KEYS.values())):
            raise UsageError(
                f"instance {self.name}: a spread of {strange[0]!r}", f"it is one of {', '.join(NOISE_KEYS.values())}"
            )
        pools = {pool.name for pool in self.fleet.pools}
        for cell in self.cells:
            if cell.key.class_name not in self.class_by_name or cell.key.pool not in pools:
                raise UsageError(f"cell {cell.key} names a class or pool that the instance does not have")

    @cached_property
    def cell_by_key(self) -> Mapping[CellKey, Cell]:
        """Every cell under its key."""
        return MappingProxyType({cell.key: cell for cell in self.cells})

    @cached_property
    def class_by_name(self) -> Mapping[str, WorkloadClass]:
        """Every class under its name."""
        return MappingProxyType({c.name: c for c in self.classes})

    @cached_property
    def arms(self) -> Mapping[ArmKey, tuple[Cell, ...]]:
        """The cells of each arm, those on the ladder first and by offered load."""
        arms: dict[ArmKey, list[Cell]] = {}
        for cell in self.cells:
            arms.setdefault(cell.arm, []).append(cell)
        order = {key: sorted(cells, key=_ladder_place) for key, cells in arms.items()}
        return MappingProxyType({key: tuple(cells) for key, cells in order.items()})


def _ladder_place(cell: Cell) -> tuple[bool, float, str]:
    return (cell.offered is None, cell.offered or 0.0, cell.key.load)
