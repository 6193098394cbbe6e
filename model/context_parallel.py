"""Context parallelism: a decoder of texts whose tokens are sharded over the mesh axis "text"."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from leadline.model.block import LayerTrace
from leadline.model.checks import check_length
from leadline.model.context import Context
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder
from leadline.model.mesh import TEXT, gather_tokens, place
from leadline.model.positions.tables import PositionTables


def apply_context_parallel(
    p: Decoder,
    tokens: Int[Array, "B S"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    padding: Bool[Array, "B S"] | None = None,
    measure: Callable[[LayerTrace, Int[Array, "B S"]], Any] = lambda trace, tokens: None,  # noqa: ARG005
) -> tuple[Float[Array, "B S V"], Any]:
    """`apply_decoder` of texts that are too long for one device.

    Each of the n devices of the mesh axis "text" has S / n consecutive tokens and their logits. Devices gather the keys and
    values of a layer, and what `measure` uses of a trace.

    JAX 0.10.2 cannot differentiate this from outside: take a gradient within a shard_map of your own, of `apply_decoder` with
    `Context(context_parallel=True)`, and sum that of the weights.

    Args:
        p: weights.
        tokens: ids of whole texts.
        tables: one row per layer.
        cfg: the structure.
        padding: True for real tokens.
        measure: what is measured of each layer: a function of the trace of whole texts, and of their tokens.

    Raises:
        ValueError: if n does not divide S, and as `apply_layers`.
    """
    parts = jax.sharding.get_abstract_mesh().shape[TEXT]
    if tokens.shape[1] % parts:
        raise ValueError(f"{tokens.shape[1]} tokens cannot be divided evenly among {parts} devices: shorten the text")
    check_length(tokens.shape[1], tables, cfg.block, cfg.learned_positions, parts=parts)

    def part(p: Decoder, tokens: Array, tables: PositionTables, padding: Array | None) -> tuple[Array, Any]:
        whole = gather_tokens(tokens, 1)
        context = Context(padding=padding, context_parallel=True)
        return apply_decoder(
            p, tokens, tables, cfg, context=context, measure=lambda trace: measure(_of_all_devices(trace, cfg), whole)
        )

    along = P(None, TEXT)
    specs = {"in_specs": (P(), along, P(), along), "out_specs": (along, P())}
    padding = None if padding is None else place(padding, along)
    return jax.shard_map(part, **specs, axis_names={TEXT}, check_vma=False)(p, place(tokens, along), tables, padding)


def _of_all_devices(trace: LayerTrace, cfg: DecoderConfig) -> LayerTrace:
    """The trace of the whole text. Under jit, fields that are not used are not sent."""
    statistics = jax.tree.map(lambda x: gather_tokens(x, 2), trace.attention)
    static = cfg.block.gate is not None and cfg.block.gate.static  # one gate for all tokens, which every device has
    rest = jax.tree.map(lambda x: gather_tokens(x, 1), replace(trace, attention=None, gate=None if static else trace.gate))
    return replace(rest, attention=statistics, gate=trace.gate if static else rest.gate)
