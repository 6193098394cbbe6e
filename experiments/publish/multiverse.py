"""The multiverse of the claims on perplexity: the outcome of each by every protocol, as a grid of marks."""

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from leadline.experiments.publish.forest import COLOURS
from leadline.experiments.publish.ledger import protocol_heading
from leadline.experiments.publish.style import STYLE, Drawing, encode, legend
from leadline.experiments.records.decisions import Outcome
from leadline.experiments.records.verdict import Verdict

MULTIVERSE = "ledger_protocols"
CAPTION = (
    "Claims on perplexity (rows, by their ids) by the way of averaging (columns): over all tokens, over the second half of "
    "each window (sliding), over documents, and over the last positions of each window. Claims whose outcome depends on it "
    "come first."
)
SYMBOLS: dict[Outcome, str] = {"holds": "o", "fails": "X", "equivalent": "s", "undecided": "D"}


def multiverse(judged: Sequence[Verdict]) -> Drawing | None:
    """The figure; None where no claim was measured by several protocols."""
    compared = sorted((v for v in judged if v.protocols), key=lambda verdict: len(set(verdict.protocols.values())))
    if not compared:
        return None
    with mpl.rc_context(STYLE):
        return _drawn(compared)


def _drawn(compared: Sequence[Verdict]) -> Drawing:
    columns = list(dict.fromkeys(protocol_heading(name) for verdict in compared for name in verdict.protocols))
    figure = Figure(figsize=(7.6, 1.0 + 0.24 * len(compared)), layout=ConstrainedLayoutEngine(w_pad=0.1))
    axes = figure.subplots()
    for place, verdict in enumerate(compared):
        for name, outcome in verdict.protocols.items():
            x = columns.index(protocol_heading(name))
            axes.plot(
                [x], [place], color=COLOURS.get(outcome), marker=SYMBOLS.get(outcome, "."), markersize=7, linestyle="none"
            )
    axes.set_xticks(range(len(columns)), columns)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_yticks(range(len(compared)), [verdict.id for verdict in compared], size=7)
    axes.set_ylim(-0.8, len(compared) - 0.2)
    axes.grid(visible=False, axis="x")
    there: list[Outcome] = [name for name in SYMBOLS if any(name in verdict.protocols.values() for verdict in compared)]
    marks = [Line2D([], [], color=COLOURS[name], marker=SYMBOLS[name], linestyle="none", label=name) for name in there]
    legend(figure, marks)
    return encode(MULTIVERSE, "Which claims on perplexity turn with the protocol?", CAPTION, figure)
