"""The decoder that every contestant trains: RoPE, RMSNorm, SwiGLU, tied embedding. Its sizes, weights, tokens and FLOPs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_model import decoder_config, training_flops
from leadline.model.decoder import DecoderConfig

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
        """Tokens of a step."""
        return self.batch * self.length

    @property
    def title(self) -> str:
        return f"L{self.layers} d{self.width} V{self.vocabulary} T{self.length} B{self.batch}"


def stepping(work: Callable[[], float], **facts: Any) -> Prepared:
    """A contestant that trains. Its value is the loss of the third step, which depends on the optimiser."""
    losses = [work() for _ in range(3)]
    return Prepared(work, {"value": losses[-1], **facts})


def config(size: Size, compute: str) -> ModelConfig:
    """The model as a study configures it."""
    shape = {"layers": size.layers, "width": size.width, "heads": size.heads, "hidden": size.hidden}
    return ModelConfig.model_validate({**shape, "position": Rope(base=BASE), "compute_dtype": compute})


def structure(size: Size, compute: str) -> DecoderConfig:
    """The structure that leadline compiles."""
    return decoder_config(config(size, compute), size.vocabulary, size.length)


def step_flops(size: Size) -> float:
    """Matmul FLOPs of one training step."""
    return training_flops(structure(size, "float32"), size.length, config(size, "float32")) * size.tokens


def projections(size: Size) -> tuple[tuple[int, int, int], ...]:
    """The weights of all layers: channels in, channels out, and how many there are."""
    L, D, F = size.layers, size.width, size.hidden
    return (D, D, 4 * L), (D, F, 2 * L), (F, D, L)


def projection_flops(size: Size) -> float:
    """FLOPs of the products of all layers with their weights, forward and backward."""
    return 6.0 * size.tokens * sum(inner * outer * count for inner, outer, count in projections(size))


def tokens(size: Size) -> np.ndarray:
    """Uniform random ids [B, T + 1]."""
    shape = (size.batch, size.length + 1)
    return np.random.default_rng(0).integers(0, size.vocabulary, shape, dtype=np.int64)


def weights(size: Size) -> Mapping[str, np.ndarray]:
    """Float32 weights by the names of transformers' Llama, matrices [out, in]. Norms are 1."""
    random = np.random.default_rng(1)
    D, F = size.width, size.hidden

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    arrays = {"model.embed_tokens.weight": matrix(size.vocabulary, D), "model.norm.weight": np.ones(D, np.float32)}
    for layer in range(size.layers):
        before = f"model.layers.{layer}."
        for name in "qkvo":
            arrays[f"{before}self_attn.{name}_proj.weight"] = matrix(D, D)
        arrays |= {f"{before}mlp.{name}_proj.weight": matrix(F, D) for name in ("gate", "up")}
        arrays[f"{before}mlp.down_proj.weight"] = matrix(D, F)
        arrays |= {f"{before}{name}_layernorm.weight": np.ones(D, np.float32) for name in ("input", "post_attention")}
    return arrays
