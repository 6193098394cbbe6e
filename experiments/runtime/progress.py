"""What long work says: a few lines that change on a terminal, elsewhere a line now and then; and to a log and to trackers."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from leadline.experiments.runtime.log import Log
from leadline.experiments.runtime.losses import losses_by_arm
from leadline.experiments.runtime.matmul import matmul_peak
from leadline.experiments.runtime.pace import Pace
from leadline.experiments.runtime.tracking import Run, Tracker, Tracking

# Between lines where there is no terminal.
SECONDS = 30.0
# Characters that the losses of all arms may take where there is no terminal.
LINE = 160
# Columns below which there is no bar.
SHORTEST_BAR = 3


class Work(NamedTuple):
    """A group of models that train together, or other work of many steps."""

    name: str  # the study and its arms, or what else is done
    steps: int
    first: int = 0  # steps that are done already
    unit: str = "step"
    part: str = ""  # of the whole, as "group 2 of 6"
    arms: Sequence[str] = ()  # of each model that trains, the arm
    tokens: int = 0  # of a step of all models
    flops: float = 0.0  # of a step of all models
    dtype: str = "float32"  # that the models compute in

    @property
    def title(self) -> str:
        return ": ".join(filter(None, (self.part, self.name)))


class Shown(NamedTuple):
    """What is shown of work, replaced as a whole: other threads read it at any moment."""

    work: Work = Work("", 0)
    status: str = ""
    losses: tuple[np.ndarray, Sequence[bool]] | None = None  # of each model, and whether it has diverged

    def loss(self, width: int) -> str:
        return "" if self.losses is None else losses_by_arm(self.work.arms, *self.losses, width)


class Progress:
    """Step, time left, loss by arm, model FLOP utilisation (MFU) and tokens/s, on standard error.

    Args:
        console: where to; whether it is a terminal decides the form.
        log: the file that gets every event, and none of the lines that change.
        trackers: by name; they get curves and final measurements.
        clock: seconds, from any beginning.
        every: seconds between lines where there is no terminal.
    """

    def __init__(
        self,
        console: Console,
        log: Path | None = None,
        trackers: Mapping[str, Tracker] | None = None,
        clock: Callable[[], float] = time.monotonic,
        every: float = SECONDS,
    ) -> None:
        self.pace = Pace(clock)
        self._console, self._every = console, every
        self._log = None if log is None else Log(log, self.note)
        self._trackers, self._trackings = trackers or {}, list[Tracking]()
        self._peaks: dict[str, float] = {}
        self._live: Live | None = None
        self._exited = Event()
        self._shown = Shown()

    def __enter__(self) -> "Progress":
        self._trackings = [Tracking(name, tracker, self.note) for name, tracker in self._trackers.items()]
        if not self._console.is_terminal:
            Thread(target=self._now_and_then, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._idle()
        self._exited.set()
        if kind is not None and self._log is not None and self._log.begun:
            self.log(f"{kind.__name__}: {error}")
        for tracking in self._trackings:
            tracking.close()

    def start(self, work: Work) -> None:
        """Begins work, in place of the work before."""
        if work.flops and work.dtype not in self._peaks:
            self._peaks[work.dtype] = matmul_peak(work.dtype)
        self.pace.begin(work.steps, work.first, work.flops)
        self._shown = Shown(work)
        line = f"{work.title}: {self._count(work)}"
        self.log(line)
        if not self._console.is_terminal:
            self._print(line)
        elif self._live is None:
            self._live = Live(
                console=self._console, get_renderable=self.view, transient=True, redirect_stdout=False, refresh_per_second=2
            )
            self._live.start()

    def step(self, done: int, losses: np.ndarray, diverged: Sequence[bool]) -> None:
        """`done` training steps have been made; for each model, the loss of the last one and whether it has diverged."""
        self._shown = self._shown._replace(losses=(losses, diverged))
        self.reach(done, "")

    def reach(self, done: int, status: str) -> None:
        """`done` steps have been made."""
        self.pace.reach(done)
        self.status(status)

    def status(self, status: str) -> None:
        """What is being done between steps, as "compiling"."""
        self._shown = self._shown._replace(status=status)

    def end(self, result: str) -> None:
        """Ends the work that was started last with a line that stays."""
        work, facts = self._shown.work, [self._shown.loss(LINE), self._utilisation(self._shown.work)]
        seconds = self.pace.end()
        self._idle()
        self.note(", ".join(filter(None, (f"{work.title}: {result} in {seconds:.0f} s", *facts))))

    def encoded(self, done: int, size: int) -> None:
        """`done` of the `size` bytes of a corpus are token ids; the first call is with none."""
        if done == 0:
            self.start(Work("tokens of the corpus", size // 1000, unit="kB"))
        self.reach(done // 1000, "")
        if done == size:
            self._idle()

    @property
    def now(self) -> dict[str, Any]:
        """How far the work is, as JSON: None for what is not known yet, and the mean loss of what has not diverged."""
        shown, pace = self._shown, self.pace
        losses, diverged = shown.losses or (np.zeros(0), ())
        loss = np.asarray(losses)[~np.asarray(diverged, bool)].mean() if losses.size > sum(diverged) else math.nan
        numbers = {"loss": loss, "tokens_per_second": pace.steps_a_second * shown.work.tokens, "seconds_left": pace.left}
        known = {name: float(f"{value:.6g}") if math.isfinite(value) else None for name, value in numbers.items()}
        return {"step": pace.done, "doing": shown.status, **known}

    def note(self, line: str) -> None:
        """A line that stays: above those that change, and in the log."""
        self.log(line)
        self._print(line)

    def log(self, event: str) -> None:
        """A line of the log alone."""
        if self._log is not None:
            self._log.write(event)

    def curve(self, run: Run, steps: np.ndarray, values: Callable[[], Mapping[str, np.ndarray]]) -> None:
        """The curve of a run as far as it is, for trackers: steps [P] and what gives values by name, [P]."""
        for tracking in self._trackings:
            tracking.curve(run, steps, values())

    def final(self, run: Run, values: Callable[[], Mapping[str, float]]) -> None:
        """The final measurements of a run, for trackers."""
        for tracking in self._trackings:
            tracking.final(run, values())

    def view(self) -> Group:
        """The lines that change: group, bar, step, time left; arms; losses; what is being done, how fast, time left in all."""
        shown, width = self._shown, self._console.width
        work = shown.work
        count = ", ".join(filter(None, (self._count(work), self._left())))
        title = Text(work.part or work.name)
        title.truncate(max(width - len(count) - 1, 1), overflow="ellipsis")
        bar = width - len(title) - len(count) - 2
        row = [title, ProgressBar(max(work.steps, 1), self.pace.done, width=bar), Text(count)]
        head = Table.grid(padding=(0, 1, 0, 0))
        head.add_row(*(row if bar >= SHORTEST_BAR else (title, Text(count))))
        name = Text(work.name if work.part else "", no_wrap=True, overflow="ellipsis")
        lines = (name, Text(shown.loss(width)), Text(", ".join(self._facts(shown))))
        return Group(head, *(line for line in lines if line))

    def _now_and_then(self) -> None:
        while not self._exited.wait(self._every):
            shown = self._shown
            work = shown.work
            if work.steps:
                parts = (work.part or work.name, self._count(work), self._left(), shown.loss(LINE), *self._facts(shown))
                self._print(", ".join(filter(None, parts)))

    def _idle(self) -> None:
        """No work is begun, and no line changes."""
        self._shown = Shown()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _count(self, work: Work) -> str:
        return f"{work.unit} {self.pace.done:,} of {work.steps:,}"

    def _left(self) -> str:
        return _duration(self.pace.left, "left")

    def _utilisation(self, work: Work) -> str:
        rate = self.pace.steps_a_second * work.flops
        return f"MFU {rate / self._peaks[work.dtype]:.0%}" if rate > 0 else ""

    def _facts(self, shown: Shown) -> list[str]:
        tokens = self.pace.steps_a_second * shown.work.tokens
        rate = f"{tokens:,.0f} tokens/s" if tokens > 0 else ""
        facts = (shown.status, self._utilisation(shown.work), rate, _duration(self.pace.left_in_all, "left in all"))
        return [fact for fact in facts if fact]


def _duration(seconds: float, what: str) -> str:
    """Nothing where it is not known."""
    return "" if math.isnan(seconds) else f"{timedelta(seconds=round(seconds))} {what}"
