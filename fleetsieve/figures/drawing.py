"""What all figures share: the plotting library, loaded when the first is drawn, and their common look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetsieve.errors import SolverMissing, spelled_out
from fleetsieve.figures.palette import Palette
from fleetsieve.instance import CellKey

WIDTH, HEIGHT = 520, 240
"""Pixels of one panel in a file."""

FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"

Chart = Any
"""An altair chart: it has `save`, `to_dict` and what else the library gives."""


def altair() -> Any:
    """The plotting library.

    Raises:
        SolverMissing: when it is not installed.
    """
    try:
        import altair as alt
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise SolverMissing(f"a figure needs {error.name}", "pip install 'fleetsieve[plots]'") from error
    return alt


def values(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as the data of a chart; infinities do not belong in them."""
    return altair().Data(values=[dict(row) for row in rows])


def plain(text: str) -> str:
    """A name from a file on one line, its control characters spelled out."""
    return spelled_out(text).replace("\n", "\\n").replace("\t", "\\t")


def titled(key: CellKey) -> dict[str, Any]:
    """The parts of a cell's key, and its name in a tooltip."""
    parts = {
        "class": plain(key.class_name),
        "tp": f"TP{plain(key.server.degree)}",
        "load": plain(f"{key.load}{key.server.place}"),
    }
    return {**parts, "cell": " ".join(parts.values())}


def tips(**titles: str) -> list[Any]:
    """Tooltip lines: field name -> what is before it."""
    alt = altair()
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]


THIN, BROADER = 1.5, 3.75
"""Pixels of the thinnest of several lines, and how much broader each is than the next."""


TIES = (1.5, 4)
"""The dashes of a broad line under others: they stand out on both sides, like the ties of a railway."""


@dataclass(frozen=True)
class Stroke:
    """How one of several lines is drawn."""

    colour: str
    dash: tuple[float, float] = (1, 0)


def strokes(field: str, looks: Mapping[str, Stroke], columns: int) -> dict[str, Any]:
    """The encodings of lines that `field` names, with one legend that shows each as it is drawn.

    Lines may lie on one another: the first of `looks` is the broadest, each next one is thinner and drawn above it.
    """
    alt, names = altair(), list(looks)

    def of(kind: Any, values_of: list[Any]) -> Any:
        legend = alt.Legend(columns=columns, symbolType="stroke", symbolSize=500)
        return kind(f"{field}:N", title=None, sort=names, legend=legend, scale=alt.Scale(domain=names, range=values_of))

    return {
        "color": of(alt.Color, [look.colour for look in looks.values()]),
        "strokeDash": of(alt.StrokeDash, [list(look.dash) for look in looks.values()]),
        # The library spreads widths evenly between the two ends of a range.
        "strokeWidth": of(alt.StrokeWidth, [THIN + BROADER * (len(names) - 1), THIN]),
    }


def only(base: Chart, field: str, value: str) -> Chart:
    """The rows of a chart in which `field` is `value`."""
    return base.transform_filter({"field": field, "equal": value})


def sized(chart: Chart, height: int = HEIGHT, width: int | str = WIDTH) -> Chart:
    """The chart itself with its size in pixels; width "container" makes it as wide as its place in a page."""
    # Set in place: the library's own methods copy all data at each call.
    chart.width, chart.height = width, height
    return chart


def styled(chart: Chart, palette: Palette, *, background: bool = True) -> Chart:
    """The chart itself with the common look; `background` paints the paper."""
    axis = {
        "labelColor": palette.soft, "titleColor": palette.soft, "domainColor": palette.soft, "tickColor": palette.soft,
        "gridColor": palette.faint, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
        "labelFont": FONT, "titleFont": FONT,
    }  # fmt: skip
    legend = {
        "labelColor": palette.ink, "titleColor": palette.soft, "labelFont": FONT, "titleFont": FONT, "labelFontSize": 11,
        "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 180, "symbolStrokeWidth": 2, "symbolOpacity": 1,
        "orient": "top", "columns": 4,
    }  # fmt: skip
    title = {"color": palette.ink, "font": FONT, "fontSize": 13, "anchor": "start", "fontWeight": 600}
    chart.config = altair().Config(
        background=palette.paper if background else "transparent",
        font=FONT,
        view={"stroke": None},
        axis=axis,
        legend=legend,
        title=title,
        text={"color": palette.ink, "font": FONT},
    )
    return chart
