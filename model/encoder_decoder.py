"""The encoder–decoder Transformer (Vaswani et al. 2017, arXiv:1706.03762), and what it shares with a decoder.

    memory = encoder(source),      p(target_t | target_<t, source) = softmax(E · decoder(target_<t, memory))

The encoder is a stack of blocks whose tokens see each other both ways. Each block of the decoder has cross-attention to the
encoder's output between its causal attention and its feed-forward.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from leadline.model.block import LayerTrace, initial_sink_logit
from leadline.model.context import Context
from leadline.model.cross_attention import Memory, memory_of
from leadline.model.decoder import Decoder, DecoderConfig, apply_final_norm, apply_layers, init_decoder, unembed
from leadline.model.positions.tables import PositionTables


@dataclass(frozen=True)
class EncoderDecoderConfig(DecoderConfig):
    """The structure of an encoder–decoder: that of the decoder, whose blocks have `cross`, and what the encoder differs in.

    Attributes:
        encoder_layers: layers of the encoder.
        shared_embedding: whether the encoder has the embedding of the decoder. With `tied` that is one matrix in three places.
        padding_id: the id of padding, which no token sees.

    Raises:
        ValueError: for blocks without cross-attention, a document mask, and a position bias that an encoder cannot have.
    """

    encoder_layers: int = 1
    shared_embedding: bool = True
    padding_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.block.cross:
            raise ValueError("the decoder of an encoder–decoder sees its source by cross-attention: set block.cross")
        if self.document_end is not None:
            raise ValueError("a source and a target are one document each: leave document_end out")
        if self.block.position_bias is not None:
            self.block.position_bias.of_encoder()

    @property
    def encoder(self) -> DecoderConfig:
        """The structure of the encoder's stack."""
        shared = {field.name: getattr(self, field.name) for field in fields(DecoderConfig)}
        bias = self.block.position_bias
        block = replace(self.block, cross=False, position_bias=bias and bias.of_encoder())
        return DecoderConfig(
            **shared | {"layers": self.encoder_layers, "block": block, "tied": True, "unembedding_bias": False}
        )


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass(kw_only=True)
class EncoderDecoder(Decoder):
    """Weights: those of the decoder, and those of the encoder, whose embedding is None where it is the decoder's."""

    encoder: Decoder


def init_model(key: Array, cfg: DecoderConfig, *, sink_logit: float | Float[Array, "*#L"] | None = None) -> Decoder:
    """Weights of a decoder or of an encoder–decoder, as `init_decoder` draws them for each stack.

    Args:
        key: of the random numbers.
        cfg: the structure, which decides which of the two it is.
        sink_logit: initial values of the sink logits of self-attention, one for all layers or one each, the encoder's first;
            None as in `init_block`.
    """
    if not isinstance(cfg, EncoderDecoderConfig):
        return init_decoder(key, cfg, sink_logit=sink_logit)
    sink_logit = initial_sink_logit(cfg.block) if sink_logit is None else sink_logit
    logits = jnp.broadcast_to(jnp.asarray(sink_logit, jnp.float32), (cfg.encoder_layers + cfg.layers,))
    of_encoder, of_decoder = jax.random.split(key)
    encoder = init_decoder(of_encoder, cfg.encoder, sink_logit=logits[: cfg.encoder_layers])
    decoder = init_decoder(of_decoder, cfg, sink_logit=logits[cfg.encoder_layers :])
    weights = {field.name: getattr(decoder, field.name) for field in fields(Decoder)}
    return EncoderDecoder(**weights, encoder=replace(encoder, embedding=None) if cfg.shared_embedding else encoder)


def encode(p: EncoderDecoder, source: Int[Array, "B S"], tables: PositionTables, cfg: EncoderDecoderConfig) -> Memory:
    """What the layers of the decoder see of a source, stacked over them.

    With it as `Context.memory`, `apply_decoder` gives the logits of a target.

    Args:
        p: weights.
        source: ids; padding may stand anywhere.
        tables: one row per layer of the encoder.
        cfg: the structure.
    """
    padding = source != cfg.padding_id
    stack = replace(p.encoder, embedding=p.embedding) if cfg.shared_embedding else p.encoder
    x, _ = apply_layers(stack, source, tables, cfg.encoder, context=Context(padding=padding, bidirectional=True))
    return memory_of(p.blocks.cross, apply_final_norm(stack, x), padding)  # pyright: ignore[reportArgumentType]  # as cfg says


def model_layers(
    p: Decoder,
    tokens: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    measure: Callable[[LayerTrace], Any] | None = None,
) -> tuple[Float[Array, "B T D"], Any]:
    """`apply_layers` of a decoder; of an encoder–decoder, the first half of each row is the source and the rest the target.

    Args:
        p: weights.
        tokens: ids.
        tables: one row per layer, those of the encoder first.
        cfg: the structure.
        measure: what is measured of each layer of the decoder.

    Returns:
        The residual stream after the last layer, which is 0 at the source of an encoder–decoder, and what `measure` returns.
    """
    if not isinstance(cfg, EncoderDecoderConfig):
        return apply_layers(p, tokens, tables, cfg, measure=measure)
    S, L = tokens.shape[1] // 2, cfg.encoder_layers
    source, target = tokens[:, :S], tokens[:, S:]
    memory = encode(p, source, rows_of(tables, 0, L), cfg)  # pyright: ignore[reportArgumentType]  # as cfg says
    real = (target != cfg.padding_id) | (jnp.arange(target.shape[1]) == 0)[None]  # T5 begins targets with padding
    context = Context(padding=real, memory=memory)
    x, measured = apply_layers(p, target, rows_of(tables, L, L + cfg.layers), cfg, context=context, measure=measure)
    return jnp.pad(x, [(0, 0), (S, 0), (0, 0)]), measured


def apply_model(
    p: Decoder,
    tokens: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    measure: Callable[[LayerTrace], Any] | None = None,
) -> tuple[Float[Array, "B T V"], Any]:
    """Logits, float32, and what `measure` returns; arguments as `model_layers`, at whose source logits mean nothing."""
    x, measured = model_layers(p, tokens, tables, cfg, measure=measure)
    return unembed(p, x, cfg), measured


def rows_of(tables: PositionTables, start: int, stop: int) -> PositionTables:
    """The tables of some of the layers."""
    return jax.tree.map(lambda rows: rows[start:stop], tables)
