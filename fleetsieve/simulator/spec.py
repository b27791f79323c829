"""simulation.toml: everything that a simulated instance rests on, and nothing that is left to chance.

    schema_version = 1
    name, seed                     seed >= 0; repeats (default 1): runs per cell, each with a seed of its own
    [fleet]                        gpus, gpus_per_node (optional)
    [certificate]                  epsilon and the other settings of the instance, all optional
    [measure]                      warmup_s, window_s; startup_s (optional)
    [client]                       timeout_s > 0: a request fails that long after it was sent
    [model] [gpu] [engine]         the fields of `Llm`, `Gpu` and `Engine`
    [variant.NAME.model] .gpu .engine   keys that an engine variant changes; each variant has all cells of the classes
    [[classes]]                    name, demand_rps, priority, floor_rps, max_ttft_p99_s, max_e2e_p99_s, max_tpot_p99_s,
                                   min_success, load_kind ("rate" or "concurrency"), arrival_cv (kind rate only)
    [classes.input] [classes.output]   the fields of `Lengths`, in tokens
    [classes.loads]                tp2 = [...]: the ladder of TP 2, per replica: requests/s, or requests in flight

Units stand in the names: seconds, requests/s, bytes, FLOP, tokens. Unknown keys are errors.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from fleetsieve.errors import Fault, InputError
from fleetsieve.instance import (
    DEFAULT_POOL,
    DEFAULT_VARIANT,
    Cell,
    CellKey,
    CertificateSettings,
    Facts,
    Fleet,
    Instance,
    LoadKind,
    MeasureSettings,
    Pool,
    ServerKey,
    Slo,
    WorkloadClass,
)
from fleetsieve.simulator.hardware import KV_POLICIES, EngineSpec, Gpu, Llm
from fleetsieve.simulator.traffic import Lengths

SPEC_NAME = "simulation.toml"
PARTS = ("model", "gpu", "engine")
MAY_BE_ZERO = {
    "sigma",
    "arrival_cv",
    "attention_flop_per_pair",
    "reserved_bytes_per_gpu",
    "overhead_s",
    "overhead_per_sequence_s",
    "watermark",
    "link_latency_s",
    "warmup_s",
    "startup_s",
    "demand_rps",
    "seed",
    "eta",
    "floor_rps",
}
SHARES = {
    "memory_utilisation",
    "memory_efficiency",
    "compute_efficiency",
    "watermark",
    "min_success",
    "epsilon",
    "eta",
    "confidence",
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SimulatedClass:
    """One class: what the operator states about it, its token lengths and its ladder at each TP (strictly rising)."""

    stated: WorkloadClass
    load_kind: LoadKind
    arrival_cv: float
    inputs: Lengths
    outputs: Lengths
    loads: Mapping[int, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Simulation:
    """A parsed simulation.toml."""

    name: str
    seed: int
    repeats: int
    fleet: Fleet
    certificate: CertificateSettings
    measure: MeasureSettings
    timeout_s: float
    llm: Llm
    gpu: Gpu
    engine: EngineSpec
    classes: tuple[SimulatedClass, ...]
    variants: Mapping[str, Simulation] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Where the numbers come from, as every file that holds them records it."""
        return f"simulated (fleetsieve simulator, seed {self.seed})"

    @property
    def facts(self) -> Facts:
        """What is known of the model and the GPUs of the default variant."""
        return Facts(
            weight_bytes=self.llm.weight_bytes,
            hbm_bytes_per_s=self.gpu.hbm_bytes_per_s,
            flops_per_s=self.gpu.flops_per_s,
            prefill_flop_per_token=self.llm.flop_per_token,
        )

    def of(self, variant: str) -> Simulation:
        """The simulation of one engine variant: other figures of model, GPU or engine; the traffic is the same."""
        return self if variant == DEFAULT_VARIANT else self.variants[variant]

    def instance(self) -> Instance:
        """The instance that the spec states, without measurements; token counts are the means of the lengths."""
        cells = [
            Cell(
                CellKey(c.stated.name, ServerKey(tp, variant=variant), load_label(c.load_kind, offered)),
                gpus=tp,
                load_kind=c.load_kind,
                offered=offered,
            )
            for c in self.classes
            for variant in (DEFAULT_VARIANT, *self.variants)
            for tp, ladder in c.loads.items()
            for offered in ladder
        ]
        return Instance(
            name=self.name,
            fleet=self.fleet,
            classes=tuple(c.stated for c in self.classes),
            cells=tuple(cells),
            source=self.source,
            facts=replace(self.facts, variants={name: one.facts for name, one in self.variants.items()}),
            certificate=self.certificate,
            measure=self.measure,
        )


