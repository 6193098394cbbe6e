"""Attention against torch's scaled_dot_product_attention and transformers' GPT-OSS, in value and gradient."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

from leadline.model.attention.attention import attention
from leadline.model.positions.alibi import alibi_slopes
from tests.model.naive import arguments, random_heads
from tests.oracles.compare import assert_value_and_gradients, to_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]


class Shape(NamedTuple):
    batch: int
    tokens: int
    groups: int
    shared: int  # query heads a key/value head
    size: int
    window: int
    alibi: bool
    padding: str
    seed: int

    @property
    def heads(self) -> int:
        return self.groups * self.shared

    def qkv(self) -> tuple[jax.Array, ...]:
        return random_heads(self.seed, self.batch, self.tokens, self.heads, self.groups, self.size)

    def slopes(self) -> np.ndarray:
        return alibi_slopes(self.heads).astype(np.float32) if self.alibi else np.zeros(self.heads, np.float32)

    def real(self) -> np.ndarray:
        """[B, T]: which tokens are no padding."""
        real = np.ones((self.batch, self.tokens), bool)
        some = self.tokens // 3
        if self.padding == "left":
            real[0, :some] = False
        if self.padding == "right":
            real[-1, self.tokens - some :] = False
        return real

    def bias(self) -> np.ndarray:
        """[B, N, T, S]: 0 or ALiBi where a key is visible, else -inf. A row that sees nothing sees all: torch gives NaN."""
        distance = np.arange(self.tokens)[:, None] - np.arange(self.tokens)[None, :]
        visible = ((distance >= 0) & (distance < self.window))[None, None] & self.real()[:, None, None, :]
        visible = visible | ~visible.any(axis=-1, keepdims=True)
        return np.where(visible, -self.slopes()[None, :, None, None].astype(np.float64) * distance, -np.inf)

    def arguments(self, **more: Any) -> dict[str, Any]:
        slopes, padding = jnp.asarray(self.slopes()), jnp.asarray(self.real())
        return arguments(slopes=slopes, window=self.window, padding=padding, **more)

    def weights(self) -> jax.Array:
        """Random where a query is real, 0 where it is padding: there we give zeros and torch does not."""
        w = np.random.default_rng(self.seed + 1).standard_normal((self.batch, self.tokens, self.heads, self.size))
        return jnp.asarray(w * self.real()[:, :, None, None], jnp.float32)


SHAPES = st.builds(
    Shape,
    batch=st.integers(1, 2),
    tokens=st.sampled_from([1, 5, 32, 129, 200]),
    groups=st.integers(1, 3),
    shared=st.integers(1, 3),
    size=st.sampled_from([2, 4, 16]),
    window=st.sampled_from([1, 3, 50, 2**30]),
    alibi=st.booleans(),
    padding=st.sampled_from(["none", "left", "right"]),
    seed=st.integers(0, 1000),
)
random_shapes = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
LOOPED = Shape(1, 1100, 1, 2, 4, 300, True, "right", 0)


def torch_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: np.ndarray) -> torch.Tensor:
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    return scaled_dot_product_attention(*heads_first, attn_mask=to_torch(bias), enable_gqa=True).transpose(1, 2)


def check_plain(shape: Shape) -> None:
    bias = shape.bias()
    assert_value_and_gradients(
        lambda q, k, v: attention(q, k, v, **shape.arguments())[0],
        lambda q, k, v: torch_attention(q, k, v, bias),
        shape.qkv(),
        weights=shape.weights(),
    )


@random_shapes
@given(SHAPES)
def test_masks_windows_groups_and_alibi(shape):
    check_plain(shape)


def test_contexts_that_are_looped_over():
    check_plain(LOOPED)


def test_causal_attention_of_torch_itself():
    """With torch's own causal mask, so that no mask of ours is compared with itself."""
    assert_value_and_gradients(
        lambda q, k, v: attention(q, k, v)[0],
        lambda q, k, v: scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (q, k, v)), is_causal=True, enable_gqa=True
        ).transpose(1, 2),
        random_heads(0, 2, 150, 4, 2, 8),
    )


def check_sink_logit(shape: Shape, theirs) -> None:
    def ours(q, k, v, sink_logit):
        return attention(q, k, v, **shape.arguments(sink_logit=sink_logit))[0]

    sink_logit = jnp.asarray(np.random.default_rng(shape.seed).normal(0, 2, shape.heads), jnp.float32)
    assert_value_and_gradients(ours, theirs, (*shape.qkv(), sink_logit), weights=shape.weights())


@random_shapes
@given(SHAPES)
def test_the_sink_logit_is_the_sink_of_gpt_oss(shape):
    mask = to_torch(shape.bias())

    def theirs(q, k, v, sinks):
        module = SimpleNamespace(sinks=sinks, num_key_value_groups=shape.shared, training=False)
        heads_first = [x.transpose(1, 2) for x in (q, k, v)]
        return eager_attention_forward(module, *heads_first, mask, scaling=shape.size**-0.5)[0]

    check_sink_logit(shape, theirs)


@pytest.mark.parametrize("shape", [Shape(2, 40, 2, 2, 8, 2**30, False, "left", 3), LOOPED])
def test_the_sink_logit_is_one_more_column(shape):
    bias = to_torch(shape.bias())

    def theirs(q, k, v, sink_logit):
        k, v = (x.repeat_interleave(shape.shared, dim=2) for x in (k, v))
        scores = torch.einsum("btnh,bsnh->bnts", q, k) * shape.size**-0.5 + bias
        column = sink_logit[None, :, None, None].expand(*scores.shape[:3], 1)
        p = torch.cat([scores, column], dim=-1).softmax(dim=-1)[..., :-1]
        return torch.einsum("bnts,bsnh->btnh", p, v)

    check_sink_logit(shape, theirs)
