"""What can be varied: an SLO threshold, the demand, ε or the number of GPUs, each over a closed range.

An axis applies one of its values to an envelope. What the value does not touch is not derived again: an SLO renews one class, a
demand or a number of GPUs renews no bound at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from fleetsieve.answers.what_if import with_demand_scale, with_gpus
from fleetsieve.bounds.envelope import ClassEnvelope, Envelope, envelop
from fleetsieve.errors import UsageError
from fleetsieve.files.faults import close_match
from fleetsieve.instance import TAIL_METRICS, Instance, WorkloadClass

SUCCESS = "min_success"
METRICS = (*(f"{metric}_p99_s" for metric in TAIL_METRICS), SUCCESS)
"""What an SLO axis can vary, by the names that measurements have."""


class Axis(Protocol):
    """One number that is varied from `lo` to `hi`, both included."""

    @property
    def lo(self) -> float:
        """The lower end of the range."""
        ...

    @property
    def hi(self) -> float:
        """The upper end of the range."""
        ...

    @property
    def name(self) -> str:
        """What tables, files and plots call the axis."""
        ...

    @property
    def unit(self) -> str:
        """The unit of its values, for a person."""
        ...

    @property
    def title(self) -> str:
        """Its name with the unit, for a table or a plot."""
        ...

    def start(self, instance: Instance) -> Instance:
        """The instance at the lower end.

        Raises:
            UsageError: when the instance has nothing of the kind, or the range cannot be.
        """
        ...

    def at(self, envelope: Envelope, value: float) -> Envelope:
        """The envelope under `value`; a demand is a factor of what `envelope` has, everything else is set."""
        ...

    def present(self, instance: Instance) -> float | None:
        """Where the instance is; None when it states no such limit."""
        ...


@dataclass(frozen=True, slots=True)
class SloAxis:
    """A limit of one class: `metric` is one of METRICS; seconds for a tail, a fraction for the success."""

    class_name: str
    metric: str
    lo: float
    hi: float

    @property
    def name(self) -> str:
        """As on the command line."""
        return f"{self.class_name}.{self.metric}"

    @property
    def unit(self) -> str:
        """Seconds, or a fraction."""
        return "fraction" if self.metric == SUCCESS else "s"

    @property
    def title(self) -> str:
        """With its unit."""
        return f"{self.name}, {self.unit}"

    @property
    def rises(self) -> bool:
        """Whether a higher threshold admits more: True for a tail, False for the success."""
        return self.metric != SUCCESS

    @property
    def _field(self) -> str:
        return self.metric if self.metric == SUCCESS else f"max_{self.metric}"

    def start(self, instance: Instance) -> Instance:
        """The instance with the limit at the lower end."""
        if self.metric not in METRICS:
            raise UsageError(
                f"an SLO has no {self.metric!r}{close_match(self.metric, METRICS)}", f"there are {', '.join(METRICS)}"
            )
        _known(instance, self.class_name, "an SLO")
        _range(self, at_least=0.0, positive=self.rises)
        if not self.rises and self.hi > 1.0:
            raise UsageError(f"{self.name} goes to {self.hi:g}, which is not a fraction in [0, 1]")
        return _with_class(instance, self._limited(instance.class_by_name[self.class_name], self.lo))

    def at(self, envelope: Envelope, value: float) -> Envelope:
        """The envelope with the limit at `value`; whether there is a limit at all must be as before (`start`)."""
        workload = self._limited(envelope.instance.class_by_name[self.class_name], value)
        class_envelope = envelope.classes[self.class_name]
        renewed = envelop(replace(class_envelope.view, workload=workload), envelope.assumptions)
        return _with_classes(envelope, _with_class(envelope.instance, workload), {self.class_name: renewed})

    def present(self, instance: Instance) -> float | None:
        """The limit that the instance states."""
        value: float | None = getattr(instance.class_by_name[self.class_name].slo, self._field)
        return value

    def thresholds(self, envelope: Envelope) -> list[float]:
        """Every value at which a cell of the class starts or ends to pass: the ends of its measured and bounded intervals."""
        found = set()
        for b in envelope.classes[self.class_name].bounds.values():
            interval = b.success if self.metric == SUCCESS else b.tails_s[self.metric.removesuffix("_p99_s")]
            found |= {interval.lo, interval.hi}
        return sorted(value for value in found if math.isfinite(value))

    def _limited(self, workload: WorkloadClass, value: float) -> WorkloadClass:
        limits: dict[str, float] = {self._field: value}
        return replace(workload, slo=replace(workload.slo, **limits))


@dataclass(frozen=True, slots=True)
class DemandAxis:
    """A factor > 0 of the stated demand of one class, or of all (`class_name` None); floors are rates and stay."""

    class_name: str | None
    lo: float
    hi: float
    unit: ClassVar[str] = "factor"

    @property
    def name(self) -> str:
        """Whose demand it is."""
        return "demand of all classes" if self.class_name is None else f"demand of {self.class_name}"

    @property
    def title(self) -> str:
        """With its unit."""
        return f"factor of the stated {self.name}"

    def start(self, instance: Instance) -> Instance:
        """The instance as it is: factors are those of its demand."""
        _range(self, at_least=0.0, positive=True)
        if self.class_name is not None:
            _known(instance, self.class_name, "a demand")
        if not self.scaled(instance):
            raise UsageError(f"the {self.name} is 0: no factor changes it", "set it in classes.csv first")
        with_demand_scale(_scaled(instance, self, self.hi), 1.0)
        return instance

    def scales(self, class_name: str) -> bool:
        """Whether the axis varies the demand of a class."""
        return self.class_name in (None, class_name)

    def scaled(self, instance: Instance) -> list[str]:
        """The classes whose demand the axis changes: it is not 0."""
        return [c.name for c in instance.classes if self.scales(c.name) and c.demand_rps > 0.0]

    def at(self, envelope: Envelope, value: float) -> Envelope:
        """The envelope with the demand times `value`: no bound depends on it."""
        instance = _scaled(envelope.instance, self, value)
        renewed = {
            name: _viewing(class_envelope, workload=instance.class_by_name[name])
            for name, class_envelope in envelope.classes.items()
            if self.scales(name)
        }
        return _with_classes(envelope, instance, renewed)

    def present(self, instance: Instance) -> float | None:
        """The stated demand is factor 1."""
        return 1.0


@dataclass(frozen=True, slots=True)
class EpsilonAxis:
    """The largest gap that certifies, and with it η where the instance does not state that."""

    lo: float
    hi: float
    name: ClassVar[str] = "epsilon"
    unit: ClassVar[str] = "fraction"
    title: ClassVar[str] = "epsilon"

    def start(self, instance: Instance) -> Instance:
        """The instance at the lower end."""
        _range(self, at_least=0.0, positive=True)
        if self.hi >= 1.0:
            raise UsageError(f"epsilon goes to {self.hi:g}, which is not a fraction in (0, 1)")
        return replace(instance, certificate=replace(instance.certificate, epsilon=self.lo))

    def at(self, envelope: Envelope, value: float) -> Envelope:
        """The envelope with another ε."""
        instance = envelope.instance
        return replace(envelope, instance=replace(instance, certificate=replace(instance.certificate, epsilon=value)))

    def present(self, instance: Instance) -> float | None:
        """The ε that the instance states."""
        return instance.certificate.epsilon


@dataclass(frozen=True, slots=True)
class GpusAxis:
    """The GPUs of a fleet of one pool: whole numbers."""

    lo: float
    hi: float
    name: ClassVar[str] = "gpus"
    unit: ClassVar[str] = "GPUs"
    title: ClassVar[str] = "GPUs"

    def start(self, instance: Instance) -> Instance:
        """The instance with the fewest GPUs."""
        _range(self, at_least=1.0, positive=True)
        if self.lo != int(self.lo) or self.hi != int(self.hi):
            raise UsageError(f"the GPUs go from {self.lo:g} to {self.hi:g}, which are not whole numbers")
        with_gpus(instance, int(self.hi))
        return with_gpus(instance, int(self.lo))

    def at(self, envelope: Envelope, value: float) -> Envelope:
        """The envelope on a fleet of `value` GPUs."""
        fleet = envelope.instance.fleet
        # One GPU more than the largest fleet that may be asked for can still be decided.
        instance = replace(envelope.instance, fleet=replace(fleet, pools=(replace(fleet.pools[0], gpus=int(value)),)))
        pools = {pool.name: pool for pool in instance.fleet.pools}
        renewed = {
            name: replace(class_envelope, view=replace(class_envelope.view, pools=pools))
            for name, class_envelope in envelope.classes.items()
        }
        return _with_classes(envelope, instance, renewed)

    def present(self, instance: Instance) -> float | None:
        """The fleet's GPUs."""
        return float(instance.fleet.gpus)


