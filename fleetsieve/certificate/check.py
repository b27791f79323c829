"""A stored certificate checked again from the files alone.

The plan is evaluated from its replica counts, without any solver; the bounds are derived again from the measured rows, under the
rule set that the certificate names; the upper values are proven again by the engine given (the frontier needs no solver and is
independent of HiGHS). All that the certificate contains is compared, words included: only the cells that an undecided one hopes for
depend on the engine, and they must follow from the optimistic plan that it states.

Its version comes first: a newer one is refused in so many words, and of an older one the figures are compared, and the words are
not, for those of today may differ. Where a newer rule set gives another answer the certificate is superseded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fleetsieve_models.problem import FleetProblem

from fleetsieve.allocation import Allocation, Engine, evaluate
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate.certify import Certificate, certify, settling_cells
from fleetsieve.certificate.comparing import SCHEMA_1, differences, unknown_keys
from fleetsieve.certificate.document import SCHEMA, certificate_document, key_of, plan_document, versions
from fleetsieve.certificate.sentence import floors_by_rounding, listed, rows_apart
from fleetsieve.errors import FleetSieveError
from fleetsieve.instance import Instance, Measurement
from fleetsieve.rule_sets import CURRENT, FIRST, RULE_SETS

APART = frozenset({"schema_version", "rule_set", "verdict", "conservative", "optimistic", "eta", "epsilon", "files"})
"""Compared on their own."""

INFORMATIONAL = frozenset({"engine", "versions"})
"""What wrote the certificate: no statement about the fleet."""

NAMES_ITS_RULES = (0, 2)
"""From this version on certificates have schema 2: they name their rule set."""

_RELEASE = re.compile(r"([0-9]+)\.([0-9]+)\b")

GUESSED = frozenset({"to_close_gpu_s", "price_requests"})
"""What a policy expected when a run was stopped: another version's policy may expect something else."""


@dataclass(frozen=True)
class Checked:
    """What a check found: errors, why a newer rule set supersedes the certificate, and what was not compared.

    `explanation` is the verdict in words as it follows from the files.
    """

    errors: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    explanation: str = ""

    @property
    def holds(self) -> bool:
        """Whether the certificate follows from the files, under the rules of today too."""
        return not self.errors and not self.superseded


def check(
    document: Mapping[str, Any],
    instance: Instance,
    rows: Iterable[Measurement],
    engine: Engine,
    digests: Mapping[str, str],
    *,
    words: Callable[[Certificate], str] = lambda _: "",
    stopped: Mapping[str, float] | None = None,
) -> Checked:
    """Whether the certificate follows from the files as they are now: `instance`, its measured `rows`, their SHA-256 `digests`.

    `words` gives what an explanation adds after the verdict's sentence, `stopped` the figures of a stop rule that ended the run.
    """
    if refused := _refused(document):
        return Checked((refused,))
    try:
        return _check(document, instance, tuple(rows), engine, digests, words, stopped)
    except KeyError as error:
        return Checked((f"it is not a certificate: it lacks {error}",))
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        return Checked((f"it is not a certificate, for a value has not the form of one: {error}",))


def _refused(document: Mapping[str, Any]) -> str:
    """Why a document cannot be checked at all: it is of another version than those that are known."""
    schema, number = document.get("schema_version", FIRST), document.get("rule_set", FIRST)
    for name, value, known in (("schema_version", schema, SCHEMA), ("rule_set", number, max(RULE_SETS))):
        if not isinstance(value, int) or isinstance(value, bool) or value < FIRST:
            return f"its {name} is {value!r}, which is no version"
        if value > known:
            return f"its {name} is {value}, and this version of FleetSieve knows {known}: a newer one wrote it, and must check it"
    return _wrong_version(document, int(schema))


def _wrong_version(document: Mapping[str, Any], schema: int) -> str:
    """What is wrong with the version of FleetSieve that a certificate names; "" where it fits its schema."""
    versions = document.get("versions")
    version = versions.get("fleetsieve") if isinstance(versions, Mapping) else None
    parts = _RELEASE.match(version) if isinstance(version, str) else None
    if parts is None:
        return f"it names no version of FleetSieve that wrote it, but {version!r}"
    if ((int(parts[1]), int(parts[2])) < NAMES_ITS_RULES) != (schema == FIRST):
        return f"version {version} of FleetSieve writes no certificate with schema_version {schema}"
    return ""


