"""Texts of an encoder–decoder by beam search, which is greedy with a width of 1.

Keys and values of the target are in a cache, and those of the source are computed once.
"""

import functools
from dataclasses import replace
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from leadline.model.cache.full import FullCache
from leadline.model.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, encode, rows_of
from leadline.model.extend import extend
from leadline.model.generate import Policy, empty_cache
from leadline.model.mesh import TEXTS, on_mesh, place
from leadline.model.positions.tables import PositionTables

Tree = TypeVar("Tree")
# α of the length penalty of Wu et al. 2016, as Vaswani et al. 2017 (section 6.1) take it.
LENGTH_PENALTY = 0.6


class Search(NamedTuple):
    """What a search is told besides the model: ids that begin and end a target, and its most tokens."""

    begin: int
    end: int
    tokens: int  # of a target, the ending one included


class Beams(NamedTuple):
    """W hypotheses for each source, the best first."""

    tokens: Int[Array, "B W count"]  # with its end; padding after it
    log_probability: Float[Array, "B W"]  # [nats]
    length: Int[Array, "B W"]  # tokens, the ending one included
    ended: Bool[Array, "B W"]


def penalised(
    log_probability: Float[Array, "*B"], length: Int[Array, "*B"], alpha: float | Float[Array, ""]
) -> Float[Array, "*B"]:
    """log P(Y | X) / lp(Y),  lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, arXiv:1609.08144, equation 14)."""
    return log_probability / ((5 + length.astype(jnp.float32)) / 6) ** alpha


@functools.partial(jax.jit, static_argnames=("cfg", "search", "width"))
def beam_search(
    p: EncoderDecoder,
    source: Int[Array, "B S"],
    tables: PositionTables,
    cfg: EncoderDecoderConfig,
    search: Search,
    *,
    width: int,
    alpha: float | Float[Array, ""] = LENGTH_PENALTY,
) -> Beams:
    """The W hypotheses of the highest penalised log-probability that a beam finds, the best first.

    At each step every hypothesis that has not ended goes on with every token, and the best W of all stay, by `penalised`. One
    that has ended keeps its place as long as it is among them.

    Args:
        p: weights.
        source: ids, with padding.
        tables: one row per layer, those of the encoder first.
        cfg: the structure.
        search: ids that begin and end a target, and its most tokens.
        width: W.
        alpha: α of `penalised`; 0 compares log-probabilities.

    Raises:
        ValueError: where targets end with padding.
    """
    if search.end == cfg.padding_id:
        raise ValueError(f"targets end with {search.end}, which is padding: no target could end")
    B, L = source.shape[0], cfg.encoder_layers
    memory = encode(p, source, rows_of(tables, 0, L), cfg)
    memory = _taken(memory, jnp.repeat(jnp.arange(B), width))
    cache = empty_cache(cfg, Policy(), B * width, search.tokens)

    def step(state: tuple[Beams, FullCache], at: Int[Array, ""]) -> tuple[tuple[Beams, FullCache], None]:
        beams, cache = state
        before = jnp.where(at == 0, search.begin, beams.tokens[:, :, at - 1]).reshape(-1, 1)
        logits, cache = extend(p, cache, place(before, TEXTS), rows_of(tables, L, L + cfg.layers), cfg, memory=memory)
        beams, hypothesis = _best(beams, _scores(logits[:, 0], beams.ended, cfg.padding_id), at, alpha)
        beams = beams._replace(ended=beams.ended | (beams.tokens[:, :, at] == search.end))
        rows = (jnp.arange(B)[:, None] * width + hypothesis).reshape(-1)
        return (beams, replace(cache, key=_taken(cache.key, rows), value=_taken(cache.value, rows))), None

    (beams, _), _ = jax.lax.scan(step, (_beginnings(B, width, search.tokens, cfg.padding_id), cache), jnp.arange(search.tokens))
    return beams


def _beginnings(sources: int, width: int, tokens: int, padding_id: int) -> Beams:
    """W equal hypotheses without tokens for each source, of which one counts."""
    return Beams(
        tokens=jnp.full((sources, width, tokens), padding_id),
        log_probability=jnp.broadcast_to(jnp.where(jnp.arange(width) == 0, 0.0, -jnp.inf)[None], (sources, width)),
        length=jnp.zeros((sources, width), jnp.int32),
        ended=jnp.zeros((sources, width), bool),
    )


def _scores(logits: Float[Array, "BW V"], ended: Bool[Array, "B W"], padding_id: int) -> Float[Array, "B W V"]:
    """Log-probabilities of the next token. What has ended goes on with padding, at no cost; nothing else does."""
    scores = jax.nn.log_softmax(place(logits, P(None, None))).reshape(*ended.shape, -1)
    is_padding = jnp.arange(scores.shape[-1]) == padding_id
    ended = ended[..., None]
    return jnp.where(ended == is_padding[None, None], jnp.where(ended, 0.0, scores), -jnp.inf)


def _best(
    beams: Beams, scores: Float[Array, "B W V"], at: Int[Array, ""], alpha: float | Float[Array, ""]
) -> tuple[Beams, Int[Array, "B W"]]:
    """The best W of all continuations, and the hypothesis that each continues.

    Args:
        beams: the hypotheses.
        scores: log-probabilities of the next token of each.
        at: its place.
        alpha: of `penalised`.
    """
    (B, W, V), length = scores.shape, jnp.where(beams.ended, beams.length, beams.length + 1)
    total = beams.log_probability[..., None] + scores
    ranked = penalised(total, jnp.broadcast_to(length[..., None], total.shape), alpha)
    _, chosen = jax.lax.top_k(ranked.reshape(B, W * V), W)
    hypothesis, token = chosen // V, chosen % V

    def of_chosen(x: Array) -> Array:
        return jnp.take_along_axis(x, hypothesis.reshape(B, W, *[1] * (x.ndim - 2)), axis=1)

    continued = Beams(
        tokens=of_chosen(beams.tokens).at[:, :, at].set(token),
        log_probability=jnp.take_along_axis(total.reshape(B, W * V), chosen, axis=1),
        length=of_chosen(length),
        ended=of_chosen(beams.ended),
    )
    return continued, hypothesis


def _taken(tree: Tree, rows: Int[Array, " rows"]) -> Tree:
    """Rows of the batch, the second axis of every array."""
    return jax.tree.map(lambda x: x.at[:, rows].get(out_sharding=on_mesh(jax.typeof(x).sharding.spec)), tree)
