"""The executors by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.experiments.executors.base import Executor
from leadline.experiments.executors.hosts import Hosts
from leadline.experiments.executors.local import Local
from leadline.experiments.executors.ray import Ray
from leadline.experiments.executors.remote import Remote
from leadline.experiments.executors.slurm import Slurm
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.devices import accelerator_named
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.memory import Room

EXECUTORS = ("local", "ray", "slurm")


@dataclass(frozen=True)
class Options:
    """What a user says of an executor.

    Attributes:
        name: one of EXECUTORS.
        expiry: seconds without a heartbeat after which a process counts as dead.
        models: most of a new group; None: as many of one structure as the memory holds.
        device: an accelerator of the workers, by its name in leadline.experiments.runtime.devices; None: what is here.
        cpus: cores of a group; None: as many as this machine has.
        gpus: accelerators of a group.
        retries: how often a group is restarted whose worker dies.
        address: of a Ray cluster.
        slurm: options of sbatch, as KEY=VALUE.
        together: whether many processes train each group together.
    """

    name: str
    expiry: float
    models: int | None = None
    device: str | None = None
    cpus: int | None = None
    gpus: float = 0.0
    retries: int = 3
    address: str | None = None
    slurm: Sequence[str] = ()
    together: bool = False


def open_executor(options: Options, results: Path) -> Executor:
    """The executor, whose library is imported here and nowhere else.

    Raises:
        UserError: for a name or an option that there is not, a library that is not installed, a cluster that is not there.
    """
    room, cpus = room_of(options), options.cpus or cores()
    if options.together and options.name != "local":
        raise UserError(f"--executor {options.name}: processes that run together train by themselves; leave out --coordinator")
    match options.name:
        case "local":
            return (Hosts if options.together else Local)(options.expiry, room)
        case "ray":
            engine = Ray(options.address, cpus, options.gpus, options.retries)
        case _:
            engine = Slurm(results, cpus, options.gpus, options.retries, _settings(options.slurm))
    return Remote(engine, options.expiry, room)


def room_of(options: Options) -> Room:
    """How large a group may be.

    Raises:
        UserError: for an executor or a device that there is not.
    """
    if options.name not in EXECUTORS:
        raise UserError(f"--executor {options.name}: there is no such executor; choose from {', '.join(EXECUTORS)}")
    device = None if options.device is None else accelerator_named(options.device)
    return Room(options.models, device, max(1, int(options.gpus)))


def _settings(words: Sequence[str]) -> dict[str, str | int]:
    settings: dict[str, str | int] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key.isidentifier() or not equals:
            raise UserError(f"--slurm {word}: say KEY=VALUE, as in --slurm partition=gpu")
        settings[key] = int(value) if value.isdigit() else value
    return settings