def _range(axis: Axis, *, at_least: float, positive: bool) -> None:
    if not (math.isfinite(axis.lo) and math.isfinite(axis.hi)) or axis.lo > axis.hi:
        raise UsageError(f"{axis.name} from {axis.lo:g} to {axis.hi:g} is not a range", "give LO:HI with LO <= HI")
    if axis.lo < at_least or (positive and axis.lo <= 0.0):
        least = "above 0" if at_least == 0.0 else f"at least {at_least:g}"
        raise UsageError(f"{axis.name} starts at {axis.lo:g}, which must be {least if positive else 'at least 0'}")


def _known(instance: Instance, class_name: str, what: str) -> None:
    if class_name not in instance.class_by_name:
        names = [c.name for c in instance.classes]
        raise UsageError(
            f"{what} is given for {class_name!r}, which is not a class{close_match(class_name, names)}",
            f"there are {', '.join(names)}",
        )


def _scaled(instance: Instance, axis: DemandAxis, factor: float) -> Instance:
    classes = tuple(
        replace(c, demand_rps=c.demand_rps * factor) if axis.scales(c.name) else c for c in instance.classes
    )
    return replace(instance, classes=classes)


def _with_class(instance: Instance, workload: WorkloadClass) -> Instance:
    return replace(instance, classes=tuple(workload if c.name == workload.name else c for c in instance.classes))


def _viewing(class_envelope: ClassEnvelope, workload: WorkloadClass) -> ClassEnvelope:
    return replace(class_envelope, view=replace(class_envelope.view, workload=workload))


def _with_classes(envelope: Envelope, instance: Instance, renewed: dict[str, ClassEnvelope]) -> Envelope:
    return replace(envelope, instance=instance, classes={**envelope.classes, **renewed})
