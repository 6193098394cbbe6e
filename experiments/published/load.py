"""A checkpoint as the weights and the configuration of a decoder."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.published.architectures.base import Architecture, Keys, Row
from leadline.experiments.published.architectures.registry import ARCHITECTURES
from leadline.experiments.published.checkpoint import Checkpoint, Entry
from leadline.experiments.published.mxfp4 import dequantised
from leadline.experiments.published.safetensors_files import DTYPES
from leadline.experiments.records.json_file import reason
from leadline.experiments.runtime.errors import UserError
from leadline.model.decoder import Decoder, DecoderConfig, init_decoder
from leadline.model.mesh import put

# Of a decoder and of its blocks: what is multiplied or looked up, and is kept in the compute type. The rest is float32.
MATRICES = frozenset(
    [
        *("embedding", "positions", "unembedding"),
        *(f"blocks.{name}" for name in ("query", "key", "value", "output", "gate")),
        *(f"blocks.feedforward.{name}" for name in ("up", "gate", "down", "router")),
        *(f"blocks.feedforward.networks.{name}" for name in ("up", "gate", "down")),
    ]
)
# Names of the longest text in a config.json.
CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
# Names of the number of layers.
LAYERS = ("num_hidden_layers", "n_layer", "n_layers")
# Types in files that hold no weights: truth values and whole numbers.
WHOLE = frozenset(name for name, kind in DTYPES.items() if np.dtype(kind).kind in "biu")
# An address that XLA's CPU back end takes over without a copy is a multiple of this many bytes.
ALIGNMENT = 64


@dataclass(frozen=True)
class PublishedModel:
    """The weights of a published model, in the decoder that they belong to.

    Attributes:
        name: of the model.
        architecture: `model_type` of its config.json.
        model: its configuration.
        context: the longest text that it was trained on [tokens], as its configuration says.
        cfg: the structure.
        params: the weights, on the devices of the mesh.
        rows: every tensor, by its name in the checkpoint.
    """

    name: str
    architecture: str
    model: ModelConfig
    context: int
    cfg: DecoderConfig
    params: Decoder
    rows: tuple[Row, ...]


def load(checkpoint: Checkpoint, compute: str = "float32") -> PublishedModel:
    """Puts the weights of a checkpoint on the devices of the mesh that is set, tensor by tensor.

    Every tensor is used once and every weight is set once. On a CPU the host has the model and one tensor at most.

    Args:
        checkpoint: its files.
        compute: the type of activations and of matrices, "float32" or "bfloat16".

    Raises:
        UserError: for an architecture, a setting or a tensor that leadline does not know, and for tensors that are missing or
            have another shape.
    """
    checkpoint, model, context, cfg, template, rows, constants = plan(checkpoint, compute)
    shapes = weights_by_name(template)
    leaves = {name: _constant(shapes[name], value) for name, value in constants.items()}
    for entry in rows:
        leaves |= _weights(checkpoint, entry, shapes, compute)
    params = jax.tree.structure(template).unflatten([leaves[name] for name in shapes])
    return PublishedModel(checkpoint.name, checkpoint.config["model_type"], model, context, cfg, params, rows)


class Plan(NamedTuple):
    """A checkpoint with its configuration and the weights that each of its tensors sets."""

    checkpoint: Checkpoint  # packed tensors (MXFP4) are unpacked when they are read
    model: ModelConfig
    context: int
    cfg: DecoderConfig
    template: Decoder  # the shapes of its weights
    rows: tuple[Row, ...]  # the tensors, and the weights that each sets
    constants: Mapping[str, float]  # weights that no tensor sets


def plan(checkpoint: Checkpoint, compute: str = "float32") -> Plan:
    """Checks the configuration of a checkpoint and the names, shapes and types of its tensors, and puts no weight on a device.

    UserError as `load` has it.
    """
    architecture, model, context = configured(checkpoint)
    checkpoint = dequantised(checkpoint)
    _check_sizes(checkpoint, model)
    model = model.model_copy(update={"compute_dtype": compute})
    cfg = decoder_config(model, int(checkpoint.config["vocab_size"]), context)
    template = decoder_shapes(cfg)
    shapes = weights_by_name(template)
    rows = checked_rows(checkpoint, architecture, model, shapes)
    from_rows = {weight for entry in rows for weight in entry.weights}
    constants = {name: value for name, value in architecture.defaults.items() if name in shapes and name not in from_rows}
    if unset := sorted(set(shapes) - from_rows - set(constants)):
        raise UserError(
            f"{checkpoint.name}: no tensor of architecture {checkpoint.config['model_type']} holds {', '.join(unset)}"
        )
    return Plan(checkpoint, model, context, cfg, template, rows, constants)


def configured(checkpoint: Checkpoint) -> tuple[Architecture, ModelConfig, int]:
    """The architecture of a checkpoint, its configuration, and the longest text that it was trained on.

    Raises:
        UserError: for what leadline cannot express, by name, and for values that no such file has.
    """
    kind = checkpoint.config.get("model_type")
    if kind not in tuple(ARCHITECTURES):  # a damaged file may have a list there, which no table is searched for
        raise UserError(f"{checkpoint.name}: model_type {kind!r} is not among {', '.join(sorted(ARCHITECTURES))}")
    _check_layers(checkpoint)
    keys = Keys(checkpoint.config, checkpoint.name)
    try:
        model = ARCHITECTURES[kind].configured(keys)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:  # pydantic's error is a ValueError
        raise UserError(f"{checkpoint.name}: config.json: {reason(error)}; mend it or download it again") from error
    keys.count("vocab_size")
    contexts = [keys.count_or_none(name) for name in CONTEXT]
    context = next((tokens for tokens in (*contexts, ARCHITECTURES[kind].context) if tokens is not None), None)
    context = context or keys.count(CONTEXT[0])
    keys.finish()
    return ARCHITECTURES[kind], model, context


def _check_layers(checkpoint: Checkpoint) -> None:
    """UserError for more layers than tensors, before anything is made for each layer."""
    for key in LAYERS:
        layers, tensors = checkpoint.config.get(key), len(checkpoint.entries)
        if isinstance(layers, int | float) and layers > tensors:
            raise UserError(
                f"{checkpoint.name}: config.json has {key} = {repr(layers)[:40]}, and its files {tensors} tensors; "
                "mend it or download both again"
            )


def _check_sizes(checkpoint: Checkpoint, model: ModelConfig) -> None:
    """UserError for a size above that of the largest tensor, before anything is made of that size."""
    largest = max(math.prod(entry.shape) for entry in checkpoint.entries.values())
    sizes = {name: getattr(model, name) or 0 for name in ("width", "heads", "kv_heads", "head_dim", "hidden", "experts")}
    for name, size in {**sizes, "vocab_size": checkpoint.config["vocab_size"]}.items():
        if size > largest:
            raise UserError(
                f"{checkpoint.name}: config.json means {name} = {size}, and its largest tensor has {largest} numbers; "
                "mend it or download both again"
            )


def decoder_shapes(cfg: DecoderConfig) -> Decoder:
    """The shapes and shardings of the weights of a decoder."""
    return jax.eval_shape(lambda: init_decoder(jax.random.key(0), cfg))


def weights_by_name(params: Decoder) -> dict[str, Any]:
    """The weights, or their shapes, by name as in "blocks.feedforward.up"."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def tensors_of(entry: Row, layers: int) -> Iterator[tuple[str, int]]:
    """The tensors of a row, each with the number of its layer; 0 for the one tensor that is of none."""
    return ((entry.tensor.format(layer), layer) for layer in range(layers if entry.by_layer else 1))


