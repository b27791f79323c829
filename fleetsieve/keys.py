"""What names a server, a cell and an arm: one value each, with one label, written and sorted in one place."""

from __future__ import annotations

from typing import NamedTuple, Self

DEFAULT_POOL = DEFAULT_VARIANT = "default"


class ServerKey(NamedTuple):
    """What runs a replica: a tensor-parallel degree on a GPU pool, with an engine variant. All that names a server is here."""

    tp: int
    pool: str = DEFAULT_POOL
    variant: str = DEFAULT_VARIANT

    @property
    def degree(self) -> str:
        """The degree, with the variant where it is not the default one: "4", "4 fp8"."""
        return str(self.tp) if self.variant == DEFAULT_VARIANT else f"{self.tp} {self.variant}"

    @property
    def place(self) -> str:
        """Where it runs, as it follows a name: " on h200"; empty on the default pool."""
        return "" if self.pool == DEFAULT_POOL else f" on {self.pool}"

    @property
    def family(self) -> tuple[str, str]:
        """Pool and variant: servers of one family differ in their degree alone."""
        return (self.pool, self.variant)

    def __str__(self) -> str:
        return f"TP{self.degree}{self.place}"


class _CellFields(NamedTuple):
    class_name: str
    server: ServerKey
    load: str


class CellKey(_CellFields):
    """What names a cell in every file and output: class, server and load label. Keys sort by class, degree, load, pool, variant.

    A whole number in place of the server is its tensor-parallel degree, on the default pool or on `pool`.
    """

    __slots__ = ()

    def __new__(
        cls,
        class_name: str,
        server: ServerKey | int,
        load: str,
        pool: str = DEFAULT_POOL,
        variant: str = DEFAULT_VARIANT,
    ) -> Self:
        """The key of a cell; `pool` and `variant` count where `server` is a degree."""
        key = server if isinstance(server, ServerKey) else ServerKey(server, pool, variant)
        return super().__new__(cls, class_name, key, load)

    def __getnewargs__(self) -> tuple[str, ServerKey, str]:
        return (self.class_name, self.server, self.load)

    @property
    def tp(self) -> int:
        """The tensor-parallel degree."""
        return self.server.tp

    @property
    def pool(self) -> str:
        """The GPU pool."""
        return self.server.pool

    @property
    def variant(self) -> str:
        """The engine variant."""
        return self.server.variant

    @property
    def arm(self) -> ArmKey:
        """The arm that the cell belongs to."""
        return ArmKey(self.class_name, self.server)

    @property
    def configuration(self) -> str:
        """The name without the class: "TP4 c16 on h200"."""
        return f"TP{self.server.degree} {self.load}{self.server.place}"

    @property
    def parts(self) -> tuple[str | int, ...]:
        """Class, degree, load, pool, and the variant where it is not the default one: what `CellKey(*parts)` makes the key of.

        Draws start from them and finished work is stored by them, so they never change for a key.
        """
        variant = () if self.variant == DEFAULT_VARIANT else (self.variant,)
        return (self.class_name, self.tp, self.load, self.pool, *variant)

    @property
    def order(self) -> tuple[str, int, str, str, str]:
        """What keys are sorted by."""
        tp, pool, variant = self.server
        return (self.class_name, tp, self.load, pool, variant)

    def __lt__(self, other: tuple[object, ...]) -> bool:
        return self.order < other.order if isinstance(other, CellKey) else NotImplemented

    def __le__(self, other: tuple[object, ...]) -> bool:
        return self.order <= other.order if isinstance(other, CellKey) else NotImplemented

    def __gt__(self, other: tuple[object, ...]) -> bool:
        return self.order > other.order if isinstance(other, CellKey) else NotImplemented

    def __ge__(self, other: tuple[object, ...]) -> bool:
        return self.order >= other.order if isinstance(other, CellKey) else NotImplemented

    def __str__(self) -> str:
        return f"{self.class_name} {self.configuration}"


class ArmKey(NamedTuple):
    """What names an arm: all cells of one class on one kind of server."""

    class_name: str
    server: ServerKey

    @property
    def tp(self) -> int:
        """The tensor-parallel degree."""
        return self.server.tp

    def __str__(self) -> str:
        return f"{self.class_name} {self.server}"
