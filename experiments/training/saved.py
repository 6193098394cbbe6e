"""A trained model with its weights, and how that of a run is taken from its record."""

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from pydantic import ValidationError

from leadline.experiments.config.data import TextData
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.study import Arm
from leadline.experiments.data.source import structure_of
from leadline.experiments.records.store import read_record
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training import checkpoint
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.encoder_decoder import init_model
from leadline.model.mesh import make_mesh
from leadline.tokenization.formats.saving import load
from leadline.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class TrainedModel:
    """A model of a run or of published files.

    Attributes:
        name: for titles and messages.
        model: the configuration.
        length: the longest text of its training [tokens].
        original_length: the length to which the factors of its context extension relate [tokens].
        add_bos: whether BOS is put in front of a text.
        cfg: the structure.
        params: the weights, on the host or on the devices.
        tokenizer: None for a model of a task of ids, and for files without one.
    """

    name: str
    model: ModelConfig
    length: int
    original_length: int
    add_bos: bool
    cfg: DecoderConfig
    params: Decoder
    tokenizer: Tokenizer | None


@dataclass(frozen=True)
class Saved(TrainedModel):
    """A model as a study left it: its arm, and the last step; the weights are on the host."""

    arm: Arm
    step: int


def open_saved(folder: Path) -> Saved:
    """The last whole checkpoint of `results/STUDY/ARM-HASH/sSEED`.

    Raises:
        UserError: for a folder without record, checkpoint or its tokenizer, and for one that another version wrote.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; name one of a run, as in results/STUDY/ARM-HASH/sSEED")
    record = read_record(folder)
    try:
        arm = Arm.model_validate(record.config)
    except ValidationError as error:
        raise UserError(f"{folder}: this version does not know the configuration of this record; run the arm again") from error
    checkpoints = folder / "checkpoint"
    step, notes = checkpoint.latest(checkpoints)
    if step is None:
        reason = notes[0] if notes else "there is no checkpoint" + (", the arm diverged" if record.message else "")
        raise UserError(f"{folder}: {reason}; delete the folder and run the arm again")
    data, cfg = arm.data, structure_of(arm)
    tokenizer = _tokenizer(checkpoints / "tokenizer", checkpoint.extra_of(checkpoints, step)["tokenizer"])
    with jax.set_mesh(make_mesh()):
        shapes = jax.eval_shape(lambda: init_model(jax.random.key(0), cfg))
    template = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    return Saved(
        name=arm.name,
        model=arm.model,
        length=data.length,
        original_length=arm.original_length,
        add_bos=isinstance(data, TextData) and data.bos in ("fixed", "document"),
        cfg=cfg,
        params=checkpoint.restore(checkpoints, step, template),
        tokenizer=tokenizer,
        arm=arm,
        step=step,
    )


def _tokenizer(folder: Path, digest: str | None) -> Tokenizer | None:
    """The tokenizer of a checkpoint; None where the weights were trained without one."""
    if digest is None:
        return None
    try:
        tokenizer = load(folder)
    except ValueError as error:
        raise UserError(str(error)) from error
    if digest != tokenizer.digest():
        raise UserError(f"{folder}: not the tokenizer that these weights were trained with; restore it")
    return tokenizer
