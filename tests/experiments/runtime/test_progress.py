"""What is said on a terminal, what elsewhere, and what stays in the log."""

import io
import itertools
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from leadline.experiments.runtime.losses import losses_by_arm
from leadline.experiments.runtime.progress import Progress, Work
from leadline.experiments.runtime.signals import SHOW_CURSOR

ARMS = ("softmax", "learned_logit", "headwise_gate")
GROUP = Work("smoke_sinks: softmax, learned_logit, headwise_gate x 2", 12_000, 1_000, part="group 2 of 16", arms=ARMS * 2)
TRAINED = GROUP._replace(tokens=4_000, flops=1e9)
LOSSES, WILD = np.array([2.0, 3.0, np.nan, 4.0, 3.5, 1.0]), (False, False, True, False, False, False)


def _console(*, terminal: bool, width: int = 160) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=width, color_system=None), text


def _ticking(seconds: float) -> Callable[[], float]:
    ticks = itertools.count(0.0, seconds)
    return lambda: next(ticks)


def _wait_for(part: str, text: io.StringIO) -> None:
    until = time.monotonic() + 30.0
    while part not in text.getvalue():
        assert time.monotonic() < until, text.getvalue()
        time.sleep(0.01)


def _training(console: Console, work: Work = TRAINED) -> Progress:
    """In the middle of a group, with another one after it."""
    progress = Progress(console, clock=_ticking(1.0))
    progress.pace.expect("smoke_sinks", [1e12])
    progress.start(work)
    for done in (1_001, 2_000):
        progress.step(done, LOSSES, WILD)
    return progress


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_width_loses_group_step_time_left_or_loss(width: int) -> None:
    console, text = _console(terminal=True, width=width)
    progress = _training(Console(quiet=True, width=width))
    progress.status("measuring the curve")
    console.print(progress.view())
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    first, whole = lines[0], " ".join(line.strip() for line in lines)
    assert first.startswith("group 2 of 16 ")
    assert first.endswith(" step 2,000 of 12,000, 0:00:10 left")
    assert "━" in first
    losses = "loss softmax 3.000, learned_logit 3.250, headwise_gate 1.000, diverged: headwise_gate"
    assert (
        losses if width >= len(losses) else "loss 1.000 (headwise_gate) to 3.250 (learned_logit) in 3 arms, diverged:"
    ) in whole
    for part in ("measuring the curve, MFU ", "3,996,000 tokens/s", "left in all"):
        assert part in whole


def test_a_terminal_shows_lines_that_go_and_notes_that_stay() -> None:
    console, text = _console(terminal=True)
    with Progress(console) as progress:
        progress.start(GROUP)
        progress.status("compiling")
        _wait_for("compiling", text)  # the lines are drawn twice a second
        progress.note("checkpoint [passed] over")
        progress.end("6 models on 2 devices")
    shown = text.getvalue()
    for part in ("step 1,000 of 12,000", "compiling", "checkpoint [passed] over\n"):
        assert part in shown
    assert "group 2 of 16: smoke_sinks: softmax, learned_logit, headwise_gate x 2: 6 models on 2 devices in " in shown
    assert shown.rindex(SHOW_CURSOR) > shown.rindex("compiling")


def test_elsewhere_there_are_lines_when_a_group_begins_and_ends_and_now_and_then() -> None:
    console, text = _console(terminal=False)
    with Progress(console, every=0.02) as progress:
        progress.start(GROUP)
        progress.status("compiling")
        _wait_for("compiling", text)
        progress.step(1_001, LOSSES, WILD)
        progress.step(1_002, LOSSES, WILD)
        _wait_for("loss", text)
        progress.end("6 models on 2 devices")
        ended = len(text.getvalue())
        time.sleep(0.1)
    lines = text.getvalue().splitlines()
    assert lines[0] == f"{GROUP.title}: step 1,000 of 12,000"
    assert lines[1] == "group 2 of 16, step 1,000 of 12,000, compiling"
    assert any(
        line.startswith("group 2 of 16, step 1,002 of 12,000, 0:") and "left, loss softmax 3.000" in line for line in lines
    )
    assert lines[-1].startswith(f"{GROUP.title}: 6 models on 2 devices in ") and " s, loss softmax 3.000" in lines[-1]
    assert len(text.getvalue()) == ended  # nothing is said between groups


def test_lines_are_of_one_work_though_another_begins_while_they_are_drawn() -> None:
    """The thread of a terminal draws at any moment."""

    class Slow(Console):
        @property
        def width(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
            progress.start(Work("next", 7, arms=ARMS))
            return 160

    console, text = _console(terminal=True)
    progress = _training(Slow(quiet=True))
    console.print(progress.view())
    assert "of 12,000" in text.getvalue() and "loss softmax 3.000" in text.getvalue()


def test_what_is_not_known_is_left_out() -> None:
    console, text = _console(terminal=True, width=80)
    progress = Progress(Console(quiet=True, width=80))
    progress.start(GROUP)
    console.print(progress.view())
    first, second = text.getvalue().splitlines()
    assert first.endswith(" step 1,000 of 12,000")
    assert second == GROUP.name


def test_a_corpus_is_told_in_kilobytes() -> None:
    console, text = _console(terminal=False)
    with Progress(console) as progress:
        for done in (0, 2_000_000, 3_000_999):
            progress.encoded(done, 3_000_999)
    assert text.getvalue() == "tokens of the corpus: kB 0 of 3,000\n"


def test_the_log_has_events_alone_and_how_a_run_was_broken_off(tmp_path: Path) -> None:
    console, text = _console(terminal=False)
    with pytest.raises(ValueError, match="broken"), Progress(console, tmp_path / "leadline.log", every=0.01) as progress:
        progress.log("leadline run mine.toml")
        progress.start(GROUP)
        _wait_for("step 1,000 of 12,000\ngroup", text)
        progress.note("a note")
        raise ValueError("broken\noff")
    events = [line.split("] ", 1)[1] for line in (tmp_path / "leadline.log").read_text().splitlines()]
    assert events == ["leadline run mine.toml", f"{GROUP.title}: step 1,000 of 12,000", "a note", "ValueError: broken off"]


@pytest.mark.parametrize(
    ("losses", "diverged", "width", "line"),
    [
        ([1.0, 2.0], (False, False), 40, "loss a 1.000, b 2.000"),
        ([1.0, 2.0], (False, False), 10, "loss 1.000 (a) to 2.000 (b) in 2 arms"),
        ([1.0, math.nan], (False, True), 10, "loss a 1.000, diverged: b"),
        ([math.nan, math.inf], (True, True), 40, "diverged: a, b"),
    ],
)
def test_losses_are_those_of_arms_and_name_what_diverged(
    losses: list[float], diverged: tuple[bool, bool], width: int, line: str
) -> None:
    assert losses_by_arm(("a", "b"), np.array(losses), diverged, width) == line


def test_many_diverged_arms_are_counted() -> None:
    assert losses_by_arm("abcdef", np.ones(6), [True] * 5 + [False], 80) == "loss f 1.000, diverged: a, b, c and 2 more"
