"""What all figures have in common. Equal records give equal bytes: no dates, no global state, fixed names."""

import io
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox
from matplotlib.typing import RcKeyType

PAPER, INK, GREY, RULE, FAINT = "#ffffff", "#1b1f24", "#8a8a8a", "#dddddd", "#cccccc"
# Okabe and Ito's palette, and the wine of Paul Tol's in place of its yellow, which is too light for lines on white: told apart
# by the colour-blind.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK, "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
DASHES = ("-", "--", "-.", ":")
# What browsers paint in place of a colour on a dark page. All other colours are legible on both.
DARK = {PAPER: "#0d1117", INK: "#e6edf3", RULE: "#30363d", FAINT: "#484f58", PALETTE[0]: "#2f96d8", PALETTE[7]: "#c0558a"}
# Fewer seeds than this are shown as points, more as the range of their middle half.
FEW_SEEDS = 10

# A fixed salt for the identifiers of the SVG. Its text is text, which can be read, searched and copied.
STYLE: dict[RcKeyType, Any] = {
    "svg.hashsalt": "leadline",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in the label of an arm is one
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "pdf.fonttype": 42,
    "font.size": 10.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}
DOTS_PER_INCH = 150
# Letters of the legend's size in an inch, those of a title, and those that a handle and its space take.
LETTERS, TITLE_LETTERS, HANDLE = 13.0, 10.5, 7
TITLE_SIZE = 11.5  # points


@dataclass(frozen=True)
class Drawing:
    """A finished figure: its file name without ending, its texts, its encodings, and its size in pixels of CSS."""

    name: str
    title: str  # the question that it answers
    caption: str  # what it shows
    png: bytes
    svg: bytes  # follows the colours of a light or dark page
    pdf: bytes
    width: int
    height: int


def encode(name: str, title: str, caption: str, figure: Figure) -> Drawing:
    """Renders to PNG, SVG and PDF without the metadata that would differ from one day or machine to the next.

    The title is set flush left above the figure, outside of its layout.
    """
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout stands, and takes as long as drawing
    for legend_of_all in figure.legends:  # keep their place below the title
        legend_of_all.set_bbox_to_anchor((0.0, 0.0, 1.0, 1.0), transform=figure.transFigure)
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(title, round(TITLE_LETTERS * width))
    figure.text(0.1 / width, 1.0, "\n".join(lines), va="bottom", size=TITLE_SIZE, weight="bold", in_layout=False)
    whole = height + (0.08 + 1.2 * TITLE_SIZE / 72 * len(lines) if lines else 0.0)
    box = Bbox([[0.0, 0.0], [width, whole]])
    png, svg, pdf = io.BytesIO(), io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=DOTS_PER_INCH, bbox_inches=box, metadata={"Software": None})
    dates = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(svg, format="svg", bbox_inches=box, metadata=dates)
    figure.savefig(pdf, format="pdf", bbox_inches=box, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    size = round(96 * width), round(96 * whole)
    return Drawing(name, title, caption, png.getvalue(), for_pages(svg.getvalue()), pdf.getvalue(), *size)


def for_pages(svg: bytes) -> bytes:
    """The SVG in fewer bytes, with a style sheet of colours where a browser prefers a dark scheme.

    Other viewers pass the style sheet over.
    """
    text = svg.decode()
    rules = [
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}' for light, dark in DARK.items() for kind in ("fill", "stroke")
    ]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*\n\s*", "\n", text)
    # Tenths of a point are finer than what is seen. Texts keep their digits.
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"([1-9]\d*\.\d)\d+", r"\1", tag[0]), text)
    place = text.index(">", text.index("<svg")) + 1
    sheet = f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>"
    return f"{text[:place]}{sheet}{text[place:]}".encode()


def look(index: int) -> dict[str, Any]:
    """Colour and dashes of a line, and the shape of its marks: none is there twice below 33."""
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
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]) if narrow else LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    else:
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _power_of_ten(round(math.log10(value)))))
    return True


def tick_text(value: float) -> str:
    """Multiples of 1024 from 16k on are written as 16k, powers of ten from a hundred thousand on as such."""
    if value >= 16384 and value % 1024 == 0:
        return f"{value / 2**20:g}M" if value % 2**20 == 0 else f"{value / 1024:g}k"
    exponent = math.log10(value) if value > 0 else 0.5
    return _power_of_ten(round(exponent)) if value >= 1e5 and exponent == round(exponent) else f"{value:g}"


def _power_of_ten(exponent: int) -> str:
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
