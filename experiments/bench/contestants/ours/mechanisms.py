"""A training step with a mechanism, and attention with a window."""

from collections.abc import Mapping
from typing import Any

from leadline.experiments.bench.contestants.ours.attention import behind_window
from leadline.experiments.bench.contestants.ours.sweep import Arm, arms_together
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import LEARNING_RATE, Size, config
from leadline.experiments.config.model import ModelConfig


def step(size: Mapping[str, int], compute: str, changes: Mapping[str, Any]) -> Prepared:
    """A step of the benchmarks' model with `changes` in its configuration, from random weights."""
    shape = Size(**size)
    model = ModelConfig.model_validate({**config(shape, compute).model_dump(), **changes})
    return Prepared(arms_together(shape, [Arm(model, seed=0, rate=LEARNING_RATE)]).work)


def gradient(tokens: int, heads: int, compute: str, window: int | None, initial_tokens: int = 0) -> Prepared:
    """The forward and backward pass of attention over one text."""
    return Prepared(behind_window(1, tokens, heads, compute, window, initial_tokens))
