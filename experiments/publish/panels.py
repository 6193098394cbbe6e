"""Panels beside each other: lines over steps, layers or rates; attention matrices; heads as points."""

import math
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from experiments.publish.figures import MARKERS, PALETTE, STYLE, Band, Drawing, Points, draw_band, encode

COLUMNS = 5


def line_panels(
    name: str,
    caption: str,
    panels: Mapping[str, Sequence[Band]],
    *,
    xlabel: str,
    ylabel: str = "",
    shared: bool = True,
    limits: tuple[float, float] | None = None,
    ticks: Sequence[float] | None = None,
    columns: int = COLUMNS,
) -> Drawing:
    """Bands on linear axes; a label has the same colour in every panel.

    Args:
        name: the file's, without ending.
        caption: what it shows.
        panels: the bands of each, by its title.
        xlabel: below the whole.
        ylabel: beside the whole.
        shared: all panels have the same y axis.
        limits: of y.
        ticks: of x, which is logarithmic then.
        columns: panels in a row, at most.
    """
    labels = list(dict.fromkeys(band.label for bands in panels.values() for band in bands))
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = 2.1 if columns == COLUMNS else 2.9
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.0 + size * max(columns, 2), 1.2 + 0.85 * size * rows), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=shared, squeeze=False).ravel()
        for axes, (title, bands) in zip(grid, panels.items(), strict=False):
            for band in bands:
                draw_band(axes, band, labels.index(band.label), marker=columns < COLUMNS)
            axes.set_title(title, fontsize=9)
            _axes(axes, limits, ticks)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[max(0, len(panels) - columns) : len(panels)]:
            axes.tick_params(axis="x", labelbottom=True)
        figure.supxlabel(xlabel, fontsize=10)
        figure.supylabel(ylabel, fontsize=10)
        if len(labels) > 1:
            lines = [Line2D([], [], color=PALETTE[i % len(PALETTE)], label=label) for i, label in enumerate(labels)]
            figure.legend(handles=lines, loc="outside upper center", ncols=min(4 if columns > 1 else 2, len(lines)), fontsize=9)
        return encode(name, caption, figure)


def _axes(axes: Axes, limits: tuple[float, float] | None, ticks: Sequence[float] | None) -> None:
    if limits is not None:
        axes.set_ylim(*limits)
    if ticks is None:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        return
    axes.set_xscale("log")
    axes.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def map_grid(name: str, caption: str, rows: Mapping[str, Mapping[str, Float[np.ndarray, "T T"]]]) -> Drawing:
    """Attention matrices, query down and key across, a row an arm and a column a head; small shares are drawn out."""
    columns = max(len(row) for row in rows.values())
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(1.4 + 1.45 * columns, 0.9 + 1.5 * len(rows)), layout="constrained")
        grid = figure.subplots(len(rows), columns, squeeze=False)
        image = None
        for line, (title, row) in zip(grid, rows.items(), strict=True):
            for axes, (heading, shares) in zip(line, row.items(), strict=False):
                image = axes.imshow(shares, cmap="magma", norm=PowerNorm(0.5, 0.0, 1.0), interpolation="nearest")
                axes.set_title(heading, fontsize=8)
                axes.set_xticks([])
                axes.set_yticks([])
            for axes in line[len(row) :]:
                axes.set_visible(False)
            line[0].set_ylabel(title, fontsize=9)
        figure.supxlabel("key", fontsize=9)
        if image is not None:
            figure.colorbar(image, ax=grid, label="attention (share)", shrink=min(1.0, 3.0 / len(rows)))
        return encode(name, caption, figure)


def scatter(name: str, caption: str, series: Sequence[Points], *, xlabel: str, ylabel: str) -> Drawing:
    """One mark a head and seed; x from 0 to 1, y from 0 on. Beyond the palette marks are hollow: none is there twice."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 4.6), layout="constrained")
        axes = figure.subplots()
        for index, points in enumerate(series):
            colour, shape = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
            filled = colour if index < len(PALETTE) else "none"
            style = {"color": colour, "marker": shape, "markerfacecolor": filled, "alpha": 0.75}
            axes.plot(points.x, points.y, linestyle="none", label=points.label, **style)
        axes.axhline(1.0, color="#888888", linestyle=":", linewidth=1.2)
        axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(0.0, 1.02))
        axes.set_ylim(bottom=0.0)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        return encode(name, caption, figure)
