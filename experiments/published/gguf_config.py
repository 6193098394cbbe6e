"""What config.json would say, and the tokenizer, from the metadata of a GGUF file.

Every key of the architecture is either used, known to say nothing more, or refused: a model whose window is left out would be
another model. Source of the keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from leadline.experiments.published.checkpoint import Entry
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.formats.gguf import GgufTokenizer

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
QUERY_BIAS, GATE_BIAS = "model.layers.0.self_attn.q_proj.bias", "model.layers.0.mlp.gate_proj.bias"
ROPE_FREQUENCIES = "rope_freqs.weight"
# Keys that say nothing of the model, with these values; with any value where there are none.
IDLE: dict[str, tuple[object, ...]] = {
    "expert_count": (0,),
    "expert_used_count": (0,),
    "rope.scaling.finetuned": (),
    "tensor_data_layout": ("Meta AI original pth",),
}
SMALLEST, LARGEST = (float(limit) for limit in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
# What Llama 3.1, 3.2 and 3.3 set in rope_scaling besides the factor. GGUF has only the divisors that follow from them.
LLAMA3_SCALING = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


class Metadata:
    """The metadata of a file, which remembers what was asked for."""

    def __init__(self, path: Path, values: Mapping[str, Any], architecture: str) -> None:
        self.path, self.values, self.architecture = path, values, architecture
        self.read: set[str] = set()

    def refuse(self, why: str) -> UserError:
        return UserError(f"{self.path}: {why}")

    def get(self, key: str, kind: type, what: str, default: Any = None) -> Any:
        """The value of a key of the architecture, or the default. UserError if it is not what it must be."""
        full = f"{self.architecture}.{key}"
        self.read.add(full)
        return self.typed(full, kind, what, default)

    def typed(self, full: str, kind: type, what: str, default: Any = None) -> Any:
        value = self.values.get(full, default)
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise self.refuse(f"{full} is {str(value)[:40]!r}, and must be {what}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number above 0. UserError where the key is missing and has no default."""
        value = self.get(key, int, "a whole number above 0", default)
        if value is None or value < 1:
            raise self._unfit(key, value, "a whole number above 0")
        return value

    def positive(self, key: str) -> float:
        """A positive float32 as the shortest decimal number that is equal to it, as config.json has it."""
        value = self.get(key, float, "a positive number")
        if value is None or not SMALLEST <= value <= LARGEST:
            raise self._unfit(key, value, "a positive number")
        return float(str(np.float32(value)))

    def check_all_read(self) -> None:
        """UserError for a key of the architecture that nobody asked for."""
        for full, value in self.values.items():
            prefix, _, key = full.partition(".")
            idle = key in IDLE and (not IDLE[key] or value in IDLE[key])
            if prefix == self.architecture and full not in self.read and not idle:
                raise self.refuse(f"{full!r} = {str(value)[:40]!r} has no place in config.json; this model cannot be read")

    def _unfit(self, key: str, value: object, what: str) -> UserError:
        full = f"{self.architecture}.{key}"
        if value is None:
            return self.refuse(f"the metadata lack {full}, which must be {what}; convert the model again")
        return self.refuse(f"{full} is {value!r}, and must be {what}")


