"""`leadline.rope`, `leadline.attention` and their like are the functions of the model with defaults."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import leadline
from leadline.model.attention import attention as model_attention
from leadline.model.attention.mask import Mask
from leadline.model.attention.scores import Scores
from leadline.model.base_bound.sums import violations
from leadline.model.positions import frequencies, yarn
from leadline.model.positions.rotation import rotate, rotation_of
from tests.model.naive import naive_attention, numbers, random_heads

T, N, H = 12, 4, 8
X = numbers(0, 2, T, N, H)
Q, K, V = random_heads(1, 2, T, N, 2, H)
YARN = {"scaling": "yarn", "factor": 4.0, "trained_length": 6}


def rotated(table: np.ndarray, factor: float = 1.0, positions: Any = None, **options: bool) -> np.ndarray:
    i = jnp.arange(T) if positions is None else positions
    return np.asarray(rotate(X, rotation_of(i, table, factor), **options))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, lambda: rotated(frequencies.inverse_frequencies(H, 10_000.0))),
        ({"base": 100.0, "interleaved": True}, lambda: rotated(frequencies.inverse_frequencies(H, 100.0), interleaved=True)),
        ({"scaling": "pi", "factor": 2.0}, lambda: rotated(frequencies.position_interpolation(H, 10_000.0, 2.0))),
        (YARN, lambda: rotated(yarn.yarn(H, 10_000.0, 4.0, 6), yarn.yarn_attention_factor(4.0))),
        (
            {"scaling": {"kind": "yarn", "factor": 4.0, "original_length": 6, "ramp": "rotations"}},
            lambda: rotated(yarn.yarn(H, 10_000.0, 4.0, 6, ramp="rotations"), yarn.yarn_attention_factor(4.0)),
        ),
        (
            {"scaling": "dynamic_ntk", "trained_length": 6},
            lambda: rotated(frequencies.dynamic_ntk(H, 10_000.0, 1.0, 6, T)),
        ),
        (
            {"scaling": "dynamic_ntk", "trained_length": 6, "positions": np.arange(T) + 12},
            lambda: rotated(frequencies.dynamic_ntk(H, 10_000.0, 1.0, 6, T + 12), positions=jnp.arange(T) + 12),
        ),
    ],
)
def test_rope_is_the_rotation_by_the_table(arguments: dict[str, Any], expected: Callable[[], np.ndarray]) -> None:
    np.testing.assert_allclose(leadline.rope(X, **arguments), expected(), atol=1e-6)


def test_rope_takes_any_leading_axes_and_types() -> None:
    whole = leadline.rope(X)
    np.testing.assert_array_equal(leadline.rope(np.asarray(X[0])), whole[0])
    np.testing.assert_array_equal(leadline.rope(X[:, None]), whole[:, None])
    assert leadline.rope(X.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_rope_can_be_compiled_and_differentiated() -> None:
    def total(x: jax.Array, i: jax.Array) -> jax.Array:
        return jnp.sum(leadline.rope(x, i, **YARN) ** 2)

    gradient = jax.jit(jax.grad(total))(X, jnp.arange(T))
    np.testing.assert_allclose(gradient, 2 * X * yarn.yarn_attention_factor(4.0) ** 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        ((T, H), {}, r"rope takes \[..., T, N, H\], tokens before heads, not \(12, 8\)"),
        ((T, N, H), {"positions": jnp.arange(3)}, r"a position for each of the 12 tokens of \(12, 4, 8\), \[T\], not \(3,\)"),
        ((T, N, H), {"scaling": "yarm", "factor": 2.0}, "rope: scaling.kind = 'yarm': unknown; did you mean 'yarn'"),
        ((T, N, H), {"scaling": "yarn", "trained_length": 6}, "rope: scaling.factor: this key is required"),
        ((T, N, H), {"scaling": "yarn", "factor": 2.0}, "'yarn' is relative to the training length: give trained_length"),
        ((T, N, H), {"factor": 2.0}, "rope: scaling.factor: unknown key"),
        ((T, N, H), {"base": 0.5, **YARN}, "rope: YaRN and NTK-by-parts need a RoPE base above 1"),
        ((T, N, H), {"scaling": {"kind": "dynamic_ntk", "per": "query"}}, "per = 'query' has one for each: leave per out"),
    ],
)
def test_what_rope_cannot_rotate_is_said(shape: tuple[int, ...], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(leadline.UserError, match=message):
        leadline.rope(jnp.ones(shape), **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"sink_logit": 0.0},
        {"sink_logit": np.array([-1.0, 0.0, 1.0, -np.inf]), "slopes": leadline.alibi_slopes(N)},
        {"window": 3, "initial_tokens": 2},
    ],
)
def test_attention_is_that_of_the_model(arguments: dict[str, Any]) -> None:
    mask = Mask(**{name: arguments[name] for name in Mask._fields if name in arguments})
    values: dict[str, Any] = {name: np.asarray(arguments[name], np.float32) for name in Scores._fields if name in arguments}
    naive = naive_attention(Q, K, V, mask, Scores(**values))
    output, statistics = leadline.attention(Q, K, V, **arguments)
    np.testing.assert_allclose(output, naive.output, atol=1e-5)
    np.testing.assert_allclose(statistics.first, naive.probabilities[..., 0], atol=1e-5)
    np.testing.assert_allclose(statistics.received, naive.probabilities.sum(axis=2), atol=1e-5)
    np.testing.assert_allclose(statistics.sink, naive.sink, atol=1e-5)


def test_attention_takes_one_text_and_stacks_of_batches() -> None:
    whole = leadline.attention(Q, K, V)
    first_text = leadline.attention(*(np.asarray(x[0]) for x in (Q, K, V)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b[0], atol=1e-6), first_text, whole)
    stacked = leadline.attention(*(x[:, None] for x in (Q, K, V)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b[:, None], atol=1e-6), stacked, whole)


def test_attention_takes_values_that_are_traced() -> None:
    compiled = jax.jit(lambda window, logit: leadline.attention(Q, K, V, window=window, sink_logit=logit)[0])
    expected, _ = model_attention.attention(Q, K, V, Mask(5), Scores(sink_logit=1.0))
    np.testing.assert_allclose(compiled(jnp.int32(5), jnp.float32(1.0)), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("shapes", "arguments", "message"),
    [
        (((T, H), (T, H), (T, H)), {}, r"attention takes q \[..., T, N, H\].*not \(12, 8\)"),
        (((T, 4, H), (T, 3, H), (T, 3, H)), {}, "where K divides N"),
        (((T, 4, H), (9, 4, H), (9, 4, H)), {}, r"not \(12, 4, 8\), \(9, 4, 8\), \(9, 4, 8\)"),
        (((T, 4, H), (T, 4, H), (T, 2, H)), {}, r"not \(12, 4, 8\), \(12, 4, 8\), \(12, 2, 8\)"),
        (((T, 4, H),) * 3, {"window": 0}, "window = 0: a query sees at least itself"),
        (((T, 4, H),) * 3, {"slopes": jnp.ones(3)}, r"slopes \[3\]: give one number, or one for each of the 4 heads"),
    ],
)
def test_what_attention_cannot_attend_is_said(shapes: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(leadline.UserError, match=message):
        leadline.attention(*(jnp.ones(shape) for shape in shapes), **arguments)


def test_the_base_bound_is_the_first_feasible_base() -> None:
    base = leadline.base_bound(32, 256)
    assert violations(frequencies.inverse_frequencies(32, base * 1.000001), 256) is None
    assert violations(frequencies.inverse_frequencies(32, base * 0.999), 256) is not None
    with pytest.raises(leadline.UserError, match="head dim must be even"):
        leadline.base_bound(3, 256)


def test_a_tokenizer_is_trained_saved_and_opened(tmp_path: Path) -> None:
    texts = ["low lower lowest", "new newer newest"] * 20
    trained = leadline.train_tokenizer(texts, "bpe", 270, pattern="gpt2", normalization=["lower"])
    leadline.save_tokenizer(trained, str(tmp_path / "bpe"))
    opened = leadline.tokenizer(tmp_path / "bpe")
    assert opened.digest() == trained.digest()
    assert opened.decode(opened.encode("LOWEST")) == b"lowest"


def test_the_settings_of_a_tokenizer_are_taken_as_they_are() -> None:
    trained = leadline.train_tokenizer(["a\U0001f600b"] * 3, "word", 8, pattern="[ab]|\U0001f600")
    assert trained.decode(trained.encode("b\U0001f600")).decode() == "b \U0001f600"  # words with blanks between them


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: leadline.train_tokenizer("low lower"), "put this one text into a list"),
        (lambda: leadline.train_tokenizer(["low"], "bpy"), "kind = 'bpy'"),
        (lambda: leadline.train_tokenizer(["low"], "bpe", patern="gpt2"), "patern"),
        (lambda: leadline.tokenizer("nowhere"), "'nowhere' is no tokenizer"),
    ],
)
def test_what_is_no_tokenizer_is_said(call: Callable[[], object], message: str) -> None:
    with pytest.raises(leadline.UserError, match=message):
        call()
