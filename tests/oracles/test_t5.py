"""T5 of equal weights against transformers' T5ForConditionalGeneration: logits, the gradient of every weight, texts."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Attention

from leadline.model.block import BlockConfig
from leadline.model.decoder import Decoder
from leadline.model.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, apply_model, init_model
from leadline.model.feedforward import FeedForward
from leadline.model.positions.t5 import T5, T5Bias, t5_buckets
from leadline.model.positions.tables import position_tables
from leadline.model.transduce import Search, beam_search
from tests.oracles.compare import assert_close, assert_same_gradients
from tests.oracles.test_encoder_decoder import TOKENS, V, magnified, rows

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]
D, N, H, F, ENCODER, DECODER, BUCKETS, FURTHEST = 16, 4, 6, 24, 3, 2, 8, 6
TABLES = position_tables(ENCODER + DECODER, N, H)
# Of T5 1.0, and of T5 1.1 (Shazeer 2020): the unembedding is the embedding, or its own; their feed-forwards.
VERSIONS = {
    "T5": {"tie_word_embeddings": True, "feed_forward_proj": "relu"},
    "T5 1.1": {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"},
}
of_version = pytest.mark.parametrize("version", VERSIONS)


def t5(version: str) -> T5ForConditionalGeneration:
    config = T5Config(
        vocab_size=V,
        d_model=D,
        d_kv=H,
        d_ff=F,
        num_layers=ENCODER,
        num_decoder_layers=DECODER,
        num_heads=N,
        relative_attention_num_buckets=BUCKETS,
        relative_attention_max_distance=FURTHEST,
        dropout_rate=0.0,
        pad_token_id=0,
        decoder_start_token_id=1,
        eos_token_id=2,
        **VERSIONS[version],
    )
    model = T5ForConditionalGeneration(config).double().eval()
    if not VERSIONS[version]["tie_word_embeddings"]:  # which the library only takes to leave logits as they are
        model.lm_head.weight = torch.nn.Parameter(torch.empty(V, D, dtype=torch.float64))
    magnified(model)
    return model


def config(version: str) -> EncoderDecoderConfig:
    tied = VERSIONS[version]["tie_word_embeddings"]
    block = BlockConfig(
        width=D,
        heads=N,
        kv_heads=N,
        head_dim=H,
        hidden=F,
        activation="relu" if tied else "geglu_tanh",
        position_bias=T5(BUCKETS, FURTHEST),
        cross=True,
    )
    structure = {"tied": tied, "scaled_embedding": tied, "shared_bias": True}
    return EncoderDecoderConfig(vocabulary=V, layers=DECODER, block=block, encoder_layers=ENCODER, **structure)


def of_t5(tensors: dict[str, Any], cfg: EncoderDecoderConfig, *, gradient: bool = False) -> EncoderDecoder:
    """Our tree of T5's weights or of their gradients.

    T5 does not divide q·k by sqrt(H), and divides the logits of a tied unembedding by sqrt(D), by which we multiply embeddings.
    So our query matrices are sqrt(H) times T5's, and our tied embedding is its 1/sqrt(D); for gradients it is the inverse.
    """
    query, embedding = H**0.5, D**-0.5 if cfg.tied else 1.0
    if gradient:
        query, embedding = 1 / query, 1 / embedding

    def attention(name: str) -> dict[str, Any]:
        q, k, v = (tensors[f"{name}.{product}.weight"].T.reshape(D, N, H) for product in "qkv")
        return {"query": query * q, "key": k, "value": v, "output": tensors[f"{name}.o.weight"].T.reshape(N, H, D)}

    def stack(template: Decoder, name: str, layers: int) -> Decoder:
        blocks = []
        for n in range(layers):
            block, layer = jax.tree.map(lambda leaf, n=n: leaf[n], template.blocks), f"{name}.block.{n}.layer"
            last = 1 if block.cross is None else 2
            dense = f"{layer}.{last}.DenseReluDense"
            up, gate = ("wi", None) if cfg.block.activation == "relu" else ("wi_1", tensors.get(f"{dense}.wi_0.weight"))
            block = replace(
                block,
                attention_norm=replace(block.attention_norm, scale=tensors[f"{layer}.0.layer_norm.weight"]),
                feedforward_norm=replace(block.feedforward_norm, scale=tensors[f"{layer}.{last}.layer_norm.weight"]),
                feedforward=FeedForward(
                    up=tensors[f"{dense}.{up}.weight"].T,
                    gate=None if gate is None else gate.T,
                    down=tensors[f"{dense}.wo.weight"].T,
                ),
                **attention(f"{layer}.0.SelfAttention"),
            )
            if block.cross is not None:
                norm = replace(block.cross.norm, scale=tensors[f"{layer}.1.layer_norm.weight"])
                block = replace(block, cross=replace(block.cross, norm=norm, **attention(f"{layer}.1.EncDecAttention")))
            blocks.append(block)
        table = tensors[f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        return replace(
            template,
            blocks=jax.tree.map(lambda *leaves: np.stack(leaves), *blocks),
            final_norm=replace(template.final_norm, scale=tensors[f"{name}.final_layer_norm.weight"]),
            position_bias=T5Bias(table),
        )

    template = init_model(jax.random.key(0), cfg)
    p: Any = stack(template, "decoder", DECODER)
    p = replace(p, embedding=embedding * tensors["shared.weight"], encoder=stack(template.encoder, "encoder", ENCODER))
    p = p if cfg.tied else replace(p, unembedding=tensors["lm_head.weight"])
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float32)), p)


def numpy_of(tensors: Any) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy() for name, tensor in tensors}


def given(source: np.ndarray) -> dict[str, torch.Tensor]:
    """A source and which of its ids are real."""
    return {"input_ids": torch.from_numpy(source.astype(np.int64)), "attention_mask": torch.from_numpy(source != 0)}


@of_version
def test_logits_and_gradients_are_those_of_t5(version: str) -> None:
    theirs, cfg, ids = t5(version), config(version), rows()
    source, target = np.split(ids, 2, axis=1)
    real = target[..., None] != 0
    direction = np.random.default_rng(2).standard_normal((3, TOKENS, V)) * real
    logits = theirs(**given(source), decoder_input_ids=torch.from_numpy(target.astype(np.int64))).logits
    (torch.from_numpy(direction) * logits).sum().backward()

    def weighted(p: EncoderDecoder) -> Any:
        scores = apply_model(p, jnp.asarray(ids), TABLES, cfg)[0][:, TOKENS:]
        return jnp.sum(scores * jnp.asarray(direction, jnp.float32)), scores

    p = of_t5(numpy_of(theirs.named_parameters()), cfg)
    (_, scores), gradient = jax.jit(jax.value_and_grad(weighted, has_aux=True))(p)
    assert_close(jnp.where(real, scores, 0), logits * torch.from_numpy(real), 2e-5)
    gradients = numpy_of((name, weight.grad) for name, weight in theirs.named_parameters() if weight.grad is not None)
    assert_same_gradients(gradient, of_t5(gradients, cfg, gradient=True))


@pytest.mark.parametrize("width", [1, 3])
def test_texts_are_those_of_t5(width: int) -> None:
    """Beams are compared by their log-probability, without a length penalty."""
    theirs, cfg = t5("T5 1.1"), config("T5 1.1")
    p = of_t5(numpy_of(theirs.named_parameters()), cfg)
    source = np.random.default_rng(5).integers(3, V, (8, TOKENS)).astype(np.int32)
    source[4:, -2:] = 0
    options: dict[str, Any] = {"do_sample": False, "num_beams": width, "max_new_tokens": TOKENS, "suppress_tokens": [0]}
    options |= {"length_penalty": 0.0, "early_stopping": "never"} if width > 1 else {}
    texts = theirs.generate(**given(source), **options)[:, 1:].numpy()
    ours = np.asarray(beam_search(p, jnp.asarray(source), TABLES, cfg, Search(1, 2, TOKENS), width=width, alpha=0.0).tokens)
    np.testing.assert_array_equal(ours[:, 0, : texts.shape[1]], texts)
    assert len(np.unique(texts, axis=0)) > 1


@pytest.mark.parametrize(("buckets", "furthest"), [(4, 3), (8, 6), (32, 128), (64, 700)])
def test_buckets_both_ways_are_those_of_t5(buckets: int, furthest: int) -> None:
    distance = np.arange(-1000, 1001)
    theirs = T5Attention._relative_position_bucket(-torch.from_numpy(distance), True, buckets, furthest)
    ours = t5_buckets(jnp.asarray(distance), buckets=buckets, furthest=furthest, both_ways=True)
    np.testing.assert_array_equal(ours, theirs.numpy())
