"""Long runs take no more memory of the host than short ones."""

import resource
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.training.runs import SOFTMAX, Watched, changed, run

STEPS = 20_000
GROWTH = 8.0  # MiB between the first fifth and the end; 2.7 MiB were seen


def resident() -> float:
    """MiB that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


class Weighed(Watched):
    """Weighs the process every thousand steps."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: list[float] = []

    def step(self, done: int, losses: np.ndarray, diverged: Sequence[bool]) -> None:
        super().step(done, losses, diverged)
        self.steps.clear()
        if done % 1000 == 0:
            self.memory.append(resident())


@pytest.mark.slow
@pytest.mark.usefixtures("in_use")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read as Linux tells it")
def test_the_memory_of_the_host_does_not_grow_with_steps(tmp_path: Path) -> None:
    progress = Weighed()
    arm = changed("softmax", SOFTMAX, train={"steps": STEPS, "checkpoint_every": 2000}, measure={"every": 500})
    run(tmp_path, [arm], seeds=(0,), progress=progress)
    assert len(progress.memory) == STEPS // 1000
    assert max(progress.memory[4:]) - progress.memory[3] < GROWTH, progress.memory
