"""The figures of base and length: recall by distance with the predicted reach marked, and what a base does to both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.publish.figures import MARKERS, PALETTE, STYLE, Band, Drawing, draw_band, encode


@dataclass(frozen=True)
class Curve:
    """Recall of one base by distance, and the distance at which B_m first falls below zero (None: nowhere)."""

    band: Band
    reach: float | None


def recall_by_distance(name: str, caption: str, panels: Mapping[str, Sequence[Curve]], chance: float) -> Drawing:
    """Accuracy against distance, one panel a training length; a dashed line of a base's colour marks its predicted reach."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (title, curves) in zip(row, panels.items(), strict=True):
            furthest = 2.0 ** np.ceil(np.log2(max(float(curve.band.x.max()) for curve in curves)))
            for index, curve in enumerate(curves):
                draw_band(axes, curve.band, index, marker=True)
                if curve.reach is not None and curve.reach <= furthest:
                    axes.axvline(curve.reach, color=PALETTE[index % len(PALETTE)], linestyle="--", linewidth=1.2)
            axes.axhline(chance, color="#888888", linestyle=":", linewidth=1.2)
            axes.annotate(
                "chance", (0.01, chance), xycoords=("axes fraction", "data"), va="bottom", fontsize=8, color="#666666"
            )
            axes.set(title=title, xscale="log", xlabel="distance (tokens)", ylim=(0.0, 1.04))
            octaves = 2.0 ** np.arange(0, int(np.log2(furthest)) + 1)
            axes.set_xticks(octaves, [f"{octave:.0f}" for octave in octaves])
            axes.xaxis.set_minor_locator(NullLocator())
        row[0].set_ylabel("recall (share of answers)")
        handles, labels = row[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(5, max(1, len(labels))))
        return encode(name, caption, figure)


def by_base(
    name: str, caption: str, panels: Mapping[str, Mapping[str, tuple[Float[np.ndarray, " X"], Float[np.ndarray, "R X"]]]]
) -> Drawing:
    """One panel a quantity, one line a training length: bases on a logarithmic axis, the axis of the quantity from zero."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.9), layout="constrained")
        row = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, lines) in zip(row, panels.items(), strict=True):
            for index, (label, (bases, values)) in enumerate(lines.items()):
                colour = PALETTE[index % len(PALETTE)]
                axes.plot(bases, values.mean(axis=0), color=colour, marker=MARKERS[index % len(MARKERS)], label=label)
                axes.fill_between(bases, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, lw=0)
            axes.set(title=title, xscale="log", xlabel="RoPE base")
            highest = max(float(values.max()) for _, values in lines.values())
            axes.set_ylim(0.0, 1.08 * highest if highest > 0 else 1.0)
        handles, labels = row[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(5, max(1, len(labels))))
        return encode(name, caption, figure)
