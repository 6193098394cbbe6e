"""Perplexity along a stream: a panel an arm, a line a cache policy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from experiments.publish.figures import PALETTE, STYLE, Band, Drawing, encode

COLUMNS = 3
# Its first is the failure to look for; light blue, the last of them, is told from black.
COLOURS = (PALETTE[1], PALETTE[0], PALETTE[2], PALETTE[3], PALETTE[4], PALETTE[5])


def over_stream(
    name: str,
    caption: str,
    panels: Mapping[str, Sequence[Band]],
    *,
    ylabel: str,
    references: Sequence[str],
    dotted: Sequence[str],
    marks: Mapping[str, int],
    ceiling: float,
) -> Drawing:
    """Two logarithmic axes that all panels share.

    Args:
        name: the file's, without ending.
        caption: what it shows.
        panels: the bands of each, by its title; a label has the same line in every panel.
        ylabel: beside the whole.
        references: labels of what the others are compared with: black, and grey.
        dotted: labels of broken lines.
        marks: the training length of a panel, at which it has a vertical line.
        ceiling: values above it are cut off.
    """
    labels = list(dict.fromkeys(band.label for bands in panels.values() for band in bands))
    looks = _looks(labels, references, dotted)
    columns = 2 if len(panels) == 4 else min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.0 + 3.3 * columns, 1.2 + 2.6 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, (title, bands) in zip(grid, panels.items(), strict=False):
            for band in bands:
                _line(axes, band, looks[band.label])
            if title in marks:
                axes.axvline(marks[title], color="#888888", linestyle=":", linewidth=1.2)
            axes.set_title(title, fontsize=10)
        _scales(grid[0], [band for bands in panels.values() for band in bands], ceiling)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[max(0, len(panels) - columns) : len(panels)]:
            axes.tick_params(axis="x", labelbottom=True)
        figure.supxlabel("place in the stream (tokens)", fontsize=10)
        figure.supylabel(ylabel, fontsize=10)
        lines = [Line2D([], [], label=label, **looks[label]) for label in labels]
        figure.legend(handles=lines, loc="outside upper center", ncols=columns + 1, fontsize=9)
        return encode(name, caption, figure)


def _looks(labels: Sequence[str], references: Sequence[str], dotted: Sequence[str]) -> dict[str, dict[str, Any]]:
    shades = dict(zip(references, ("#000000", "#999999"), strict=False))
    colours = iter(COLOURS * len(labels))
    looks = {}
    for label in labels:
        colour = shades[label] if label in shades else next(colours)
        style = "--" if label in dotted else "-"
        looks[label] = {"color": colour, "linestyle": style, "linewidth": 3.0 if label in shades else 1.4}
    return looks


def _line(axes: Axes, band: Band, look: Mapping[str, Any]) -> None:
    axes.plot(band.x, np.mean(band.y, axis=0), **look)
    if len(band.y) > 1:
        axes.fill_between(band.x, np.min(band.y, axis=0), np.max(band.y, axis=0), color=look["color"], alpha=0.15, lw=0)


def _scales(axes: Axes, bands: Sequence[Band], ceiling: float) -> None:
    """Every eighth power of two along x, as people call them; along y 1, 2, 5, 10, 20 …"""
    axes.set(xscale="log", yscale="log")
    low, high = min(float(band.x.min()) for band in bands), max(float(band.x.max()) for band in bands)
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    ticks = powers[:: max(1, math.ceil(len(powers) / 6))]
    axes.set_xticks([2.0**k for k in ticks], [_power(k) for k in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    highest = min(ceiling, max(float(np.max(band.y)) for band in bands))
    lowest = min(float(np.min(band.y)) for band in bands)
    axes.set_ylim(0.95 * lowest, 1.05 * highest)
    wide = highest > 10 * lowest
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if wide else MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(ScalarFormatter())


def _power(k: int) -> str:
    """2^10 is 1k, 2^20 is 1M."""
    return f"{2 ** (k % 10)}{'kMG'[k // 10 - 1] if k >= 10 else ''}" if k >= 0 else f"{2.0**k:g}"
