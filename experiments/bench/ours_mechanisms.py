"""A training step with one mechanism more, and attention behind a window: what a mechanism costs."""

from collections.abc import Mapping
from typing import Any

from experiments.bench.llama import LEARNING_RATE, Size, config
from experiments.bench.ours_attention import behind_window
from experiments.bench.ours_sweep import Arm, arms_together
from experiments.bench.worker import Prepared
from experiments.config.model import ModelConfig


def step(size: Mapping[str, int], compute: str, changes: Mapping[str, Any]) -> Prepared:
    """A step of the model of the other benchmarks with some of its configuration changed, its weights drawn."""
    own = Size(**size)
    model = ModelConfig.model_validate({**config(own, compute).model_dump(), **changes})
    return Prepared(arms_together(own, [Arm(model, seed=0, rate=LEARNING_RATE)]).work)


def gradient(tokens: int, heads: int, compute: str, window: int | None, kept: int = 0) -> Prepared:
    """Forward and backward pass of attention of one text."""
    return Prepared(behind_window(1, tokens, heads, compute, window, kept))
