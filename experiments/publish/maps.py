"""Maps: a number for every layer and head, and attention matrices."""

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from leadline.experiments.publish.style import STYLE, Drawing, encode

# More cells than this have no figures in them.
WRITTEN = 240
MASKED = "#d9d9d9"


def head_map(name: str, caption: str, rows: Mapping[str, Float[np.ndarray, "L N"]], unit: str) -> Drawing:
    """Rows against (layer, head), the value written in each cell; a head that a row does not have stays blank."""
    layers = max(value.shape[0] for value in rows.values())
    heads = max(value.shape[1] for value in rows.values())
    grid = np.full((len(rows), layers, heads), np.nan)
    for row, value in enumerate(rows.values()):
        grid[row, : value.shape[0], : value.shape[1]] = value
    grid = grid.reshape(len(rows), -1)
    low, high = min(0.0, float(np.nanmin(grid))), float(np.nanmax(grid))
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        size = (3.0 + min(0.62 * grid.shape[1], 12.0), max(2.4, 1.4 + 0.36 * len(rows)))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(grid, cmap="cividis", vmin=low, vmax=high, aspect="auto")
        for row, column in np.argwhere(np.isfinite(grid)) if grid.size <= WRITTEN else ():
            share = (grid[row, column] - low) / max(high - low, 1e-12)
            # cividis passes mid grey near 0.55: dark cells take white figures.
            colour = "white" if share < 0.55 else "black"
            axes.text(column, row, f"{grid[row, column]:.2g}", ha="center", va="center", color=colour, fontsize=8)
        axes.set_yticks(range(len(rows)), list(rows))
        step = heads if layers * heads > 32 else 1
        ticks = [f"{layer}.{head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)]
        axes.set_xticks(range(0, len(ticks), step), ticks[::step])
        axes.set_xlabel("layer.head")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.colorbar(image, ax=axes, label=unit)
        return encode(name, caption, figure)


def attention_maps(
    name: str, caption: str, rows: Mapping[str, Mapping[str, Float[np.ndarray, "T T"]]], columns: int
) -> Drawing:
    """Attention matrices, query down and key across, a row an arm and a column a head; masked pairs are grey.

    Arms with one map each stand beside each other, `columns` in a row.
    """
    if all(len(row) == 1 for row in rows.values()):
        titled = [(label, next(iter(row.values()))) for label, row in rows.items()]
        lines = [("", titled[start : start + columns]) for start in range(0, len(titled), columns)]
    else:
        lines = [(label, [(f"head {head}", matrix) for head, matrix in row.items()]) for label, row in rows.items()]
    width = max(len(line) for _, line in lines)
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(1.6 + 1.5 * width, 0.7 + 1.6 * len(lines)), layout="constrained")
        grid = figure.subplots(len(lines), width, squeeze=False)
        colours = mpl.colormaps["magma"].with_extremes(bad=MASKED)
        image = None
        for places, (label, line) in zip(grid, lines, strict=True):
            for axes, (title, matrix) in zip(places, line, strict=False):
                future = np.triu(np.ones(matrix.shape, bool), 1)
                shares = np.where(future, np.nan, matrix)
                image = axes.imshow(shares, cmap=colours, norm=PowerNorm(0.5, 0.0, 1.0), interpolation="nearest")
                axes.set_title(title, fontsize=8)
                axes.set_xticks([])
                axes.set_yticks([])
            for axes in places[len(line) :]:
                axes.set_visible(False)
            places[0].set_ylabel(label, fontsize=8)
        figure.supxlabel("key (grey: masked)", fontsize=9)
        figure.supylabel("query", fontsize=9)
        if image is not None:
            figure.colorbar(
                image, ax=grid, label="attention (share)", shrink=min(1.0, 3.0 / len(lines)), ticks=[0, 0.1, 0.5, 1]
            )
        return encode(name, caption, figure)
