"""The config.json of a model that was trained here, as a file of the first published architecture that has all its mechanisms.

Each function writes the settings that its architecture has names for. The result is read again: where that gives the model
back, nothing is lost.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from leadline.experiments.config.attention import FixedSink, NoSink
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import LearnedPositions, Rope
from leadline.experiments.config.scaling import DynamicNtk, Llama3, PositionInterpolation, Yarn
from leadline.experiments.published.architectures.base import Keys
from leadline.experiments.published.architectures.gpt import ACTIVATIONS
from leadline.experiments.published.architectures.llama import QKV
from leadline.experiments.published.architectures.registry import ARCHITECTURES
from leadline.experiments.runtime.errors import UserError


def published_config(name: str, model: ModelConfig, length: int, original_length: int) -> tuple[dict[str, Any], ModelConfig]:
    """The config.json of a model, but for its vocabulary.

    Args:
        name: of the model, for messages.
        model: its configuration.
        length: the longest text of its training [tokens].
        original_length: the length to which the factors of its context extension relate [tokens].

    Returns:
        The file, and the model as it is read from it.

    Raises:
        UserError: where no architecture can say all of it; the settings that the next one lacks are named.
    """
    model, lacking = settled(model, length, original_length), {}
    for written in (llama, gpt2, bloom):
        config = written(model, length)
        keys = Keys(config, name)
        read = settled(ARCHITECTURES[config["model_type"]].configured(keys), length, length)
        if read == model:
            return config, read
        lacking[config["model_type"]] = sorted(_differences(model.model_dump(), read.model_dump()))
    kind = min(lacking, key=lambda kind: len(lacking[kind]))
    raise UserError(
        f"{name}: transformers has no model with {', '.join(lacking[kind])} that leadline writes; the next one is {kind}"
    )


def settled(model: ModelConfig, length: int, original_length: int) -> ModelConfig:
    """The configuration with its defaults resolved, so that equal models have equal ones."""
    position = model.position
    if isinstance(position, LearnedPositions):
        position = LearnedPositions(capacity=position.capacity or length)
    if isinstance(position, Rope) and "original_length" in type(position.scaling).model_fields:
        original = position.scaling.model_dump()["original_length"] or original_length
        position = position.model_copy(update={"scaling": position.scaling.model_copy(update={"original_length": original})})
    windowed = tuple(np.resize(model.windowed, model.layers).tolist()) if model.windowed else ()
    return model.model_copy(
        update={
            "position": position,
            "kv_heads": model.key_heads,
            "head_dim": model.head_width,
            "hidden": model.hidden_width,
            "norm_epsilon": model.norm_epsilon or (1e-6 if model.norm == "rms" else 1e-5),
            "sink": NoSink() if model.sink == FixedSink(logit=-np.inf) else model.sink,
            "biases": tuple(sorted(model.biases)),
            "windowed": () if all(windowed) else windowed,
            "compute_dtype": "float32",
            "embedding_init_scale": None,  # nothing is left of it after training
            "uniform_embedding_init": False,
        }
    )


def _differences(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    """The settings of the first that the second does not have, as in `position.base = 100.0`."""
    for key, value in ours.items():
        other = theirs.get(key)
        if isinstance(value, dict) and isinstance(other, dict) and value.get("kind") == other.get("kind"):
            yield from (f"{key}.{inner}" for inner in _differences(value, other))
        elif value != other:
            yield f"{key}.kind = {value['kind']}" if isinstance(value, dict) else f"{key} = {value}"


def llama(model: ModelConfig, length: int) -> dict[str, Any]:
    """In the words of the Llama family."""
    position, kind = model.position, "llama"
    if model.norm_placement == "reordered":
        kind = "olmo2"
    elif model.qk_norm:
        kind = "qwen3"
    elif set(model.biases) == set(QKV):
        kind = "qwen2"
    elif isinstance(position, Rope) and position.nope_every is not None:
        kind = "smollm3"
    elif model.window is not None:
        kind = "mistral"
    classes = {"olmo2": "Olmo2", "smollm3": "SmolLM3"}
    return {
        "architectures": [f"{classes.get(kind, kind.capitalize())}ForCausalLM"],
        "model_type": kind,
        "num_hidden_layers": model.layers,
        "hidden_size": model.width,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_width,
        "intermediate_size": model.hidden,
        "hidden_act": "silu",
        "rms_norm_eps": model.norm_epsilon,
        "max_position_embeddings": length,
        "tie_word_embeddings": model.tied,
        **({} if kind in ("qwen2", "mistral") else {"attention_bias": "query" in model.biases}),
        **(_rope(position) if isinstance(position, Rope) else {"rope_theta": 1.0}),
        **({"no_rope_layer_interval": position.nope_every} if isinstance(position, Rope) and kind == "smollm3" else {}),
        **_windows(model, kind),
    }


def _windows(model: ModelConfig, kind: str) -> dict[str, Any]:
    """The keys of the sliding window; Mistral has it in all layers."""
    if kind == "mistral" or model.window is None:
        return {"sliding_window": model.window} if kind == "mistral" else {}
    kinds = ["sliding_attention" if there else "full_attention" for there in model.windowed or (True,) * model.layers]
    return {"use_sliding_window": True, "sliding_window": model.window, "max_window_layers": 0, "layer_types": kinds}


def _rope(position: Rope) -> dict[str, Any]:
    """The keys of RoPE; those of its scaling where config.json knows it."""
    match position.scaling:
        case PositionInterpolation(factor=factor):
            scaling = {"rope_type": "linear", "factor": factor}
        case DynamicNtk(factor=factor):  # relative to max_position_embeddings
            scaling = {"rope_type": "dynamic", "factor": factor}
        case Yarn() as yarn:
            names = {"factor", "beta_fast", "beta_slow", "attention_factor", "truncate"}
            original = {"original_max_position_embeddings": yarn.original_length}
            scaling = {"rope_type": "yarn", **yarn.model_dump(include=names, exclude_none=True), **original}
        case Llama3() as extension:
            scaling = {
                "rope_type": "llama3",
                "factor": extension.factor,
                "low_freq_factor": extension.low_frequency_factor,
                "high_freq_factor": extension.high_frequency_factor,
                "original_max_position_embeddings": extension.original_length,
            }
        case _:
            return {"rope_theta": position.base}
    return {"rope_theta": position.base, "rope_scaling": scaling}


def gpt2(model: ModelConfig, length: int) -> dict[str, Any]:
    """In the words of GPT-2."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_layer": model.layers,
        "n_embd": model.width,
        "n_head": model.heads,
        "n_inner": model.hidden,
        "n_positions": length,
        "activation_function": _activation(model),
        "layer_norm_epsilon": model.norm_epsilon,
        "tie_word_embeddings": model.tied,
    }


def _activation(model: ModelConfig) -> str:
    """The name of an activation of a feed-forward layer without a gate; of another layer any."""
    return next((name for name, ours in ACTIVATIONS.items() if ours == model.feedforward), "gelu")


def bloom(model: ModelConfig, length: int) -> dict[str, Any]:
    """In the words of BLOOM."""
    return {
        "architectures": ["BloomForCausalLM"],
        "model_type": "bloom",
        "n_layer": model.layers,
        "hidden_size": model.width,
        "n_head": model.heads,
        "seq_length": length,
        "layer_norm_epsilon": model.norm_epsilon,
        "tie_word_embeddings": model.tied,
    }
