"""A stored certificate checked again from the files alone.

The plan is evaluated from its replica counts, without any solver; the bounds are derived anew from the measured rows; the upper
values are proven anew by the engine given (the frontier needs no solver and is independent of HiGHS). What differs is told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from fleetsieve_models.problem import FleetProblem

from fleetsieve.allocation import Engine, evaluate
from fleetsieve.certificate.certify import Certificate, Verdict, certify
from fleetsieve.certificate.document import certificate_document, key_of, plan_document
from fleetsieve.certificate.sentence import floors_as_demand
from fleetsieve.envelope import Envelope
from fleetsieve.errors import FleetSieveError

AGREE = 1e-6
"""Two derivations of one value by different engines agree when they differ by less than this (relative to max(1, |value|))."""

PRINTED = 1e-3
"""Printed figures agree when they differ by no more than this: a rounded one may fall to either side."""

STATED = ("instance", "unservable", "open_classes", "closed", "blocking", "confidence", "rows", "lower", "upper", "gap")
"""What must stand in a certificate as it is derived anew. Names of assumptions and the words are compared apart."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def check(document: Mapping[str, Any], envelope: Envelope, engine: Engine, digests: Mapping[str, str]) -> list[str]:
    """Every way in which the certificate does not follow from the files; empty when it holds.

    `envelope` is that of the files as they are now, `digests` their SHA-256.
    """
    try:
        return _check(document, envelope, engine, digests)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
        return [f"it is not a certificate of this version: {type(fault).__name__} at {fault}"]


def _check(document: Mapping[str, Any], envelope: Envelope, engine: Engine, digests: Mapping[str, str]) -> list[str]:
    stated = dict(document["files"])
    faults = [
        f"{name} has changed since the certificate was written" for name, d in digests.items() if stated.get(name) != d
    ]
    faults += [f"{name}, which the certificate speaks of, is not there" for name in stated if name not in digests]
    eta, epsilon = float(document["eta"]), float(document["epsilon"])
    if not (0.0 <= eta < 1.0 and 0.0 < epsilon < 1.0):
        return [*faults, f"its eta {eta:g} or epsilon {epsilon:g} is no fraction that certifies anything"]
    faults += _plan_faults("plan", document["conservative"], envelope, envelope.conservative)
    if document["optimistic"] is not None:
        faults += _plan_faults("optimistic plan", document["optimistic"], envelope, envelope.optimistic)
    renewed = certify(envelope, engine, eta=eta, epsilon=epsilon)
    if str(renewed.verdict) != document["verdict"]:
        faults.append(f"the verdict is {renewed.verdict}, the certificate says {document['verdict']}")
    derived = certificate_document(renewed)
    faults += [fault for name in STATED for fault in _differences(name, document[name], derived[name])]
    return faults + _word_faults(document, derived, renewed)


def _word_faults(document: Mapping[str, Any], derived: Mapping[str, Any], renewed: Certificate) -> list[str]:
    """What the certificate says in words: the assumptions it rests on, those that were dropped, and the verdict's sentence."""
    faults = []
    statements = [f"{a['name']}: {a['statement']}" for a in document["assumptions"]]
    rests = list(derived["rests_on"])
    for told in (statements, list(document["rests_on"])):
        faults += [f"it does not rest on what it says: {line}" for line in told if line not in rests]
    faults += [f"it rests on this, which it does not say: {line}" for line in rests if line not in document["rests_on"]]
    faults += [f"it does not name {a['name']}" for a in derived["assumptions"] if a not in document["assumptions"]]
    ours, theirs = ([(d["assumption"], d["arm"], d["quantity"]) for d in doc["dropped"]] for doc in (derived, document))
    if ours != theirs:
        faults.append(f"the dropped assumptions are {ours}, the certificate says {theirs}")
    # The cells that an undecided verdict names may differ between engines; an infeasible one goes on with its reason.
    sentence = f"{renewed.verdict}:" if renewed.verdict is Verdict.UNDECIDED else str(derived["explanation"])
    # A certificate stored before floors above the demand were spoken of lacks these words alone.
    older = sentence.replace(floors_as_demand(renewed.envelope), "")
    if not any(_begins_with(str(document["explanation"]), said) for said in (sentence, older)):
        faults.append(f"its explanation is not what follows from the files: {sentence}")
    return faults


def _begins_with(text: str, sentence: str) -> bool:
    """Whether `text` begins with `sentence`, figures apart that were rounded to either side."""
    words = _NUMBER.sub("#", sentence)
    if not _NUMBER.sub("#", text).startswith(words):
        return False
    pairs = zip(_NUMBER.findall(sentence), _NUMBER.findall(text), strict=False)
    return all(abs(float(one) - float(other)) <= 1.5 * PRINTED for one, other in pairs)


def _plan_faults(what: str, plan: Mapping[str, Any], envelope: Envelope, problem: FleetProblem) -> list[str]:
    """Faults of a stated plan: cells that cannot be chosen, broken constraints, and figures that do not follow from its counts."""
    replicas: dict[Hashable, int] = {}
    faults = []
    for entry in plan["classes"]:
        if entry["replicas"]:
            key = key_of(entry)
            replicas[key] = int(entry["replicas"])
            if key not in envelope.instance.cell_by_key:
                return [f"the {what} uses {key}, which is no cell of the instance"]
            if problem is envelope.conservative and not envelope[key].committable:
                faults.append(f"the {what} commits {key}, whose measured bounds do not meet its SLO")
    if faults:
        return faults
    try:
        got = evaluate(problem, replicas)
    except FleetSieveError as fault:
        return [f"the {what}: {fault.message}"]
    return _differences(f"the {what}'s", plan, plan_document(got, envelope))


def _differences(place: str, stated: Any, derived: Any) -> list[str]:
    """Where a stated document differs from the derived one; figures agree within `AGREE`, and more keys are no fault."""
    if isinstance(derived, Mapping) and isinstance(stated, Mapping):
        return [f for key, value in derived.items() for f in _differences(f"{place} {key}", stated[key], value)]
    if _listed(derived) and _listed(stated) and len(derived) == len(stated):
        pairs = zip(stated, derived, strict=True)
        return [
            f for number, (one, other) in enumerate(pairs, 1) for f in _differences(f"{place} {number}", one, other)
        ]
    if _listed(derived) and _listed(stated):
        return [f"{place} has {len(derived)} entries, the certificate has {len(stated)}"]
    if stated == derived or (_number(stated) and _number(derived) and _agree(stated, derived)):
        return []
    return [f"{place} is {_shown(derived)}, the certificate says {_shown(stated)}"]


def _listed(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value) or "nothing"


def _agree(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=AGREE, abs_tol=AGREE)
