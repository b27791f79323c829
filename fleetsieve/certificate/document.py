"""A certificate and its plans as JSON documents: what is stored, printed with --json and checked again later."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fleetsieve.allocation import Allocation, ClassAllocation
from fleetsieve.bounds.assumptions import Assumption, statement
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.ladder_tops import LadderTop, ladder_tops
from fleetsieve.certificate.certify import Certificate
from fleetsieve.certificate.gap import Gap
from fleetsieve.certificate.sentence import rests_on_bounds, verdict_sentence
from fleetsieve.extensions import origin_of, package_versions
from fleetsieve.instance import DEFAULT_VARIANT, TAIL_METRICS, CellKey, ServerKey
from fleetsieve.interval import Interval

Document = dict[str, Any]

SCHEMA = 2
"""The version of a certificate's keys. 1: version 0.1.0. 2: it names its rule set, and its words can be derived again."""


def certificate_document(
    certificate: Certificate,
    digests: Mapping[str, str] | None = None,
    explanation: str = "",
    stopped: Mapping[str, float] | None = None,
) -> Document:
    """The certificate as JSON values; no infinity and no NaN is in it (a bound that was not proven is null).

    `digests` are the SHA-256 of the files that it covers; `explanation` goes after the verdict's sentence; `stopped` holds the
    figures by which a run was stopped before a verdict.
    """
    c = certificate
    sentence = verdict_sentence(c)
    return {
        "schema_version": SCHEMA,
        "rule_set": c.envelope.instance.certificate.rule_set,
        "instance": c.envelope.instance.name,
        "verdict": str(c.verdict),
        "epsilon": c.epsilon,
        "eta": c.eta,
        "gap": gap_document(c.gap),
        "conservative": plan_document(c.conservative, c.envelope),
        "optimistic": plan_document(c.optimistic, c.envelope) if c.optimistic is not None else None,
        "assumptions": assumptions_document(c.envelope),
        "explanation": f"{sentence} {explanation}".strip(),
        "dropped": [
            {"assumption": d.assumption, "arm": str(d.arm), "quantity": d.quantity, "rows": [key_document(k) for k in d.rows],
             "reason": d.text}
            for d in c.envelope.contradictions
        ],
        "closed": [
            {**key_document(key), "reason": why}
            for class_envelope in c.envelope.classes.values()
            for key, why in class_envelope.closed.items()
        ],
        "lower": {
            "shortfall": c.lower.shortfall, "best_min_fulfilment": c.lower.best_min_fulfilment,
            "min_fulfilment": c.lower.min_fulfilment, "goodput_rps": c.lower.goodput_rps,
        },
        "upper": {
            "shortfall": c.upper.shortfall, "min_fulfilment": c.upper.min_fulfilment, "goodput_rps": c.upper.goodput_rps,
        },
        "unservable": list(c.unservable),
        "open_classes": list(c.open_classes),
        "blocking": c.blocking,
        "settling": [key_document(key) for key in c.settling],
        "stopped": dict(stopped) if stopped is not None else None,
        "ladder_tops": [top_document(top) for top in ladder_tops(c.envelope)],
        "rests_on": list(rests_on_bounds(c.envelope)),
        "confidence": c.envelope.instance.certificate.confidence,
        "engine": c.engine,
        "rows": rows_document(c.envelope),
        "files": dict(digests or {}),
        "versions": versions(c.envelope.in_force),
    }  # fmt: skip


def assumptions_document(envelope: Envelope) -> list[Document]:
    """The assumptions that bound at least one cell; one that is not FleetSieve's own states where it comes from."""
    return [
        {"name": a.name, "statement": statement(a), **({"from": origin} if (origin := origin_of(a)) else {})}
        for a in envelope.in_force
    ]


def gap_document(gap: Gap) -> Document:
    """The stage gaps; null where a bound was not proven."""
    return {
        "shortfall": finite(gap.shortfall),
        "min_fulfilment": finite(gap.min_fulfilment),
        "goodput": finite(gap.goodput),
    }


def plan_document(plan: Allocation, envelope: Envelope) -> Document:
    """A plan: totals, unservable classes and one entry per class (replicas 0, tp and load null when it is not served)."""
    return {
        "min_fulfilment": plan.min_fulfilment,
        "goodput_rps": plan.goodput_rps,
        "shortfall": plan.shortfall,
        "gpus_used": plan.gpus_used,
        "unservable": list(envelope.unservable),
        "classes": [_class_document(class_plan, envelope) for class_plan in plan.classes],
    }


def _class_document(class_plan: ClassAllocation, envelope: Envelope) -> Document:
    name = class_plan.configuration.name if class_plan.configuration is not None else None
    key = name if isinstance(name, CellKey) else None
    entry: Document = {
        "class": class_plan.class_name,
        "tp": key.tp if key else None,
        "load": key.load if key else None,
        "pool": key.pool if key else None,
        **variant_document(key),
        "replicas": class_plan.replicas,
        "gpus": class_plan.gpus,
        "served_rps": class_plan.served_rps,
        "demand_rps": class_plan.demand_rps,
        "fulfilment": class_plan.fulfilment,
        "utilisation": class_plan.utilisation * envelope.instance.fleet.max_utilisation,
        "tails": {},
    }
    if key is not None:
        b, slo = envelope[key], envelope.instance.class_by_name[class_plan.class_name].slo
        entry["tails"] = {
            f"{m}_p99_s": {**_interval(b.tails_s[m]), "slo": limit}
            for m in TAIL_METRICS
            if (limit := slo.limit_s(m)) is not None
        }
    return entry


def rows_document(envelope: Envelope) -> list[Document]:
    """The measured rows that the certificate used, in the order of the cells' names and of the measurements."""
    return [
        {**key_document(key), "seed": row.seed, "status": str(row.status), "line": row.line}
        for class_envelope in envelope.classes.values()
        for key in sorted(class_envelope.view.known)
        for row in class_envelope.view.known[key].rows
    ]


def top_document(top: LadderTop) -> Document:
    """An arm whose highest load still meets its SLO: that load, what it serves, and the next load with what it could."""
    return {
        **key_document(top.top),
        "capacity_rps": top.capacity_rps,
        "next_load": top.next.key.load,
        "next_offered": top.next.offered,
        "next_at_most_rps": top.at_most_rps,
    }


def key_document(key: CellKey) -> Document:
    """A cell's key."""
    return {"class": key.class_name, "tp": key.tp, "load": key.load, "pool": key.pool, **variant_document(key)}


def variant_document(key: CellKey | None) -> Document:
    """The variant of a key where it is not the default one: documents without variants stay as they were."""
    return {"variant": key.variant} if key is not None and key.variant != DEFAULT_VARIANT else {}


def key_of(document: Mapping[str, Any]) -> CellKey:
    """The key in a document made by `key_document` (or in a plan's class entry)."""
    server = ServerKey(int(document["tp"]), document["pool"], document.get("variant", DEFAULT_VARIANT))
    return CellKey(document["class"], server, document["load"])


def _interval(interval: Interval) -> Document:
    return {"lo": finite(interval.lo), "hi": finite(interval.hi)}


def finite(value: float) -> float | None:
    """The value, or None (null) when it is infinite."""
    return value if math.isfinite(value) else None


def versions(assumptions: Iterable[Assumption] = ()) -> dict[str, str]:
    """Versions of what computed a certificate, the packages of assumptions from outside among it."""
    found = {}
    for name in ("fleetsieve", "pyomo", "highspy", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    for assumption in assumptions:
        found |= package_versions(assumption)
    return found
