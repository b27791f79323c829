"""FleetSieve: certified fleet decisions for LLM serving, from as few measurements as they need.

The names below are the public ones. Each is loaded when it is first used, so `import fleetsieve` costs next to nothing.

>>> import fleetsieve as fs

Load and solve. The certificate holds both plans, the gap between them and the verdict; a table is a pandas frame.

>>> folder = fs.read_instance("sim-chat-code-16gpu")
>>> certificate = fs.solve(folder)
>>> print(fs.verdict_sentence(certificate).partition(":")[0])
certified-feasible
>>> fs.plan_table(certificate)[["class", "tp", "replicas", "served_rps"]]
  class  tp  replicas  served_rps
0  chat   4         2        16.0
1  code   4         2        16.0

Measure what decides: ask, measure, tell. Here the instance's own rows stand in for a load generator.

>>> probe = fs.Replay(folder.measurements)
>>> sieve = fs.Sieve.start(folder.instance, policy=fs.policy_named("decision-gap"), engine=fs.Milp(), looks=probe.looks)
>>> while not sieve.finished:
...     experiment = sieve.ask()
...     sieve = sieve.tell(probe.measure(experiment.key, experiment.look))
>>> str(sieve.certificate.verdict), len(sieve.measurements) < len(folder.instance.cells) / 2
('certified-feasible', True)

Certify bounds of your own choice of rows, and see what the decision turns on.

>>> seen = fs.Envelope.of(folder.instance, [row for row in folder.measurements if row.key.tp == 8])
>>> str(fs.certify(seen, fs.Milp()).verdict)
'undecided'
>>> found = fs.study(folder.instance, folder.measurements, fs.SloAxis("chat", "e2e_p99_s", 20.0, 60.0))
>>> [round(at, 2) for at in found.breaks]
[25.16, 50.69]

Compare policies on a measured table, bundled ones and your own: what each spends until its certificate, in GPU-seconds.

>>> case = fs.Case("chat and code", folder.instance, folder.measurements)
>>> (result,) = fs.compare([case], ["decision-gap", "grid"], floor=False)
>>> {name: runs[0].spent_gpu_s for name, runs in result.runs.items()}
{'decision-gap': 6000.0, 'grid': 11400.0}

`fs.figures` draws: `fs.figures.capacity(certificate)` is an altair chart, which a notebook shows and
`fs.figures.write_figure` writes. It needs the extra `plots`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from fleetsieve import figures
    from fleetsieve.allocation import Allocation, Engine, evaluate
    from fleetsieve.answers.sensitivity import DemandAxis, EpsilonAxis, GivenPlan, GpusAxis, SloAxis, study, study_two
    from fleetsieve.answers.what_if import (
        with_demand_scale,
        with_demands,
        with_floors,
        with_gpus,
        with_only_tp,
        with_only_variant,
    )
    from fleetsieve.bounds.envelope import Envelope
    from fleetsieve.certificate import Certificate, Gap, Verdict, certificate_document, certify, check, verdict_sentence
    from fleetsieve.engines.frontier import Frontier
    from fleetsieve.engines.solving import Milp
    from fleetsieve.errors import FleetSieveError, InputError, SolveFailed, SolverMissing, UsageError
    from fleetsieve.files import Folder, bundled_names, read_instance, read_measurements, write_instance
    from fleetsieve.instance import (
        Cell,
        CellKey,
        CertificateSettings,
        Facts,
        Fleet,
        Instance,
        LoadKind,
        Measurement,
        MeasureSettings,
        Pool,
        Reading,
        Slo,
        Status,
        WorkloadClass,
    )
    from fleetsieve.interactive import history_of, recheck, replay, solve
    from fleetsieve.loop.policies import POLICIES, Choice, Policy, Situation, policy_named
    from fleetsieve.loop.sieve import Experiment, Sieve
    from fleetsieve.loop.steps import Step
    from fleetsieve.loop.stopping import UnprofitableWithin
    from fleetsieve.presentation.sensitivity_plot import map_plot, study_plot
    from fleetsieve.probes import Probe, Replay
    from fleetsieve.runs.history import History, read_history
    from fleetsieve.runs.layout import digests
    from fleetsieve.studies.compare import Case, compare
    from fleetsieve.studies.decision_rules import RULES
    from fleetsieve.tables import cells_table, plan_table, steps_table, study_table

_HOMES = {
    "allocation": ("Allocation", "Engine", "evaluate"),
    "certificate": (
        "Certificate", "Gap", "Verdict", "certificate_document", "certify", "check", "verdict_sentence",
    ),
    "studies.compare": ("Case", "compare"),
    "studies.decision_rules": ("RULES",),
    "bounds.envelope": ("Envelope",),
    "errors": ("FleetSieveError", "InputError", "SolveFailed", "SolverMissing", "UsageError"),
    "files": ("Folder", "bundled_names", "read_instance", "read_measurements", "write_instance"),
    "engines.frontier": ("Frontier",),
    "runs.history": ("History", "read_history"),
    "instance": (
        "Cell", "CellKey", "CertificateSettings", "Facts", "Fleet", "Instance", "LoadKind", "MeasureSettings", "Measurement",
        "Pool", "Reading", "Slo", "Status", "WorkloadClass",
    ),
    "interactive": ("history_of", "recheck", "replay", "solve"),
    "runs.layout": ("digests",),
    "loop.policies": ("POLICIES", "Choice", "Policy", "Situation", "policy_named"),
    "presentation.sensitivity_plot": ("map_plot", "study_plot"),
    "probes": ("Probe", "Replay"),
    "loop.steps": ("Step",),
    "answers.sensitivity": ("DemandAxis", "EpsilonAxis", "GivenPlan", "GpusAxis", "SloAxis", "study", "study_two"),
    "loop.sieve": ("Experiment", "Sieve"),
    "engines.solving": ("Milp",),
    "loop.stopping": ("UnprofitableWithin",),
    "tables": ("cells_table", "plan_table", "steps_table", "study_table"),
    "answers.what_if": ("with_demand_scale", "with_demands", "with_floors", "with_gpus", "with_only_tp", "with_only_variant"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "POLICIES",
    "RULES",
    "Allocation",
    "Case",
    "Cell",
    "CellKey",
    "Certificate",
    "CertificateSettings",
    "Choice",
    "DemandAxis",
    "Engine",
    "Envelope",
    "EpsilonAxis",
    "Experiment",
    "Facts",
    "Fleet",
    "FleetSieveError",
    "Folder",
    "Frontier",
    "Gap",
    "GivenPlan",
    "GpusAxis",
    "History",
    "InputError",
    "Instance",
    "LoadKind",
    "MeasureSettings",
    "Measurement",
    "Milp",
    "Policy",
    "Pool",
    "Probe",
    "Reading",
    "Replay",
    "Sieve",
    "Situation",
    "Slo",
    "SloAxis",
    "SolveFailed",
    "SolverMissing",
    "Status",
    "Step",
    "UnprofitableWithin",
    "UsageError",
    "Verdict",
    "WorkloadClass",
    "__version__",
    "bundled_names",
    "cells_table",
    "certificate_document",
    "certify",
    "check",
    "compare",
    "digests",
    "evaluate",
    "figures",
    "history_of",
    "map_plot",
    "plan_table",
    "policy_named",
    "read_history",
    "read_instance",
    "read_measurements",
    "recheck",
    "replay",
    "solve",
    "steps_table",
    "study",
    "study_plot",
    "study_table",
    "study_two",
    "verdict_sentence",
    "with_demand_scale",
    "with_demands",
    "with_floors",
    "with_gpus",
    "with_only_tp",
    "with_only_variant",
    "write_instance",
]

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        """A public name, loaded now."""
        if name == "figures":
            return import_module("fleetsieve.figures")
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"fleetsieve.{_HOME_OF[name]}"), name)
        return value

    def __dir__() -> list[str]:
        """The public names, loaded or not."""
        return sorted(__all__)
