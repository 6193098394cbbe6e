"""The figures, drawn from records alone. Equal records give equal bytes: no dates, no global state, fixed names."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter
from matplotlib.typing import RcKeyType

# Okabe and Ito's palette without its yellow, which is too light for lines on white: told apart by the colour-blind.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# A fixed salt for the identifiers of the SVG; text as outlines, so that it looks the same without the font.
STYLE: dict[RcKeyType, Any] = {
    "svg.hashsalt": "leadline",
    "svg.fonttype": "path",
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.0,
}
DOTS_PER_INCH = 150


@dataclass(frozen=True)
class Band:
    """One line of a figure over several seeds: x, and y of every seed `[R, X]` (R seeds, X points)."""

    label: str
    x: Float[np.ndarray, " X"]
    y: Float[np.ndarray, "R X"]


@dataclass(frozen=True)
class Points:
    """One series of exact numbers: x, and y at each."""

    label: str
    x: Float[np.ndarray, " X"]
    y: Float[np.ndarray, " X"]


@dataclass(frozen=True)
class Interval:
    """One line of a figure with the interval around each of its points; what is NaN is not drawn."""

    label: str
    x: Float[np.ndarray, " X"]
    y: Float[np.ndarray, " X"]
    low: Float[np.ndarray, " X"]
    high: Float[np.ndarray, " X"]


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
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Drawing(name, caption, png.getvalue(), svg.getvalue())


def draw_band(axes: Axes, band: Band, index: int, marker: bool) -> None:
    """The mean over seeds as a line, and the range from the least to the greatest seed as an area."""
    colour = PALETTE[index % len(PALETTE)]
    shape = MARKERS[index % len(MARKERS)] if marker else None
    axes.plot(band.x, np.nanmean(band.y, axis=0), color=colour, marker=shape, label=band.label)
    if len(band.y) > 1:
        axes.fill_between(band.x, np.nanmin(band.y, axis=0), np.nanmax(band.y, axis=0), color=colour, alpha=0.18, lw=0)


def over_training(name: str, caption: str, ylabel: str, bands: Sequence[Band]) -> Drawing:
    """A share in [0, 1] over training steps, one line an arm."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 4.2), layout="constrained")
        axes = figure.subplots()
        for index, band in enumerate(bands):
            draw_band(axes, band, index, marker=True)
        axes.set(xlabel="training step", ylabel=ylabel, ylim=(0.0, 1.02))
        axes.set_xlim(left=0)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title="line: mean, area: range of seeds")
        return encode(name, caption, figure)


def head_map(name: str, caption: str, rows: Mapping[str, Float[np.ndarray, "L N"]], unit: str) -> Drawing:
    """Arms against (layer, head), the value written in each cell; a head that an arm does not have stays blank."""
    layers = max(value.shape[0] for value in rows.values())
    heads = max(value.shape[1] for value in rows.values())
    grid = np.full((len(rows), layers * heads), np.nan)
    for row, value in enumerate(rows.values()):
        for layer in range(value.shape[0]):
            grid[row, layer * heads : layer * heads + value.shape[1]] = value[layer]
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(4.4 + 0.72 * layers * heads, max(2.6, 1.5 + 0.46 * len(rows))), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(grid, cmap="cividis", vmin=0.0, vmax=1.0, aspect="auto")
        for row, column in np.argwhere(np.isfinite(grid)):
            value = grid[row, column]
            # cividis passes mid grey near 0.55: dark cells take white figures.
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if value < 0.55 else "black")
        axes.set_yticks(range(len(rows)), list(rows))
        ticks = [f"{layer}.{head}" for layer in range(layers) for head in range(heads)]
        axes.set_xticks(range(len(ticks)), ticks)
        axes.set_xlabel("layer.head")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.colorbar(image, ax=axes, label=unit)
        return encode(name, caption, figure)


