"""The trackers by name: what each is installed as, and how a run is opened in it."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
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
    """The trackers of these names, whose libraries are imported when a run begins.

    Raises:
        UserError: for a name that is no tracker's, and for a tracker that is not installed.
    """
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"--tracker {name}: there is no such tracker; choose from {', '.join(TRACKERS)}")
        if find_spec(TRACKERS[name][0]) is None:
            raise UserError(f"--tracker {name}: it is not installed; pip install 'leadline[{name}]'")
    return {name: partial(TRACKERS[name][1], results) for name in names}
