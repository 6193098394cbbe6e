"""Trackio: a project a study, a group an arm, a run a seed. It keeps its data where its own settings say (`TRACKIO_DIR`)."""

import contextlib
import io
from collections.abc import Mapping
from contextvars import Context
from functools import partial
from pathlib import Path

from leadline.experiments.runtime.tracking import Run


class TrackioRun:
    """Curves as metrics, final measurements as metrics below `final`, settings as configuration.

    Args:
        results: the results folder, in which nothing is written.
        run: whose curve it is.
    """

    def __init__(self, results: Path, run: Run) -> None:  # noqa: ARG002
        import trackio

        self.shown_by = f"trackio show --project {run.study}"
        begin = partial(trackio.init, embed=False, auto_log_cpu=False, auto_log_gpu=False)
        name, config = f"{run.arm}-{run.digest} s{run.seed}", dict(run.config())
        # The library ends the run of a context before it begins another one there, and prints on standard output.
        with contextlib.redirect_stdout(io.StringIO()):
            self._run = Context().run(begin, project=run.study, group=run.arm, name=name, config=config)
        self._last = 0

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Adds a point."""
        self._run.log(dict(values), step=step)
        self._last = step

    def finish(self, values: Mapping[str, float], *, whole: bool) -> None:  # noqa: ARG002
        """Adds the final measurements at the last step and ends the run."""
        with contextlib.redirect_stdout(io.StringIO()):
            if values:
                self._run.log({f"final/{name}": value for name, value in values.items()}, step=self._last)
            self._run.finish()
