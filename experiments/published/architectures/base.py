"""What an architecture says: its configuration, and which tensor of a checkpoint is which weight of a decoder.

An architecture is a module of this folder and a row in registry.py.
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.runtime.errors import UserError

Shape = tuple[int, ...]

# Keys of config.json that change nothing here: names and types of files, dropout and how weights are drawn in training, ids of
# tokens, and settings of generation.
# fmt: off
WITHOUT_EFFECT = frozenset({
    "_name_or_path", "architectures", "auto_map", "dtype", "model_type", "tokenizer_class", "torch_dtype",
    "transformers_version",
    "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "embd_pdrop", "embedding_dropout", "hidden_dropout",
    "initializer_range", "resid_dropout", "resid_pdrop",
    "bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "unk_token_id",
    "chunk_size_feed_forward", "id2label", "is_encoder_decoder", "label2id", "output_attentions", "output_hidden_states",
    "problem_type", "return_dict", "use_cache",
})
# fmt: on


class Keys:
    """The keys of a config.json, and which of them are read. Any other may change the model: `finish` refuses it."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self._config, self._name = config, name
        self._read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """The value; the default where the key is absent or null."""
        self._read.add(key)
        value = self._config.get(key)
        return default if value is None else value

    def required(self, *names: str) -> Any:
        """The value of a key that has had several names. UserError where it is absent, or has two values."""
        values = [value for value in (self.get(name) for name in names) if value is not None]
        if not values:
            raise UserError(f"{self._name}: config.json lacks {names[0]!r}, and there is no safe default; add it")
        if any(value != values[0] for value in values):
            raise UserError(f"{self._name}: config.json has different values for {' and '.join(names)}, which are the same key")
        return values[0]

    def count(self, *names: str, default: int | None = None) -> int:
        """A whole number above 0, by a key that has had several names. UserError for another value, or none and no default."""
        if default is not None and self._absent(names):
            return default
        value = self.required(*names)
        # A file that a program wrote may say 32.0.
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 1 <= value <= sys.maxsize
            or value != int(value)
        ):
            raise self._unfit(names, value, "a whole number above 0")
        return int(value)

    def number(self, *names: str, default: float | None = None) -> float:
        """A finite number above 0. UserError as `count` has it."""
        if default is not None and self._absent(names):
            return default
        value = self.required(*names)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
            raise self._unfit(names, value, "a finite number above 0")
        return float(value)

    def count_or_none(self, key: str) -> int | None:
        """A whole number above 0; None where the key is absent or null."""
        return None if self.get(key) is None else self.count(key)

    def number_or_none(self, key: str) -> float | None:
        """A finite number above 0; None where the key is absent or null."""
        return None if self.get(key) is None else self.number(key)

    def table(self, key: str) -> Mapping[str, Any]:
        """The object under a key, empty where it is absent or null. UserError for another value."""
        value = self.get(key, {})
        if not isinstance(value, Mapping):
            raise self._unfit((key,), value, "an object")
        return value

    def inside(self, key: str) -> "Keys":
        """The keys of a value that has keys of its own, none where it is absent. Call their `finish` too."""
        return self.within(key, self.table(key))

    def within(self, key: str, values: Mapping[str, Any]) -> "Keys":
        """The keys of such a value, in the way that errors name them."""
        return Keys(values, f"{self._name}: {key}")

    def expect(self, **values: Any) -> None:
        """UserError for a key that is there with another value, which would be another model."""
        for key, value in values.items():
            if (given := self.get(key, value)) != value:
                raise UserError(
                    f"{self._name}: config.json has {key} = {given!r}; leadline has this architecture with {value!r} only"
                )

    def without_effect(self, *keys: str) -> None:
        """Keys that change nothing in this architecture."""
        self._read.update(keys)

    def refuse(self, reason: str) -> UserError:
        """An error about this file."""
        return UserError(f"{self._name}: {reason}")

    def _absent(self, names: tuple[str, ...]) -> bool:
        return all(self.get(name) is None for name in names)

    def _unfit(self, names: tuple[str, ...], value: object, what: str) -> UserError:
        key = next(name for name in names if self.get(name) is not None)
        return UserError(f"{self._name}: config.json has {key} = {repr(value)[:40]}; it must be {what}")

    def finish(self) -> None:
        """UserError for keys that were not read."""
        if unknown := sorted(set(self._config) - self._read - WITHOUT_EFFECT):
            listed = ", ".join(f"{key} = {self._config[key]!r}" for key in unknown)
            raise self.refuse(f"config.json says {listed}: leadline does not know what this changes, and loads no such model")


class Layout(NamedTuple):
    """How one weight lies in a tensor. Arrays have no layer axis; both ways take NumPy and JAX arrays."""

    ours: Callable[[Any, Shape], Any]  # the weight of a tensor, given the shape of the weight
    theirs: Callable[[Any], Any]  # the tensor of a weight


