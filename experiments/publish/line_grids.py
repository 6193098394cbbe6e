"""Lines over lengths, steps, values, layers or positions: one panel or many, with one legend."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from leadline.experiments.publish.style import FAINT, FEW_SEEDS, GREY, INK, LETTERS, legend, look, panels_of, set_logarithmic
from leadline.experiments.records.estimates import share_interval

# More points than this have no marks of their own.
MARKED = 16
# The most places on an axis that has a tick at each of them.
FEW_PLACES = 4
# More points than this are drawn as a thin line.
DENSE = 200
# More lines than this have their legend beside a single panel.
ABOVE = 6
# How single seeds and their range look; the legend explains both.
SEED: dict[str, Any] = {"marker": "o", "markersize": 2.4, "alpha": 0.55, "linestyle": "none", "markeredgewidth": 0}
RANGE: dict[str, Any] = {"alpha": 0.18, "linewidth": 0}
THIN: dict[str, Any] = {"alpha": 0.5, "linewidth": 0.7}


@dataclass(frozen=True)
class Line:
    """One line over several seeds."""

    label: str  # the same in every panel
    x: Float[np.ndarray, " X"]  # ascending
    seeds: Sequence[Float[np.ndarray, " _"]]  # at each x the values of the seeds that have one
    # a place on the horizontal axis: a dashed line in the line's colour, unless it lies beyond all points
    mark: float | None = None
    counted: bool = False  # the values are 0 or 1, and their mean is a share of the seeds
    each_seed: bool = False  # seeds have lines of their own, where all of them have a value at each x

    @property
    def y(self) -> Float[np.ndarray, " X"]:
        """The mean over the seeds."""
        return np.array([values.mean() for values in self.seeds])

    @property
    def spread(self) -> Literal["none", "lines", "points", "range", "quartiles", "interval"]:
        """How the seeds are shown: as lines where that is asked for, as points where there are few of them and of x.

        Of many the middle half is shown.
        A share of them has its exact interval.
        """
        if self.counted:
            return "interval"
        least, most = (of(len(values) for values in self.seeds) for of in (min, max))
        if most == 1:
            return "none"
        if self.each_seed and least == most:
            return "lines"
        if most >= FEW_SEEDS:
            return "quartiles"
        return "points" if len(self.x) <= MARKED else "range"


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
    trained: float | None = None  # marked unless it lies beyond all points

    def within(self, furthest: float) -> "Panel":
        """The panel without what is marked beyond this place."""
        lines = [replace(line, mark=_within(line.mark, furthest)) for line in self.lines]
        return replace(self, lines=lines, trained=_within(self.trained, furthest))


def _within(place: float | None, furthest: float) -> float | None:
    return None if place is None or place > furthest else place


def line_grid(
    panels: Sequence[Panel], x: Axis, most_columns: int, *, sharey: bool, marks: str = "", behind: bool = False
) -> Figure:
    """Panels of lines over one x: means as lines, seeds as points or as an area.

    A label has one look in every panel. There is at least one panel, each with at least one line. `marks` says in the legend
    what a dashed line is; with `behind` the first line of each panel is grey in the others.
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
    panels = [panel.within(furthest) for panel in panels]
    axes_of = panels_of(figure, len(panels), columns, sharey=sharey)
    for axes, panel in zip(axes_of, panels, strict=True):
        if behind:
            for other in panels:
                axes.plot(other.lines[0].x, other.lines[0].y, color=FAINT, linewidth=0.8, zorder=1)
        for line in panel.lines:
            _draw(axes, line, look(labels.index(line.label)))
        if panel.trained is not None:
            axes.axvline(panel.trained, color=GREY, linestyle=":", linewidth=1.2)
        if any(np.min(line.y) < 0 < np.max(line.y) for line in panel.lines):
            axes.axhline(0.0, color=INK, linewidth=0.8)
        axes.set_title(panel.title or ("all" if len(panels) > 1 else ""))
    _scale_across(axes_of[0], panels, x, most=7 if columns <= 2 else 4)
    for axes, panel in zip(axes_of[:1] if sharey else axes_of, panels, strict=False):
        _scale_up(axes, panels if sharey else [panel], panel.y)
    figure.supxlabel(x.label, fontsize=10)
    figure.supylabel(textwrap.fill(panels[0].y.label, round(LETTERS * size[1])), fontsize=10)
    legend(figure, _handles(labels, panels, marks, behind=behind), beside=beside)
    return figure


