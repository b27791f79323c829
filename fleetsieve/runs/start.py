"""The first line of a run's log: what the run was started with. It is written and read here alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fleetsieve import __version__
from fleetsieve.errors import UsageError
from fleetsieve.rule_sets import CURRENT, FIRST

REPLAY, VLLM = "replay", "vllm"
PROBES = (REPLAY, VLLM)
_HORIZON = "stop_when_unprofitable_h"


@dataclass(frozen=True)
class RunStart:
    """What a run was started with.

    `horizon_h` are the hours of --stop-when-unprofitable (None: it has no stop rule). `config` is the serve.toml of a live run,
    `endpoints` the servers of others by their TP, `max_servers` how many are up at once. `version` is the one that started it
    (None: not recorded), `files` the SHA-256 of the files that stay as they are, by name.
    """

    policy: str
    seed: int
    horizon_h: float | None = None
    probe: str = REPLAY
    config: Path | None = None
    endpoints: Mapping[int, str] = field(default_factory=dict)
    max_servers: int = 1
    rule_set: int = CURRENT
    version: str | None = __version__
    files: Mapping[str, str] = field(default_factory=dict)

    def line(self, instance: str) -> dict[str, Any]:
        """The line of a new run on the instance of that name, without `files`: these are added when they are in its folder."""
        line: dict[str, Any] = {"step": 0, "fleetsieve": self.version, "instance": instance, "probe": self.probe}
        if self.config is not None:
            endpoints = {str(tp): url for tp, url in self.endpoints.items()}
            line |= {"config": os.path.abspath(self.config), "endpoints": endpoints, "max_servers": self.max_servers}
        line |= {"policy": self.policy, "seed": self.seed, "rule_set": self.rule_set}
        if self.horizon_h is not None:
            line[_HORIZON] = self.horizon_h
        return line

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> RunStart:
        """What the line of a run of any version states; what a version did not write yet has its value of then.

        Raises:
            UsageError: when the line is damaged; it names the entry.
        """
        policy, seed, horizon_h = line.get("policy"), line.get("seed"), line.get(_HORIZON)
        if not isinstance(policy, str) or not isinstance(seed, int):
            raise _damaged(f"policy {policy!r}, seed {seed!r}")
        if horizon_h is not None and not isinstance(horizon_h, int | float):
            raise _damaged(f"{_HORIZON} {horizon_h!r}")
        rule_set, files = line.get("rule_set", FIRST), line.get("files")
        if not isinstance(rule_set, int):
            raise _damaged(f"rule_set {rule_set!r}")
        version = line.get("fleetsieve")
        stated = cls(
            policy,
            seed,
            None if horizon_h is None else float(horizon_h),
            rule_set=rule_set,
            version=str(version) if version is not None else None,
            files=files if isinstance(files, dict) else {},
        )
        return stated._measuring(line)

    def _measuring(self, line: Mapping[str, Any]) -> RunStart:
        """The same with what the run measures with."""
        try:
            if line["probe"] == REPLAY:
                return self
            endpoints = {int(tp): str(url) for tp, url in line["endpoints"].items()}
            return replace(
                self,
                probe=str(line["probe"]),
                config=Path(line["config"]),
                endpoints=endpoints,
                max_servers=int(line["max_servers"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(f"{error!r} about what it measures with") from error


def _damaged(what: str) -> UsageError:
    return UsageError(f"the first line of the log is damaged: {what}")
