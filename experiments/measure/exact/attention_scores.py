"""Scores and what softmax makes of them: exact numbers, computed by the attention that models run."""

import itertools
import math
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float
from scipy import special

from leadline.model.attention.attention import attend as attend_eagerly
from leadline.model.attention.mask import Mask
from leadline.model.attention.normalizers import Terms, softmax
from leadline.model.attention.scores import Scores

# The sink logit of each normalizer.
SINK_LOGITS = {"softmax": -math.inf, "off_by_one": 0.0}
# Of all keys alike.
LOGITS = (0.0, -20.0)
SHIFT = 5.0  # what is added to every logit
SEED, TOGETHER = 0, 512  # of the drawn queries and keys, and how many queries are in memory at a time
CHANNELS = 8  # of the queries, keys and values whose outputs are compared
attend = jax.jit(attend_eagerly)  # one operation after the other takes several times as long


def scales(head_dim: int) -> dict[str, float]:
    """Scales of scores by name: 1, and the default of attention."""
    return {"none": 1.0, "1/sqrt(d)": head_dim**-0.5}


def unmasked(keys: int) -> Mask:
    """The mask of queries after all keys, which sees each of them: attention without a causal mask."""
    return Mask(first_query=keys)


def attention_weights(
    q: Float[Array, "B T N H"], k: Float[Array, "B S K H"], mask: Mask = Mask(), scores: Scores = Scores()
) -> Float[np.ndarray, "B N T S"]:
    """The weights of attention: its output where the value of key j is the j-th unit vector."""
    values = jnp.broadcast_to(jnp.eye(k.shape[1])[None, :, None], (*k.shape[:3], k.shape[1]))
    return np.asarray(attend(q, k, values, mask, scores)[0], np.float64).swapaxes(1, 2)


def _unnormalised(scores: Float[Array, "*B S"], _sink_logit: Array) -> Terms:
    """Scores of visible keys as the weights."""
    ones, zeros = jnp.ones(scores.shape[:-1]), jnp.zeros(scores.shape[:-1])
    return Terms(scores, ones, zeros, ones)


def products(q: Float[Array, "B T H"], k: Float[Array, "B S H"], scale: float) -> Float[np.ndarray, "B T S"]:
    """The scores scale · q·k of attention without a mask."""
    raw = Scores(scale=scale, normalizer=Partial(_unnormalised))
    return attention_weights(q[:, :, None], k[:, :, None], unmasked(k.shape[1]), raw)[:, 0]


def score_variance(head_dim: int, scale: float) -> float:
    """Var(scale · q·k) over all pairs of vectors whose entries are -1 and 1: independent, of mean 0 and variance 1."""
    vectors = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=head_dim)), jnp.float32)
    return float(products(vectors[None], vectors[None], scale).var())


@jax.jit
def probabilities(logits: Float[Array, "*B S"]) -> Float[Array, "*B S"]:
    """The plain softmax."""
    terms = softmax(logits, jnp.asarray(-jnp.inf))
    return terms.numerators / terms.total[..., None]


def drawn(draws: int, keys: int, head_dim: int) -> Iterator[tuple[Float[Array, "B 1 H"], Float[Array, "B S H"]]]:
    """Standard normal queries, each with its keys, the same in every run, TOGETHER queries at a time."""
    random = np.random.default_rng(SEED)
    for first in range(0, draws, TOGETHER):
        normal = random.standard_normal((min(TOGETHER, draws - first), 1 + keys, head_dim), np.float32)
        yield jnp.asarray(normal[:, :1]), jnp.asarray(normal[:, 1:])


def weights_of_draws(draws: int, keys: int, head_dim: int) -> dict[str, Float[np.ndarray, "draws S"]]:
    """The weights that each query of `drawn` gives its keys, by scale."""
    parts = [
        {name: probabilities(jnp.asarray(products(q, k, scale)[:, 0])) for name, scale in scales(head_dim).items()}
        for q, k in drawn(draws, keys, head_dim)
    ]
    return {name: np.concatenate([part[name] for part in parts]).astype(np.float64) for name in scales(head_dim)}


def jacobian_norms(p: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B"]:
    """The Frobenius norm of diag(p) - p p^T, the Jacobian of softmax where it gives the weights p."""
    return np.linalg.norm(p[..., None] * (np.eye(p.shape[-1]) - p[..., None, :]), axis=(-2, -1))


def effective_keys(p: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B"]:
    """e^entropy: n for n keys of equal weight, 1 for a single key."""
    return np.exp(special.entr(p).sum(axis=-1))


def weights_of(logits: Sequence[float], sink_logit: float) -> Float[np.ndarray, " S"]:
    """The weights of keys whose scores are these logits."""
    k = jnp.asarray(logits, jnp.float32)[None, :, None, None]
    scores = Scores(scale=1.0, sink_logit=sink_logit)
    return attention_weights(jnp.ones((1, 1, 1, 1)), k, unmasked(len(logits)), scores)[0, 0, 0]


def changed_by_shift(keys: int, sink_logit: float) -> float:
    """The largest change of a weight when SHIFT is added to every logit."""
    logits = np.linspace(-1.0, 1.0, keys)
    return float(np.abs(weights_of([*(logits + SHIFT)], sink_logit) - weights_of([*logits], sink_logit)).max())


def waves(*shape: int, phase: float) -> Float[Array, "..."]:
    """Numbers in [-1, 1] that differ from entry to entry and are the same in every run: cos(phase + n²)."""
    return jnp.asarray(np.cos(phase + np.arange(math.prod(shape), dtype=np.float64) ** 2).reshape(shape), jnp.float32)


def prepended(keys: int) -> dict[str, float]:
    """How far outputs with a sink logit, or a key and value bias, are from those of softmax with one key more in front."""
    q, k, v = (waves(1, keys, 1, CHANNELS, phase=phase) for phase in (1.0, 2.0, 3.0))
    bias, value, zero = waves(1, CHANNELS, phase=4.0), waves(1, CHANNELS, phase=5.0), jnp.zeros((1, CHANNELS))
    cases = {
        "off by one against a key of zeros in front": (Scores(sink_logit=0.0), zero, zero),
        "biases against a key and a value in front": (Scores(sink_logit=0.0, key_bias=bias, value_bias=value), bias, value),
    }
    differences = {}
    for name, (scores, key, of_key) in cases.items():
        longer = (jnp.concatenate([first[None, None], x], axis=1) for first, x in ((key, k), (of_key, v)))
        ours, theirs = attend(q, k, v, scores=scores)[0], attend(q, *longer, Mask(first_query=1))[0]
        differences[name] = float(jnp.max(jnp.abs(ours - theirs)))
    return differences