def _draw(axes: Axes, line: Line, style: dict[str, Any]) -> None:
    marker = style["marker"] if len(line.x) <= MARKED else ""
    width = 0.8 if len(line.x) > DENSE else None
    axes.plot(line.x, line.y, linewidth=width, **{**style, "marker": marker})
    if line.spread == "points":
        places = np.repeat(line.x, [len(values) for values in line.seeds])
        axes.plot(places, np.concatenate(line.seeds), color=style["color"], **SEED)
    elif line.spread == "lines":
        axes.plot(line.x, np.stack(line.seeds), color=style["color"], **THIN)
    elif line.spread != "none":
        low, high = np.array([_edges(line.spread, values) for values in line.seeds]).T
        axes.fill_between(line.x, low, high, color=style["color"], **RANGE)
    if line.mark is not None:
        axes.axvline(line.mark, color=style["color"], linestyle="--", linewidth=1.1)


def _edges(spread: str, values: Float[np.ndarray, " S"]) -> tuple[float, float]:
    if spread == "interval":
        return share_interval(int(values.sum()), len(values))
    low, high = np.quantile(values, (0.0, 1.0) if spread == "range" else (0.25, 0.75))
    return float(low), float(high)


def _scale_across(axes: Axes, panels: Sequence[Panel], x: Axis, most: int) -> None:
    if x.linear:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        return
    places = [float(value) for panel in panels for line in panel.lines for value in line.x]
    distinct = sorted(set(places))
    ticks = distinct if len(distinct) <= MARKED and not x.tokens else ()
    if x.tokens and distinct[0] > 0:  # powers of two
        ticks = [2.0**k for k in range(math.ceil(math.log2(distinct[0])), math.floor(math.log2(distinct[-1])) + 1)]
    if not set_logarithmic(axes.xaxis, places, x.share, x.log or x.tokens, ticks, most) and len(distinct) <= FEW_PLACES:
        axes.set_xticks(distinct)


def _scale_up(axes: Axes, panels: Sequence[Panel], y: Axis) -> None:
    values = [float(value) for panel in panels for line in panel.lines for value in line.y]
    if not set_logarithmic(axes.yaxis, values, y.share, y.log) and y.share and min(values) >= 0:
        highest = max(float(max(map(np.max, line.seeds))) for panel in panels for line in panel.lines)
        axes.set_ylim(0.0, min(1.02, 1.08 * highest) if 0 < highest <= 1 else None)


def _handles(labels: Sequence[str], panels: Sequence[Panel], marks: str, *, behind: bool) -> list[Line2D]:
    """The lines, and what dashed, dotted and grey ones are."""
    few = all(len(line.x) <= MARKED for panel in panels for line in panel.lines)
    styles: list[dict[str, Any]] = [look(index) | ({} if few else {"marker": ""}) for index in range(len(labels))]
    handles = [Line2D([], [], label=label, **style) for label, style in zip(labels, styles, strict=True) if label]
    if len(handles) == 1 and len(panels) == 1:
        handles = []
    spreads = {line.spread for panel in panels for line in panel.lines}
    if "points" in spreads:
        handles.append(Line2D([], [], color=GREY, label="single seeds", **SEED))
    if "lines" in spreads:
        handles.append(Line2D([], [], color=GREY, label="single seeds", **THIN))
    areas = {"range": "range of the seeds", "quartiles": "middle half of the seeds", "interval": "95 % interval of the share"}
    for spread, text in areas.items():
        if spread in spreads:
            handles.append(Line2D([], [], color=GREY, alpha=RANGE["alpha"], linewidth=7, label=text))
    if marks and any(line.mark is not None for panel in panels for line in panel.lines):
        handles.append(Line2D([], [], color=GREY, linestyle="--", linewidth=1.1, label=marks))
    if any(panel.trained is not None for panel in panels):
        handles.append(Line2D([], [], color=GREY, linestyle=":", linewidth=1.2, label="training length"))
    if behind and len(panels) > 1:
        label = ", ".join(part for part in (panels[0].lines[0].label, "other panels") if part)
        handles.append(Line2D([], [], color=FAINT, linewidth=0.8, label=label))
    return handles
