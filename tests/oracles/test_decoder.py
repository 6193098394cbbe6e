"""Whole decoders against Llama and GPT-2 of transformers: logits, attention, loss, and the gradient of every weight."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from transformers import PreTrainedModel

from leadline.model.decoder import Decoder, apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.positions.frequencies import inverse_frequencies, position_interpolation
from leadline.model.positions.tables import PositionTables, position_tables
from leadline.model.positions.yarn import yarn, yarn_attention_factor
from tests.oracles import published
from tests.oracles.compare import assert_close

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]
TOKENS = 40
ROUNDING = 5e-5  # of float32, through three layers of magnified weights
SIZES = (published.LAYERS, published.HEADS, published.SIZE)


class Case(NamedTuple):
    kind: str
    model: Callable[[], PreTrainedModel]
    convert: Callable[[published.Tensors], Decoder]
    tables: PositionTables


def rope(table: np.ndarray, factor: float = 1.0) -> PositionTables:
    return position_tables(*SIZES, inverse_frequencies=table, attention_factor=factor)


def llama_yarn() -> PreTrainedModel:
    turns = {"beta_fast": 2.0, "beta_slow": 0.1, "truncate": False}  # so that the ramp has pairs between its ends
    return published.llama(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, **turns)


SIZE, BASE = published.SIZE, 100.0
YARN = yarn(SIZE, BASE, 4.0, 16, beta_fast=2.0, beta_slow=0.1, truncate=False)
CASES = {
    "llama": Case("llama", published.llama, published.from_llama, rope(inverse_frequencies(SIZE, BASE))),
    "llama linear": Case(
        "llama",
        lambda: published.llama(rope_type="linear", factor=4.0),
        published.from_llama,
        rope(position_interpolation(SIZE, BASE, 4.0)),
    ),
    "llama yarn": Case("llama", llama_yarn, published.from_llama, rope(YARN, yarn_attention_factor(4.0))),
    "gpt2": Case("gpt2", published.gpt2, published.from_gpt2, position_tables(*SIZES)),
}


def in_float32(tree: Decoder) -> Decoder:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


@pytest.mark.parametrize("name", CASES)
def test_logits_attention_and_gradients(name):
    kind, build, convert, tables = CASES[name]
    model, cfg = build(), published.configuration(kind)
    text = np.random.default_rng(1).integers(0, published.VOCABULARY, (2, TOKENS))

    output = model(torch.from_numpy(text), output_attentions=True)
    loss = F.cross_entropy(output.logits[:, :-1].flatten(0, 1), torch.from_numpy(text[:, 1:]).flatten())
    loss.backward()
    theirs = {key: weight.detach().numpy() for key, weight in model.named_parameters()}
    gradients = {key: weight.grad.numpy() for key, weight in model.named_parameters()}

    @jax.jit
    def ours(p, tokens):
        def mean_loss(p):
            scores, found = apply_decoder(p, tokens, tables, cfg, measure=lambda trace: trace.attention)
            return jnp.mean(token_losses(scores[:, :-1], tokens[:, 1:])), (scores, found)

        return jax.value_and_grad(mean_loss, has_aux=True)(p)

    (found_loss, (scores, found)), gradient = ours(in_float32(convert(theirs)), jnp.asarray(text, jnp.int32))
    assert_close(scores, output.logits, ROUNDING, "logits")
    assert_close(found_loss, loss, ROUNDING, "loss")
    attentions = torch.stack(output.attentions)  # [L, B, N, T, S]
    assert_close(found.first, attentions[..., 0], ROUNDING, "attention to the first token")
    assert_close(found.received, attentions.sum(dim=3), ROUNDING, "attention that each token receives")
    expected = convert(gradients)
    blocks = expected.blocks.replace(sink_logit=np.zeros_like(expected.blocks.sink_logit))
    pairs = zip(jax.tree_util.tree_leaves_with_path(expected.replace(blocks=blocks)), jax.tree.leaves(gradient), strict=True)
    for (path, reference), leaf in pairs:
        largest = np.abs(reference).max()
        np.testing.assert_allclose(leaf, reference, atol=1e-4 * largest, rtol=0, err_msg=jax.tree_util.keystr(path))
