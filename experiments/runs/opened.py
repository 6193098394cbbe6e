"""A trained run, opened by its folder: a model and its record.

Whatever is measured here is measured by the functions that measure studies (leadline.experiments.measure).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from leadline.experiments.records.measurement import Reading, value_of
from leadline.experiments.records.record import Record, StoredRecord
from leadline.experiments.records.store import read_stored
from leadline.experiments.runs.folders import cache_of, run_folder
from leadline.experiments.runs.held_out import held_out_ids
from leadline.experiments.runs.model import Model
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.saved import Saved, open_saved

# What `repr` shows of a record, as far as it has them.
KEY_FIGURES = ("loss", "bits_per_byte", "accuracy", "recall_accuracy", "sink_rate", "first_token_mass", "bos_mass")


@dataclass(frozen=True, eq=False, repr=False)
class Run(Model):
    """A trained run, of text or of a task: a `Model` with its record. `leadline.open` makes one.

    Attributes:
        saved: the arm, the model and its weights on the host, the last step.
        folder: `results/STUDY/ARM-HASH/sSEED`.
        stored: the record and what lies beside it.

    Examples:
        >>> run = leadline.open("results/sinks", arm="softmax", seed=50)
        >>> ids = run.held_out()[:, :-1]
        >>> run.logits(ids).shape == (*ids.shape, run.vocabulary_size)
        True
        >>> run.sinks(ids).first_token_mass.shape == (run.structure.layers, run.structure.block.heads)
        True
        >>> float(run.attention_map(ids[0], layer=0, head=0)[0, 0])  # the first token sees itself alone
        1.0
        >>> sorted(run.curves())[:2]
        ['activation_ratio', 'backcopy_loss']
    """

    saved: Saved
    folder: Path
    stored: StoredRecord

    @property
    def record(self) -> Record:
        """The record of the run: configuration, provenance, measurements with units."""
        return self.stored.record

    def held_out(self, corpus: Sequence[str | Path] | None = None) -> Int[np.ndarray, "W T_and_1"]:
        """The held-out sequences that the curves of the run are measured on: inputs [:, :-1], targets [:, 1:].

        Those of a task are drawn again. Those of text are cut from the corpus; its tokens are kept in `.cache` of the results,
        as in training.

        Args:
            corpus: files and folders of the text. A record has their base names only, so all but "stdlib" are to be named.

        Raises:
            UserError: for a corpus that cannot be read, or that is not the one of the run.
        """
        digest = self.record.data["digest"]
        return held_out_ids(self.saved.arm, digest, cache_of(self.folder), corpus)  # pyright: ignore[reportArgumentType]  # JSON of a text

    def curves(self) -> dict[str, np.ndarray]:
        """What was measured during training, by quantity: arrays of one number a point, and `step` [P].

        A DataFrame takes it as it is: `pandas.DataFrame(run.curves())`. A quantity with dimensions has them after its name.

        Raises:
            UserError: where the file is damaged.
        """
        curve = self.stored.curve()
        return {"step": curve.steps, **{_named(key): np.asarray(values) for key, values in curve.values.items()}}

    def __repr__(self) -> str:
        record, cfg = self.record, self.saved.cfg
        numbers = {name: value_of(record, name) for name in KEY_FIGURES}
        figures = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value is not None)
        sizes = f"layers {cfg.layers}, heads {cfg.block.heads}, width {cfg.block.width}"
        return (
            f"Run {record.study} / {record.label or record.arm}, seed {record.seed}, step {self.saved.step}\n"
            f"  model     {sizes}, {self.saved.arm.model.position.kind}, {record.parameters:,} parameters\n"
            f"  data      {self.saved.arm.data.kind}, {self.saved.arm.data.length} tokens, {cfg.vocabulary} ids\n"
            f"  measured  {figures or 'nothing'}\n"
            f"  folder    {self.folder}"
        )


def open_run(folder: str | Path, *, arm: str | None = None, seed: int | None = None) -> Run:
    """Opens a trained run, of text or of a task.

    Args:
        folder: of the run, `results/STUDY/ARM-HASH/sSEED`, or one above it, where `arm` and `seed` say which run is meant.
        arm: its name.
        seed: its seed.

    Raises:
        UserError: where there is no run, or more than one, which are listed; for a run that diverged, whose files are damaged,
            or that another version wrote.
    """
    path = run_folder(Path(folder), arm, seed)
    stored = read_stored(path)
    if not stored.record.steps and stored.record.status == "finished":
        raise UserError(f"{path}: {stored.record.study} is computed and trains nothing; leadline.records has its numbers")
    return Run(open_saved(path), path, stored)


def _named(key: Reading) -> str:
    dims = ", ".join(f"{name}={value}" for name, value in key.dims)
    return f"{key.quantity} ({dims})" if dims else key.quantity
