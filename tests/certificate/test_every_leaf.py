"""Every value in a certificate is compared: whichever one is changed, the certificate does not hold, or a note says so."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetsieve.answers.shortage import why_infeasible
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, certificate_document, certify
from fleetsieve.engines.choosing import engine_of
from fleetsieve.files import Folder, read_instance
from fleetsieve.runs.layout import digests
from fleetsieve.runs.rechecking import check_folder

STORED = Path(__file__).parents[1] / "stored" / "v0_1_0"
WHO_WROTE_IT = ("engine", "versions")
Place = tuple[str | int, ...]


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if children is None:
        yield place, value
        return
    for key, child in children:
        yield from leaves(child, (*place, key))


def other(value: Any) -> list[Any]:
    """Values that are not this one, near and far."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int | float):
        return [value * 1.01 + 0.01, str(value), None]
    return [f"{value}x", "", 1] if isinstance(value, str) else [1, "x"]


def changed(document: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    parent: Any = made
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    return made


def written(read: Folder) -> tuple[Certificate, dict[str, Any]]:
    found = certify(Envelope.of(read.instance, read.measurements), engine_of(Envelope.of(read.instance)))
    document = certificate_document(found, digests(read.path), why_infeasible(found))
    return found, json.loads(json.dumps(document))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["infeasible", "undecided", "low-success", "recorded-table"])
def test_no_value_can_be_changed(name: str) -> None:
    read = read_instance(STORED / name)
    found, document = written(read)
    engine = engine_of(found.envelope)
    assert check_folder(document, read, engine).holds
    count = 0
    for place, value in leaves(document):
        for another in [v for v in other(value) if v != value] if place[0] not in WHO_WROTE_IT else ():
            checked = check_folder(changed(document, place, another), read, engine)
            noted = place in (("eta",), ("epsilon",)) and any(
                note.startswith(f"its {place[0]} is") for note in checked.notes
            )
            assert not checked.holds or noted, (place, value, another)
            count += 1
    assert count > 200
