"""What was decided as pandas tables: one line a class, a cell, a step or an interval, with the unit in the name of each column."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pandas as pd

from fleetsieve.allocation import Allocation
from fleetsieve.answers.sensitivity import Study
from fleetsieve.answers.sensitivity.document import study_csv
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, placement
from fleetsieve.instance import TAIL_METRICS, CellKey
from fleetsieve.loop.steps import Step


def plan_table(plan: Allocation | Certificate) -> pd.DataFrame:
    """A plan, or the one that a certificate commits; one line a class.

    Columns: class, tp, load, pool and variant (None where the class is not served), replicas, gpus, served_rps, demand_rps and
    fulfilment.

    >>> from fleetsieve.interactive import solve
    >>> plan_table(solve("paper-h100-31b"))[["class", "tp", "load", "replicas", "served_rps"]]
      class  tp  load  replicas  served_rps
    0  Chat   4  peak         2        12.0
    1  Code   4  peak         2        16.0
    """
    if isinstance(plan, Certificate):
        plan = plan.conservative
    rows = []
    for class_plan in plan.classes:
        name = class_plan.configuration.name if class_plan.configuration is not None else None
        key = name if isinstance(name, CellKey) else None
        rows.append(
            {
                "class": class_plan.class_name,
                "tp": key.tp if key is not None else None,
                "load": key.load if key is not None else None,
                "pool": key.pool if key is not None else None,
                "variant": key.variant if key is not None else None,
                "replicas": class_plan.replicas,
                "gpus": class_plan.gpus,
                "served_rps": class_plan.served_rps,
                "demand_rps": class_plan.demand_rps,
                "fulfilment": class_plan.fulfilment,
            }
        )
    return pd.DataFrame(rows)


def cells_table(known: Envelope | Certificate) -> pd.DataFrame:
    """What is known of every cell: intervals, measured or bounded, and whether a plan may commit it or hope for it.

    Columns: class, tp, load, pool, variant, gpus, measured, committable, possible, capacity_lo_rps and capacity_hi_rps of one
    replica, and ttft_, e2e_ and tpot_p99_lo_s and _hi_s; an end that nothing bounds is 0 or inf. `bounded_by` names the
    assumptions at work.
    """
    envelope = known.envelope if isinstance(known, Certificate) else known
    rows = []
    for class_envelope in envelope.classes.values():
        for key, b in class_envelope.bounds.items():
            tails = {f"{m}_p99_{end}_s": getattr(b.tails_s[m], end) for m in TAIL_METRICS for end in ("lo", "hi")}
            rows.append(
                {
                    "class": key.class_name,
                    "tp": key.tp,
                    "load": key.load,
                    "pool": key.pool,
                    "variant": key.variant,
                    "gpus": b.cell.gpus,
                    "measured": b.measured,
                    "committable": b.committable,
                    "possible": b.possible,
                    "capacity_lo_rps": b.capacity_rps.lo,
                    "capacity_hi_rps": b.capacity_rps.hi,
                    **tails,
                    "bounded_by": ", ".join(sorted(set(b.origins.values()))),
                }
            )
    return pd.DataFrame(rows)


def steps_table(steps: Iterable[Step]) -> pd.DataFrame:
    """The steps of a run.

    Columns: step (from 1), cell, why, status, spent_gpu_s so far, plan committed now, the gap of each stage as a fraction, verdict.
    """
    rows = []
    for step in steps:
        c = step.sieve.certificate
        plan = [
            f"{one.class_name} {placement(one.configuration.name if one.configuration else None, one.replicas)}"
            for one in c.conservative.classes
        ]
        rows.append(
            {
                "step": step.number,
                "cell": str(step.experiment.key),
                "why": step.experiment.reason,
                "status": str(step.row.status),
                "spent_gpu_s": step.sieve.spent_gpu_s,
                "plan": ", ".join(plan),
                "gap_shortfall": c.gap.shortfall,
                "gap_min_fulfilment": c.gap.min_fulfilment,
                "gap_goodput": c.gap.goodput,
                "verdict": str(c.verdict),
            }
        )
    return pd.DataFrame(rows)


def study_table(study: Study) -> pd.DataFrame:
    """The intervals of a sensitivity study, with the columns of `fleetsieve sensitivity --csv`; empty fields are NaN.

    >>> from fleetsieve.files import read_instance
    >>> from fleetsieve.answers.sensitivity import GpusAxis, study
    >>> read = read_instance("paper-h100-31b")
    >>> study_table(study(read.instance, read.measurements, GpusAxis(12, 16)))[["from", "to", "goodput_rps", "gpus_used"]]
       from  to  goodput_rps  gpus_used
    0    12  15       23.116         12
    1    16  16       28.000         16
    """
    return pd.read_csv(io.StringIO(study_csv(study)))