def _check(
    document: Mapping[str, Any],
    instance: Instance,
    rows: tuple[Measurement, ...],
    engine: Engine,
    digests: Mapping[str, str],
    words: Callable[[Certificate], str],
    stopped: Mapping[str, float] | None,
) -> Checked:
    errors = _file_errors(document, digests)
    eta, epsilon = float(document["eta"]), float(document["epsilon"])
    if not (0.0 <= eta < 1.0 and 0.0 < epsilon < 1.0):
        return Checked((*errors, f"its eta {eta:g} or epsilon {epsilon:g} is no fraction that certifies anything"))
    number = document.get("rule_set", FIRST)
    older = str(document["versions"].get("fleetsieve")) != versions()["fleetsieve"]
    if document.get("schema_version", FIRST) > FIRST and "rule_set" not in document:
        errors.append("it does not name its rule_set")
    if not all(isinstance(document[name], int | float) for name in ("eta", "epsilon", "confidence")):
        errors.append("its eta, epsilon and confidence are not all numbers")
    envelope = Envelope.of(under(instance, number), rows)
    renewed = certify(envelope, engine, eta=eta, epsilon=epsilon)
    if str(renewed.verdict) != document["verdict"]:
        errors.append(f"the verdict is {renewed.verdict}, the certificate says {document['verdict']}")
    found, plan = _plan("plan", document["conservative"], envelope, envelope.conservative, older)
    errors += found
    lower = renewed.lower
    best = (lower.shortfall, lower.min_fulfilment, lower.goodput_rps)
    errors += _not_as_good("plan", plan, best, "guaranteed")
    if (document["optimistic"] is None) != (renewed.optimistic is None):
        errors.append(
            f"its optimistic plan is {'missing' if renewed.optimistic else 'one that the solver did not find'}"
        )
    elif document["optimistic"] is not None:
        found, hoped = _plan("optimistic plan", document["optimistic"], envelope, envelope.optimistic, older)
        errors += found
        if renewed.optimistic is not None:
            errors += _not_as_good("optimistic plan", hoped, values_of(renewed.optimistic), "possible")
        if hoped is not None:
            cells = settling_cells(envelope, hoped, renewed.open_classes) if renewed.blocking else ()
            renewed = replace(renewed, optimistic=hoped, settling=cells)
    derived = certificate_document(renewed, {}, words(renewed), stopped)
    if older:
        derived["stopped"] = {k: v for k, v in stopped.items() if k not in GUESSED} if stopped is not None else None
    for name, value in derived.items():
        came_later = older and name not in SCHEMA_1 and name not in document
        if name not in APART and name not in INFORMATIONAL and not came_later:
            errors += differences(name, document[name], value, older=older)
    if not str(document["explanation"]).startswith(f"{document['verdict']}:"):
        errors.append("its explanation does not begin with its verdict")
    notes = (*_notes(document, derived, older), *_other_settings(document, instance))
    if errors and number == FIRST and (near := _near_tie(renewed)):
        # Rule set 1 had no such tolerance, and what it made of a near tie cannot be derived again.
        return Checked(
            (), (f"by rule set {CURRENT} the verdict is {renewed.verdict}", near), notes, derived["explanation"]
        )
    superseded = _superseded(renewed, instance, rows, engine, number) if not errors else ()
    return Checked(tuple(dict.fromkeys(errors)), superseded, notes, derived["explanation"])


def under(instance: Instance, number: int) -> Instance:
    """The instance with the rule set `number`."""
    return replace(instance, certificate=replace(instance.certificate, rule_set=number))


def _file_errors(document: Mapping[str, Any], digests: Mapping[str, str]) -> list[str]:
    stated = dict(document["files"])
    changed = [name for name, digest in digests.items() if stated.get(name) != digest]
    return [f"{name} has changed since the certificate was written" for name in changed] + [
        f"{name}, which the certificate speaks of, is not there" for name in stated if name not in digests
    ]


