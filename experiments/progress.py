"""What long work says on a terminal, and nothing elsewhere."""

import time
from types import TracebackType

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from model.mesh import make_mesh


class Progress:
    """A bar of training steps on standard error: loss, tokens/s, model FLOP utilisation, time left. Silent off a terminal."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
        )
        self._bars = RichProgress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._peak: float | None = None
        self._began = time.monotonic()
        self._first = 0

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.stop()

    def start(self, description: str, steps: int, first: int) -> None:
        for task in self._bars.task_ids:
            self._bars.remove_task(task)
        self._bars.add_task(description, total=steps, completed=first, status="")
        self._began, self._first = time.monotonic(), first

    def step(self, done: int, losses: np.ndarray, tokens_a_step: int, flops_a_token: float) -> None:
        """`done` steps are behind; the other two describe one step of the whole population."""
        if self._bars.disable:
            return
        if self._peak is None:
            self._peak = matmul_ceiling()
        rate = tokens_a_step * (done - self._first) / max(time.monotonic() - self._began, 1e-9)
        used = rate * flops_a_token / self._peak
        status = f"loss {np.nanmean(losses):.3f}  {rate:,.0f} tokens/s  {used:.0%} of the matmul ceiling"
        self._bars.update(self._bars.task_ids[0], completed=done, status=status)

    def reach(self, done: int, status: str) -> None:
        """`done` of the steps of work that trains nothing are behind."""
        if not self._bars.disable:
            self._bars.update(self._bars.task_ids[0], completed=done, status=status)

    def encoded(self, done: int, size: int) -> None:
        """`done` of the `size` bytes of a corpus are token ids; the first call is with none."""
        if done == 0:
            self.start("tokens of the corpus", size // 1000, 0)
        self.reach(done // 1000, "kB")

    def note(self, line: str) -> None:
        """A line that stays, above the bar or in a log."""
        self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)


def matmul_ceiling(size: int = 1024, rounds: int = 3) -> float:
    """FLOP/s of this machine's own float32 matrix product on all its devices: what utilisation is measured against."""
    seconds = []
    with jax.set_mesh(make_mesh()):
        a = jnp.ones((size, size), jnp.float32)
        product = jax.jit(jnp.matmul)
        product(a, a).block_until_ready()
        for _ in range(rounds):
            began = time.monotonic()
            product(a, a).block_until_ready()
            seconds.append(time.monotonic() - began)
    # On a CPU the product of one device already uses the cores that the others stand for.
    devices = 1 if jax.default_backend() == "cpu" else jax.device_count()
    return devices * 2 * size**3 / min(seconds)
