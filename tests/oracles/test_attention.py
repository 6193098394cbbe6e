"""Attention against torch's scaled_dot_product_attention and transformers' GPT-OSS, in value and gradient."""

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import causal_mask_function, chunked_overlay, packed_sequence_mask_function
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

from leadline.model.attention.attention import attention
from leadline.model.positions.alibi import alibi_slopes
from tests.model.naive import arguments, numbers, random_heads
from tests.oracles.compare import assert_value_and_gradients, to_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]

# Tokens, query heads, key heads, channels, window, whether there is ALiBi, and which tokens are padding.
CASES: dict[str, tuple[int, int, int, int, int, bool, slice]] = {
    "groups": (32, 6, 3, 4, 2**30, False, slice(10)),
    "ALiBi": (33, 5, 5, 16, 2**30, True, slice(0)),
    "window": (40, 4, 4, 2, 3, True, slice(13)),
    "looped over": (129, 3, 1, 8, 50, True, slice(86, None)),
    "tiles": (1100, 2, 1, 4, 300, True, slice(700, None)),
}


def compare(name: str, theirs: Any, **more: Any) -> None:
    """`theirs` gets queries, keys, values, the mask of torch, and `more`. A row that sees nothing sees all there: torch gives
    NaN. There and at padded queries, where we give zeros, nothing is compared."""
    tokens, heads, groups, size, window, alibi, hidden = CASES[name]
    real = np.ones((2, tokens), bool)
    real[1, hidden] = False
    slopes = alibi_slopes(heads).astype(np.float32) * alibi
    distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    visible = ((distance >= 0) & (distance < window))[None, None] & real[:, None, None, :]
    visible = visible | ~visible.any(axis=-1, keepdims=True)
    bias = to_torch(np.where(visible, -slopes[None, :, None, None] * np.float64(distance), -np.inf))

    def ours(q, k, v, *values):
        given = {"slopes": jnp.asarray(slopes), "window": window, "padding": jnp.asarray(real)}
        return attention(q, k, v, **arguments(**given, **dict(zip(more, values, strict=True))))[0]

    qkv = random_heads(tokens, 2, tokens, heads, groups, size)
    w = numbers(1, *qkv[0].shape) * real[:, :, None, None].astype(np.float32)
    assert_value_and_gradients(ours, lambda *given: theirs(*given[:3], bias, *given[3:]), (*qkv, *more.values()), weights=w)


def product_attention(q, k, v, mask=None, *, is_causal=False):
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    return scaled_dot_product_attention(*heads_first, attn_mask=mask, is_causal=is_causal, enable_gqa=True).transpose(1, 2)


@pytest.mark.parametrize("name", CASES)
def test_masks_windows_groups_and_alibi(name):
    compare(name, product_attention)


@pytest.mark.parametrize("name", CASES)
def test_the_sink_logit_is_the_sink_of_gpt_oss(name):
    _, heads, groups, size, *_ = CASES[name]

    def theirs(q, k, v, mask, sinks):
        module = SimpleNamespace(sinks=sinks, num_key_value_groups=heads // groups, training=False)
        return eager_attention_forward(module, *(x.transpose(1, 2) for x in (q, k, v)), mask, scaling=size**-0.5)[0]

    compare(name, theirs, sink_logit=2 * numbers(3, heads))


@pytest.mark.parametrize(("tokens", "chunk"), [(40, 7), (129, 32), (1100, 300)])
def test_chunks_are_those_of_llama_4(tokens, chunk):
    """transformers' mask of its layers of chunked attention."""
    i, in_chunk = torch.arange(tokens), chunked_overlay(chunk, torch.zeros(1, dtype=torch.int64))
    query, key = i[:, None], i[None, :]
    mask = causal_mask_function(0, 0, query, key) & in_chunk(0, 0, query, key)
    qkv = random_heads(tokens, 2, tokens, 4, 2, 8)
    assert_value_and_gradients(
        lambda *qkv: attention(*qkv, **arguments(chunk=chunk))[0], lambda *qkv: product_attention(*qkv, mask), qkv
    )


@pytest.mark.parametrize("tokens", [40, 129, 1100])
def test_documents_in_one_row_are_masked_as_in_transformers(tokens):
    documents = np.sort(np.random.default_rng(tokens).integers(0, 5, (2, tokens)), axis=1)
    i, of_token = torch.arange(tokens), packed_sequence_mask_function(torch.tensor(documents))
    masks = [causal_mask_function(0, 0, i[:, None], i[None, :]) & of_token(row, 0, i[:, None], i[None, :]) for row in (0, 1)]
    qkv = random_heads(tokens, 2, tokens, 4, 2, 8)
    assert_value_and_gradients(
        lambda *qkv: attention(*qkv, **arguments(documents=jnp.asarray(documents)))[0],
        lambda *qkv: product_attention(*qkv, torch.stack(masks)[:, None]),
        qkv,
    )


def test_causal_attention_of_torch_itself():
    """With torch's own causal mask, so that no mask of ours is compared with itself."""
    qkv = random_heads(0, 2, 150, 4, 2, 8)
    assert_value_and_gradients(lambda *qkv: attention(*qkv)[0], lambda *qkv: product_attention(*qkv, is_causal=True), qkv)
