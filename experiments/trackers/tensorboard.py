"""TensorBoard: a folder of events an arm and seed, below `tensorboard` in the results folder."""

import json
from collections.abc import Mapping
from pathlib import Path

from leadline.experiments.runtime.tracking import Run

FOLDER = "tensorboard"


class TensorBoardRun:
    """Curves as scalars, final measurements as scalars below `final`, settings as text.

    Args:
        results: the results folder.
        run: whose curve it is. Earlier events of it are superseded.
    """

    def __init__(self, results: Path, run: Run) -> None:
        from tensorboardX import SummaryWriter

        self.shown_by = f"tensorboard --logdir {results / FOLDER}"
        self._writer = SummaryWriter(str(results / FOLDER / run.name), purge_step=0)
        self._writer.add_text("config", f"```json\n{json.dumps(run.config(), indent=1)}\n```")
        self._last = 0

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Adds a point, which is on disk when this returns."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()
        self._last = step

    def finish(self, values: Mapping[str, float], *, whole: bool) -> None:  # noqa: ARG002
        """Adds the final measurements at the last step."""
        for name, value in values.items():
            self._writer.add_scalar(f"final/{name}", value, self._last)
        self._writer.close()
