"""The forest plots of a ledger: every claim that seeds decide, by how far its interval lies from what would decide nothing."""

import re
from collections.abc import Iterator, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from leadline.experiments.publish.ledger import columns_of
from leadline.experiments.publish.style import GREY, INK, PALETTE, STYLE, Drawing, encode, legend
from leadline.experiments.records.decisions import Outcome
from leadline.experiments.records.verdict import Verdict

FOREST = "ledger_forest"
Interval = tuple[float, float, float]  # its lower end, its middle and its upper end
COLOURS: dict[Outcome, str] = {"holds": PALETTE[0], "fails": PALETTE[1], "equivalent": PALETTE[2], "undecided": GREY}
TICKS = (-100, -10, -3, -1, 0, 1, 3, 10, 100)
CAPTION = (
    "Each line is the confidence interval of the margin of one claim, and the mark its middle, scaled to a half-width of 1, on "
    "an axis that is linear up to ±1 and logarithmic beyond. Claims have the ids of the table of all verdicts. The interval is "
    "over seeds and, where they were measured, over documents. Its level is 95 %, or higher where several arms or looks share "
    "the error. An interval within ± δ is equivalent, wherever it lies. Of the others, those right of 0 hold, those left of 0 "
    "fail and those across 0 are undecided. Claims with two bounds, and those whose seeds have one margin, have no line."
)


def forests(judged: Sequence[Verdict]) -> Iterator[Drawing]:
    """A figure for each column of the ledger in which seeds or documents decide a claim."""
    for column in columns_of(judged):
        placed = sorted(((standardised(v), v) for v in judged if v.column == column and _has_margin(v)), key=_middle)
        if placed:
            with mpl.rc_context(STYLE):
                drawing = _drawn(column, placed)
            yield drawing


def _middle(placed: tuple[Interval, Verdict]) -> float:
    return placed[0][1]


def _drawn(column: str, placed: Sequence[tuple[Interval, Verdict]]) -> Drawing:
    figure = Figure(figsize=(7.6, 1.0 + 0.19 * len(placed)), layout=ConstrainedLayoutEngine(w_pad=0.1))
    axes = figure.subplots()
    axes.axvline(0, color=INK, linewidth=0.8)
    for place, ((low, middle, high), verdict) in enumerate(placed):
        colour = COLOURS[verdict.outcome]
        axes.plot([low, high], [place, place], color=colour, linewidth=1.8)
        axes.plot([middle], [place], color=colour, marker="o")
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(range(len(placed)), [f"{v.study}: {v.id}" for _, v in placed], size=7)
    axes.set_ylim(-0.8, len(placed) - 0.2)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("margin in half-widths of its interval; to the right for the claim")
    there: list[Outcome] = [outcome for outcome in COLOURS if any(v.outcome == outcome for _, v in placed)]
    legend(figure, [Line2D([], [], color=COLOURS[outcome], marker="o", label=outcome) for outcome in there])
    title = f"How clearly do the records decide each claim? {column[0].upper()}{column[1:]}"
    return encode(
        f"{FOREST}_{re.sub(r'[^a-z0-9]+', '_', column.lower())}", title, f"Claims of the column “{column}”. {CAPTION}", figure
    )


def _has_margin(verdict: Verdict) -> bool:
    """Whether the interval of a verdict has a width, and a value at which nothing is decided."""
    if verdict.outcome not in COLOURS or verdict.interval is None or verdict.null is None:
        return False
    return bool(np.ptp(verdict.interval) > 0)


def standardised(verdict: Verdict) -> Interval:
    """The interval of a margin and its middle, in units of half the interval's width. ValueError for a verdict without one."""
    if verdict.interval is None or verdict.null is None:
        raise ValueError(f"{verdict.id} has no margin")
    low, high = (bound - verdict.null for bound in verdict.interval)
    half = (high - low) / 2
    return low / half, (low + high) / 2 / half, high / half
