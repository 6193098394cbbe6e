"""What long work says: a bar on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Callable
from datetime import timedelta

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from leadline.model.mesh import make_mesh

# Between lines where there is no terminal.
SECONDS = 30.0
# Columns of the bar, of "99999/99999", of "0:00:00" and of the blanks between: they are always seen whole.
BAR, FIXED = 10, 10 + 11 + 7 + 4


class Progress:
    """Steps, loss, model FLOP utilisation (MFU), tokens/s and time left, on standard error.

    Args:
        console: where to; whether it is a terminal decides the form.
        clock: seconds, from any beginning.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        name = max(24, console.width // 3)
        rest = max(console.width - name - FIXED, 1)
        columns = (
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", max_width=name)),
            BarColumn(BAR),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}", table_column=Column(no_wrap=True, overflow="ellipsis", max_width=rest)),
        )
        self._bars = RichProgress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._clock = clock
        self._peaks: dict[str, float] = {}
        self._what, self._steps, self._done = "", 0, 0
        self._first: tuple[int, float] | None = None  # step and time of the first report since `start`
        self._told = clock()

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def start(self, description: str, steps: int, first: int) -> None:
        """Begins work of `steps` steps, of which `first` are done already."""
        for task in self._bars.task_ids:
            self._bars.remove_task(task)
        self._bars.add_task(description, total=steps, completed=first, status="")
        self._what, self._steps, self._done, self._first = description, steps, first, None
        self.status("")

    def step(self, done: int, losses: np.ndarray, tokens_a_step: int, flops_a_token: float, dtype: str = "float32") -> None:
        """`done` training steps are behind. Tokens and FLOPs are those of all models that train together."""
        status = f"loss {np.nanmean(losses):.3f}"
        if self._first is not None and done > self._first[0]:
            rate = tokens_a_step * (done - self._first[0]) / max(self._clock() - self._first[1], 1e-9)
            if dtype not in self._peaks:
                self._peaks[dtype] = matmul_peak(dtype)
            status += f", MFU {rate * flops_a_token / self._peaks[dtype]:.0%}, {rate:,.0f} tokens/s"
        self.reach(done, status)

    def reach(self, done: int, status: str) -> None:
        """`done` steps are behind."""
        self._done, self._first = done, self._first or (done, self._clock())
        self.status(status)

    def encoded(self, done: int, size: int) -> None:
        """`done` of the `size` bytes of a corpus are token ids; the first call is with none."""
        if done == 0:
            self.start("tokens of the corpus", size // 1000, 0)
        self.reach(done // 1000, "kB")

    def note(self, line: str) -> None:
        """A line that stays, above the bar or in a log."""
        self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def status(self, status: str) -> None:
        """What is being done, as "compiling" between steps."""
        if not self._bars.disable:
            self._bars.update(self._bars.task_ids[0], completed=self._done, status=status)
        elif self._clock() - self._told >= SECONDS:
            self._told = self._clock()
            self.note(", ".join(part for part in (f"{self._what}: {self._done}/{self._steps}", status, self._left()) if part))

    def _left(self) -> str:
        if self._first is None or self._done <= self._first[0]:
            return ""
        seconds = (self._clock() - self._first[1]) / (self._done - self._first[0]) * (self._steps - self._done)
        return f"{timedelta(seconds=round(seconds))} left"


def matmul_peak(dtype: str = "float32", size: int = 1024, rounds: int = 3) -> float:
    """FLOP/s of a matrix product of this type on all devices of this machine: the denominator of MFU."""
    seconds = []
    with jax.set_mesh(make_mesh()):
        a = jnp.ones((size, size), dtype)
        product = jax.jit(jnp.matmul)
        product(a, a).block_until_ready()
        for _ in range(rounds):
            began = time.monotonic()
            product(a, a).block_until_ready()
            seconds.append(time.monotonic() - began)
    # On a CPU the product of one device already uses the cores that the others stand for.
    devices = 1 if jax.default_backend() == "cpu" else jax.device_count()
    return devices * 2 * size**3 / min(seconds)
