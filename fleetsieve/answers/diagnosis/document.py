"""An account as JSON values: what `fleetsieve explain --json` prints."""

from __future__ import annotations

from typing import Any

from fleetsieve.answers.diagnosis.bounds import Bound
from fleetsieve.answers.diagnosis.cells import CellAccount
from fleetsieve.answers.diagnosis.settling import Account, Next
from fleetsieve.certificate import Certificate, gap_document, key_document, verdict_sentence
from fleetsieve.certificate.document import finite

Document = dict[str, Any]


def account_document(account: Account) -> Document:
    """The account: verdict, cells, the next measurement (null when nothing is asked) and what settling the verdict costs."""
    c = account.certificate
    return {
        "instance": c.envelope.instance.name,
        "verdict": str(c.verdict),
        "explanation": verdict_sentence(c),
        "gap": gap_document(c.gap),
        "cells": [cell_document(cell) for cell in account.cells],
        "next": next_document(account.next) if account.next is not None else None,
        "ended": account.ended,
        "settling": {
            "cells": [key_document(key) for key in account.settling],
            "cost_gpu_s": account.settling_gpu_s,
        },
        "waiting": {"cells": [key_document(key) for key in account.waiting], "cost_gpu_s": account.waiting_gpu_s},
    }


def cell_document(cell: CellAccount) -> Document:
    """One cell."""
    return {
        **key_document(cell.key),
        "gpus": cell.cell.gpus,
        "offered": cell.cell.offered,
        "known": str(cell.known),
        "rows": [
            {"seed": row.seed, "line": row.line, "status": str(row.status), "source": row.source} for row in cell.rows
        ],
        "bounds": [bound_document(bound) for bound in cell.bounds],
        "removed_by": [bound.quantity for bound in cell.removed_by],
        "closed": cell.closed,
        "planned_replicas": cell.planned_replicas,
        "asked": cell.standing.asks,
        "can_change": cell.can_change,
        "why": cell.why,
    }


def bound_document(bound: Bound) -> Document:
    """One quantity; a side that nothing bounds is null."""
    interval = bound.interval
    return {
        "quantity": bound.quantity,
        "lo": finite(interval.lo) if interval is not None else None,
        "hi": finite(interval.hi) if interval is not None else None,
        "limit": bound.limit,
        "by": "measurement" if bound.measured else bound.assumption or None,
        "cells": [key_document(key) for key in bound.cells],
    }


def next_document(asked: Next) -> Document:
    """The measurement that is asked for next."""
    return {
        **key_document(asked.experiment.key),
        "policy": asked.policy,
        "look": asked.experiment.look,
        "reason": asked.experiment.reason,
        "cost_gpu_s": asked.experiment.expected_cost_gpu_s,
        "at_best": _outcome(asked.at_best),
        "at_worst": _outcome(asked.at_worst),
    }


def _outcome(certificate: Certificate) -> Document:
    return {"verdict": str(certificate.verdict), "gap": gap_document(certificate.gap)}
