"""Encoder–decoders of equal weights against torch's nn.Transformer and transformers' Marian: logits, gradients, texts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from leadline.model.attention.biases import Biases
from leadline.model.block import BlockConfig
from leadline.model.context import Context
from leadline.model.cross_attention import CrossAttention
from leadline.model.decoder import Decoder, apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, apply_model, encode, init_model, rows_of
from leadline.model.feedforward import FeedForward
from leadline.model.norm import Norm
from leadline.model.positions.tables import position_tables
from leadline.model.transduce import Search, beam_search
from tests.model.naive import numbers
from tests.oracles.compare import assert_close, assert_same_gradients, assert_value_and_gradients

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]
V, D, N, H, F, ENCODER, DECODER, TOKENS = 23, 16, 4, 4, 24, 3, 2, 7
BLOCK = BlockConfig(
    width=D,
    heads=N,
    kv_heads=N,
    head_dim=H,
    hidden=F,
    activation="relu",
    layer_norm=True,
    placement="post",
    biases=("query", "key", "value", "output", "feedforward"),
    cross=True,
)
CONFIG = EncoderDecoderConfig(
    vocabulary=V, layers=DECODER, block=BLOCK, sinusoidal=True, scaled_embedding=True, encoder_layers=ENCODER
)
TABLES = position_tables(ENCODER + DECODER, N, H)
Read = Callable[[str], Any]


def rows() -> np.ndarray:
    """[source, target] with padding (0) on either side of a source and after a target."""
    ids = np.random.default_rng(0).integers(1, V, (3, 2 * TOKENS)).astype(np.int32)
    ids[1, TOKENS - 3 : TOKENS] = ids[2, :2] = ids[0, -2:] = 0
    return ids


class Names(NamedTuple):
    """Where a library keeps the parts of a layer."""

    attention: Callable[[Read, str], tuple[Any, ...]]  # weights [out, in] and biases of query, key, value and output
    norms: tuple[str, ...]  # of self-attention, cross-attention and feed-forward
    cross: str
    feedforward: tuple[str, str]


def of_torch(read: Read, name: str) -> tuple[Any, ...]:
    weights, biases = np.split(read(f"{name}.in_proj_weight"), 3), np.split(read(f"{name}.in_proj_bias"), 3)
    return (*zip(weights, biases, strict=True), (read(f"{name}.out_proj.weight"), read(f"{name}.out_proj.bias")))


def of_marian(read: Read, name: str) -> tuple[Any, ...]:
    products = (f"{name}.{product}_proj" for product in ("q", "k", "v", "out"))
    return tuple((read(f"{product}.weight"), read(f"{product}.bias")) for product in products)


TORCH = Names(of_torch, ("norm1", "norm2", "norm3"), "multihead_attn", ("linear1", "linear2"))
MARIAN = Names(
    of_marian,
    ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    "encoder_attn",
    ("fc1", "fc2"),
)


def attention_of(read: Read, names: Names, name: str) -> dict[str, Any]:
    """Our fields of attention from matrices [out, in]."""
    (q, bq), (k, bk), (v, bv), (o, bo) = names.attention(read, name)
    by_head = {key: x.T.reshape(D, N, H) for key, x in (("query", q), ("key", k), ("value", v))}
    biases = Biases(bq.reshape(N, H), bk.reshape(N, H), bv.reshape(N, H), bo)
    return {**by_head, "output": o.T.reshape(N, H, D), "biases": biases}


def norm_of(read: Read, name: str) -> Norm:
    return Norm(scale=read(f"{name}.weight"), bias=read(f"{name}.bias"))


def stack_of(read: Read, names: Names, name: str, template: Decoder, *, cross: bool) -> Any:
    """The blocks of a stack, in the structure of ours."""
    up, down = names.feedforward
    layers = []
    for n in range(DECODER if cross else ENCODER):
        layer = f"{name}.layers.{n}"
        inner = names.norms if cross else (names.norms[0], None, names.norms[1 if names is TORCH else 2])
        block = jax.tree.map(lambda leaf, n=n: leaf[n], template.blocks)
        block = replace(
            block,
            attention_norm=norm_of(read, f"{layer}.{inner[0]}"),
            feedforward_norm=norm_of(read, f"{layer}.{inner[2]}"),
            feedforward=FeedForward(
                up=read(f"{layer}.{up}.weight").T,
                gate=None,
                down=read(f"{layer}.{down}.weight").T,
                up_bias=read(f"{layer}.{up}.bias"),
                down_bias=read(f"{layer}.{down}.bias"),
            ),
            **attention_of(read, names, f"{layer}.self_attn"),
        )
        if cross:
            norm = norm_of(read, f"{layer}.{inner[1]}")
            block = replace(block, cross=CrossAttention(norm=norm, **attention_of(read, names, f"{layer}.{names.cross}")))
        layers.append(block)
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves).astype(np.float32)), *layers)


def magnified(model: torch.nn.Module) -> None:
    """Large random weights in the place of small ones."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, dtype=weight.dtype)
            weight.copy_(noise * weight.shape[-1] ** -0.5 if weight.ndim > 1 else weight + 0.3 * noise)


