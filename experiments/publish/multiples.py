"""Small multiples: one panel a case, the same axes in all of them, so that many lines stay readable."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from experiments.publish.figures import PALETTE, STYLE, Band, Drawing, encode

COLUMNS = 5
DASHES = ("-", "--", ":")
# Behind every panel, all others: where one stands among them.
BEHIND = "#cfcfcf"


def small_multiples(
    name: str,
    caption: str,
    panels: Mapping[str, Sequence[Band]],
    *,
    xlabel: str,
    ylabel: str,
    behind: Sequence[Band] = (),
    marks: Mapping[str, int] | None = None,
    ceiling: float | None = None,
) -> Drawing:
    """Panels of bands on two logarithmic axes that all share; a label has the same line in every panel.

    Args:
        name: the file's, without ending.
        caption: what it shows.
        panels: the bands of each, by its title.
        xlabel: below the whole.
        ylabel: beside the whole.
        behind: bands that every panel repeats in grey.
        marks: where a panel has a vertical line: the length that it was trained at.
        ceiling: values above it are cut off, so that one failure does not flatten the rest.
    """
    labels = list(dict.fromkeys(band.label for bands in panels.values() for band in bands))
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.0 + 2.3 * max(columns, 2), 1.1 + 2.1 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, (title, bands) in zip(grid, panels.items(), strict=False):
            for band in behind:
                axes.plot(band.x, np.nanmean(band.y, axis=0), color=BEHIND, linewidth=0.8)
            for band in bands:
                _line(axes, band, labels.index(band.label))
            axes.set_title(title, fontsize=9)
            if marks and title in marks:
                axes.axvline(marks[title], color="#888888", linestyle=":", linewidth=1.1)
        _scales(grid[0], [band for bands in panels.values() for band in bands], ceiling)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[max(0, len(panels) - columns) : len(panels)]:
            axes.tick_params(axis="x", labelbottom=True, labelrotation=90)
        figure.supxlabel(xlabel, fontsize=10)
        figure.supylabel(ylabel, fontsize=10)
        if len(labels) > 1:
            lines = [Line2D([], [], label=label, **_look(index)) for index, label in enumerate(labels)]
            figure.legend(handles=lines, loc="outside upper center", ncols=min(5, len(lines)), fontsize=9)
        return encode(name, caption, figure)


def _look(index: int) -> dict[str, Any]:
    """The first label is black: it is what the others are compared with."""
    colours = (PALETTE[-1], *PALETTE[:-1])
    return {"color": colours[index % len(colours)], "linestyle": DASHES[index // len(colours) % len(DASHES)]}


def _line(axes: Axes, band: Band, index: int) -> None:
    look = _look(index)
    axes.plot(band.x, np.nanmean(band.y, axis=0), linewidth=1.5, **look)
    if len(band.y) > 1:
        axes.fill_between(band.x, np.nanmin(band.y, axis=0), np.nanmax(band.y, axis=0), color=look["color"], alpha=0.15, lw=0)


def _scales(axes: Axes, bands: Sequence[Band], ceiling: float | None) -> None:
    """Powers of two along x, as all lengths here are; along y 1, 2, 5, 10, 20 …"""
    axes.set(xscale="log", yscale="log")
    low, high = (float(reach([band.x.min(), band.x.max()][i] for band in bands)) for i, reach in enumerate((min, max)))
    powers = [2.0**k for k in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)]
    ticks = powers[:: max(1, math.ceil(len(powers) / 7))]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(ScalarFormatter())
    if ceiling is not None and max(float(np.nanmax(band.y)) for band in bands) > ceiling:
        axes.set_ylim(top=ceiling)
