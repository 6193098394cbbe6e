"""Weights & Biases: a project a study, a group an arm, a run a seed. `WANDB_MODE=offline` keeps all on this machine."""

from collections.abc import Mapping
from pathlib import Path

from leadline.experiments.runtime.tracking import Run

# How long the library tries to reach its server, and to send the rest of a run.
SECONDS = 30.0


class WandbRun:
    """Curves as history, final measurements as summary below `final`, settings as configuration.

    Args:
        results: the results folder, whose `wandb` keeps the files of the library.
        run: whose curve it is.
    """

    def __init__(self, results: Path, run: Run) -> None:
        import wandb

        limits = {"init_timeout": SECONDS, "finish_timeout": SECONDS, "finish_timeout_raises": True}
        settings = wandb.Settings(console="off", silent=True, **limits)
        wandb.setup(settings)  # who is not logged in gets an error and no question, which would wait unseen under the progress
        self._run = wandb.init(
            project=run.study,
            group=run.arm,
            name=f"{run.arm}-{run.digest} s{run.seed}",
            config=dict(run.config()),
            dir=results,
            reinit="create_new",
            settings=settings,
        )
        offline = f"wandb sync {results / 'wandb' / 'offline-run-*'}"
        self.shown_by = offline if self._run.offline else str(self._run.project_url)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Adds a point to the history."""
        self._run.log(dict(values), step=step)

    def finish(self, values: Mapping[str, float], *, whole: bool) -> None:
        """Sets the summary and ends the run."""
        self._run.summary.update({f"final/{name}": value for name, value in values.items()})
        self._run.finish(exit_code=0 if whole else 1)
