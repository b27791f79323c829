"""A fixed plan, held against other numbers: which configuration and how many replicas each class has, and why that breaks."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetsieve_models.placement import fewest_nodes

from fleetsieve.allocation import TIE
from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.errors import UsageError
from fleetsieve.files.faults import close_match
from fleetsieve.instance import DEFAULT_POOL, DEFAULT_VARIANT, TAIL_METRICS, CellKey, Instance, ServerKey

SHAPE = 'for example {"chat": {"tp": 4, "load": "c64", "replicas": 2}}, or a certificate, or the output of solve --json'


@dataclass(frozen=True)
class GivenPlan:
    """The replicas of each cell in use, at most one cell a class."""

    counts: Mapping[CellKey, int]

    def faults(self, envelope: Envelope) -> tuple[str, ...]:
        """Why cells of the plan cannot be committed under these bounds, class by class; empty when they can."""
        return tuple(f"{key} {_why(envelope, envelope[key])}" for key in self.counts if not envelope[key].committable)

    def breaks(self, envelope: Envelope) -> tuple[str, ...]:
        """All that breaks the plan under these bounds, with figures: limits of cells, GPUs, floors; empty when it holds."""
        return (*self._missed_limits(envelope), *self._unhosted(envelope), *self._missed_floors(envelope))

    def _missed_limits(self, envelope: Envelope) -> Iterator[str]:
        for key in self.counts:
            b = envelope[key]
            if not b.committable:
                yield f"{key} {_why(envelope, b)}{_against(envelope, b)}"

    def _unhosted(self, envelope: Envelope) -> Iterator[str]:
        """Pools that have too few GPUs, or whose nodes cannot host the replicas."""
        pools = envelope.conservative.pools
        for pool in pools:
            sizes: Counter[int] = Counter()
            for key, count in self.counts.items():
                if key.pool == pool.name:
                    sizes[envelope[key].cell.gpus] += count
            used, name = (
                sum(size * count for size, count in sizes.items()),
                f" of {pool.name}" if len(pools) > 1 else "",
            )
            if used > pool.gpus:
                yield f"it needs {used} GPUs{name}, and the fleet has {pool.gpus}"
            elif pool.gpus_per_node is not None and fewest_nodes(pool, sizes) is None:
                yield f"the nodes{name}, of {pool.gpus_per_node} GPUs each, cannot host its replicas"

    def _missed_floors(self, envelope: Envelope) -> Iterator[str]:
        """Classes that get less than their floor, without those whose cell cannot be committed."""
        problem = envelope.conservative
        capacity = {q.name: q.capacity_rps for q in problem.configurations}
        for c in problem.classes:
            of_class = [(key, count) for key, count in self.counts.items() if key.class_name == c.name]
            if c.floor is None or any(key not in capacity for key, _ in of_class):
                continue
            served = min(c.demand_rps, sum(capacity[key] * count for key, count in of_class))
            if c.demand_rps > 0.0 and served / c.demand_rps < c.floor - TIE:
                yield f"{c.name} is served {served:.4g} requests/s of its floor of {c.floor * c.demand_rps:.4g}"


def _why(envelope: Envelope, b: CellBounds) -> str:
    """Why a cell cannot be committed."""
    slo = envelope.instance.class_by_name[b.cell.key.class_name].slo
    if b.cell.excluded:
        return "is excluded"
    if not b.measured:
        return "is not measured"
    for metric in TAIL_METRICS:
        limit, tail = slo.limit_s(metric), b.tails_s[metric]
        if limit is not None and tail.hi > limit:
            return (
                f"misses its {metric} p99 limit" if tail.lo > limit else f"is not proven to meet its {metric} p99 limit"
            )
    if slo.min_success is not None and b.success.lo < slo.min_success:
        missed = b.success.hi < slo.min_success
        return "misses its success limit" if missed else "is not proven to meet its success limit"
    return "failed when it was last measured"


def _against(envelope: Envelope, b: CellBounds) -> str:
    """The measured bound beside the limit that it misses; nothing where no limit is missed."""
    slo = envelope.instance.class_by_name[b.cell.key.class_name].slo
    if b.cell.excluded or not b.measured:
        return ""
    for metric in TAIL_METRICS:
        limit, tail = slo.limit_s(metric), b.tails_s[metric]
        if limit is not None and tail.hi > limit:
            if tail.lo > limit:
                return f" of {limit:g} s: it is {'' if tail.is_point else 'at least '}{tail.lo:.4g} s"
            return f" of {limit:g} s: it may be {f'{tail.hi:.4g} s' if math.isfinite(tail.hi) else 'any'}"
    return ""


def read_given(path: Path, instance: Instance) -> GivenPlan:
    """A plan from a JSON file: {class: {"tp", "load", "replicas"}}, a certificate, `solve --json` output, or a plan of these.

    "pool" is needed where a fleet has several, "variant" for a cell of another variant than the default one. Every class is in
    the file; one with replicas 0 gets nothing.

    Raises:
        UsageError: when the file cannot be read, has another shape, names what the instance does not have, or omits a class.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file", "name a file with an allocation, or a stored certificate")
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", "keep one of them") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", SHAPE) from error
    counts: dict[CellKey, int] = {}
    entries = _entries(path, document)
    named = {name for name, _ in entries}
    for name, entry in entries:
        key, replicas = _placed(path, name, entry, instance)
        if replicas == 0:
            continue
        if any(other.class_name == key.class_name for other in counts):
            raise UsageError(f"{path} gives class {name!r} two configurations", "a class uses one")
        if key not in instance.cell_by_key:
            known = ", ".join(k.configuration for k in sorted(instance.cell_by_key) if k.class_name == name)
            raise UsageError(f"{path} uses {key}, which is not a cell of {instance.name}", f"{name} has {known}")
        counts[key] = replicas
    if missing := [c.name for c in instance.classes if c.name not in named]:
        nothing = json.dumps({name: {"replicas": 0} for name in missing}, ensure_ascii=False)
        raise UsageError(
            f"{path} has no entry for class {', '.join(map(repr, missing))}",
            f"a class that gets nothing is written {nothing}",
        )
    return GivenPlan(counts)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names stand once each: of two, one would be lost."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise UsageError(f"{name!r} stands {count} times in one object")
    return dict(pairs)


