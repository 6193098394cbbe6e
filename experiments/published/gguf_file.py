"""A model in one GGUF file, by the names and with the shapes of the Hub's safetensors."""

import mmap
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from jaxtyping import Shaped

from leadline.experiments.published.checkpoint import Checkpoint, Entry
from leadline.experiments.published.gguf_config import ROPE_FREQUENCIES, Metadata, config_of, tokenizer_of
from leadline.experiments.published.gguf_header import GgufHeader, GgufTensor, read_header
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.packages import needed_package

ARCHITECTURES = ("llama", "qwen2", "qwen3")
MODULES = (
    *("model.embed_tokens", "model.norm", "lm_head"),
    *(f"model.layers.0.{name}" for name in ("input_layernorm", "post_attention_layernorm")),
    *(f"model.layers.0.self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
    *(f"model.layers.0.mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")),
)
SUFFIXES = (".weight", ".bias")
LAYER = re.compile(r"^blk\.(0|[1-9][0-9]{0,5})\.")
FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
QUANTISED = ("Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")


def open_gguf(path: Path, name: str) -> Checkpoint:
    """Checks a GGUF file and maps it.

    Args:
        path: of the file.
        name: of the model.

    Raises:
        UserError: for a damaged file, an architecture, a tensor, a type or a setting that cannot be read (naming it), and
            metadata that are missing.
    """
    header = read_header(path)
    architecture = header.metadata.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise UserError(
            f"{path}: architecture {str(architecture)[:40]!r}; those that can be read from GGUF are {', '.join(ARCHITECTURES)}"
        )
    if header.metadata.get("split.count", 0) not in (0, 1):
        raise UserError(f"{path}: one file of several; join them with llama-gguf-split --merge")
    metadata = Metadata(path, header.metadata, architecture)
    layers = metadata.count("block_count")
    if layers > len(header.tensors):
        raise metadata.refuse(
            f"{architecture}.block_count is {layers}, and there are {len(header.tensors)} tensors; convert it again"
        )
    hub_names = _hub_names(path, architecture, layers, header)
    tensors = {hub: _readable(path, name, header.tensors[name]) for name, hub in hub_names.items()}
    entries = {hub: Entry(tensor.shape, tensor.dtype) for hub, tensor in tensors.items()}
    config = config_of(metadata, entries, _rope_divisors(path, header))
    tokenizer = tokenizer_of(metadata, config["vocab_size"])
    heads = _interleaved(path, config, entries) if architecture == "llama" else {}

    def read(hub: str) -> np.ndarray:
        return _values(header.data, tensors[hub], heads.get(hub))

    return Checkpoint(name, config, entries, tokenizer, (path,), read)


def _hub_names(path: Path, architecture: str, layers: int, header: GgufHeader) -> dict[str, str]:
    """The names of the tensors in safetensors, by those in the file. UserError for a tensor that no such model has."""
    gguf = needed_package("gguf", str(path), "published")
    number = next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    gguf_names = gguf.get_tensor_name_map(number, 1)
    of_one_layer = [f"{module}{suffix}" for module in MODULES for suffix in SUFFIXES]
    patterns = {gguf_names.get_name(hub, SUFFIXES): hub for hub in of_one_layer}
    hub_names = {}
    for name in header.tensors:
        if name == ROPE_FREQUENCIES:
            continue
        layer = LAYER.match(name)
        pattern = patterns.get(LAYER.sub("blk.0.", name)) if layer is None or int(layer[1]) < layers else None
        if pattern is None:
            raise UserError(
                f"{path}: the tensor {name!r} has no place in a model of architecture {architecture}, {layers} layers"
            )
        hub_names[name] = pattern if layer is None else pattern.replace("layers.0.", f"layers.{layer[1]}.")
    return hub_names


def _readable(path: Path, name: str, tensor: GgufTensor) -> GgufTensor:
    """The tensor. UserError for a type that is not read."""
    types = (*FLOATS, *QUANTISED)
    if tensor.dtype not in types:
        raise UserError(f"{path}: {name} is of type {tensor.dtype}; those that can be read are {', '.join(types)}")
    return tensor


def _rope_divisors(path: Path, header: GgufHeader) -> Shaped[np.ndarray, "pairs"] | None:
    tensor = header.tensors.get(ROPE_FREQUENCIES)
    if tensor is None:
        return None
    if tensor.dtype != "F32" or len(tensor.shape) != 1:
        raise UserError(f"{path}: {ROPE_FREQUENCIES} is {tensor.dtype} of shape {tensor.shape}; it must be F32 with one axis")
    return _values(header.data, tensor, None)


def _interleaved(path: Path, config: Mapping[str, Any], entries: Mapping[str, Entry]) -> dict[str, int]:
    """The heads of each tensor whose rows are permuted: queries and keys. UserError where its rows are not theirs."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    tensors = {name: heads.get(name.split(".")[-2], 0) for name in entries}
    for name, count in tensors.items():
        if count and (entries[name].shape[0] != count * config["head_dim"] or config["head_dim"] % 2):
            rows = entries[name].shape[0]
            raise UserError(f"{path}: {name} has {rows} rows, not {count} heads of an even size {config['head_dim']}")
    return {name: count for name, count in tensors.items() if count}


def _values(data: mmap.mmap, tensor: GgufTensor, heads: int | None) -> Shaped[np.ndarray, "..."]:
    """The values of a tensor; with `heads`, its rows in the order of rotated halves."""
    if tensor.dtype in FLOATS:
        values = np.frombuffer(data, FLOATS[tensor.dtype], prod(tensor.shape), tensor.offset).reshape(tensor.shape)
        return values if heads is None else _halves(values, heads)
    import gguf

    rows = np.frombuffer(data, np.uint8, tensor.size, tensor.offset).reshape(*tensor.shape[:-1], -1)
    return gguf.dequantize(rows if heads is None else _halves(rows, heads), gguf.GGMLQuantizationType[tensor.dtype])


def _halves(rows: Shaped[np.ndarray, "rows *columns"], heads: int) -> Shaped[np.ndarray, "rows *columns"]:
    """Rows of each head from interleaved pairs (0, d/2, 1, d/2 + 1 …) to rotated halves (0 … d - 1).

    The inverse of `LlamaModel.permute` in llama.cpp's convert_hf_to_gguf.py.
    """
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