def by_length(name: str, caption: str, panels: Mapping[str, Sequence[Band]], trained: int | None) -> Drawing:
    """Perplexity against evaluation length on two logarithmic axes, one panel a way of counting positions."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (title, bands) in zip(row, panels.items(), strict=True):
            for index, band in enumerate(bands):
                draw_band(axes, band, index, marker=True)
            axes.set(title=title, xscale="log", yscale="log", xlabel="evaluation length (tokens)")
            spans = sorted({float(x) for band in bands for x in band.x})
            axes.set_xticks(spans, [f"{span:.0f}" for span in spans])
            axes.xaxis.set_minor_locator(NullLocator())
            if trained is not None:
                axes.axvline(trained, color="#888888", linestyle=":", linewidth=1.2)
                axes.annotate(
                    "trained", (trained, 0.99), xycoords=("data", "axes fraction"), rotation=90, va="top", ha="right",
                    fontsize=8, color="#666666", xytext=(-2, 0), textcoords="offset points",
                )  # fmt: skip
            for axis in (axes.yaxis,):
                axis.set_major_formatter(ScalarFormatter())
                axis.set_minor_formatter(ScalarFormatter())
        row[0].set_ylabel("byte perplexity")
        handles, labels = row[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(5, max(1, len(labels))))
        return encode(name, caption, figure)


def shares_grid(
    name: str,
    caption: str,
    rows: Mapping[str, Mapping[str, Sequence[Interval]]],
    xlabel: str,
    ylabel: str,
    trained: Mapping[str, float] | None = None,
) -> Drawing:
    """Shares in [0, 1] with their intervals, a panel for each row and column.

    x is a share too, unless `trained` marks one in each row: the end of what was trained.
    """
    width = max(len(panels) for panels in rows.values())
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.2 + 2.6 * width, 1.3 + 1.75 * len(rows)), layout="constrained")
        grid = figure.subplots(len(rows), width, sharey=True, squeeze=False)
        labelled: dict[str, Any] = {}
        for line, (title, panels) in zip(grid, rows.items(), strict=True):
            for axes, (heading, intervals) in zip(line, panels.items(), strict=False):
                for index, one in enumerate(intervals):
                    colour, shape = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
                    (labelled[one.label],) = axes.plot(one.x, one.y, color=colour, marker=shape, markersize=3.0, linewidth=1.3)
                    axes.fill_between(one.x, one.low, one.high, color=colour, alpha=0.15, lw=0)
                axes.set(title=f"{title}, {heading}" if heading else title, ylim=(-0.03, 1.03))
                axes.title.set_fontsize(9.5)
                if trained is None:
                    axes.set_xlim(-0.03, 1.03)
                else:
                    axes.axvline(trained[title], color="#888888", linestyle=":", linewidth=1.2)
            for axes in line[len(panels) :]:
                axes.set_visible(False)
            line[0].set_ylabel(ylabel)
        for axes in grid[-1]:
            axes.set_xlabel(xlabel)
        figure.legend(labelled.values(), labelled, loc="outside lower center", ncols=min(5, len(labelled)))
        return encode(name, caption, figure)


def b_m(base: float, head_dim: int, length: int) -> tuple[Int[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    r"""B_m = sum_{i < H/2} cos(m b^(-2i/H)) for m = 0 … N - 1 (Men et al. 2024, equation 10), in float64.

    Args:
        base: b of RoPE.
        head_dim: H, even.
        length: N, in tokens.
    """
    distances = np.arange(length)
    frequencies = base ** (-2.0 * np.arange(head_dim // 2) / head_dim)
    total = np.zeros(length)
    for frequency in frequencies:  # one pair at a time: memory linear in N
        total += np.cos(distances * frequency)
    return distances, total


def base_curves(
    name: str, caption: str, curves: Mapping[str, tuple[Int[np.ndarray, " M"], Float[np.ndarray, " M"]]]
) -> Drawing:
    """B_m over the distance, one panel a base; distances at which it is negative are marked and counted."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 1.0 + 1.55 * len(curves)), layout="constrained")
        column = figure.subplots(len(curves), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        lowest = min(float(value.min()) for _, value in curves.values())
        highest = max(float(value.max()) for _, value in curves.values())
        for index, (axes, (label, (distance, value))) in enumerate(zip(column, curves.items(), strict=True)):
            negative = value < 0
            axes.plot(distance, value, color=PALETTE[index % len(PALETTE)], linewidth=0.7)
            axes.axhline(0.0, color="#444444", linewidth=0.9)
            axes.plot(distance[negative], value[negative], linestyle="none", marker=".", color="#B00020", markersize=4)
            # The curve starts at H/2 and is below a third of it for nearly all distances, where zero is what matters.
            axes.set_ylim(min(-2.0, 1.1 * lowest), highest / 3)
            axes.set_ylabel("$B_m$")
            count = int(negative.sum())
            found = f"negative at {count} distance{'s' if count > 1 else ''}" if count else "nowhere negative"
            axes.set_title(f"{label}: {found}", loc="left")
        column[-1].set_xlabel("distance m (tokens)")
        return encode(name, caption, figure)


def bases_by_length(
    name: str,
    caption: str,
    bounds: tuple[Points, Points],
    printed: Sequence[Points],
    law: Points,
    ticks: Mapping[float, str],
) -> Drawing:
    """RoPE bases against the context on two logarithmic axes: the two bounds as lines with the area between them, what
    was printed as marks, a power law as a broken line."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 5.2), layout="constrained")
        axes = figure.subplots()
        low, high = bounds
        axes.fill_between(low.x, low.y, high.y, color=PALETTE[0], alpha=0.10, lw=0)
        for index, line in enumerate((low, high)):
            axes.plot(line.x, line.y, color=PALETTE[index], marker=MARKERS[index], label=line.label)
        axes.plot(law.x, law.y, color=PALETTE[-1], linestyle="--", linewidth=1.2, label=law.label)
        for index, points in enumerate(printed, start=2):
            style = {"marker": MARKERS[index], "markersize": 7.0, "markerfacecolor": "none", "linestyle": "none"}
            axes.plot(points.x, points.y, color=PALETTE[index], label=points.label, **style)
        axes.set(xscale="log", yscale="log", xlabel="context N (tokens)", ylabel="RoPE base")
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.legend(loc="upper left")
        return encode(name, caption, figure)


def save(drawing: Drawing, folder: Path) -> list[Path]:
    """Writes `NAME.png` and `NAME.svg` into an existing folder."""
    paths = [folder / f"{drawing.name}.png", folder / f"{drawing.name}.svg"]
    for path, content in zip(paths, (drawing.png, drawing.svg), strict=True):
        path.write_bytes(content)
    return paths
