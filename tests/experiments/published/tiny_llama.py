"""A tiny model of the Llama family with the byte tokenizer, in a folder as the Hub lays it out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface

WIDTH, HEADS, KV_HEADS, SIZE, HIDDEN, LAYERS, CONTEXT = 32, 4, 2, 8, 48, 2, 64
VOCABULARY = ByteTokenizer().vocabulary_size
# Shapes as in PyTorch.
LAYER = {
    "input_layernorm": (WIDTH,),
    "self_attn.q_proj": (HEADS * SIZE, WIDTH),
    "self_attn.k_proj": (KV_HEADS * SIZE, WIDTH),
    "self_attn.v_proj": (KV_HEADS * SIZE, WIDTH),
    "self_attn.o_proj": (WIDTH, HEADS * SIZE),
    "post_attention_layernorm": (WIDTH,),
    "mlp.gate_proj": (HIDDEN, WIDTH),
    "mlp.up_proj": (HIDDEN, WIDTH),
    "mlp.down_proj": (WIDTH, HIDDEN),
}
CONFIG = {
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "tie_word_embeddings": True,
}
SPECIALS = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad")}


def tiny_tensors(dtype: Any = np.float32, *, tied: bool = True) -> dict[str, np.ndarray]:
    """Random weights, so large that no part of the model hides behind another."""
    shapes = {"model.embed_tokens": (VOCABULARY, WIDTH), "model.norm": (WIDTH,)}
    shapes |= {} if tied else {"lm_head": (VOCABULARY, WIDTH)}
    shapes |= {f"model.layers.{layer}.{name}": shape for layer in range(LAYERS) for name, shape in LAYER.items()}
    generator = np.random.default_rng(0)
    scale = {1: 1.0, 2: 2 * WIDTH**-0.5}
    return {
        f"{name}.weight": (scale[len(shape)] * generator.standard_normal(shape)).astype(dtype) for name, shape in shapes.items()
    }


def tiny_llama(folder: Path, dtype: Any = np.float32, **changes: Any) -> Path:
    """The folder, with `changes` of its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG | changes
    save_file(tiny_tensors(dtype, tied=config["tie_word_embeddings"]), folder / "model.safetensors", metadata={"format": "pt"})
    for name, content in (("config.json", config), ("tokenizer_config.json", SPECIALS)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "tokenizer.json").write_text(to_huggingface(ByteTokenizer()).to_str(), encoding="utf-8")
    return folder


def packaged(site_packages: Path, name: str, folder: Path) -> None:
    """Lists the files of a folder as those of an installed distribution."""
    information = site_packages / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    files = [path.relative_to(site_packages) for path in folder.iterdir()]
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")
