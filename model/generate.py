"""Text from a decoder, token by token in one program. What is drawn depends on a key and the place of the token alone."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, Key

from model.block import Block, apply_block, turn
from model.blocks import heads
from model.cache import Cache, empty_cache
from model.decoder import Decoder, DecoderConfig, check_stream, decoded, embedded, extend, positions_of
from model.positions.tables import NO_WINDOW, PositionTables
from model.rolling import Rolling, places
from model.streaming import Stream, empty_stream

# Tokens of a prompt that are read at once.
CHUNK = 256


@dataclass(frozen=True)
class Policy:
    """What decoding remembers: the `window` newest tokens (None: all of a text for which there is room), and the first `kept`.

    Kept tokens are StreamingLLM (Xiao et al. 2024, arXiv:2309.17453), with positions inside the cache if `reindexed`, else
    with those of the text. ValueError for a window below 1, and for kept tokens without one.
    """

    window: int | None = None
    kept: int = 0
    reindexed: bool = True

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"a window of {self.window} tokens does not even hold the newest one: take 1 or more")
        if self.kept < 0 or (self.kept and self.window is None):
            raise ValueError(f"{self.kept} kept tokens: take 0 or more, and give the window behind which others are forgotten")


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Sampling:
    """How a token is drawn from the softmax of scores / temperature: values, so that one program serves all of them."""

    temperature: Float[Array, ""]  # 0 takes the most likely token
    top_k: Int[Array, ""]  # of so many most likely tokens
    top_p: Float[Array, ""]  # of the fewest most likely tokens that have so much of the probability (Holtzman et al. 2020)


@no_type_check
@struct.dataclass
class Layer:
    """One layer by itself."""

    block: Block
    tables: PositionTables


@no_type_check
@struct.dataclass
class Decoding:
    """A text so far: what each layer remembers of it, and the scores of the token that comes next."""

    memory: tuple[Rolling, ...]
    scores: Float[Array, "B V"]


def sampling(temperature: float = 0.0, top_k: int | None = None, top_p: float = 1.0) -> Sampling:
    """`top_k` None is all tokens. ValueError for what is out of range."""
    if not (0 <= temperature < np.inf and 0 < top_p <= 1 and (top_k is None or top_k >= 1)):
        raise ValueError(
            f"temperature {temperature}, top_k {top_k}, top_p {top_p}: give 0 or more, 1 or more, and a part of 1 above 0"
        )
    most = NO_WINDOW if top_k is None else top_k
    return Sampling(jnp.float32(temperature), jnp.int32(most), jnp.float32(top_p))


def generate(
    p: Decoder,
    prompt: Int[Array, "B T"],
    count: int,
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    policy: Policy,
    drawn: Sampling,
    key: Key[Array, ""],
) -> Int[Array, "B count"]:
    """`count` tokens behind a prompt. Raises what `begin` does. Needs a mesh."""
    text = begin(p, prompt, tables, cfg, policy, prompt.shape[1] + count)
    return decode(p, layers_of(p, tables), text, count, cfg, drawn, key)[0]


def begin(
    p: Decoder, prompt: Int[Array, "B T"], tables: PositionTables, cfg: DecoderConfig, policy: Policy, room: int
) -> Decoding:
    """The prompt read, CHUNK tokens at once, by `model.decoder.extend`. Needs a mesh.

    `room` is the length to which the text may grow where all of it is remembered; beyond it the oldest tokens are forgotten.
    Not under jit itself: it looks at the tables. ValueError for an empty prompt or one without room, for a model that turns
    all keys anew for each query, for learned positions that end before the room does, and, where tokens are forgotten, for a
    model that cannot be streamed.
    """
    _check(p, prompt, tables, cfg, policy, room)
    return _read(p, prompt, tables, cfg, policy, room)


def _check(
    p: Decoder, prompt: Int[Array, "B T"], tables: PositionTables, cfg: DecoderConfig, policy: Policy, room: int
) -> None:
    if not prompt.shape[1]:
        raise ValueError("an empty prompt: there is no token to begin with")
    if policy.window is not None:
        check_stream(p, cfg)
        if np.any(np.asarray(tables.decay)):
            raise ValueError("a model with xPos cannot be streamed: its keys grow without end; take rope, alibi or nope")
        return
    if prompt.shape[1] > room:
        raise ValueError(f"a prompt of {prompt.shape[1]} tokens does not fit into room for {room}")
    if cfg.block.table_per == "query":
        raise ValueError("each query of this model turns all keys anew: decode with model.decoder.extend, or with a scaling")


@functools.partial(jax.jit, static_argnames=("cfg", "policy", "room"))
def _read(
    p: Decoder, prompt: Int[Array, "B T"], tables: PositionTables, cfg: DecoderConfig, policy: Policy, room: int
) -> Decoding:
    (B, T), b = prompt.shape, cfg.block
    chunk = min(T, CHUNK)
    if policy.window is None:
        memory = empty_cache(cfg.layers, B, room, b.kv_heads, b.head_dim, cfg.compute)
    else:
        own = {"kept": policy.kept, "window": policy.window, "reindexed": policy.reindexed}
        sizes = {"room": max(policy.kept, 1), "at_once": chunk, "widest": policy.window, "dtype": cfg.compute}
        memory = empty_stream(cfg.layers, B, b.kv_heads, b.head_dim, **own, **sizes)

    def read(memory: Any, tokens: Int[Array, "B C"]) -> tuple[Any, Float[Array, "B V"]]:
        scores, memory = extend(p, memory, tokens, tables, cfg)
        return memory, scores[:, -1]

    first = T % chunk or chunk  # the odd ones, so that the last token is always in a chunk of the loop or alone
    memory, scores = read(memory, prompt[:, :first])
    if first < T:
        chunks = prompt[:, first:].reshape(B, -1, chunk, out_sharding=P("data", None, None))
        memory, found = jax.lax.scan(read, memory, jnp.swapaxes(chunks, 0, 1))
        scores = found[-1]
    slots = room if policy.window is None else policy.kept + policy.window
    rolled = [_rolled(own, layer, cfg, policy, slots) for own, layer in zip(_rows(memory), layers_of(p, tables), strict=True)]
    return Decoding(tuple(rolled), scores)


def _rolled(own: Cache | Stream, layer: Layer, cfg: DecoderConfig, policy: Policy, slots: int) -> Rolling:
    """What one layer remembers, its keys turned, in its slots."""
    furthest = own.furthest if isinstance(own, Stream) else jnp.int32(NO_WINDOW)
    B, _, K, H = own.key.shape
    empty = jnp.zeros((B, K, slots, H), own.key.dtype, out_sharding=heads(4))
    rolling = Rolling(empty, empty, own.length, furthest, policy.kept)
    at = jnp.maximum(places(rolling, own.length), 0)  # what is not there yet holds anything: nothing sees it

    def entries(newest: Float[Array, "B R K H"], first: Float[Array, "B F K H"] | None) -> Float[Array, "B S K H"]:
        if first is None:
            return newest
        ring = newest[:, jnp.clip(at[policy.kept :] - own.length + newest.shape[1], 0, newest.shape[1] - 1)]
        return jnp.concatenate([first[:, : policy.kept], ring], axis=1)

    stream = isinstance(own, Stream)
    keys = entries(own.key, own.first_key if stream else None).astype(cfg.compute)
    values = entries(own.value, own.first_value if stream else None)
    positions = positions_of(slots, layer.tables, cfg)[at] if cfg.grid else _as_text(at, layer.tables)
    keys = turn(layer.block, keys, at, positions, layer.tables, "key", cfg.block).astype(own.key.dtype)
    keys, values = (jax.reshard(jnp.swapaxes(x, 1, 2), heads(4)) for x in (keys, values))
    return Rolling(keys, values, own.length, furthest, policy.kept)


def _as_text(at: Int[Array, " T"], tables: PositionTables) -> Int[Array, "T coordinates"]:
    return jnp.tile(at[:, None], (1, tables.frequencies.units.shape[-2]))


def _rows(stacked: Cache | Stream) -> list[Cache | Stream]:
    return [jax.tree.map(lambda leaf, n=n: leaf[n], stacked) for n in range(stacked.length.shape[0])]


def layers_of(p: Decoder, tables: PositionTables) -> tuple[Layer, ...]:
    """The rows of the stacks. A loop over tokens takes them one by one: it would cut them out of the stacks at each token."""
    count = tables.window.shape[0]
    return tuple(jax.tree.map(lambda leaf, n=n: leaf[n], Layer(p.blocks, tables)) for n in range(count))


@functools.partial(jax.jit, static_argnames=("count", "cfg"))
def decode(
    p: Decoder,
    layers: Sequence[Layer],
    text: Decoding,
    count: int,
    cfg: DecoderConfig,
    drawn: Sampling,
    key: Key[Array, ""],
) -> tuple[Int[Array, "B count"], Decoding]:
    """`count` more tokens and the text with them: those of one call are those of several. `layers` are those of `layers_of`.

    Where all of a text is remembered, the caller sees to it that there is room. Needs a mesh.
    """

    def one(text: Decoding, _: None) -> tuple[Decoding, Int[Array, " B"]]:
        token = draw_token(text.scores, drawn, jax.random.fold_in(key, text.memory[0].length))
        return step(p, layers, text, token, cfg), token

    text, tokens = jax.lax.scan(one, text, None, length=count)
    return jnp.swapaxes(tokens, 0, 1), text


def step(p: Decoder, layers: Sequence[Layer], text: Decoding, token: Int[Array, " B"], cfg: DecoderConfig) -> Decoding:
    """The text with one more token. Layers are unrolled, each with a memory of its own."""
    place = text.memory[0].length
    x = embedded(p, token[:, None], place[None], cfg)
    remembered = []
    for layer, own in zip(layers, text.memory, strict=True):
        at = jnp.stack([place, jnp.minimum(place, own.furthest)])
        slots = own.key.shape[2]
        positions = positions_of(slots, layer.tables, cfg)[at] if cfg.grid else _as_text(at, layer.tables)
        x, _, later = apply_block(layer.block, x, layer.tables, positions, cfg.block, cache=own)
        remembered.append(later)
    return Decoding(tuple(remembered), decoded(p, x)[:, 0])


def draw_token(scores: Float[Array, "B V"], drawn: Sampling, key: Key[Array, ""]) -> Int[Array, " B"]:
    """One token a row: the most likely one, the first of equals, at temperature 0."""
    scores = jax.reshard(scores, P(None, None))
    token = jax.lax.cond(drawn.temperature > 0, lambda: _sampled(scores, drawn, key), lambda: _largest(scores))
    return jax.reshard(token, P("data"))


def _largest(scores: Float[Array, "B V"]) -> Int[Array, " B"]:
    """argmax, as two reductions: XLA's CPU back end takes six times as long for that of a pair."""
    V = scores.shape[1]
    is_largest = scores == jnp.max(scores, axis=1, keepdims=True)
    return jnp.min(jnp.where(is_largest, jnp.arange(V, dtype=jnp.int32)[None], V - 1), axis=1)


def _sampled(scores: Float[Array, "B V"], drawn: Sampling, key: Key[Array, ""]) -> Int[Array, " B"]:
    """From the top k, and of these from the smallest set whose probability reaches p; equals of the last one are in it."""
    scores = scores / drawn.temperature
    ranked = -jnp.sort(-scores, axis=1)
    rank = jnp.arange(scores.shape[1])[None]
    shares = jax.nn.softmax(jnp.where(rank < drawn.top_k, ranked, -jnp.inf), axis=1)
    before = jnp.cumsum(shares, axis=1) - shares
    least = jnp.min(jnp.where((rank < drawn.top_k) & (before < drawn.top_p), ranked, jnp.inf), axis=1, keepdims=True)
    return jax.random.categorical(key, jnp.where(scores >= least, scores, -jnp.inf), axis=1).astype(jnp.int32)
