"""What is said on a terminal, and what elsewhere."""

import io
import itertools

import jax
import numpy as np
import pytest
from rich.console import Console

from leadline.experiments.runtime.progress import SECONDS, Progress, matmul_peak
from leadline.model.mesh import make_mesh


def _shown(*, terminal: bool, width: int = 160, seconds: float = 1.0) -> str:
    text, ticks = io.StringIO(), itertools.count(0.0, seconds)
    console = Console(file=text, force_terminal=terminal, width=width, color_system=None)
    # As the loop does: within the mesh of its group.
    with jax.set_mesh(make_mesh(arm=2)), Progress(console, lambda: next(ticks)) as progress:
        progress.start("group 1 of 2: sinks: softmax x 3", 100, 40)
        progress.status("compiling")
        progress.step(41, np.array([9.0]), 1000, 1e3)
        progress.note("checkpoint [passed] over")
        progress.start("group 2 of 2: sinks: gated, gated_by_element, gated_by_head x 3", 50, 0)
        progress.step(30, np.array([2.0, np.nan, 4.0]), 1000, 1e3)
        progress.step(31, np.array([2.0, np.nan, 4.0]), 1000, 1e3)
    return text.getvalue()


def test_a_terminal_shows_group_steps_loss_rate_and_utilisation() -> None:
    shown = _shown(terminal=True)
    parts = ("group 1 of 2: sinks: softmax x 3", "40/100", "checkpoint [passed] over", "group 2 of 2: sinks: gated", "31/50")
    for part in (*parts, "loss 3.000, MFU ", "tokens/s"):
        assert part in shown


def test_eighty_columns_have_bar_steps_and_time_left() -> None:
    last = _shown(terminal=True, width=80).split("\n")[-2].split("\r")[-1]
    assert len(last) <= 80 + len("\x1b[2K")
    for part in ("group 2 of 2:", "…", "━", "31/50", ":", "loss 3.000"):
        assert part in last, last


@pytest.mark.parametrize(("seconds", "lines"), [(1.0, 0), (SECONDS, 6)])
def test_elsewhere_there_are_notes_and_a_line_now_and_then(seconds: float, lines: int) -> None:
    shown = _shown(terminal=False, seconds=seconds).splitlines()
    assert shown.count("checkpoint [passed] over") == 1
    told = [line for line in shown if line != "checkpoint [passed] over"]
    assert len(told) == lines
    if told:
        assert told[1] == "group 1 of 2: sinks: softmax x 3: 40/100, compiling"
        assert "31/50, loss 3.000, MFU" in told[-1]
        assert told[-1].endswith(" left")


def test_a_corpus_is_told_in_kilobytes() -> None:
    text = io.StringIO()
    with Progress(Console(file=text, force_terminal=True, width=160, color_system=None)) as progress:
        for done in (0, 2_000_000, 3_000_999):
            progress.encoded(done, 3_000_999)
    for part in ("tokens of the corpus", "3000/3000", "kB"):
        assert part in text.getvalue()


def test_the_peak_is_that_of_a_product() -> None:
    assert 1e8 < matmul_peak(size=256, rounds=2) < 1e15
