"""Dots by name: one row a case, one mark a series, on one logarithmic axis."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from experiments.publish.figures import MARKERS, PALETTE, STYLE, Drawing, encode

TICKS = (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30)


def dots_by_name(
    name: str, caption: str, rows: Sequence[str], series: Mapping[str, Sequence[float]], *, xlabel: str
) -> Drawing:
    """The values of every series, a row each, from above; the line between the outer ones spans what is there."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 1.6 + 0.34 * len(rows)), layout="constrained")
        axes = figure.subplots()
        places = list(range(len(rows)))
        spans = list(zip(*series.values(), strict=True))
        axes.hlines(places, [min(span) for span in spans], [max(span) for span in spans], color="#cccccc", linewidth=1.2)
        for index, (label, values) in enumerate(series.items()):
            colour, shape = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
            axes.plot(values, places, linestyle="none", marker=shape, color=colour, label=label, markersize=7)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(TICKS))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.set_yticks(places, rows)
        axes.invert_yaxis()
        axes.set_xlabel(xlabel)
        figure.legend(loc="outside upper center", ncols=min(5, len(series)), fontsize=9)
        return encode(name, caption, figure)
