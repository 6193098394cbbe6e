"""Tiny models in files: two layers, random weights, as the Hub and as llama.cpp's tools write them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType
from safetensors.numpy import save_file

from leadline.experiments.published.checkpoint import Entry

VOCABULARY, WIDTH, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, LAYERS = 7, 64, 4, 2, 16, 96, 2
ROPE_BASE = 5e5
TOKENS = ["<s>", "</s>", "a", "b", "ab", "Ġ", "Ġa"]
# Shapes as in PyTorch.
LAYER_SHAPES = {
    "attn_norm.weight": (WIDTH,),
    "attn_q.weight": (HEADS * HEAD_DIM, WIDTH),
    "attn_k.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "attn_v.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "attn_output.weight": (WIDTH, HEADS * HEAD_DIM),
    "ffn_norm.weight": (WIDTH,),
    "ffn_gate.weight": (HIDDEN, WIDTH),
    "ffn_up.weight": (HIDDEN, WIDTH),
    "ffn_down.weight": (WIDTH, HIDDEN),
}
MORE_SHAPES = {
    "llama": {},
    "qwen2": {"attn_q.bias": (HEADS * HEAD_DIM,), "attn_k.bias": (KV_HEADS * HEAD_DIM,), "attn_v.bias": (KV_HEADS * HEAD_DIM,)},
    "qwen3": {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)},
}
# As many as any model of the tests has layers, for configurations by themselves.
TENSORS = {str(number): Entry((), "F32") for number in range(99)}
Tensors = dict[str, tuple[np.ndarray, GGMLQuantizationType]]


def gguf_metadata(architecture: str = "llama", **changes: Any) -> dict[str, Any]:
    """The metadata of a model, in which a change of `rope__freq_base=None` takes away the key ARCHITECTURE.rope.freq_base."""
    metadata = {
        "block_count": LAYERS,
        "context_length": 128,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": ROPE_BASE,
        **({"attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM} if architecture == "qwen3" else {}),
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    tokenizer = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": TOKENS,
        "merges": ["a b", "Ġ a"],
        "token_type": [3, 3, 1, 1, 1, 1, 1],
        "bos_token_id": 0,
        "eos_token_id": 1,
        "add_bos_token": False,
    }
    return {
        **{f"{architecture}.{key}": value for key, value in metadata.items() if value is not None},
        **{f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()},
    }


def gguf_tensors(architecture: str = "llama", matrices: str = "F32", *, tied: bool = True) -> Tensors:
    """Random tensors in float32 by their names in GGUF, with the types in which they are written: norms and biases are F32."""
    generator = np.random.default_rng(0)
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
    shapes |= {} if tied else {"output.weight": (VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in (LAYER_SHAPES | MORE_SHAPES[architecture]).items()}
    types = {True: GGMLQuantizationType[matrices], False: GGMLQuantizationType.F32}
    return {name: (generator.standard_normal(shape, np.float32), types[len(shape) == 2]) for name, shape in shapes.items()}


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Tensors, architecture: str = "llama") -> Path:
    """Writes the file with the library's writer, which quantises what is no bytes."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata.items():
        writer.add_key_value(key, value, *_gguf_type(value))
    for name, (values, kind) in tensors.items():
        writer.add_tensor(name, values if values.dtype == np.uint8 else gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_type(value: object) -> tuple[gguf.GGUFValueType, ...]:
    if isinstance(value, list):
        return gguf.GGUFValueType.ARRAY, *_gguf_type(value[0])
    names = {bool: "BOOL", int: "UINT32", float: "FLOAT32", str: "STRING"}
    return (gguf.GGUFValueType[names[type(value)]],)


def llama3_divisors(factor: float) -> np.ndarray:
    """Of RoPE's frequencies, as llama.cpp's convert_hf_to_gguf.py writes them."""
    divisors = []
    for index in range(0, HEAD_DIM, 2):
        wavelength = 2 * np.pi * ROPE_BASE ** (index / HEAD_DIM)
        smooth = (8192 / wavelength - 1) / (4 - 1)
        interpolated = 1 / ((1 - smooth) / factor + smooth)
        divisors.append(1.0 if wavelength < 8192 / 4 else factor if wavelength > 8192 else interpolated)
    return np.array(divisors, np.float32)


def tiny_gguf(path: Path, architecture: str = "llama", matrices: str = "F32", **changes: Any) -> Path:
    """A whole model in one file."""
    return write_gguf(path, gguf_metadata(architecture, **changes), gguf_tensors(architecture, matrices), architecture)


def safetensors_folder(folder: Path, *shards: Mapping[str, np.ndarray]) -> Path:
    """A folder with config.json, tokenizer.json and the weights: in one file, or in several with an index."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": WIDTH}), encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    if len(shards) == 1:
        save_file(dict(shards[0]), folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    names = [f"model-{number:05d}-of-{len(shards):05d}.safetensors" for number in range(1, len(shards) + 1)]
    for name, shard in zip(names, shards, strict=True):
        save_file(dict(shard), folder / name)
    write_index(folder, {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard})
    return folder


def write_index(folder: Path, shard_of: Mapping[str, object]) -> None:
    content = {"metadata": {"total_size": 0, "note": 400 * "-"}, "weight_map": shard_of}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content), encoding="utf-8")
