"""What a notebook asks of arrays and of texts, in one call each.

A function here puts together existing ones with defaults, and adds no mechanism of its own. The equations are in
`leadline.model.positions.rotation`, `leadline.experiments.config.scaling`, `leadline.model.attention.attention` and
`leadline.model.base_bound.bound`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.base import validated
from leadline.experiments.config.encoding import Heads
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import Dynamic, TextLengths
from leadline.experiments.data.text import tokenizers
from leadline.experiments.measure.bound import search, start
from leadline.experiments.runtime.errors import UserError
from leadline.model.attention import attention as model_attention
from leadline.model.attention.attention import AttentionStatistics
from leadline.model.attention.mask import NO_WINDOW, Mask
from leadline.model.attention.scores import Scores
from leadline.model.base_bound.bound import bound_of
from leadline.model.positions.rotation import rotate, rotation_of
from leadline.tokenization.formats.fast import accelerate
from leadline.tokenization.formats.saving import save
from leadline.tokenization.tokenizer import Tokenizer

# Compiled for each shape: op by op, the first call takes three times and the next ones ten times as long.
_attention = jax.jit(model_attention.attention)


def rope(
    x: Float[Array | np.ndarray, "..."],
    positions: Int[Array | np.ndarray, "..."] | None = None,
    *,
    base: float = 10_000.0,
    scaling: str | Mapping[str, Any] | None = None,
    factor: float | None = None,
    trained_length: int | None = None,
    interleaved: bool = False,
) -> Float[Array, "*B T N H"]:
    """Rotates queries or keys by their positions: RoPE (Su et al. 2021, arXiv:2104.09864).

        (x_a, x_b) → A · (x_a cos θ - x_b sin θ, x_a sin θ + x_b cos θ),      θ = position · w_i [rad],   w_i = base^(-2i/H)

    A scaling gives other frequencies w and an amplitude A. Tokens stand before heads: torch's [B, N, T, H] is rotated as
    `rope(x.swapaxes(-3, -2)).swapaxes(-3, -2)`.

    Args:
        x: queries or keys [..., T, N, H].
        positions: [T], in tokens; 0 … T - 1 where it is absent.
        base: b. Models that were trained with another base need theirs.
        scaling: a context extension as in the TOML of a study: "pi", "ntk", "ntk_by_parts", "yarn", "llama3", "dynamic_ntk",
            "dynamic_yarn", or a table with further keys such as `{"kind": "yarn", "factor": 8.0, "beta_fast": 16.0}`.
        factor: by which the context grows.
        trained_length: the training length [tokens] that a scaling is relative to, where its table has no `original_length`.
        interleaved: whether pair i is the channels (2i, 2i + 1), as in the paper, instead of (i, i + H/2), as in most models.

    Returns:
        The rotated x, computed in float32, in x's type.

    Raises:
        UserError: for arrays of other shapes, and for a scaling that is unknown, lacks something or does not fit the head.
        ValueError: for an odd head dimension or a base that is not positive.

    Examples:
        >>> import jax.numpy as jnp, leadline
        >>> q = jnp.ones((2, 16, 4, 8))
        >>> leadline.rope(q, base=500_000.0).shape
        (2, 16, 4, 8)
        >>> step = leadline.rope(q, jnp.arange(16) + 1)  # the scores depend on distances only
        >>> scores = [jnp.einsum("BTNH,BSNH->BNTS", x, x) for x in (leadline.rope(q), step)]
        >>> bool(jnp.allclose(*scores, atol=1e-5))
        True
        >>> extended = leadline.rope(q, scaling="yarn", factor=8.0, trained_length=2048)
    """
    x = jnp.asarray(x)
    if x.ndim < 3:
        raise UserError(f"rope takes [..., T, N, H], tokens before heads, not {x.shape}; x[:, None] of one head has N = 1")
    tokens, *heads = x.shape[-3:]
    i = jnp.arange(tokens) if positions is None else jnp.asarray(positions)
    if i.shape != (tokens,):
        raise UserError(f"rope takes a position for each of the {tokens} tokens of {x.shape}, [T], not {i.shape}")
    table = {"kind": scaling or "none"} if scaling is None or isinstance(scaling, str) else dict(scaling)
    table |= {} if factor is None else {"factor": factor}
    position = validated(Rope, {"base": base, "scaling": table, "interleaved": interleaved}, "rope")
    for misfit in position.misfits(Heads(*heads)):
        raise UserError(f"rope: {misfit}")
    text = tokens if positions is None or not isinstance(position.scaling, Dynamic) else 1 + int(jnp.max(i))
    rows = position.rows(Heads(*heads), TextLengths(_trained(position, trained_length, text), text))
    rotation = rotation_of(i, rows["inverse_frequencies"], rows["attention_factor"])
    return rotate(x.reshape(-1, tokens, *heads), rotation, interleaved=interleaved).reshape(x.shape)


def _trained(position: Rope, trained_length: int | None, text: int) -> int:
    """The training length that the scaling is relative to; `text` where it is relative to none.

    Raises:
        UserError: where it is not said, and for a scaling that gives every query or token a table of its own.
    """
    settings = position.scaling.model_dump()
    if position.table_per != "sequence":
        raise UserError(f"rope: one table rotates all of a text, and per = {settings['per']!r} has one for each: leave per out")
    length = settings.get("original_length", text) or trained_length
    if length is None:
        raise UserError(f"rope: scaling {settings['kind']!r} is relative to the training length: give trained_length")
    return length


def attention(
    q: Float[Array | np.ndarray, "..."],
    k: Float[Array | np.ndarray, "..."],
    v: Float[Array | np.ndarray, "..."],
    *,
    sink_logit: float | Float[Array | np.ndarray, "..."] = -jnp.inf,
    slopes: float | Float[Array | np.ndarray, "..."] = 0.0,
    window: int | Int[Array, ""] | None = None,
    initial_tokens: int | Int[Array, ""] = 0,
) -> tuple[Float[Array, "*B T N Hv"], AttentionStatistics]:
    """Causal softmax attention with a sink logit, ALiBi and a window, in memory linear in T.

        o_i = Σ_j p_ij v_j,      p_ij = e^(s_ij) / (e^b + Σ_j' e^(s_ij')),      s_ij = q_i·k_j / sqrt(H) - slope · (i - j)

    Query i sees the keys j <= i with i - j < window or j < initial_tokens. Positions are up to the caller: rotate q and k by
    `rope`, or give slopes.

    Args:
        q: queries [..., T, N, H].
        k: keys [..., T, K, H]; query head n reads key head n // (N / K).
        v: values [..., T, K, Hv].
        sink_logit: b, one number or one a head [N]: -inf is the plain softmax, 0 is softmax-off-by-one.
        slopes: of ALiBi, one number or one a head [N] (`alibi_slopes`).
        window: number of newest keys that a query sees, itself included; None is all.
        initial_tokens: number of first keys that every query sees besides (StreamingLLM).

    Returns:
        The output in v's type, and statistics of p, float32, without a T × T matrix: `first`, the attention to the first token
        [..., N, T]; `sink`, the probability of the sink logit [..., N, T]; `entropy` [nats] [..., N, T]; `received`, the sum
        over queries for each key [..., N, T]. Under jit, those that are not used are not computed.

    Raises:
        UserError: for arrays whose shapes do not agree.

    Examples:
        >>> import jax, leadline
        >>> q, k, v = jax.random.normal(jax.random.key(0), (3, 16, 4, 8))  # tokens, heads, channels
        >>> output, statistics = leadline.attention(q, k, v, slopes=leadline.alibi_slopes(4), window=8)
        >>> output.shape, statistics.received.shape
        ((16, 4, 8), (4, 16))
        >>> _, off_by_one = leadline.attention(q, k, v, sink_logit=0.0)
        >>> bool((off_by_one.sink > 0).all())
        True
    """
    q, k, v = (jnp.asarray(x) for x in (q, k, v))
    shapes = q.shape, k.shape, v.shape
    agree = all(len(shape) >= 3 and shape[:-2] == q.shape[:-2] for shape in shapes)
    if not agree or k.shape[-1] != q.shape[-1] or k.shape[-2] != v.shape[-2] or q.shape[-2] % k.shape[-2]:
        raise UserError(
            "attention takes q [..., T, N, H], k [..., T, K, H] and v [..., T, K, Hv], tokens before heads, where K divides N; "
            f"not {', '.join(map(str, shapes))}"
        )
    for name, value in (("sink_logit", sink_logit), ("slopes", slopes)):
        if np.shape(value) not in ((), (q.shape[-2],)):
            raise UserError(f"{name} {list(np.shape(value))}: give one number, or one for each of the {q.shape[-2]} heads")
    if isinstance(window, int) and window < 1:
        raise UserError(f"window = {window}: a query sees at least itself; give 1 or more, or None for all keys")
    mask = Mask(NO_WINDOW if window is None else window, initial_tokens)
    scores = Scores(sink_logit=jnp.asarray(sink_logit, jnp.float32), slopes=jnp.asarray(slopes, jnp.float32))
    leading = q.shape[:-3]
    q, k, v = (x.reshape(-1, *x.shape[-3:]) for x in (q, k, v))
    results = _attention(q, k, v, mask, scores)
    return jax.tree.map(lambda leaf: leaf.reshape(*leading, *leaf.shape[1:]), results)


def base_bound(head_dim: int, length: int) -> float:
    """The smallest RoPE base b that is feasible for a context: B_m(b) >= 0 at every distance 0 <= m < length.

        B_m(b) = Σ_i cos(m b^(-2i/d)),      i = 0 … d/2 - 1

    Men et al. 2024, arXiv:2405.14591: below it, a query can attend less to a similar key than to a random one. The search is
    exact (leadline.model.base_bound.bound); larger bases are feasible except in a few gaps, which `leadline bound` lists.

    Args:
        head_dim: d, channels that RoPE rotates.
        length: of the context [tokens].

    Returns:
        The infimum of the feasible bases; infinity where there is none (head dimension 2).

    Raises:
        UserError: for an odd head dimension or a length below 1.

    Examples:
        >>> round(leadline.base_bound(head_dim=64, length=1024))
        7753
    """
    return bound_of(search(start(head_dim, length, 1), length)).infimum


def tokenizer(name: str | Path) -> Tokenizer:
    """Opens a tokenizer, whose `encode` turns text into ids and whose `decode` turns ids into bytes.

    Args:
        name: byte; tiktoken:NAME, as in tiktoken:cl100k_base, which the package tiktoken downloads; a rank file (.tiktoken); a
            SentencePiece model (.model); a tokenizer.json; or a folder with one, or that `save_tokenizer` or a run wrote.

    Raises:
        UserError: for a tokenizer that does not exist, is damaged or cannot be downloaded.

    Examples:
        >>> byte = leadline.tokenizer("byte")
        >>> byte.decode(byte.encode("Senkblei")).decode()
        'Senkblei'
    """
    return tokenizers.open_tokenizer(str(name))


def train_tokenizer(texts: Iterable[str], kind: str = "bpe", vocabulary: int = 8192, **settings: Any) -> Tokenizer:
    """Trains a tokenizer.

    Args:
        texts: documents.
        kind: bpe, wordpiece, unigram, word or character.
        vocabulary: ids, specials included.
        **settings: of the kind, as in the TOML of a study: `pattern="gpt2"`, `normalization=["lower"]`, `criterion="ratio"`.

    Raises:
        UserError: for an unknown kind or setting, and for texts that cannot fill the vocabulary.

    Examples:
        >>> bpe = leadline.train_tokenizer(["low lower lowest " * 9, "new newer newest " * 9], vocabulary=266)
        >>> [bpe.token_bytes(token) for token in bpe.encode("lowest").tolist()]
        [b'lo', b'we', b'st']
    """
    if isinstance(texts, str):
        raise UserError("train_tokenizer takes documents: put this one text into a list")
    try:
        return accelerate(tokenizers.train_tokenizer(tokenizers.configured(kind, vocabulary, settings), texts))
    except ValueError as error:
        raise UserError(f"train_tokenizer: {error}") from error


def save_tokenizer(tokenizer: Tokenizer, folder: str | Path) -> None:
    """Writes a tokenizer to a folder, for `tokenizer` and for `leadline tokens --tokenizer`.

    Raises:
        OSError: where the folder cannot be written.
    """
    save(tokenizer, Path(folder))
