"""The decoder that contestants train alike: RoPE, RMSNorm, SwiGLU, tied embedding. Its sizes, weights, tokens and FLOPs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from experiments.build import decoder_config, training_flops
from experiments.config.model import ModelConfig
from experiments.config.position import Rope
from model.decoder import DecoderConfig

BASE, EPSILON = 10_000.0, 1e-6
LEARNING_RATE, WEIGHT_DECAY, BETAS, ADAM_EPSILON, CLIP = 1e-3, 0.1, (0.9, 0.95), 1e-8, 1.0


@dataclass(frozen=True)
class Size:
    """The shape of a model and of a batch."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    length: int
    batch: int

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def tokens(self) -> int:
        """Of a step."""
        return self.batch * self.length

    @property
    def title(self) -> str:
        return f"L{self.layers} d{self.width} V{self.vocabulary} T{self.length} B{self.batch}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def config(size: Size, compute: str) -> ModelConfig:
    """As a study would say it."""
    own = asdict(size)
    shape = {name: own[name] for name in ("layers", "width", "heads", "hidden")}
    return ModelConfig.model_validate({**shape, "position": Rope(base=BASE), "compute": compute})


def structure(size: Size, compute: str) -> DecoderConfig:
    """What leadline compiles."""
    return decoder_config(config(size, compute), size.vocabulary, size.length)


def step_flops(size: Size) -> float:
    """Matmul FLOPs of one step (experiments.build.training_flops)."""
    return training_flops(structure(size, "float32"), size.length) * size.tokens


def tokens(size: Size) -> np.ndarray:
    """Ids [B, T + 1], each number as likely as another."""
    shape = (size.batch, size.length + 1)
    return np.random.default_rng(0).integers(0, size.vocabulary, shape, dtype=np.int64)


def weights(size: Size) -> Mapping[str, np.ndarray]:
    """Float32 by the names of transformers' Llama, matrices [out, in]; norms are 1."""
    random = np.random.default_rng(1)
    D, F = size.width, size.hidden

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    found = {"model.embed_tokens.weight": matrix(size.vocabulary, D), "model.norm.weight": np.ones(D, np.float32)}
    for layer in range(size.layers):
        before = f"model.layers.{layer}."
        for name in "qkvo":
            found[f"{before}self_attn.{name}_proj.weight"] = matrix(D, D)
        found |= {f"{before}mlp.{name}_proj.weight": matrix(F, D) for name in ("gate", "up")}
        found[f"{before}mlp.down_proj.weight"] = matrix(D, F)
        found |= {f"{before}{name}_layernorm.weight": np.ones(D, np.float32) for name in ("input", "post_attention")}
    return found