def linear(inputs: int = 1) -> Layout:
    """A weight [outputs, inputs] of `torch.nn.Linear`, as [*inputs, *outputs] with so many axes of inputs."""
    return Layout(
        lambda tensor, shape: tensor.T.reshape(shape),
        lambda w: w.reshape(math.prod(w.shape[:inputs]), -1).T,
    )


# A weight whose axes are in the same order: vectors, and the matrices of GPT-2. Channels of heads are one axis in a file.
SAME = Layout(lambda tensor, shape: tensor.reshape(shape), lambda w: w)
FLAT = Layout(lambda tensor, shape: tensor.reshape(shape), lambda w: w.reshape(-1))
LINEAR = linear()


def rotary_order(head_dim: int, rotary: int) -> tuple[int, ...]:
    """Where the channels of our heads lie in a head of a file whose first `rotary` channels rotate.

    A file pairs the channels (i, i + rotary/2), we pair (i, i + head_dim/2), whatever part of the pairs rotates.
    """
    half, still = rotary // 2, (head_dim - rotary) // 2
    first, second = range(half), range(half, rotary)
    return (*first, *range(rotary, rotary + still), *second, *range(rotary + still, head_dim))


def in_order(layout: Layout, order: tuple[int, ...]) -> Layout:
    """A layout of a weight with channels of heads [..., H], which lie in the file in another order (`rotary_order`)."""
    there = np.array(order)
    back = np.argsort(there)
    return Layout(lambda tensor, shape: layout.ours(tensor, shape)[..., there], lambda w: layout.theirs(w[..., back]))


class Split(NamedTuple):
    """How several weights share a tensor."""

    ours: Callable[[Any, tuple[Shape, ...]], tuple[Any, ...]]  # the parts, given the shapes of the weights
    theirs: Callable[[tuple[Any, ...]], Any]  # the tensor of all parts


WHOLE = Split(lambda tensor, shapes: (tensor,), lambda parts: parts[0])  # noqa: ARG005


@dataclass(frozen=True)
class Row:
    """A tensor of the checkpoint, and the weights that it holds.

    Attributes:
        tensor: its name; `{}` is the number of the layer, and where there is none the tensor is not of a layer.
        weights: names of leaves of the decoder, as "blocks.query".
        layouts: one a weight.
        split: how the weights share the tensor.
    """

    tensor: str
    weights: tuple[str, ...]
    layouts: tuple[Layout, ...]
    split: Split = WHOLE

    @property
    def by_layer(self) -> bool:
        return "{}" in self.tensor

    def ours(self, tensor: Any, shapes: tuple[Shape, ...]) -> tuple[Any, ...]:
        """The weights, of one layer, that a tensor holds, given their shapes."""
        parts = self.split.ours(tensor, shapes)
        return tuple(layout.ours(part, shape) for layout, part, shape in zip(self.layouts, parts, shapes, strict=True))

    def theirs(self, *weights: Any) -> Any:
        """The tensor of weights, of one layer."""
        return self.split.theirs(tuple(layout.theirs(w) for layout, w in zip(self.layouts, weights, strict=True)))


def row(tensor: str, weight: str, layout: Layout = SAME) -> Row:
    """A tensor that holds one weight."""
    return Row(tensor, (weight,), (layout,))


def concatenated(axis: int) -> Split:
    """One part after the other along an axis."""

    def ours(whole: Any, shapes: tuple[Shape, ...]) -> tuple[Any, ...]:
        sizes = [math.prod(shape) * whole.shape[axis] // sum(map(math.prod, shapes)) for shape in shapes]
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        before = (slice(None),) * (axis % whole.ndim)
        return tuple(whole[(*before, slice(end - size, end))] for end, size in zip(ends, sizes, strict=True))

    return Split(ours, lambda parts: jnp.concatenate(parts, axis=axis))


@dataclass(frozen=True)
class Architecture:
    """A family of published models.

    Attributes:
        model_types: of config.json.
        configured: the model of a config.json.
        rows: every tensor of a model of this configuration.
        constants: weights that no tensor holds, and their value.
        buffers: tensors that are no weights, which are left out; `{}` is the number of the layer.
        spellings: beginnings of the names of tensors, and what stands there in files without any such name.
        context: the longest text of all its models [tokens], where config.json does not say it.
    """

    model_types: tuple[str, ...]
    configured: Callable[[Keys], ModelConfig]
    rows: Callable[[ModelConfig], tuple[Row, ...]]
    constants: Mapping[str, float] = field(default_factory=dict)
    buffers: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    context: int | None = None

    @property
    def defaults(self) -> dict[str, float]:
        """The values of weights that no tensor holds: the constants, and no sink."""
        return {"blocks.sink_logit": -math.inf, **self.constants}
