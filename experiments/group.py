"""What is trained together: members of equal structure, their data, and what is measured of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jax.sharding import Mesh

from experiments.config.study import Arm
from experiments.data.mixed import MixedSource
from experiments.data.retrieval.source import RetrievalSource
from experiments.data.source import BackcopySource, TextSource
from experiments.evaluate import Statistics
from model.decoder import Decoder, DecoderConfig
from model.positions.tables import PositionTables

Source = BackcopySource | TextSource | RetrievalSource | MixedSource
Point = dict[str, np.ndarray]


@dataclass(frozen=True)
class Recorded:
    """An arm and seed whose training has ended, or will have before it is needed: its folder, and its last step."""

    arm: str
    folder: Path
    steps: int

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoint"


@dataclass(frozen=True)
class Member:
    """One arm and seed that is still to be recorded, and the step of its last checkpoint (0: none)."""

    arm: Arm
    source: Source = field(compare=False)
    seed: int
    hash: str
    folder: Path
    start: int
    before: Recorded | None = None  # whose weights it starts from

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoint"


@runtime_checkable
class Measurer(Protocol):
    """What a study measures."""

    def batches(self, source: Any, measure: Any) -> Any:
        """What a point of the curves is measured on: held-out ids [C, B, T + 1], or a `Sample` of them."""
        ...

    def point(
        self,
        params: Decoder,
        tables: PositionTables,
        batches: Any,
        shared: Any,
        model: DecoderConfig,
        measure: Any,
    ) -> Statistics:
        """A point of the curves, inside the compiled program."""
        ...

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: Any,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """What is measured of trained models beyond the last point of the curves."""
        ...


@dataclass(frozen=True)
class Group:
    """Members that one program serves."""

    study: str
    members: tuple[Member, ...]
    sources: tuple[Source, ...]  # of the members, each once; they differ in nothing that is compiled in
    model: DecoderConfig
    held_out: Any  # what a point of the curves is measured on: of every source ids [C, B, T + 1] or a Sample, stacked
    mesh: Mesh

    @property
    def arm(self) -> Arm:
        """Any of them: they agree in all that is not a value."""
        return self.members[0].arm

    @property
    def source(self) -> Source:
        """Likewise."""
        return self.sources[0]

    def source_of(self, member: Member) -> int:
        """Which of the sources is a member's."""
        return next(i for i, source in enumerate(self.sources) if source is member.source)
