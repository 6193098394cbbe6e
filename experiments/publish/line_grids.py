"""Lines over lengths, steps, values, layers or positions: one panel or many, with one legend."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from leadline.experiments.publish.style import GREY, LETTERS, legend, look, panels_of, set_logarithmic

# More points than this have no marks of their own.
MARKED = 16
# More points than this are drawn as a thin line.
DENSE = 200
# More lines than this have their legend beside a single panel.
ABOVE = 6


@dataclass(frozen=True)
class Line:
    """One line over several seeds: x, and mean, least and greatest y of the seeds at each."""

    label: str  # the same in every panel
    x: Float[np.ndarray, " X"]  # ascending
    y: Float[np.ndarray, " X"]  # means
    low: Float[np.ndarray, " X"]  # least values
    high: Float[np.ndarray, " X"]  # greatest values
    # a place on the horizontal axis: a dashed line in the line's colour, unless it lies beyond all points
    mark: float | None = None


@dataclass(frozen=True)
class Axis:
    """An axis."""

    label: str  # the quantity and its unit
    log: bool = False  # it is logarithmic wherever its values are positive, and not only where they span decades
    share: bool = False  # its values are shares: from 0 on, and never logarithmic by themselves
    linear: bool = False  # its values are whole numbers, whatever they span: steps and layers
    tokens: bool = False  # its values are tokens, with ticks at powers of two


@dataclass(frozen=True)
class Panel:
    """Lines under a title, their vertical axis, and the training length where all lines have the same one."""

    title: str
    lines: Sequence[Line]
    y: Axis
    trained: float | None = None


def line_grid(
    panels: Sequence[Panel], x: Axis, most_columns: int, *, sharey: bool, marks: str = "", behind: bool = False
) -> Figure:
    """Panels of lines over one x: means as lines, the range of the seeds as areas. A label has one look in every panel.

    There is at least one panel, each with at least one line. `marks` is what the legend says of a dashed line; with `behind`
    the first line of each panel is grey in the others.
    """
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    columns = min(most_columns, len(panels))
    beside = len(panels) == 1 and len(labels) > ABOVE
    wide = 3.4 if columns <= 2 else 2.5
    size = (8.6 if beside else 7.4, 4.2)
    if len(panels) > 1:
        size = (0.8 + wide * max(columns, 2), 1.3 + 0.8 * wide * -(-len(panels) // columns))
    figure = Figure(figsize=size, layout="constrained")
    furthest = max(float(line.x[-1]) for panel in panels for line in panel.lines)
    axes_of = panels_of(figure, len(panels), columns, sharey=sharey)
    for axes, panel in zip(axes_of, panels, strict=True):
        if behind:
            for other in panels:
                axes.plot(other.lines[0].x, other.lines[0].y, color="#cccccc", linewidth=0.8, zorder=1)
        for line in panel.lines:
            _draw(axes, line, look(labels.index(line.label)), furthest)
        if panel.trained is not None:
            axes.axvline(panel.trained, color=GREY, linestyle=":", linewidth=1.2)
        if any(np.min(line.y) < 0 < np.max(line.y) for line in panel.lines):
            axes.axhline(0.0, color="#444444", linewidth=0.8)
        axes.set_title(panel.title)
    _scale_across(axes_of[0], panels, x, most=7 if columns <= 2 else 4)
    for axes, panel in zip(axes_of[:1] if sharey else axes_of, panels, strict=False):
        _scale_up(axes, panels if sharey else [panel], panel.y)
    figure.supxlabel(x.label, fontsize=10)
    figure.supylabel(textwrap.fill(panels[0].y.label, round(LETTERS * size[1])), fontsize=10)
    legend(figure, _handles(labels, panels, marks, behind=behind), beside=beside)
    return figure


def _draw(axes: Axes, line: Line, style: dict[str, Any], furthest: float) -> None:
    marker = style["marker"] if len(line.x) <= MARKED else ""
    width = 0.8 if len(line.x) > DENSE else None
    axes.plot(line.x, line.y, linewidth=width, **{**style, "marker": marker})
    if np.any(line.high > line.low):
        axes.fill_between(line.x, line.low, line.high, color=style["color"], alpha=0.16, lw=0)
    if line.mark is not None and line.mark <= furthest:
        axes.axvline(line.mark, color=style["color"], linestyle="--", linewidth=1.1)


def _scale_across(axes: Axes, panels: Sequence[Panel], x: Axis, most: int) -> None:
    if x.linear:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        return
    places = [float(value) for panel in panels for line in panel.lines for value in line.x]
    distinct = sorted(set(places))
    ticks = distinct if len(distinct) <= MARKED and not x.tokens else ()
    if x.tokens and distinct[0] > 0:  # powers of two
        ticks = [2.0**k for k in range(math.ceil(math.log2(distinct[0])), math.floor(math.log2(distinct[-1])) + 1)]
    set_logarithmic(axes.xaxis, places, x.share, x.log or x.tokens, ticks, most)


def _scale_up(axes: Axes, panels: Sequence[Panel], y: Axis) -> None:
    values = [float(value) for panel in panels for line in panel.lines for value in line.y]
    if not set_logarithmic(axes.yaxis, values, y.share, y.log) and y.share and min(values) >= 0:
        highest = max(float(np.max(line.high)) for panel in panels for line in panel.lines)
        axes.set_ylim(0.0, min(1.02, 1.08 * highest) if 0 < highest <= 1 else None)


def _handles(labels: Sequence[str], panels: Sequence[Panel], marks: str, *, behind: bool) -> list[Line2D]:
    """The lines, and what dashed, dotted and grey ones are."""
    few = all(len(line.x) <= MARKED for panel in panels for line in panel.lines)
    styles: list[dict[str, Any]] = [look(index) | ({} if few else {"marker": ""}) for index in range(len(labels))]
    handles = [Line2D([], [], label=label, **style) for label, style in zip(labels, styles, strict=True) if label]
    if len(handles) == 1 and len(panels) == 1:
        handles = []
    if marks and any(line.mark is not None for panel in panels for line in panel.lines):
        handles.append(Line2D([], [], color=GREY, linestyle="--", linewidth=1.1, label=marks))
    if any(panel.trained is not None for panel in panels):
        handles.append(Line2D([], [], color=GREY, linestyle=":", linewidth=1.2, label="training length"))
    if behind and len(panels) > 1:
        handles.append(Line2D([], [], color="#cccccc", linewidth=0.8, label=f"{panels[0].lines[0].label}, other panels"))
    return handles
