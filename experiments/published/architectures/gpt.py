"""What GPT-2 and the models after it have in common: LayerNorm, biases, an ungated feed-forward layer, fused products."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.published.architectures.base import (
    FLAT,
    LINEAR,
    Keys,
    Layout,
    Row,
    Shape,
    Split,
    concatenated,
    in_order,
    rotary_order,
    row,
)
from leadline.model.block import Biased
from leadline.model.feedforward import Activation

BIASES: tuple[Biased, ...] = ("query", "key", "value", "output", "feedforward")
# By their names in transformers.
ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


def activation(keys: Keys, key: str, default: str) -> Activation:
    """The activation of the feed-forward layer. UserError for one that leadline has not."""
    name = keys.get(key, default)
    if name not in tuple(ACTIVATIONS):  # a damaged name may be a list, which no table is searched for
        raise keys.refuse(f"config.json has {key} = {name!r}; leadline has {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def norm_rows(norms: Mapping[str, str]) -> tuple[Row, ...]:
    """LayerNorms, by their names in the file."""
    return tuple(
        row(f"{theirs}.{part}", f"{ours}.{name}")
        for theirs, ours in norms.items()
        for part, name in (("weight", "scale"), ("bias", "bias"))
    )


def dense(name: str, weight: str, bias: str | None, layout: Layout = LINEAR) -> tuple[Row, ...]:
    """A product: the tensors `name.weight` and, where it has one, `name.bias`."""
    return (row(f"{name}.weight", weight, layout), *(() if bias is None else (row(f"{name}.bias", bias, FLAT),)))


def feedforward_rows(up: str, down: str, *, biased: bool, layout: Layout = LINEAR) -> tuple[Row, ...]:
    """The two products of a feed-forward layer, by their names in the file."""
    names = {up: "blocks.feedforward.up", down: "blocks.feedforward.down"}
    return tuple(
        entry for name, ours in names.items() for entry in dense(name, ours, f"{ours}_bias" if biased else None, layout)
    )


def qkv_layouts(model: ModelConfig, layout: Layout) -> tuple[Layout, Layout, Layout]:
    """The layouts of query, key and value in a file where the first channels of each head rotate."""
    if not isinstance(model.position, Rope):
        return layout, layout, layout
    order = rotary_order(model.head_width, model.position.spectrum(model.attention_heads))
    return in_order(layout, order), in_order(layout, order), layout


def fused(name: str, split: Split, layouts: tuple[Layout, ...], bias_layouts: tuple[Layout, ...] | None) -> tuple[Row, ...]:
    """Query, key and value in one tensor, `name.weight`, and their biases in `name.bias`, None without them."""
    parts = ("query", "key", "value")
    weights = Row(f"{name}.weight", tuple(f"blocks.{part}" for part in parts), layouts, split)
    if bias_layouts is None:
        return (weights,)
    return weights, Row(f"{name}.bias", tuple(f"blocks.biases.{part}" for part in parts), bias_layouts, split)


def by_group(groups: int) -> Split:
    """Query, key and value group by group: the queries of a group, head by head, then its key, then its value.

    With as many groups as query heads this is the layout of GPT-NeoX, with one that of multi-query attention.
    """
    whole = concatenated(1)

    def ours(tensor: Any, shapes: tuple[Shape, ...]) -> tuple[Any, ...]:
        parts = whole.ours(tensor.reshape(groups, -1, *tensor.shape[1:]), shapes)
        return tuple(part.reshape(-1, *tensor.shape[1:]) for part in parts)

    def theirs(parts: tuple[Any, ...]) -> Any:
        rest = parts[0].shape[1:]
        return jnp.concatenate([part.reshape(groups, -1, *rest) for part in parts], axis=1).reshape(-1, *rest)

    return Split(ours, theirs)
