"""A trained model, asked for its logits, sinks and attention on some texts: arrays on the host.

The weights of a run are put on the device for each call, and a program is compiled for each shape of ids.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.base import validated
from leadline.experiments.config.measure import SinkRate
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.layers import layer_statistics, sink_statistics
from leadline.experiments.measure.trained import attention_maps
from leadline.experiments.records.measurement import reading
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.saved import TrainedModel
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.encoder_decoder import EncoderDecoderConfig, apply_model
from leadline.model.mesh import make_mesh
from leadline.model.positions.tables import PositionTables

Ids = Sequence[int] | Sequence[Sequence[int]] | Int[np.ndarray | Array, "..."]


class Sinks(NamedTuple):
    """Attention sinks of the layers and heads of a model: means over the texts, float32. Both count from 0."""

    sink_rate: Float[np.ndarray, "L N"]  # share of texts whose mean attention to token k is above ε (Gu et al. 2025)
    first_token_mass: Float[np.ndarray, "L N"]  # attention to the first token, a mean over queries
    sink_logit_mass: Float[np.ndarray, "L N"]  # attention to the sink logit or the key bias
    activation_ratio: Float[np.ndarray, " L"]  # largest over median |h| after a layer (Sun et al. 2024)
    # |v| and |h| of the first token over the mean of tokens t >= 8; None for texts of at most 8 tokens
    value_drain_ratio: Float[np.ndarray, "L K"] | None
    residual_norm_ratio: Float[np.ndarray, " L"] | None


def texts_of(trained: TrainedModel, ids: Ids) -> Int[np.ndarray, "B T"]:
    """Ids [T] of one text or [B, T] of several as those of several. UserError for ids that the model does not know."""
    array, known = np.asarray(ids), trained.cfg.vocabulary
    if array.ndim not in (1, 2) or not array.size or not np.issubdtype(array.dtype, np.integer):
        raise UserError(f"ids are integers [T] or [B, T], not {array.dtype} {list(array.shape)}; `encode` gives some")
    if array.min() < 0 or array.max() >= known:
        raise UserError(f"ids {array.min()} to {array.max()}: this model knows 0 to {known - 1}")
    return np.atleast_2d(array).astype(np.int32)


def applied(
    trained: TrainedModel, texts: Int[np.ndarray, "B T"], measure: Callable[[LayerTrace], Any] | None = None
) -> tuple[Float[np.ndarray, "B T V"], Any]:
    """The logits of the token after each token, and what `measure` returns of each layer, stacked.

    Raises:
        UserError: for texts that are longer than the positions of the model.
    """
    with jax.set_mesh(make_mesh()):
        return jax.device_get(_applied(*_on_device(trained, texts), cfg=trained.cfg, measure=measure))


def sinks_of(trained: TrainedModel, texts: Int[np.ndarray, "B T"], token: int, epsilon: float) -> Sinks:
    """Attention sinks on these texts: Sink_k^ε and its like. Raises as `applied`, and for a token after the texts."""
    sink = validated(SinkRate, {"token": token, "epsilon": epsilon, "length": texts.shape[1]}, "sinks")
    with jax.set_mesh(make_mesh()):
        statistics = jax.device_get(_sinks(*_on_device(trained, texts), cfg=trained.cfg, sink=sink))
    return Sinks(**{name: statistics.get(reading(name)) for name in Sinks._fields})


def maps_of(trained: TrainedModel, texts: Int[np.ndarray, "1 T"]) -> Float[np.ndarray, "L N T T"]:
    """The attention of query i to key j of one text. Raises as `applied`, and for a model whose attention has no map."""
    if isinstance(trained.cfg, EncoderDecoderConfig):
        raise UserError("an encoder–decoder reads two texts, and a map shows one: measure `layer.cross` with `apply`")
    with jax.set_mesh(make_mesh()):
        maps = jax.device_get(_maps(*_on_device(trained, texts), cfg=trained.cfg))
    if not maps:
        raise UserError("every query of this model rotates all keys anew, so that attention has no map")
    return maps[reading("attention_map")]


def _on_device(trained: TrainedModel, texts: Int[np.ndarray, "B T"]) -> tuple[Decoder, Int[Array, "B T"], PositionTables]:
    """Weights, ids and the tables of texts of that length."""
    rows = tables(trained.model, trained.original_length, texts.shape[1])
    return jax.tree.map(jnp.asarray, trained.params), jnp.asarray(texts), rows


@partial(jax.jit, static_argnames=("cfg", "measure"))
def _applied(
    params: Decoder,
    ids: Int[Array, "B T"],
    tables: PositionTables,
    *,
    cfg: DecoderConfig,
    measure: Callable[[LayerTrace], Any] | None,
) -> tuple[Float[Array, "B T V"], Any]:
    return apply_model(params, ids, tables, cfg, measure=measure)


@partial(jax.jit, static_argnames=("cfg", "sink"))
def _sinks(
    params: Decoder, ids: Int[Array, "B T"], tables: PositionTables, *, cfg: DecoderConfig, sink: SinkRate
) -> Statistics:
    def measured(trace: LayerTrace) -> Statistics:
        return layer_statistics(trace) | sink_statistics(trace, sink)

    return apply_model(params, ids, tables, cfg, measure=measured)[1]


@partial(jax.jit, static_argnames="cfg")
def _maps(params: Decoder, ids: Int[Array, "B T"], tables: PositionTables, *, cfg: DecoderConfig) -> Statistics:
    return attention_maps(params, tables, ids, cfg)