def _plan(
    what: str, plan: Mapping[str, Any], envelope: Envelope, problem: FleetProblem, older: bool
) -> tuple[list[str], Allocation | None]:
    """Errors of a stated plan (cells that cannot be chosen, broken constraints, figures that do not follow), and the plan."""
    replicas: dict[Hashable, int] = {}
    errors = []
    for entry in plan["classes"]:
        if entry["replicas"]:
            key = key_of(entry)
            replicas[key] = int(entry["replicas"])
            if key not in envelope.instance.cell_by_key:
                return [f"the {what} uses {key}, which is no cell of the instance"], None
            if problem is envelope.conservative and not envelope[key].committable:
                errors.append(f"the {what} commits {key}, whose measured bounds do not meet its SLO")
    if errors:
        return errors, None
    try:
        evaluated = evaluate(problem, replicas)
    except FleetSieveError as error:
        return [f"the {what}: {error.message}"], None
    return differences(f"the {what}'s", plan, plan_document(evaluated, envelope), older=older), evaluated


def values_of(plan: Allocation) -> tuple[float, float, float]:
    """The shortfall, least fulfilment and goodput (requests/s) of a plan."""
    return plan.shortfall, plan.min_fulfilment, plan.goodput_rps


def _not_as_good(what: str, plan: Allocation | None, best: tuple[float, float, float], how: str) -> list[str]:
    """Where the values of a stated plan are not those that were derived: another plan is in the certificate."""
    if plan is None:
        return []
    names = ("shortfall", "min_fulfilment", "goodput_rps")
    pairs = zip(names, values_of(plan), best, strict=True)
    return [f for name, one, other in pairs for f in differences(f"the {name} {how} by its {what}", one, other)]


def _superseded(
    renewed: Certificate, instance: Instance, rows: tuple[Measurement, ...], engine: Engine, number: int
) -> tuple[str, ...]:
    """Why the rules of today give another answer; empty where they give the same one."""
    if number == CURRENT:
        return ()
    now = certify(Envelope.of(under(instance, CURRENT), rows), engine, eta=renewed.eta, epsilon=renewed.epsilon)
    before, after = certificate_document(renewed), certificate_document(now)
    answer = ("verdict", "conservative", "gap", "lower", "upper", "unservable", "open_classes")
    if not any(differences(name, before[name], after[name]) for name in answer):
        return ()
    why = rows_apart(now.envelope)
    verdict = f"by rule set {CURRENT} the verdict is {now.verdict}" + (
        "" if str(now.verdict) != before["verdict"] else " still"
    )
    return (verdict, *why)


def _near_tie(certificate: Certificate) -> str:
    """The floors that either plan misses by no more than rounding, in a clause; "" without any."""
    plans = [plan for plan in (certificate.conservative, certificate.optimistic) if plan is not None]
    return next((near.strip(" ()") for near in map(floors_by_rounding, plans) if near), "")


def _other_settings(document: Mapping[str, Any], instance: Instance) -> Iterator[str]:
    """Where a certificate was asked for with other settings than its instance states: it is derived under those."""
    settings = instance.certificate
    for name, stated, derived in (
        ("epsilon", document["epsilon"], settings.epsilon),
        ("eta", document["eta"], settings.fairness_slack),
    ):
        if differences(name, stated, derived):
            yield f"its {name} is {stated:g}, where the instance states {derived:g}"


def _notes(document: Mapping[str, Any], derived: Mapping[str, Any], older: bool) -> tuple[str, ...]:
    notes = []
    if older:
        version = document["versions"].get("fleetsieve", "unknown")
        notes.append(f"version {version} wrote it: its figures were compared, its words were not")
    named = INFORMATIONAL | {"files"}
    stated = {name: value for name, value in document.items() if name not in named}
    unknown = sorted(set(unknown_keys("", stated, derived)) - {f"stopped.{name}" for name in GUESSED})
    if unknown:
        notes.append(f"not compared, for this version does not know them: {listed(unknown, 5)}")
    return tuple(notes)