def _entries(path: Path, document: Any) -> list[tuple[str, Any]]:
    """The classes and what they get."""
    for outer in ("conservative", "plan"):
        if isinstance(document, dict) and isinstance(document.get(outer), dict) and "classes" in document[outer]:
            document = document[outer]
    if isinstance(document, dict) and isinstance(document.get("classes"), list):
        rows = document["classes"]
        if not all(isinstance(row, dict) and isinstance(row.get("class"), str) for row in rows):
            raise UsageError(f"{path}: an entry of its classes names no class", SHAPE)
        return [(row["class"], row) for row in rows]
    if not isinstance(document, dict) or not document or not all(isinstance(v, dict) for v in document.values()):
        raise UsageError(f"{path} is not an allocation", SHAPE)
    return list(document.items())


def _placed(path: Path, name: str, entry: Any, instance: Instance) -> tuple[CellKey, int]:
    if name not in instance.class_by_name:
        known = [c.name for c in instance.classes]
        raise UsageError(
            f"{path} names class {name!r}, which {instance.name} does not have{close_match(name, known)}",
            f"there are {', '.join(known)}",
        )
    replicas = entry.get("replicas")
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise UsageError(f"{path}: the replicas of {name} are {replicas!r}, not a whole number >= 0", SHAPE)
    if replicas == 0:
        return CellKey(name, 0, ""), 0
    tp, load, pool = entry.get("tp"), entry.get("load"), entry.get("pool") or DEFAULT_POOL
    variant = entry.get("variant") or DEFAULT_VARIANT
    texts = all(isinstance(text, str) for text in (load, pool, variant))
    if not isinstance(tp, int) or isinstance(tp, bool) or not texts:
        raise UsageError(f"{path}: {name} needs a whole-number tp and a load", SHAPE)
    return CellKey(name, ServerKey(tp, pool, variant), load), replicas