def sinusoids() -> torch.Tensor:
    angles = np.arange(TOKENS)[:, None] / 10000 ** (np.arange(D // 2) * 2 / D)[None]
    return torch.from_numpy(np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(TOKENS, D))


class TorchTransformer(torch.nn.Module):
    """torch.nn.Transformer between one embedding in three places."""

    def __init__(self, *, norm_first: bool) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(V, D)
        sizes = {"num_encoder_layers": ENCODER, "num_decoder_layers": DECODER, "dim_feedforward": F}
        self.stacks = torch.nn.Transformer(D, N, **sizes, dropout=0.0, batch_first=True, norm_first=norm_first)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        padded, of_target = source == 0, target == 0
        out = self.stacks(
            self.embedding(source) * D**0.5 + sinusoids(),
            self.embedding(target) * D**0.5 + sinusoids(),
            tgt_mask=torch.triu(torch.ones(TOKENS, TOKENS, dtype=torch.bool), 1),
            src_key_padding_mask=padded,
            memory_key_padding_mask=padded,
            tgt_key_padding_mask=of_target,
        )
        return out @ self.embedding.weight.T


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("placement", ["post", pytest.param("pre", marks=pytest.mark.slow)])
def test_logits_and_gradients_are_those_of_torch(placement: Any) -> None:
    theirs = TorchTransformer(norm_first=placement == "pre").double().train()
    magnified(theirs)
    ids = rows()
    real = ids[:, TOKENS:] != 0
    direction = np.random.default_rng(2).standard_normal((3, TOKENS, V)) * real[..., None]
    logits = theirs(*(torch.from_numpy(part.astype(np.int64)) for part in np.split(ids, 2, axis=1)))
    (torch.from_numpy(direction) * logits).sum().backward()

    cfg = replace(CONFIG, block=replace(BLOCK, placement=placement))
    template = init_model(jax.random.key(0), cfg)

    def ours_of(tensors: dict[str, torch.Tensor]) -> EncoderDecoder:
        def read(name: str) -> np.ndarray:
            return tensors[name].detach().numpy()

        encoder = replace(
            template.encoder,
            blocks=stack_of(read, TORCH, "stacks.encoder", template.encoder, cross=False),
            final_norm=norm_of(read, "stacks.encoder.norm"),
        )
        tree = replace(
            template,
            embedding=read("embedding.weight"),
            blocks=stack_of(read, TORCH, "stacks.decoder", template, cross=True),
            final_norm=norm_of(read, "stacks.decoder.norm"),
            encoder=encoder,
        )
        return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float32)), tree)

    def weighted(p: EncoderDecoder) -> Any:
        scores = apply_model(p, jnp.asarray(ids), TABLES, cfg)[0][:, TOKENS:]
        return jnp.sum(scores * jnp.asarray(direction, jnp.float32)), scores

    p = ours_of(dict(theirs.named_parameters()))
    (_, scores), gradient = jax.jit(jax.value_and_grad(weighted, has_aux=True))(p)
    assert_close(jnp.where(real[..., None], scores, 0), logits * torch.from_numpy(real[..., None]), 2e-5)
    expected = ours_of({name: weight.grad for name, weight in theirs.named_parameters()})
    assert_same_gradients(gradient, expected)


def marian() -> MarianMTModel:
    config = MarianConfig(
        vocab_size=V,
        d_model=D,
        encoder_layers=ENCODER,
        decoder_layers=DECODER,
        encoder_attention_heads=N,
        decoder_attention_heads=N,
        encoder_ffn_dim=F,
        decoder_ffn_dim=F,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=32,
        pad_token_id=0,
        decoder_start_token_id=1,
        bos_token_id=1,
        eos_token_id=2,
        forced_eos_token_id=None,
        attn_implementation="eager",
    )
    model = MarianMTModel(config).eval()
    frozen = {name: weight.clone() for name, weight in model.named_parameters() if "embed_positions" in name}
    magnified(model)
    with torch.no_grad():
        for name, weight in frozen.items():
            dict(model.named_parameters())[name].copy_(weight)
        model.final_logits_bias.copy_(0.1 * torch.randn(1, V))
        model.model.shared.weight.mul_(3)  # or every text would be one token repeated
    return model


MARIAN_CONFIG = replace(CONFIG, final_norm=False, unembedding_bias=True)


