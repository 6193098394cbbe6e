"""What is said on a terminal, and nothing elsewhere."""

import io

import jax
import numpy as np
from rich.console import Console

from experiments.progress import Progress, matmul_ceiling
from model.mesh import make_mesh


def _shown(terminal: bool) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=160, color_system=None)
    # As the loop does: within the mesh of its group.
    with jax.set_mesh(make_mesh(arm=2)), Progress(console) as progress:
        progress.start("sinks: softmax x 3", 100, 40)
        progress.step(41, np.array([9.0]), 1000, 1e3)
        progress.note("checkpoint [passed] over")
        progress.start("sinks: gated x 3", 50, 0)
        progress.step(1, np.array([2.0, np.nan, 4.0]), 1000, 1e3)
    return text.getvalue()


def test_a_terminal_shows_steps_loss_rate_and_utilisation() -> None:
    shown = _shown(terminal=True)
    for part in (
        "sinks: softmax x 3",
        "40/100",
        "loss 3.000",
        "tokens/s",
        "% of the matmul ceiling",
        "sinks: gated x 3",
        "1/50",
    ):
        assert part in shown
    assert "checkpoint [passed] over" in shown


def test_elsewhere_only_notes() -> None:
    assert _shown(terminal=False) == "checkpoint [passed] over\n"


def test_a_corpus_is_told_in_kilobytes() -> None:
    text = io.StringIO()
    with Progress(Console(file=text, force_terminal=True, width=160, color_system=None)) as progress:
        for done in (0, 2_000_000, 3_000_999):
            progress.encoded(done, 3_000_999)
    for part in ("tokens of the corpus", "3000/3000 kB"):
        assert part in text.getvalue()


def test_the_ceiling_is_that_of_a_product() -> None:
    assert 1e8 < matmul_ceiling(size=256, rounds=2) < 1e15