def shape_in_file(entry: Row, shapes: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of each tensor of a row."""
    weights = [jax.ShapeDtypeStruct(shapes[name].shape[entry.by_layer :], jnp.float32) for name in entry.weights]
    return jax.eval_shape(entry.theirs, *weights).shape


def checked_rows(
    checkpoint: Checkpoint, architecture: Architecture, model: ModelConfig, shapes: Mapping[str, Any]
) -> tuple[Row, ...]:
    """The rows of an architecture, once every tensor is known to be there, of its shape, and no other.

    Raises:
        UserError: otherwise, before any weight is read.
    """
    entries = checkpoint.entries
    rows = tuple(replace(entry, tensor=_spelled(entry.tensor, architecture, entries)) for entry in architecture.rows(model))
    expected = {name: shape_in_file(entry, shapes) for entry in rows for name, _ in tensors_of(entry, model.layers)}
    buffers = [_spelled(buffer, architecture, entries) for buffer in architecture.buffers]
    buffers = {buffer.format(layer) for buffer in buffers for layer in range(model.layers)}
    tied = {"lm_head.weight"} if model.tied else set()
    unknown = set(entries) - set(expected) - buffers - tied
    problems = [f"has {name}, which {checkpoint.config['model_type']} does not" for name in unknown]
    problems += [problem for name, shape in expected.items() for problem in _misfits(name, entries.get(name), shape)]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise UserError(f"{checkpoint.name}: {'; '.join(sorted(problems)[:3])}{more}")
    for name in tied & set(entries):
        (embedding,) = (entry.tensor for entry in rows if entry.weights == ("embedding",))
        if not np.array_equal(checkpoint.read(name), checkpoint.read(embedding)):
            raise UserError(f"{checkpoint.name}: {name} differs from {embedding}, though config.json ties them")
    return rows


def _misfits(name: str, entry: Entry | None, shape: tuple[int, ...]) -> Iterator[str]:
    """The reasons why a tensor does not fit the shape that it must have."""
    if entry is None:
        yield f"lacks {name}"
        return
    if tuple(entry.shape) != shape:
        yield f"has {name} of shape {list(entry.shape)}, where its config.json means {list(shape)}"
    if entry.dtype in WHOLE:
        yield f"has {name} of type {entry.dtype}, where weights are floats; download it again"


def _spelled(name: str, architecture: Architecture, entries: Iterable[str]) -> str:
    """The name of a tensor in a file with these names."""
    for beginning, other in architecture.spellings.items():
        if name.startswith(beginning) and not any(entry.startswith(beginning) for entry in entries):
            return other + name.removeprefix(beginning)
    return name


def _weights(checkpoint: Checkpoint, entry: Row, shapes: Mapping[str, Any], compute: str) -> dict[str, jax.Array]:
    """The weights of a row, on the devices."""
    leaves = [shapes[name] for name in entry.weights]
    hosts = [
        _aligned(leaf.shape, compute if name in MATRICES else "float32")
        for name, leaf in zip(entry.weights, leaves, strict=True)
    ]
    of_layer = tuple(leaf.shape[entry.by_layer :] for leaf in leaves)
    layers = leaves[0].shape[0] if entry.by_layer else 1
    for name, layer in tensors_of(entry, layers):
        for host, part in zip(hosts, entry.ours(checkpoint.read(name), of_layer), strict=True):
            (host[layer] if entry.by_layer else host)[...] = part
    return {name: put(host, leaf.sharding.spec) for name, host, leaf in zip(entry.weights, hosts, leaves, strict=True)}


def _aligned(shape: tuple[int, ...], dtype: str) -> Shaped[np.ndarray, "..."]:
    """An array that the CPU back end of XLA takes over without a copy."""
    kind = jnp.dtype(dtype)
    room = np.empty(math.prod(shape) * kind.itemsize + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + math.prod(shape) * kind.itemsize].view(kind).reshape(shape)


def _constant(leaf: jax.ShapeDtypeStruct, value: float) -> jax.Array:
    return put(np.full(leaf.shape, value, np.float32), leaf.sharding.spec)