def of_marian_tensors(tensors: dict[str, torch.Tensor]) -> EncoderDecoder:
    """Marian's sines stand before its cosines: its channel i is our 2i, its D/2 + i our 2i + 1."""
    order = np.arange(D).reshape(2, D // 2).T.reshape(-1)

    def read(name: str) -> np.ndarray:
        x = tensors[f"model.{name}"].numpy()
        reads_residual = name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight", "fc1.weight", "shared.weight"))
        writes_residual = name.endswith(("out_proj.weight", "out_proj.bias", "fc2.weight", "fc2.bias")) or "norm" in name
        return x[:, order] if reads_residual else x[order] if writes_residual else x

    template = init_model(jax.random.key(0), MARIAN_CONFIG)
    tree = replace(
        template,
        embedding=read("shared.weight"),
        unembedding_bias=tensors["final_logits_bias"][0].numpy(),
        blocks=stack_of(read, MARIAN, "decoder", template, cross=True),
        encoder=replace(template.encoder, blocks=stack_of(read, MARIAN, "encoder", template.encoder, cross=False)),
    )
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float32)), tree)


def test_logits_and_gradients_are_those_of_marian() -> None:
    """But for the gradient of the bias of its logits, which Marian does not train."""
    theirs, cfg = marian(), MARIAN_CONFIG
    source, target = np.split(rows(), 2, axis=1)
    source[2, :2] = 4  # Marian has positions for sources from their first id on, and padding after them alone
    real = target[..., None] != 0
    direction = (np.random.default_rng(2).standard_normal((3, TOKENS, V)) * real).astype(np.float32)
    given = {"input_ids": source, "attention_mask": source != 0, "decoder_input_ids": target}
    logits = theirs(**{name: torch.from_numpy(ids.astype(np.int64)) for name, ids in given.items()}).logits
    (torch.from_numpy(direction) * logits).sum().backward()

    def weighted(p: EncoderDecoder) -> Any:
        memory = encode(p, jnp.asarray(source), rows_of(TABLES, 0, ENCODER), cfg)
        context = Context(padding=jnp.asarray(target != 0), memory=memory)
        scores, _ = apply_decoder(p, jnp.asarray(target), rows_of(TABLES, ENCODER, ENCODER + DECODER), cfg, context=context)
        return jnp.sum(scores * direction), scores

    (_, scores), gradient = jax.jit(jax.value_and_grad(weighted, has_aux=True))(of_marian_tensors(theirs.state_dict()))
    assert_close(jnp.where(real, scores, 0), logits.detach() * torch.from_numpy(real), 2e-5)
    of_weights = {name: weight.grad for name, weight in theirs.named_parameters() if weight.grad is not None}
    expected = of_marian_tensors({**of_weights, "final_logits_bias": torch.zeros(1, V)})
    assert_same_gradients(replace(gradient, unembedding_bias=expected.unembedding_bias), expected)


@pytest.mark.parametrize("width", [1, 3])
def test_texts_are_those_of_marian(width: int) -> None:
    """Beams are compared by their log-probability, without a length penalty."""
    theirs = marian()
    p, cfg = of_marian_tensors(theirs.state_dict()), MARIAN_CONFIG
    source = np.random.default_rng(5).integers(3, V, (8, TOKENS)).astype(np.int32)
    source[4:, -2:] = 0
    options: dict[str, Any] = {"do_sample": False, "num_beams": width, "max_new_tokens": TOKENS}
    options |= {"length_penalty": 0.0, "early_stopping": "never"} if width > 1 else {}
    given = {"input_ids": source.astype(np.int64), "attention_mask": (source != 0).astype(np.int64)}
    texts = theirs.generate(**{name: torch.from_numpy(x) for name, x in given.items()}, **options)[:, 1:].numpy()
    beams = beam_search(p, jnp.asarray(source), TABLES, cfg, Search(1, 2, TOKENS), width=width, alpha=0.0)
    ours = np.asarray(beams.tokens[:, 0])
    np.testing.assert_array_equal(ours[:, : texts.shape[1]], texts)
    assert not ours[:, texts.shape[1] :].any()
    assert len(np.unique(texts, axis=0)) > 1


def test_label_smoothing_is_that_of_torch() -> None:
    targets = np.random.default_rng(6).integers(0, V, (2, TOKENS))

    def theirs(scores: torch.Tensor) -> torch.Tensor:
        flat = scores.reshape(-1, V), torch.from_numpy(targets).reshape(-1)
        return torch.nn.functional.cross_entropy(*flat, label_smoothing=0.1, reduction="none").reshape(targets.shape)

    def ours(scores: jax.Array) -> jax.Array:
        return token_losses(scores, jnp.asarray(targets), 0.1)

    assert_value_and_gradients(ours, theirs, (3 * numbers(5, 2, TOKENS, V),))
