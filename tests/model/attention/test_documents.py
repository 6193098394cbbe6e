"""Attention with a document mask is that of each document by itself."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.attention.attention import attend_by_query, attention
from leadline.model.attention.blockwise import part_of
from leadline.model.attention.mask import Mask, Tiling
from leadline.model.attention.normalizers import softpick
from leadline.model.attention.scores import Scores, grouped
from leadline.model.positions.alibi import alibi_slopes
from tests.model.naive import numbers, random_heads, tiling

pytestmark = pytest.mark.usefixtures("mesh")

ENDS = (9, 10, 45)  # of three documents in one row of tokens
DOCUMENTS = np.searchsorted(ENDS, np.arange(45), side="right")[None]
SCORES = {
    "softmax": Scores(),
    "ALiBi and a sink logit": Scores(slopes=jnp.asarray(alibi_slopes(4), jnp.float32), sink_logit=0.5),
    "softpick": Scores(normalizer=jax.tree_util.Partial(softpick)),
}


def packed(q: Any, k: Any, v: Any, scores: Scores, cut: Tiling) -> Any:
    return attention(q, k, v, Mask(window=20, documents=jnp.asarray(DOCUMENTS)), scores, tiling=cut)


def apart(q: Any, k: Any, v: Any, scores: Scores) -> Any:
    """Each document by itself, one after the other again."""
    texts = [slice(start, end) for start, end in zip((0, *ENDS), ENDS, strict=False)]
    parts = [attention(q[:, text], k[:, text], v[:, text], Mask(window=20), scores) for text in texts]
    outs, statistics = zip(*parts, strict=True)
    return jnp.concatenate(outs, axis=1), jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=2), *statistics)


def outputs_and_gradients(function: Any) -> Any:
    """Output and statistics of random heads, and the gradients of a random sum over the output."""

    def of_inputs(qkv: Any) -> Any:
        out = function(*qkv)
        return jnp.sum(out[0] * numbers(4, 1, 45, 4, 8)), out

    (_, out), gradients = jax.jit(jax.value_and_grad(of_inputs, has_aux=True))(random_heads(3, 1, 45, 4, 2, 8))
    return out, gradients


@pytest.mark.parametrize("cut", [Tiling(), tiling(None)], ids=["one block", "chunks"])
@pytest.mark.parametrize("name", SCORES)
def test_output_statistics_and_gradients_are_those_of_documents_apart(name: str, cut: Tiling) -> None:
    together = outputs_and_gradients(lambda q, k, v: packed(q, k, v, SCORES[name], cut))
    by_themselves = outputs_and_gradients(lambda q, k, v: apart(q, k, v, SCORES[name]))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), together, by_themselves)


def test_queries_that_rotate_all_keys_see_their_document_and_count_if_they_are_real() -> None:
    """Each rotates them by nothing, so that output, statistics and gradients are those of `attention`."""
    real, i = jnp.arange(45)[None] >= 4, jnp.arange(45)
    mask = Mask(window=20, documents=jnp.asarray(DOCUMENTS), padding=real)

    def by_query(q: Any, k: Any, v: Any) -> Any:
        return attend_by_query((part_of(*grouped(q, k, v), i, mask),), i, lambda x, *_: x, Scores(), real)

    computed, expected = outputs_and_gradients(by_query), outputs_and_gradients(lambda q, k, v: attention(q, k, v, mask))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), computed, expected)
