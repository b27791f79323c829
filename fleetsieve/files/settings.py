"""instance.toml -> the fleet, the facts and the settings, with an error for every wrong key, by line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetsieve import __version__
from fleetsieve.errors import UsageError
from fleetsieve.extensions import ASSUMPTION, is_outside
from fleetsieve.files import toml_schema as schema
from fleetsieve.files.faults import FaultList
from fleetsieve.files.plausibility import wide_slack
from fleetsieve.files.spelling import SPELLED_TWICE, spelled_twice
from fleetsieve.files.toml_lines import Place, line_of
from fleetsieve.files.toml_reading import TomlTables, read_toml, shown
from fleetsieve.files.toml_schema import Key, Type
from fleetsieve.instance import DEFAULT_POOL, DEFAULT_VARIANT, CertificateSettings, Facts, Fleet, MeasureSettings, Pool


@dataclass(frozen=True, slots=True)
class Settings:
    """What instance.toml states. Where it has errors, what is right is here and the rest has its default.

    `pools` is None when the pools is not known; a pool whose gpus are wrong has 0. `newer`: a newer version of this program
    made the folder, so what is unknown here need not be wrong, and nothing else of it is read.
    """

    name: str = ""
    source: str = ""
    max_utilisation: float = 1.0
    pools: tuple[Pool, ...] | None = None
    facts: Facts = field(default_factory=Facts)
    certificate: CertificateSettings = field(default_factory=CertificateSettings)
    measure: MeasureSettings = field(default_factory=MeasureSettings)
    assumptions: Mapping[str, Mapping[str, float | bool]] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    newer: bool = False

    @property
    def fleet(self) -> Fleet:
        """The fleet; only for settings without errors."""
        return Fleet(self.pools or (), self.max_utilisation)


def read_settings(path: Path, faults: FaultList) -> Settings:
    """What instance.toml at `path` states; its errors are added to `faults`."""
    tables = read_toml(path, faults)
    return Settings() if tables is None else _Reader(tables.content, tables.lines, faults).settings()


class _Reader(TomlTables):
    def settings(self) -> Settings:
        if self.newer():
            return Settings(newer=True)
        self.refuse_unknown((), self.content, [*schema.TOP, *schema.SECTIONS])
        top = self.values((), self.content, schema.TOP)
        version = top.get("schema_version", schema.SCHEMA_VERSION)
        if version != schema.SCHEMA_VERSION:
            self.tell(
                ("schema_version",), "version", f"schema_version {version} is unknown; write {schema.SCHEMA_VERSION}"
            )
        if top.get("name", "x") == "":
            self.tell(("name",), "empty field", "name is empty; write the name of the instance")
        max_utilisation, pools = self.fleet()
        measure = MeasureSettings(**self.section("measure", schema.MEASURE))
        if measure.max_window_s is not None and measure.max_window_s < measure.window_s:
            message = f"max_window_s {measure.max_window_s:g} is less than window_s {measure.window_s:g}"
            self.tell(("measure", "max_window_s"), "out of range", message)
        certificate = CertificateSettings(**self.section("certificate", schema.CERTIFICATE))
        if why := wide_slack(certificate):
            line = line_of(self.lines, ("certificate", "eta"))
            self.faults.suspect(line, "certificate.eta", "slack above the gap", why)
        return Settings(
            name=top.get("name", ""),
            source=top.get("source", ""),
            max_utilisation=max_utilisation,
            pools=pools,
            facts=self.facts(),
            certificate=certificate,
            measure=measure,
            assumptions=self.assumptions(),
            noise=self.section("noise", schema.NOISE),
        )

    def newer(self) -> bool:
        """Whether the folder has the format of a newer version, which is an error."""
        version = self.content.get("schema_version")
        if not isinstance(version, int) or isinstance(version, bool) or version <= schema.SCHEMA_VERSION:
            return False
        message = (
            f"schema_version {version}: a newer version of FleetSieve made this folder; this version ({__version__}) reads "
            f"schema_version {schema.SCHEMA_VERSION}: install the newer version"
        )
        self.tell(("schema_version",), "version", message)
        return True

    def fleet(self) -> tuple[float, tuple[Pool, ...] | None]:
        fleet = self.table("fleet")
        if fleet is None:
            self.tell(("fleet",), "missing section", "the section [fleet] is missing; write [fleet] with gpus = ...")
            return 1.0, None
        self.refuse_unknown(("fleet",), fleet, [*schema.FLEET, *schema.FLEET_WITHOUT_POOLS, "pools"])
        shared = self.values(("fleet",), fleet, schema.FLEET)
        pools: list[Pool] = []
        if "pools" not in fleet:
            pools.append(self.pool(("fleet",), fleet, schema.FLEET_WITHOUT_POOLS))
            return shared.get("max_utilisation", 1.0), tuple(pools)
        for name in (name for name in schema.FLEET_WITHOUT_POOLS if name in fleet):
            message = f"[fleet] {name} and [[fleet.pools]] exclude each other; write {name} in each pool"
            self.tell(("fleet", name), "two fleets", message)
        tables = fleet["pools"]
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            self.tell(
                ("fleet", "pools"), "wrong type", "pools must be tables; write [[fleet.pools]] once for each pool"
            )
            return shared.get("max_utilisation", 1.0), None
        for number, table in enumerate(tables):
            place: Place = ("fleet", "pools", number)
            self.refuse_unknown(place, table, schema.POOL)
            pool = self.pool(place, table, schema.POOL)
            if "name" in table and pool.name == "":
                self.tell((*place, "name"), "empty field", "name is empty; write the name of the pool")
            if pool.name and pool.name in {other.name for other in pools}:
                self.tell(
                    (*place, "name"), "duplicate pool", f"a second pool is called {pool.name!r}; names must differ"
                )
            for _, earlier in spelled_twice([*(other.name for other in pools), pool.name]):
                message = f"pool {pool.name!r} is pool {earlier!r}, {SPELLED_TWICE}"
                self.tell((*place, "name"), "duplicate pool", message)
            pools.append(pool)
        return shared.get("max_utilisation", 1.0), tuple(pools)

    def facts(self) -> Facts:
        """[facts], and [facts.variant.NAME] for each engine variant that has facts of its own."""
        table = self.table("facts") or {}
        self.refuse_unknown(("facts",), table, [*schema.FACTS, "variant"])
        stated, variants = table.get("variant", {}), {}
        if not isinstance(stated, dict) or not all(isinstance(one, dict) for one in stated.values()):
            right = "the facts of a variant are a section; write [facts.variant.NAME]"
            self.tell(("facts", "variant"), "wrong type", right)
            stated = {}
        for name, one in stated.items():
            place: Place = ("facts", "variant", name)
            if name == DEFAULT_VARIANT:
                self.tell(place, "default variant", f"the facts of the variant {name!r} belong in [facts]")
            self.refuse_unknown(place, one, schema.FACTS)
            variants[name] = Facts(**self.values(place, one, schema.FACTS))
        return Facts(**self.values(("facts",), table, schema.FACTS), variants=variants)

    def pool(self, place: Place, table: Mapping[str, Any], keys: Mapping[str, Key]) -> Pool:
        values: dict[str, Any] = {"name": "" if "name" in keys else DEFAULT_POOL, "gpus": 0}
        return Pool(**(values | self.values(place, table, keys)))

    def assumptions(self) -> Mapping[str, Mapping[str, float | bool]]:
        from fleetsieve.bounds.assumptions import SETTINGS, settings_taken  # here: it needs numpy, which takes a while

        section = self.table("assumptions") or {}
        outside = [name for name in section if name not in SETTINGS and is_outside(ASSUMPTION, name)]
        self.refuse_unknown(("assumptions",), section, [*SETTINGS, *outside])
        read: dict[str, Mapping[str, float | bool]] = {}
        for name in (name for name in (*SETTINGS, *outside) if name in section):
            place, value = ("assumptions", name), section[name]
            try:
                numbers = settings_taken(name)
            except UsageError as error:
                self.tell(place, "not installed", f"{error.message}; {error.hint}" if error.hint else error.message)
                continue
            keys = {"enabled": Key(Type.FLAG)} | {number: Key(Type.NUMBER) for number in numbers}
            if isinstance(value, bool):
                read[name] = {"enabled": value}
            elif isinstance(value, dict):
                self.refuse_unknown(place, value, keys)
                read[name] = self.values(place, value, keys)
            else:
                remedy = f"write {name} = true, or {name} = {{ {', '.join(f'{key} = ...' for key in keys)} }}"
                self.tell(place, "wrong type", f"{shown(value)} is neither true, false nor an inline table; {remedy}")
        return read
