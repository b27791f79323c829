"""A stored certificate checked again from the files alone.

The plan is evaluated from its replica counts, without any solver; the bounds are derived anew from the measured rows; the upper
values are proven anew by the engine given (the frontier needs no solver and is independent of HiGHS). What differs is told.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

from fleetsieve.allocation import Engine, evaluate
from fleetsieve.certificate.certify import certify
from fleetsieve.certificate.document import finite, key_of
from fleetsieve.envelope import Envelope
from fleetsieve.errors import FleetSieveError

AGREE = 1e-6
"""Two derivations of one value by different engines agree when they differ by less than this (relative to max(1, |value|))."""


def check(document: Mapping[str, Any], envelope: Envelope, engine: Engine, digests: Mapping[str, str]) -> list[str]:
    """Every way in which the certificate does not follow from the files; empty when it holds.

    `envelope` is that of the files as they are now, `digests` their SHA-256.
    """
    try:
        return _check(document, envelope, engine, digests)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        return [f"it is not a certificate of this version: {type(fault).__name__} at {fault}"]


def _check(document: Mapping[str, Any], envelope: Envelope, engine: Engine, digests: Mapping[str, str]) -> list[str]:
    faults = [
        f"{name} has changed since the certificate was written"
        for name, digest in dict(document["files"]).items()
        if digests.get(name) != digest
    ]
    faults += _plan_faults(document, envelope)
    renewed = certify(envelope, engine, eta=float(document["eta"]), epsilon=float(document["epsilon"]))
    if str(renewed.verdict) != document["verdict"]:
        faults.append(f"the verdict is {renewed.verdict}, the certificate says {document['verdict']}")
    for stage in ("shortfall", "min_fulfilment", "goodput"):
        stated, derived = document["gap"][stage], finite(getattr(renewed.gap, stage))
        if not _agree(stated, derived):
            faults.append(f"the {stage} gap is {derived}, the certificate says {stated}")
    for name in ("shortfall", "min_fulfilment", "goodput_rps"):
        if not _agree(document["upper"][name], getattr(renewed.upper, name)):
            stated, derived = document["upper"][name], getattr(renewed.upper, name)
            faults.append(f"the proven {name} is {derived}, the certificate says {stated}")
    return faults


def _plan_faults(document: Mapping[str, Any], envelope: Envelope) -> list[str]:
    plan = document["conservative"]
    replicas: dict[Hashable, int] = {}
    faults = []
    for entry in plan["classes"]:
        if entry["replicas"]:
            key = key_of(entry)
            replicas[key] = int(entry["replicas"])
            if key not in envelope.instance.cell_by_key:
                return [f"the plan uses {key}, which is no cell of the instance"]
            if not envelope[key].committable:
                faults.append(f"the plan commits {key}, whose measured bounds do not meet its SLO")
    if faults:
        return faults
    try:
        got = evaluate(envelope.conservative, replicas)
    except FleetSieveError as fault:
        return [fault.message]
    for name in ("shortfall", "min_fulfilment", "goodput_rps"):
        for where in (plan, document["lower"]):
            if not _agree(where[name], getattr(got, name)):
                faults.append(f"the plan's {name} is {getattr(got, name):.9g}, the certificate says {where[name]}")
                break
    if plan["gpus_used"] != got.gpus_used:
        faults.append(f"the plan uses {got.gpus_used} GPUs, the certificate says {plan['gpus_used']}")
    return faults


def _agree(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=AGREE, abs_tol=AGREE)
