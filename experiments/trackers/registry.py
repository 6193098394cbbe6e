"""The trackers by name: what each is installed as, and how a run is opened in it."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.tracking import Tracker
from leadline.experiments.trackers.tensorboard import TensorBoardRun
from leadline.experiments.trackers.trackio import TrackioRun
from leadline.experiments.trackers.wandb import WandbRun

# The module that each needs, and its runs. A name is that of the extra which installs the module.
TRACKERS = {
    "tensorboard": ("tensorboardX", TensorBoardRun),
    "wandb": ("wandb", WandbRun),
    "trackio": ("trackio", TrackioRun),
}


def open_trackers(names: Sequence[str], results: Path) -> Mapping[str, Tracker]:
    """The trackers of these names, whose libraries are imported here and nowhere else.

    Raises:
        UserError: for a name that is no tracker's, and for a tracker that is not installed or cannot be imported.
    """
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"--tracker {name}: there is no such tracker; choose from {', '.join(TRACKERS)}")
        try:  # here and not in the thread of the tracker: Python 3.11 cannot compile modules in two threads at once
            import_module(TRACKERS[name][0])
        except Exception as error:
            why = str(error) or type(error).__name__
            raise UserError(f"--tracker {name}: {why}; pip install -e '.[{name}]' in a clone") from error
    return {name: partial(TRACKERS[name][1], results) for name in names}
