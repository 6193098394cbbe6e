"""A run or a published model written as a folder that transformers loads."""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from leadline.experiments.published.architectures.base import Architecture, Row
from leadline.experiments.published.architectures.registry import ARCHITECTURES
from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.config_json import published_config
from leadline.experiments.published.load import load, weights_by_name
from leadline.experiments.published.mxfp4 import dequantised
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.published.safetensors_files import CONFIG, DTYPES, TOKENIZER_SETTINGS, TOKENIZERS
from leadline.experiments.published.tokenizer import published_text
from leadline.experiments.published.write import write_json, write_tokenizer, write_weights
from leadline.experiments.runs.loaded import named_run
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.saved import TrainedModel, open_saved
from leadline.model.mesh import make_mesh
from leadline.tokenization.tokenizer import Tokenizer

# Types of a file that keep every value of the weights; what is quantised is written in float32.
KEPT = ("BF16", "F16", "F32")
FileType = Literal["float32", "bfloat16"]


class Exported(NamedTuple):
    """What was written.

    Attributes:
        model_type: of config.json.
        files: their names.
        without_tokenizer: why there is no tokenizer among them; None where there is one.
    """

    model_type: str
    files: list[str]
    without_tokenizer: str | None


def export(spec: str, folder: Path, dtype: FileType | None = None) -> Exported:
    """Writes config.json, safetensors and the tokenizer of a model.

    Args:
        spec: the folder of a run, or a published model.
        folder: where; a new or an empty one.
        dtype: of the tensors; None is float32 for a run, and for a published model the type that each has.

    Raises:
        UserError: for a model that no architecture of transformers can express, and a folder that is not empty.
    """
    run = named_run(spec)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: there is something already; name a new folder")
    if run is None:
        return _export_published(open_checkpoint(spec), folder, dtype)
    return export_run(open_saved(run), folder, dtype or "float32")


def export_run(trained: TrainedModel, folder: Path, dtype: FileType) -> Exported:
    """Writes the model of a run. Raises as `export`."""
    config, model = published_config(trained.name, trained.model, trained.length, trained.original_length)
    architecture = ARCHITECTURES[config["model_type"]]
    rows = architecture.rows(model)
    _check_constants(trained, architecture, rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder, trained.params, rows, lambda _: jnp.dtype(dtype))
    reason = _write_tokenizer(folder, trained.tokenizer, add_bos=trained.add_bos, length=trained.length)
    specials = {} if trained.tokenizer is None else vars(trained.tokenizer.specials)
    ids = {f"{name}_token_id": specials.get(name) for name in ("bos", "eos", "pad")}
    write_json(folder / CONFIG, {**config, "vocab_size": trained.cfg.vocabulary, **ids, "torch_dtype": dtype})
    return _exported(folder, config["model_type"], reason)


def _export_published(checkpoint: Checkpoint, folder: Path, dtype: FileType | None) -> Exported:
    with jax.set_mesh(make_mesh()):
        loaded = load(checkpoint)
    entries = dequantised(checkpoint).entries

    def dtype_of(name: str) -> np.dtype:
        kept = DTYPES[entries[name].dtype] if entries[name].dtype in KEPT else np.float32
        return np.dtype(kept) if dtype is None else jnp.dtype(dtype)

    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder, loaded.params, loaded.rows, dtype_of)
    source = checkpoint.tokenizer
    if isinstance(source, Path):
        for name in (*TOKENIZERS, *TOKENIZER_SETTINGS):
            if (source.parent / name).exists():
                shutil.copyfile(source.parent / name, folder / name)
        reason = None
    else:
        tokenizer, add_bos = published_text(checkpoint)
        reason = _write_tokenizer(folder, tokenizer, add_bos=add_bos, length=loaded.context)
    config = {key: value for key, value in checkpoint.config.items() if key != "quantization_config"}
    if dtype is not None:
        config = {key: value for key, value in config.items() if key != "dtype"} | {"torch_dtype": dtype}
    write_json(folder / CONFIG, config)
    return _exported(folder, loaded.architecture, reason)


def _check_constants(trained: TrainedModel, architecture: Architecture, rows: Sequence[Row]) -> None:
    """UserError for weights that no tensor of the architecture holds, unless they have the value that it gives them."""
    held = {name for row in rows for name in row.weights}
    for name, leaf in weights_by_name(trained.params).items():
        if name not in held and not np.all(np.asarray(leaf) == architecture.defaults.get(name, math.nan)):
            raise UserError(f"{trained.name}: {architecture.model_types[0]} has no tensor for the weights {name}")


def _write_tokenizer(folder: Path, tokenizer: Tokenizer | None, *, add_bos: bool, length: int) -> str | None:
    """Writes a tokenizer, or says why there is none."""
    if tokenizer is None:
        return "the model has none"
    try:
        write_tokenizer(folder, tokenizer, add_bos=add_bos, length=length)
    except ValueError as error:
        return str(error)
    return None


def _exported(folder: Path, model_type: str, reason: str | None) -> Exported:
    return Exported(model_type, sorted(path.name for path in folder.iterdir()), reason)
