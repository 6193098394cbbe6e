"""What all figures have in common. Equal records give equal bytes: no dates, no global state, fixed names."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, MaxNLocator, NullLocator, ScalarFormatter
from matplotlib.typing import RcKeyType

# Okabe and Ito's palette without its yellow, which is too light for lines on white: told apart by the colour-blind.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":")
GREY = "#8a8a8a"

# A fixed salt for the identifiers of the SVG; text as outlines, so that it looks the same without the font.
STYLE: dict[RcKeyType, Any] = {
    "svg.hashsalt": "leadline",
    "svg.fonttype": "path",
    "font.size": 10.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}
DOTS_PER_INCH = 150
# Letters of the legend's size in an inch, and those that a handle and its space take.
LETTERS, HANDLE = 13.0, 7


@dataclass(frozen=True)
class Drawing:
    """A finished figure: its file name without ending, what it shows, and its two encodings."""

    name: str
    caption: str
    png: bytes
    svg: bytes


def encode(name: str, caption: str, figure: Figure) -> Drawing:
    """Renders to PNG and SVG without the metadata that would differ from one day or machine to the next."""
    FigureCanvasAgg(figure)
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    figure.set_layout_engine("none")  # the layout stands, and takes as long as drawing
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Drawing(name, caption, png.getvalue(), svg.getvalue())


def look(index: int) -> dict[str, Any]:
    """Colour and dashes of a line, and the shape of its marks: none is there twice below 29."""
    lap = index // len(PALETTE)
    return {
        "color": PALETTE[index % len(PALETTE)],
        "linestyle": DASHES[lap % len(DASHES)],
        "marker": MARKERS[index % len(MARKERS)],
        "markerfacecolor": "none" if lap else PALETTE[index % len(PALETTE)],
    }


def marks_of(labels: Sequence[str]) -> list[Line2D]:
    """The handles of a legend of marks without lines."""
    return [Line2D([], [], label=label, **{**look(index), "linestyle": "none"}) for index, label in enumerate(labels)]


def legend(figure: Figure, handles: Sequence[Line2D], *, beside: bool = False) -> None:
    """Beside the axes, or above them in as many columns as fit into the width of the figure."""
    if not handles:
        return
    if beside:
        figure.legend(handles=handles, loc="outside right upper")
        return
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, int(figure.get_figwidth() * LETTERS / (longest + HANDLE)))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(columns, len(handles)))


def panels_of(figure: Figure, count: int, columns: int, *, sharey: bool) -> list[Axes]:
    """Axes of one x for `count` panels in rows of `columns`; the lowest of each column has the labels of x."""
    rows = math.ceil(count / columns)
    grid = list(figure.subplots(rows, columns, sharex=True, sharey=sharey, squeeze=False).ravel())
    for axes in grid[count:]:
        axes.set_visible(False)
    for axes in grid[max(0, count - columns) : count]:
        axes.tick_params(axis="x", labelbottom=True)
    return grid[:count]


def set_logarithmic(
    axis: XAxis | YAxis, values: Sequence[float], share: bool, log: bool, places: Sequence[float] = (), most: int = 7
) -> bool:
    """Makes an axis logarithmic where it is asked for, or where positive values that are no shares span decades.

    Its ticks are at `most` of the places, else at 1, 2, 5 or at powers of ten. Returns whether it is logarithmic.
    """
    low, high = min(values), max(values)
    if low <= 0 or not (log or (not share and high >= 30 * low)):
        return False
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_minor_locator(NullLocator())
    if places:
        shown = places[:: math.ceil(len(places) / most)]
        axis.set_ticks(shown, [tick_text(place) for place in shown])
    elif high < 100 * low:
        narrow = high < 5 * low
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]) if narrow else LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(ScalarFormatter())
    else:
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_major_formatter(LogFormatterSciNotation())
    return True


def tick_text(value: float) -> str:
    """Multiples of 1024 from 16k on are written as 16k, powers of ten from a hundred thousand on as such."""
    if value >= 16384 and value % 1024 == 0:
        return f"{value / 2**20:g}M" if value % 2**20 == 0 else f"{value / 1024:g}k"
    exponent = math.log10(value) if value > 0 else 0.5
    return f"$10^{{{round(exponent)}}}$" if value >= 1e5 and exponent == round(exponent) else f"{value:g}"
