"""Text from a decoder, token by token in one program.

A draw depends only on the key, the row, and the place of the token in its row.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, Key

from leadline.model.attention.mask import NO_WINDOW
from leadline.model.block import Block
from leadline.model.cache.full import full_cache
from leadline.model.cache.protocol import Cache
from leadline.model.cache.ring import ring_cache
from leadline.model.context import Context
from leadline.model.decoder import Decoder, DecoderConfig, blocks_of, embed_tokens, positions_of, unembed
from leadline.model.extend import check_cache, extend_layers
from leadline.model.layer import apply_block
from leadline.model.mesh import RESIDUAL, on_mesh, place
from leadline.model.positions.fire import Fire
from leadline.model.positions.tables import PositionTables
from leadline.model.positions.xpos import longest_with
from leadline.model.sampling import Sampling, draw_token

# Tokens of a prompt that are read at once.
CHUNK = 256


@dataclass(frozen=True)
class Policy:
    """What decoding remembers.

    Attributes:
        window: number of newest tokens; None is all of a text for which there is room.
        initial_tokens: number of first tokens besides (StreamingLLM, Xiao et al. 2024, arXiv:2309.17453).
        reindexed: whether positions are those inside the cache, or those of the text.

    Raises:
        ValueError: for a window below 1, and for initial tokens without a window.
    """

    window: int | None = None
    initial_tokens: int = 0
    reindexed: bool = True

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"a window of {self.window} tokens does not even hold the newest one: take 1 or more")
        if self.initial_tokens < 0 or (self.initial_tokens and self.window is None):
            raise ValueError(
                f"{self.initial_tokens} initial tokens: take 0 or more, and give the window beyond which others are forgotten"
            )


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Layer:
    """One layer by itself."""

    block: Block
    tables: PositionTables


@no_type_check
@struct.dataclass
class Decoding:
    """A text so far: the cache of each layer, and the logits of the next token."""

    caches: tuple[Any, ...]
    logits: Float[Array, "B V"]


def generate(
    p: Decoder,
    prompt: Int[Array, "B T"],
    count: int,
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    policy: Policy,
    sampling: Sampling,
    key: Key[Array, ""],
) -> Int[Array, "B count"]:
    """The next `count` tokens of a prompt.

    Args:
        p: weights.
        prompt: ids.
        count: number of tokens.
        tables: one row per layer.
        cfg: the structure.
        policy: what the caches remember.
        sampling: how tokens are drawn.
        key: of the random numbers.

    Raises:
        ValueError: as `begin`.
    """
    text = begin(p, prompt, tables, cfg, policy, prompt.shape[1] + count)
    return decode(p, layers_of(p, tables), text, count, cfg, sampling, key)[0]


def begin(
    p: Decoder,
    prompt: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    policy: Policy,
    room: int,
    *,
    starts: Int[Array, " B"] | None = None,
    chunk: int = CHUNK,
) -> Decoding:
    """The caches of a prompt. Not under jit itself: it looks at the tables.

    Args:
        p: weights.
        prompt: ids.
        tables: one row per layer.
        cfg: the structure.
        policy: what the caches remember.
        room: the longest text, where all of it is remembered.
        starts: place in its row of each prompt's first token; any ids are padding before it. None is 0.
        chunk: tokens that are read at once.

    Raises:
        ValueError: for an empty prompt or one without room, for a model whose every query rotates all keys, for learned
            positions, tables or xPos that end before the room does, where tokens are forgotten for a model that cannot be
            streamed, and for `starts` outside of the rows or of a model that depends on the place in a row.
    """
    _check_prompt(p, prompt, tables, cfg, policy, room)
    if starts is not None:
        _check_padding(p, prompt, starts, tables, cfg, policy)
    return _read(p, prompt, starts, tables, cfg, policy, room, chunk)


def _check_prompt(
    p: Decoder, prompt: Int[Array, "B T"], tables: PositionTables, cfg: DecoderConfig, policy: Policy, room: int
) -> None:
    """Raises ValueError for a prompt or room that the model, or what decoding remembers, cannot have."""
    T, decay, forgets = prompt.shape[1], np.asarray(tables.decay), policy.window is not None
    if not T:
        raise ValueError("an empty prompt: there is no token to begin with")
    if cfg.block.table_per == "query" and not forgets:
        raise ValueError("a table per query rotates all keys anew for each query: decode with one per sequence or per token")
    check_cache(p, tables, cfg, None if forgets else room)
    if forgets and np.any(decay):
        raise ValueError("a model with xPos cannot be streamed: its keys grow without end; take rope, alibi or nope")
    if not forgets and room < T:
        raise ValueError(f"a prompt of {T} tokens does not fit into room for {room}")
    if room > (longest := longest_with(decay)):
        raise ValueError(f"xPos reaches {longest} tokens in float32: {room} tokens are too many")


def _check_padding(
    p: Decoder,
    prompt: Int[Array, "B T"],
    starts: Int[Array, " B"],
    tables: PositionTables,
    cfg: DecoderConfig,
    policy: Policy,
) -> None:
    """Raises ValueError for starts outside of the rows, and for what depends on the place of a token in its row."""
    places = np.asarray(starts)
    if places.shape != prompt.shape[:1] or places.min() < 0 or places.max() >= prompt.shape[1]:
        raise ValueError(f"starts = {places}: give each of the prompts a place from 0 to {prompt.shape[1] - 1}")
    b = cfg.block
    by_place = {
        "initial tokens": policy.initial_tokens or np.any(np.asarray(tables.initial_tokens)),
        "sinusoidal positions": cfg.sinusoidal,
        "a grid": bool(cfg.grid),
        "chunks": np.any(np.asarray(tables.chunk) < NO_WINDOW),
        "the bias Fire": isinstance(b.position_bias, Fire),
        f"one table per {b.table_per}": b.table_per != "sequence",
        "a softmax scaled by the position": p.blocks.length_scale is not None,
        "a temperature by the position": np.any(np.asarray(tables.temperature)),
        "a rotated key bias": p.blocks.key_bias is not None and np.any(np.asarray(tables.frequencies.units)),
    }
    if names := [name for name, needed in by_place.items() if needed]:
        raise ValueError(f"{' and '.join(names)}: prompts of one batch must have equally many tokens; give them one by one")


@functools.partial(jax.jit, static_argnames=("cfg", "policy", "room", "chunk"))
def _read(
    p: Decoder,
    prompt: Int[Array, "B T"],
    starts: Int[Array, " B"] | None,
    tables: PositionTables,
    cfg: DecoderConfig,
    policy: Policy,
    room: int,
    chunk: int,
) -> Decoding:
    """The prompt read by `model.extend.extend_layers`, `chunk` tokens at once."""
    B, T = prompt.shape
    chunk = min(T, chunk)

    def read(cache: Any, tokens: Int[Array, "B C"]) -> tuple[Any, Float[Array, "B D"]]:
        x, cache = extend_layers(p, cache, tokens, tables, cfg)
        return cache, x[:, -1]

    first = T % chunk or chunk  # the odd ones, so that the last token is always in a chunk of the loop or alone
    cache = empty_cache(cfg, policy, B, room)
    if starts is not None:
        cache = replace(cache, starts=jnp.tile(place(starts, P("data"))[None], (cfg.layers, 1)))
    cache, last = read(cache, prompt[:, :first])
    if first < T:
        chunks = prompt[:, first:].reshape(B, -1, chunk, out_sharding=on_mesh(RESIDUAL))
        cache, each = jax.lax.scan(read, cache, jnp.swapaxes(chunks, 0, 1))
        last = each[-1]
    return Decoding(_rows(cache, cfg.layers), unembed(p, last[:, None], cfg)[:, 0])  # of one token, not of all that were read


def empty_cache(cfg: DecoderConfig, policy: Policy, batch: int, room: int) -> Any:
    """An empty cache of all layers: of `room` tokens where all of a text is remembered."""
    b = cfg.block
    sizes = cfg.layers, batch, b.kv_heads, b.head_dim
    if policy.window is None:
        return full_cache(*sizes, room=room, key_dim=2 * b.head_dim if b.polar else None, dtype=cfg.compute)
    values = {"initial_tokens": policy.initial_tokens, "window": policy.window, "reindexed": policy.reindexed}
    return ring_cache(*sizes, **values, dtype=cfg.compute)


def layers_of(p: Decoder, tables: PositionTables) -> tuple[Layer, ...]:
    """The layers by themselves. A loop over tokens would otherwise slice them out of the stacks at each token."""
    return _rows(Layer(blocks_of(p), tables), tables.window.shape[0])


@functools.partial(jax.jit, static_argnames="count")  # one program, not one for every shape
def _rows(stacked: Any, count: int) -> tuple[Any, ...]:
    return tuple(jax.tree.map(lambda leaf, n=n: leaf[n], stacked) for n in range(count))


@functools.partial(jax.jit, static_argnames=("count", "cfg"))
def decode(
    p: Decoder,
    layers: Sequence[Layer],
    text: Decoding,
    count: int,
    cfg: DecoderConfig,
    sampling: Sampling,
    key: Key[Array, ""],
) -> tuple[Int[Array, "B count"], Decoding]:
    """`count` more tokens and the text with them. The tokens do not depend on how many are decoded in one call.

    Where all of a text is remembered, the caller makes room.

    Args:
        p: weights.
        layers: those of `layers_of`.
        text: the text so far.
        count: number of tokens.
        cfg: the structure.
        sampling: how tokens are drawn.
        key: of the random numbers.
    """

    def next_token(text: Decoding, _: None) -> tuple[Decoding, Int[Array, " B"]]:
        token = draw_token(text.logits, sampling, jax.random.fold_in(key, text.caches[0].length))
        return step(p, layers, text, token, cfg), token

    text, tokens = jax.lax.scan(next_token, text, None, length=count)
    return jnp.swapaxes(tokens, 0, 1), text


def step(p: Decoder, layers: Sequence[Layer], text: Decoding, token: Int[Array, " B"], cfg: DecoderConfig) -> Decoding:
    """The text with one more token. Layers are unrolled, each with its cache."""
    x = embed_tokens(p, token[:, None], text.caches[0].length[None], cfg, text.caches[0].starts)
    caches: list[Cache | None] = []
    for layer, cache in zip(layers, text.caches, strict=True):
        context = Context(positions_of(layer.tables, cfg), cache=cache)
        x, _, cache = apply_block(layer.block, x, layer.tables, cfg.block, context)
        caches.append(cache)
    return Decoding(tuple(caches), unembed(p, x, cfg)[:, 0])
