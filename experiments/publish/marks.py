"""Quantities by name, sorted; one quantity against another; attention matrices."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from leadline.experiments.publish.line_grids import FEW_PLACES, SEED, Axis
from leadline.experiments.publish.style import FAINT, GREY, INK, legend, look, marks_of, set_logarithmic
from leadline.experiments.records.estimates import mean_interval

# Panel, row and series to the values of the seeds.
Bars = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
MASKED = "#d9d9d9"


def bars(panels: Bars, axes_of: Mapping[str, Axis], series: Sequence[str], *, shared: bool = False) -> Figure:
    """Rows sorted by their means in the first panel: a mark for the mean of each series, with its seeds as points.

    `axes_of` are the horizontal axes of the panels, `series` the labels of the legend in order. With `shared`, all panels have
    the limits of one axis, as for values of one quantity.
    """
    rows = list(dict.fromkeys(row for panel in panels.values() for row in panel))
    first = next(iter(panels.values()))
    rows.sort(key=lambda row: float(np.mean([value for values in first.get(row, {"": [0.0]}).values() for value in values])))
    widest = max(len(row) for row in rows)
    size = (0.085 * widest + (5.6 if len(panels) == 1 else 3.0 * len(panels)), 1.1 + 0.27 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(1, len(panels), sharex=shared, sharey=True, squeeze=False)[0]
    values_of = {
        title: [value for row in panel.values() for values in row.values() for value in values]
        for title, panel in panels.items()
    }
    together = [value for values in values_of.values() for value in values]
    for axes, (title, panel) in zip(grid, panels.items(), strict=True):
        axis = axes_of[title]
        every = together if shared else values_of[title]
        # An axis from 0 would show no difference between values that are all large.
        from_zero = not axis.log and len(series) == 1 and 0.0 <= min(every) <= 0.5 * max(every)
        for place, row in enumerate(rows):
            _row(axes, place, panel.get(row, {}), series, from_zero=from_zero)
        if from_zero or not set_logarithmic(axes.xaxis, every, axis.share, axis.log):
            axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.set_xlabel(axis.label)
        axes.set_yticks(range(len(rows)), rows)
        axes.grid(visible=False, axis="y")
    most = max(len(values) for panel in panels.values() for row in panel.values() for values in row.values())
    seeds = [Line2D([], [], color=INK, label="single seeds", **SEED)] if most > 1 else []
    legend(figure, marks_of(series if len(series) > 1 else ["mean of the seeds"] * len(seeds)) + seeds)
    return figure


def _row(axes: Axes, place: int, row: Mapping[str, Sequence[float]], series: Sequence[str], *, from_zero: bool) -> None:
    """The mean of each series and its seeds, on a faint line that begins at 0 or at the least mean."""
    means = {label: float(np.mean(values)) for label, values in row.items()}
    if means:
        axes.hlines(place, 0.0 if from_zero else min(means.values()), max(means.values()), color=FAINT, linewidth=1.2)
    for label, mean in means.items():
        style = look(series.index(label))
        axes.plot([mean], [place], **{**style, "linestyle": "none"})
        if len(row[label]) > 1:
            axes.plot(row[label], [place] * len(row[label]), color=INK, **SEED)


def scatter(series: Mapping[str, Float[np.ndarray, "2 P"]], x: Axis, y: Axis, *, diagonal: bool = False) -> Figure:
    """One mark a point (x, y) of each series. Points of one x are seeds: one mark of their mean, with its 95 % interval.

    `diagonal` draws the line x = y.
    """
    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
    axes = figure.subplots()
    for index, (across, up) in enumerate(series.values()):
        style: dict[str, Any] = {**look(index), "linestyle": "none", "alpha": 0.75}
        places, counts = np.unique(across, return_counts=True)
        if counts.min() < 2:
            axes.plot(across, up, **style)
            continue
        seeds = [up[across == place] for place in places]
        means = np.array([values.mean() for values in seeds])
        low, high = np.array([mean_interval(values) for values in seeds]).T
        axes.errorbar(places, means, (means - low, high - means), capsize=2.0, elinewidth=0.9, **style)
    horizontal, vertical = np.concatenate([*series.values()], axis=1).tolist()
    distinct = sorted(set(horizontal))
    set_logarithmic(axes.xaxis, horizontal, x.share, x.log, distinct if len(distinct) <= FEW_PLACES else ())
    set_logarithmic(axes.yaxis, vertical, y.share, y.log)
    axes.set(xlabel=x.label, ylabel=y.label)
    handles = marks_of([*series])
    if axes.containers:
        handles.append(Line2D([], [], color=GREY, marker="|", markersize=9, linestyle="none", label="95 % interval"))
    if diagonal:
        axes.autoscale(enable=False)  # to the points: the line has no end
        axes.axline((1.0, 1.0), (2.0, 2.0), color=GREY, linestyle=":", linewidth=1.2, zorder=1)
        handles.append(Line2D([], [], color=GREY, linestyle=":", linewidth=1.2, label="equal"))
    legend(figure, handles, beside=True)
    return figure


def head_maps(panels: Mapping[str, Float[np.ndarray, "L N"]], axis: Axis) -> Figure:
    """One quantity of every head: layers down, heads across, all panels with one scale of colours."""
    layers, heads = next(iter(panels.values())).shape
    with mpl.rc_context({"axes.grid": False}):
        figure = Figure(
            figsize=(1.6 + max(1.9, 0.16 * heads) * len(panels), 1.0 + max(2.0, 0.13 * layers)), layout="constrained"
        )
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        values = np.concatenate([matrix.ravel() for matrix in panels.values()])
        norm = Normalize(0.0 if axis.share else float(values.min()), 1.0 if axis.share else float(values.max()))
        for axes, (title, matrix) in zip(grid, panels.items(), strict=True):
            extent = (0.5, heads + 0.5, layers + 0.5, 0.5)  # layers and heads are numbered from 1
            axes.imshow(matrix, cmap="magma", norm=norm, aspect="auto", interpolation="nearest", extent=extent)
            axes.set_title(title)
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
            axes.yaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        figure.supxlabel("head", fontsize=9)
        figure.supylabel("layer", fontsize=9)
        figure.colorbar(ScalarMappable(norm, "magma"), ax=grid, label=axis.label)
        return figure


def attention_maps(rows: Mapping[str, Mapping[str, Float[np.ndarray, "T T"]]], columns: int) -> Figure:
    """Attention matrices, query down and key across, a row per arm and a column per head; masked pairs are grey.

    Arms with one map each stand beside each other, `columns` in a row.
    """
    if all(len(row) == 1 for row in rows.values()):
        titled = [(label, next(iter(row.values()))) for label, row in rows.items()]
        lines = [("", titled[start : start + columns]) for start in range(0, len(titled), columns)]
    else:
        lines = [(label, [(head, matrix) for head, matrix in row.items()]) for label, row in rows.items()]
    width = max(len(line) for _, line in lines)
    with mpl.rc_context({"axes.grid": False}):
        figure = Figure(figsize=(1.6 + 1.5 * width, 0.7 + 1.6 * len(lines)), layout="constrained")
        grid = figure.subplots(len(lines), width, squeeze=False)
        norm, colours = PowerNorm(0.5, 0.0, 1.0), mpl.colormaps["magma"].with_extremes(bad=MASKED)
        for places, (label, line) in zip(grid, lines, strict=True):
            for axes, (title, matrix) in zip(places, line, strict=False):
                future = np.triu(np.ones(matrix.shape, bool), 1)
                shares = np.where(future, np.nan, matrix)
                axes.imshow(shares, cmap=colours, norm=norm, interpolation="nearest")
                axes.set_title(title, fontsize=8)
                axes.set(xticks=[], yticks=[])
            for axes in places[len(line) :]:
                axes.set_visible(False)
            places[0].set_ylabel(label, fontsize=8)
        figure.supxlabel("key (grey: masked)", fontsize=9)
        figure.supylabel("query", fontsize=9)
        shrink = min(1.0, 3.0 / len(lines))
        figure.colorbar(
            ScalarMappable(norm, colours), ax=grid, label="attention probability", shrink=shrink, ticks=[0, 0.1, 0.5, 1]
        )
        return figure