def load_label(kind: LoadKind, offered: float) -> str:
    """The label of a load level: r2.5 (requests/s) or c32 (requests in flight)."""
    return f"{'r' if kind is LoadKind.RATE else 'c'}{offered:g}"


def read_spec(path: Path) -> Simulation:
    """Parse `path`, a simulation.toml or a folder that holds one.

    Raises:
        InputError: with every error found: unknown or missing keys, values out of range, unreadable TOML.
    """
    file = path / SPEC_NAME if path.is_dir() else path
    reader = _Reader(str(file))
    try:
        table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError([Fault(str(file), 0, "", f"cannot be read: {error}")]) from error
    if table.pop("schema_version", None) != 1:
        reader.fault("schema_version", "must be 1")
    simulation = reader.simulation(table)
    if reader.faults or simulation is None:
        raise InputError(reader.faults)
    return simulation


class _Reader:
    """Turns tables into objects and gathers errors; a table with an error gives None."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []

    def fault(self, where: str, message: str) -> None:
        self.faults.append(Fault(self.file, 0, where, message))

    def simulation(self, table: dict[str, Any]) -> Simulation | None:
        fleet = self.section(table, "fleet")
        client = self.section(table, "client")
        entries = table.pop("classes", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.fault("classes", "is not a list of [[classes]] tables")
            entries = []
        classes = [self.workload(entry, k) for k, entry in enumerate(entries)]
        certificate = self.build(CertificateSettings, table.pop("certificate", {}), "certificate")
        measure = self.build(MeasureSettings, table.pop("measure", {}), "measure")
        parts = {part: self.section(table, part) for part in PARTS}
        machine = self.machine(parts, "")
        machines = self.variants(table.pop("variant", {}), parts)
        pool = self.build(Pool, {"name": DEFAULT_POOL, **fleet}, "fleet")
        timeout = client.pop("timeout_s", None)
        self.number("client.timeout_s", timeout)
        name, seed, repeats = table.pop("name", ""), table.pop("seed", None), table.pop("repeats", 1)
        for key, value in (("seed", seed), ("repeats", repeats)):
            if not isinstance(value, int) or value < (key == "repeats"):
                self.fault(key, f"{value!r} is not a whole number >= {int(key == 'repeats')}")
        if not isinstance(name, str) or not name:
            self.fault("name", "is missing")
        for key in (*table, *(f"client.{key}" for key in client)):
            self.fault(key, "is not a key of a simulation")
        if not classes:
            self.fault("classes", "there is no [[classes]] table")
        if self.faults or not (certificate and measure and machine and pool):
            return None
        stated = Simulation(
            name=name,
            seed=seed,
            repeats=repeats,
            fleet=Fleet((pool,)),
            certificate=certificate,
            measure=measure,
            timeout_s=timeout,
            llm=machine[0],
            gpu=machine[1],
            engine=machine[2],
            classes=tuple(c for c in classes if c is not None),
        )
        variants = {
            name: replace(stated, llm=llm, gpu=gpu, engine=engine) for name, (llm, gpu, engine) in machines.items()
        }
        return replace(stated, variants=variants)

    def machine(self, parts: Mapping[str, dict[str, Any]], where: str) -> tuple[Llm, Gpu, EngineSpec] | None:
        """Model, GPU and engine; None where one of them has an error."""
        llm = self.build(Llm, dict(parts["model"]), f"{where}model")
        gpu = self.build(Gpu, dict(parts["gpu"]), f"{where}gpu")
        engine = self.build(EngineSpec, dict(parts["engine"]), f"{where}engine")
        if engine is not None:
            if engine.kv_policy not in KV_POLICIES:
                self.fault(f"{where}engine.kv_policy", f"{engine.kv_policy!r} is none of {', '.join(KV_POLICIES)}")
            if engine.max_num_seqs > engine.max_batched_tokens:
                self.fault(f"{where}engine.max_num_seqs", f"{engine.max_num_seqs} exceeds max_batched_tokens")
        return (llm, gpu, engine) if llm and gpu and engine else None

    def variants(self, stated: Any, parts: Mapping[str, dict[str, Any]]) -> Mapping[str, tuple[Llm, Gpu, EngineSpec]]:
        """The machine of each variant: [variant.NAME.model], .gpu and .engine change keys of [model], [gpu] and [engine]."""
        found: dict[str, tuple[Llm, Gpu, EngineSpec]] = {}
        if not isinstance(stated, dict) or not all(isinstance(one, dict) for one in stated.values()):
            self.fault(
                "variant", "is not a section; write [variant.NAME.model], [variant.NAME.gpu] or [variant.NAME.engine]"
            )
            return found
        for name, stated_variant in stated.items():
            where = f"variant.{name}."
            if name in ("", DEFAULT_VARIANT):
                self.fault(f"variant.{name}", "is the default variant, which the sections without a variant state")
            for key in (key for key in stated_variant if key not in PARTS):
                self.fault(f"{where}{key}", "is not a key of a variant")
            changed = {part: {**parts[part], **self.section(dict(stated_variant), part)} for part in PARTS}
            machine = self.machine(changed, where)
            if machine is not None:
                found[name] = machine
        return found

    def workload(self, table: dict[str, Any], index: int) -> SimulatedClass | None:
        where = f"classes[{index}]"
        inputs = self.build(Lengths, table.pop("input", {}), f"{where}.input")
        outputs = self.build(Lengths, table.pop("output", {}), f"{where}.output")
        kind, cv = table.pop("load_kind", "rate"), table.pop("arrival_cv", 1.0)
        loads = self.loads(table.pop("loads", {}), where, whole=kind == LoadKind.CONCURRENCY)
        self.number(f"{where}.arrival_cv", cv)
        if kind not in tuple(LoadKind):
            self.fault(f"{where}.load_kind", f"{kind!r} is none of {', '.join(LoadKind)}")
        slo = self.build(Slo, {f.name: table.pop(f.name) for f in fields(Slo) if f.name in table}, where)
        for lengths, key in ((inputs, "input"), (outputs, "output")):
            if lengths is not None and not lengths.least <= lengths.most:
                self.fault(f"{where}.{key}", f"least {lengths.least} exceeds most {lengths.most}")
        if inputs is None or outputs is None or slo is None:
            return None
        tokens = {"input_tokens": round(inputs.mean, 1), "output_tokens": round(outputs.mean, 1)}
        stated = self.build(WorkloadClass, {**table, **tokens, "slo": slo}, where)
        if stated is None or self.faults:
            return None
        return SimulatedClass(stated, LoadKind(kind), cv, inputs, outputs, loads)

    def loads(self, table: Any, where: str, *, whole: bool) -> dict[int, tuple[float, ...]]:
        ladders: dict[int, tuple[float, ...]] = {}
        if not isinstance(table, dict):
            self.fault(f"{where}.loads", "is not a table")
            return ladders
        for key, ladder in table.items():
            if not key.startswith("tp") or not key[2:].isdigit() or int(key[2:]) < 1:
                self.fault(f"{where}.loads.{key}", "is not a tensor-parallel degree such as tp2")
                continue
            if not isinstance(ladder, list):
                self.fault(f"{where}.loads.{key}", f"{ladder!r} is not a list of loads")
                continue
            before = len(self.faults)
            for value in ladder:
                self.number(f"{where}.loads.{key}", value, whole=whole)
            if len(self.faults) > before:
                continue
            if not ladder or sorted(set(ladder)) != ladder:
                self.fault(f"{where}.loads.{key}", f"{ladder} does not rise strictly")
            ladders[int(key[2:])] = tuple(float(value) for value in ladder)
        if not ladders:
            self.fault(f"{where}.loads", "there is no ladder")
        return ladders

    def section(self, table: dict[str, Any], key: str) -> dict[str, Any]:
        if not isinstance(found := table.pop(key, {}), dict):
            self.fault(key, "is not a table")
            return {}
        return found

    def build(self, kind: type[T], table: Any, where: str) -> T | None:
        """An object of the dataclass `kind` from `table`; numbers must be finite, and > 0 unless named otherwise."""
        if not isinstance(table, dict):
            self.fault(where, "is not a table")
            return None
        before = len(self.faults)
        known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
        for key in table.keys() - known.keys():
            self.fault(f"{where}.{key}", f"is not a key; known are {', '.join(known)}")
        for name, f in known.items():
            if name in table:
                if isinstance(table[name], (bool, str)) != (f.type in ("str", "bool")):
                    self.fault(f"{where}.{name}", f"{table[name]!r} is not a value of the kind {f.type}")
                elif not isinstance(table[name], (bool, str, Slo)):
                    self.number(f"{where}.{name}", table[name], whole="float" not in str(f.type))
            elif f.default is MISSING and f.default_factory is MISSING:
                self.fault(f"{where}.{name}", "is missing")
        return kind(**table) if len(self.faults) == before else None

    def number(self, where: str, value: Any, *, whole: bool = False) -> None:
        """Fault `value` unless it is a finite number > 0 (>= 0 where zero has a meaning), <= 1 where it is a share."""
        key = where.rsplit(".", 1)[-1]
        zero = key in MAY_BE_ZERO
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            self.fault(where, f"{value!r} is not a {'whole ' if whole else ''}number")
        elif not (value >= 0 if zero else value > 0) or value == float("inf"):
            self.fault(where, f"{value!r} is not a finite number {'>=' if zero else '>'} 0")
        elif key in SHARES and value > 1:
            self.fault(where, f"{value!r} is a share and exceeds 1")