def config_of(metadata: Metadata, entries: Mapping[str, Entry], divisors: Float[np.ndarray, "pairs"] | None) -> dict[str, Any]:
    """The keys of config.json that the file states.

    Args:
        metadata: of the file.
        entries: its tensors by their names in safetensors.
        divisors: of RoPE's frequencies, the tensor rope_freqs.weight, or None.

    Raises:
        UserError: for a key that is missing, unfit or has no place in config.json, and RoPE scaling that has none.
    """
    if EMBEDDING not in entries:
        raise metadata.refuse("the tensor token_embd.weight is missing; convert the model again")
    vocabulary = entries[EMBEDDING].shape[0]
    if metadata.count("vocab_size", vocabulary) != vocabulary:
        raise metadata.refuse(f"{metadata.architecture}.vocab_size is not {vocabulary}, the rows of token_embd.weight")
    width, heads = metadata.count("embedding_length"), metadata.count("attention.head_count")
    head_dim = metadata.count("attention.key_length", width // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if metadata.count(key, head_dim) != head_dim:
            raise metadata.refuse(
                f"{metadata.architecture}.{key} is not {head_dim}, the size of a head; such models cannot be read"
            )
    base = metadata.positive("rope.freq_base")
    config = {
        "model_type": metadata.architecture,
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": metadata.count("feed_forward_length"),
        "num_hidden_layers": metadata.count("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.count("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": metadata.count("context_length"),
        "rms_norm_eps": metadata.positive("attention.layer_norm_rms_epsilon"),
        "rope_theta": base,
        "rope_scaling": _rope_scaling(metadata) if divisors is None else _llama3_scaling(metadata, divisors, base, head_dim),
        "tie_word_embeddings": HEAD not in entries,
        **{name: metadata.typed(f"tokenizer.ggml.{name}", int, "an id") for name in ("bos_token_id", "eos_token_id")},
    }
    if metadata.architecture != "qwen2":
        config["attention_bias"] = QUERY_BIAS in entries
    if metadata.architecture == "llama":
        config["mlp_bias"] = GATE_BIAS in entries
    metadata.check_all_read()
    return config


def _rope_scaling(metadata: Metadata) -> dict[str, Any] | None:
    kind = metadata.get("rope.scaling.type", str, "a name", "none")
    if kind == "none":
        return None
    if kind not in ("linear", "yarn"):
        raise metadata.refuse(f"rope.scaling.type {kind[:40]!r} cannot be read; those that can are none, linear and yarn")
    scaling: dict[str, Any] = {"rope_type": kind, "factor": metadata.positive("rope.scaling.factor")}
    if kind == "yarn":
        scaling["original_max_position_embeddings"] = metadata.count("rope.scaling.original_context_length")
        for beta in ("beta_fast", "beta_slow"):
            if f"{metadata.architecture}.rope.scaling.yarn_{beta}" in metadata.values:
                scaling[beta] = metadata.positive(f"rope.scaling.yarn_{beta}")
    return scaling


def _llama3_scaling(metadata: Metadata, divisors: Float[np.ndarray, "pairs"], base: float, head_dim: int) -> dict[str, Any]:
    """The settings that give these divisors of RoPE's frequencies; the factor is the largest of them.

    The wavelength of a frequency f is 2π / f, and s = (original / wavelength - low) / (high - low), clipped to 0 and 1. The
    divisor is 1 / ((1 - s) / factor + s). Source: `rope_type` "llama3" of transformers.

    Raises:
        UserError: where no factor gives them with what Llama 3.1 sets besides, or the metadata scale the positions as well.
    """
    low, high, original = LLAMA3_SCALING.values()
    if 2 * len(divisors) == head_dim and np.isfinite(divisors).all() and _rope_scaling(metadata) is None:
        factor = float(str(divisors.max(initial=1)))
        wavelengths = 2 * np.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
        smooth = np.clip((original / wavelengths - low) / (high - low), 0, 1)
        if np.allclose(divisors, 1 / ((1 - smooth) / factor + smooth), rtol=1e-4):
            return {"rope_type": "llama3", "factor": factor, **LLAMA3_SCALING}
    raise metadata.refuse(f"{ROPE_FREQUENCIES} holds other frequencies than those of Llama 3.1; such models cannot be read")


def tokenizer_of(metadata: Metadata, vocabulary: int) -> GgufTokenizer | None:
    """The tokenizer in the metadata, None where there is none.

    Raises:
        UserError: for a value of another type than it must be, more tokens than the embedding has rows, scores or types that
            are not one for each token, and an id that no token has.
    """
    algorithm = metadata.typed("tokenizer.ggml.model", str, "a name")
    if algorithm is None:
        return None

    def each(key: str, kind: type) -> Any:
        values = metadata.typed(f"tokenizer.ggml.{key}", tuple, "an array")
        if values is not None and not all(isinstance(value, kind) for value in values):
            raise metadata.refuse(f"tokenizer.ggml.{key} must be an array of {kind.__name__}")
        return values

    def single(key: str, kind: type) -> Any:
        return metadata.typed(f"tokenizer.ggml.{key}", kind, kind.__name__)

    tokens = each("tokens", str) or ()
    if not 0 < len(tokens) <= vocabulary:
        raise metadata.refuse(f"tokenizer.ggml.tokens has {len(tokens)} tokens, and the embedding {vocabulary} rows")
    scores, types = each("scores", float), each("token_type", int)
    if any(values is not None and len(values) != len(tokens) for values in (scores, types)):
        raise metadata.refuse(f"tokenizer.ggml.scores and token_type must have a value for each of {len(tokens)} tokens")
    ids = {name: single(f"{name}_token_id", int) for name in ("bos", "eos", "unknown", "padding")}
    for name, token_id in ids.items():
        if token_id is not None and not 0 <= token_id < len(tokens):
            raise metadata.refuse(f"tokenizer.ggml.{name}_token_id is {token_id}, and there are {len(tokens)} tokens")
    return GgufTokenizer(
        model=algorithm,
        pre=single("pre", str),
        tokens=tokens,
        merges=each("merges", str),
        scores=scores,
        token_types=types,
        bos=ids["bos"],
        eos=ids["eos"],
        unk=ids["unknown"],
        pad=ids["padding"],
        add_bos=single("add_bos_token", bool),
        add_space_prefix=single("add_space_prefix", bool),
    )
