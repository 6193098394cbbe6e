"""What trains together: models of equal structure, which share their compiled programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from leadline.experiments.config.data import BackcopyData, Data
from leadline.experiments.config.measure import Measure
from leadline.experiments.config.study import Arm
from leadline.experiments.config.to_model import training_flops
from leadline.experiments.config.train import Constant, TrainConfig
from leadline.experiments.data.source import Source, structure_of
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.records.store import is_recorded
from leadline.experiments.runtime.ensemble import ensemble_mesh
from leadline.experiments.runtime.worker import CLAIMS, Claim
from leadline.model.decoder import DecoderConfig


class Structure(NamedTuple):
    """The compiled-in settings of an arm. Settings that are traced values have one common value."""

    model: DecoderConfig  # shapes and mechanisms
    data: Data  # lengths and tasks
    train: TrainConfig  # steps, batch, optimiser; not rates, decay, clip
    measure: Measure  # what is measured; not the extensions of the context, which are tables


def structure(arm: Arm) -> Structure:
    """The structure of an arm. Arms of equal structure train in one program."""
    values = {"learning_rate": 1.0, "schedule": Constant(), "warmup": 0, "weight_decay": 0.0, "clip": 1.0}
    data, measure = arm.data, arm.measure
    if isinstance(data, BackcopyData):  # the inputs of a step decide whether a sequence begins with BOS
        data = data.model_copy(update={"bos": "fixed"})
    if measure.perplexity is not None:
        measure = measure.model_copy(update={"perplexity": measure.perplexity.model_copy(update={"extensions": ()})})
    train = arm.train.model_copy(update=values)
    return Structure(structure_of(arm), data, train, measure)


@dataclass(frozen=True, eq=False)
class Member:
    """One arm and seed: one model. It starts from the last weights of its predecessor, or from fresh ones where it has none."""

    arm: Arm
    seed: int
    digest: str
    folder: Path
    source: Source
    predecessor: "Member | None" = None
    packed: bool = False  # its record is among the packed ones of its study, without its weights

    @property
    def id(self) -> str:
        """`ARM-HASH/sSEED`, which says all that decides its numbers."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def claim(self) -> Path:
        """The place that a process claims before it trains this model."""
        return claim_of(self.folder.parents[1], self.id)

    @property
    def recorded(self) -> bool:
        return self.packed or is_recorded(self.folder)

    @property
    def tokenizer_digest(self) -> str | None:
        """Of the tokenizer of its texts; None for generated tasks."""
        return None if self.source.tokenizer is None else self.source.tokenizer.digest()

    @property
    def depth(self) -> int:
        """How many models have to be trained before it."""
        return 0 if self.predecessor is None else 1 + self.predecessor.depth

    def flops(self, model: DecoderConfig) -> float:
        """FLOPs of one token, forward and backward."""
        return training_flops(model, self.arm.data.length, self.arm.model)


def claim_of(study: Path, member: str) -> Path:
    """The place that stands for the member of this ID in the folder of a study."""
    return study / CLAIMS / member.replace("/", "-")


@dataclass(frozen=True)
class Unfinished:
    """The last checkpoint of a group that did not get to its records: where, at which step, and with what JSON."""

    folder: Path
    step: int
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class RunGroup:
    """Members that one program serves."""

    study: str  # its name
    structure: Structure  # that all members have
    # Recorded ones too, where the others trained beside them: a model's last digits depend on its neighbours.
    members: tuple[Member, ...]
    sources: tuple[Source, ...]  # of the members, each once; they differ in nothing that is compiled in
    held_out: Any  # what a point of the curves is measured on, of every source, stacked
    mesh: Mesh  # devices by arm, text and data
    unfinished: Unfinished | None = None  # the checkpoint to go on from
    claim: Claim | None = None  # the right to write its checkpoints and records

    @property
    def claims(self) -> list[Path]:
        """The places that a process claims before it trains these models."""
        return [member.claim for member in self.members]

    def check_claim(self) -> None:
        """Lost if another process has taken over."""
        if self.claim is not None:
            self.claim.check()

    @property
    def first_step(self) -> int:
        """Steps that the members have been trained for."""
        return 0 if self.unfinished is None else self.unfinished.step

    @property
    def names(self) -> str:
        return ", ".join(dict.fromkeys(member.arm.name for member in self.members))


def run_group(study: str, members: Sequence[Member], unfinished: Unfinished | None = None) -> RunGroup:
    """The group of members of one structure, with the held-out data of its curves.

    Raises:
        UserError: where the data do not suffice.
    """
    common = structure(members[0].arm)
    of_source = {id(member.source): member for member in members}
    sources = tuple(member.source for member in of_source.values())
    batches = [curve_of(common.data).batches(member.source, member.arm) for member in of_source.values()]
    held_out = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *batches)
    rows = {leaf.shape[2] for leaf in jax.tree.leaves(held_out)}  # of [sources, batches, rows, …]
    mesh = ensemble_mesh(len(members), common.train.batch, *rows, common.model.block.width)
    return RunGroup(study, common, tuple(members), sources, held_out, mesh, unfinished)
