"""Attention with every normalizer, soft cap and key bias against torch over whole matrices, value and gradient."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.model.attention.attention import attention
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.attention.scores import Scores
from tests.model.naive import random_heads
from tests.oracles.compare import assert_value_and_gradients
from tests.oracles.test_attention import Shape

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]

LOW, HIGH, BIAS = -0.04, 1.03, -2.5
SHAPES = st.builds(
    Shape,
    batch=st.integers(1, 2),
    tokens=st.sampled_from([1, 5, 150]),
    groups=st.integers(1, 2),
    shared=st.integers(1, 2),
    size=st.sampled_from([2, 8]),
    window=st.sampled_from([1, 3, 2**30]),
    alibi=st.booleans(),
    padding=st.sampled_from(["none", "left"]),
    seed=st.integers(0, 1000),
)

few_shapes = settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])


def probabilities(name: str, s: torch.Tensor) -> torch.Tensor:
    """The published formulas on scores [..., S], -inf where a key is not visible."""
    seen = torch.isfinite(s)
    finite = torch.where(seen, s, torch.zeros_like(s))
    match name:
        case "clipped":
            return torch.where(seen, torch.clamp((HIGH - LOW) * torch.softmax(s, dim=-1) + LOW, 0, 1), 0)
        case "softpick":
            risen = torch.where(seen, torch.expm1(finite), 0)
            return torch.relu(risen) / (risen.abs().sum(dim=-1, keepdim=True) + 1e-12)
        case "relu":
            return torch.relu(finite) * seen
        case "relu_by_keys":
            return torch.relu(finite) * seen / seen.sum(dim=-1, keepdim=True)
        case "relu_by_sum":
            weights = torch.relu(finite) * seen
            return weights / (weights.sum(dim=-1, keepdim=True) + 1e-8)
        case "sigmoid":
            return torch.sigmoid(finite + BIAS) * seen
        case "sigmoid_by_sum":
            weights = torch.sigmoid(finite + BIAS) * seen
            return weights / weights.sum(dim=-1, keepdim=True)
        case _:
            return torch.softmax(s, dim=-1)


def torch_scores(q: torch.Tensor, k: torch.Tensor, shape: Shape) -> torch.Tensor:
    keys = k.repeat_interleave(shape.shared, dim=2)
    return torch.einsum("bqnh,bsnh->bnqs", q, keys) / math.sqrt(shape.size)


def torch_output(p: torch.Tensor, v: torch.Tensor, shape: Shape) -> torch.Tensor:
    return torch.einsum("bnqs,bsnh->bqnh", p, v.repeat_interleave(shape.shared, dim=2))


def parameters(name):
    return jnp.asarray([LOW, HIGH] if name == "clipped" else [BIAS, 0.0])


@pytest.mark.parametrize("name", NORMALIZERS)
@few_shapes
@given(SHAPES)
def test_normalizers(name, shape):
    normalizer = NORMALIZERS[name](parameters(name))
    mask = torch.from_numpy(shape.bias())

    def ours(q, k, v):
        return attention(q, k, v, **shape.arguments(normalizer=normalizer))[0]

    def theirs(q, k, v):
        return torch_output(probabilities(name, torch_scores(q, k, shape) + mask), v, shape)

    # The weight s / (s + ε) of a score that is alone has the gradient 1/s - s/s² but for ε, of which float32 keeps a rest.
    tolerance = 2e-4 if name == "relu_by_sum" else 1e-5
    assert_value_and_gradients(ours, theirs, shape.qkv(), weights=shape.weights(), tolerance=tolerance)


@few_shapes
@given(SHAPES, st.floats(0.5, 30.0))
def test_soft_cap(shape, cap):
    mask = torch.from_numpy(shape.bias())

    def ours(q, k, v):
        return attention(q, k, v, **shape.arguments(cap=jnp.float32(cap)))[0]

    def theirs(q, k, v):
        scores = np.float32(cap) * torch.tanh(torch_scores(q, k, shape) / np.float32(cap))
        return torch_output(torch.softmax(scores + mask, dim=-1), v, shape)

    assert_value_and_gradients(ours, theirs, shape.qkv(), weights=shape.weights())


@pytest.mark.parametrize("with_value", [False, True])
@few_shapes
@given(SHAPES)
def test_a_key_and_a_value_bias(with_value, shape):
    """A row (k*, v*) before the first token that every query sees, v* = 0 for the K bias; all gradients."""
    mask = torch.from_numpy(shape.bias())
    rng = np.random.default_rng(shape.seed + 2)
    row = [jnp.asarray(rng.standard_normal((shape.groups, shape.size)), jnp.float32) for _ in range(2)]

    def ours(q, k, v, key, value):
        biases = {"sink_logit": 0.0, "key_bias": key, "value_bias": value if with_value else None}
        return attention(q, k, v, **shape.arguments(**biases))[0]

    def theirs(q, k, v, key, value):
        batch = q.shape[0]
        k = torch.cat([key.expand(batch, 1, *key.shape), k], dim=1)
        v = torch.cat([(value if with_value else 0 * value).expand(batch, 1, *value.shape), v], dim=1)
        seen = torch.cat([torch.zeros(*mask.shape[:-1], 1, dtype=mask.dtype), mask], dim=-1)
        return torch_output(torch.softmax(torch_scores(q, k, shape) + seen, dim=-1), v, shape)

    assert_value_and_gradients(ours, theirs, (*shape.qkv(), *row), weights=shape.weights())


def test_statistics_of_what_does_not_sum_to_one_are_shares():
    q, k, v = random_heads(3, 1, 40, 2, 1, 4)
    for name in ("relu", "sigmoid", "softpick", "clipped"):
        scores = Scores(normalizer=NORMALIZERS[name](parameters(name)))
        _, found = jax.jit(attention)(q, k, v, scores=scores)
        total = np.asarray(found.received.sum(axis=-1))
        queries = np.asarray(jnp.broadcast_to(found.first, (1, 2, 40)))
        assert (queries <= 1 + 1e-6).all()
        assert (total <= 40 + 1e-4).all()
        assert (total > 20).all()
