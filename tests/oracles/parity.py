"""Tiny random models of transformers, saved and loaded as any published model, and compared in all that they compute.

A module of tests has a table of configurations, a fixture `pair` of them (`paired`), and a class that inherits `Parity`.
"""

import inspect
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_tables import tables
from leadline.experiments.published.checkpoint import Checkpoint, Entry
from leadline.experiments.published.load import PublishedModel, load, tensors_of, weights_by_name
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.runtime.errors import UserError
from leadline.model.attention.attention import attend
from leadline.model.attention.mask import Mask
from leadline.model.cache.full import full_cache
from leadline.model.context import Context
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder
from leadline.model.extend import extend
from leadline.model.layer import layer_scores
from leadline.model.mesh import make_mesh

VOCABULARY, WIDTH, HEADS, SIZE, HIDDEN, CONTEXT = 50, 32, 4, 8, 48, 16
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS // 2,
    "max_position_embeddings": CONTEXT,
}
# Texts within and beyond the context, in batches of three (`mask_of`).
LENGTHS = (13, 36)
PADDED, CHUNK = 5, 12
ROUNDING = 1e-4  # of the largest number: float32, through layers of large weights


class Computed(NamedTuple):
    """Of three texts [B, T]. Where there is padding, zeros."""

    logits: np.ndarray  # [B, T, V]
    attention: np.ndarray  # [L, B, N, T, T]
    gradients: dict[str, np.ndarray]  # by the name of the tensor


@dataclass(frozen=True, repr=False)
class Pair:
    """A model of transformers, and what was loaded of its files.

    Attributes:
        theirs: in float32; in float64 a row of scores that is all padding is not a number.
        checkpoint: its files.
        loaded: the same weights.
        computed: theirs and ours, for each of LENGTHS.
    """

    theirs: PreTrainedModel
    checkpoint: Checkpoint
    loaded: PublishedModel
    computed: dict[int, tuple[Computed, Computed]]


def cases(names: Iterable[str], slow: Container[str]) -> list[Any]:
    """Parameters of a fixture. Of the slow ones, quick cases have every mechanism."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


def paired(config: PreTrainedConfig, folder: Path) -> Iterator[Pair]:
    """Yields the pair, with a mesh that is set meanwhile."""
    model = magnified(config)
    model.save_pretrained(folder)
    checkpoint = open_checkpoint(str(folder))
    with jax.set_mesh(make_mesh()):
        loaded = load(checkpoint)
        computed = {length: (of_theirs(model, length), of_ours(loaded, length)) for length in LENGTHS}
        yield Pair(model, checkpoint, loaded, computed)


def magnified(config: PreTrainedConfig) -> PreTrainedModel:
    """With large random weights: those of the library's own initialiser are so small that a wrong rotation or scale would hide
    after them."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape)
            if weight.ndim == 1:
                weight.add_(0.3 * noise)
            else:
                weight.copy_(noise if "emb" in name or "wte" in name or "wpe" in name else 2 * WIDTH**-0.5 * noise)
    return model


def texts_of(length: int) -> np.ndarray:
    return np.random.default_rng(length).integers(0, VOCABULARY, (3, length))


def mask_of(length: int) -> np.ndarray:
    """The first text is whole, the second has padding on the right, the third on the left."""
    mask = np.ones((3, length), bool)
    mask[1, -PADDED:] = mask[2, :PADDED] = False
    return mask


def weights_of(length: int) -> np.ndarray:
    """Of the logits [B, T, V] in the sum whose gradient is compared."""
    return np.random.default_rng(length + 1).standard_normal((3, length, VOCABULARY)) * mask_of(length)[..., None]


def of_theirs(model: PreTrainedModel, length: int) -> Computed:
    mask = torch.from_numpy(mask_of(length))
    given: dict[str, Any] = {"attention_mask": mask.long()}
    if "position_ids" in inspect.signature(model.forward).parameters:
        given["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    model.zero_grad()
    output = model(torch.from_numpy(texts_of(length)), output_attentions=True, use_cache=False, **given)
    (torch.from_numpy(weights_of(length)) * output.logits).sum().backward()
    attention = torch.stack(output.attentions).detach().numpy()
    gradients = {name: weight.grad.numpy().copy() for name, weight in model.named_parameters() if weight.grad is not None}
    return real(output.logits.detach().numpy(), attention, gradients, length)


def real(logits: np.ndarray, attention: np.ndarray, gradients: dict[str, np.ndarray], length: int) -> Computed:
    mask = mask_of(length)
    return Computed(np.where(mask[..., None], logits, 0), np.where(mask[None, :, None, :, None], attention, 0), gradients)


@partial(jax.jit, static_argnames="cfg")
def forward_and_backward(
    params: Decoder, tokens: jax.Array, tables: Any, context: Context, weights: jax.Array, cfg: DecoderConfig
) -> tuple[jax.Array, jax.Array, Decoder]:
    """Logits, attention [L, B, N, T, T], and the gradient of the weighted sum of the logits."""

    def weighted(params: Decoder) -> Any:
        measure = {"context": context, "measure": lambda trace: (trace.query, trace.key)}
        logits, rotated = apply_decoder(params, tokens, tables, cfg, **measure)
        return jnp.sum(weights * logits), (logits, rotated)

    (_, (logits, rotated)), gradient = jax.value_and_grad(weighted, has_aux=True)(params)
    B, T = tokens.shape
    unit_vectors = jnp.tile(jnp.eye(T)[None, :, None], (B, 1, cfg.block.kv_heads, 1))

    def of_layer(row: Any) -> jax.Array:
        query, key, block, table = row
        scores = layer_scores(block, table, cfg.block, query, Context())._replace(value_bias=None)
        shares, _ = attend(query, key, unit_vectors, Mask(table.window, padding=context.padding, chunk=table.chunk), scores)
        return jnp.swapaxes(shares, 1, 2)

    return logits, jax.lax.map(of_layer, (*rotated, params.blocks, tables)), gradient


def of_ours(loaded: PublishedModel, length: int) -> Computed:
    """In one program for all lengths: a shorter text has more padding after it."""
    more = [(0, 0), (0, LENGTHS[-1] - length)]
    tokens, mask = (jnp.asarray(np.pad(x(length), more)) for x in (texts_of, mask_of))
    weights = jnp.asarray(np.pad(weights_of(length), [*more, (0, 0)]).astype(np.float32))
    context = Context(padding=mask, starts=jnp.asarray([0, 0, PADDED]))
    rows = tables(loaded.model, loaded.context, length)
    logits, attention, gradient = forward_and_backward(
        loaded.params, tokens.astype(jnp.int32), rows, context, weights, loaded.cfg
    )
    logits, attention = np.asarray(logits)[:, :length], np.asarray(attention)[..., :length, :length]
    return real(logits, attention, tensors_by_name(loaded, gradient), length)


def logits(loaded: PublishedModel, tokens: np.ndarray) -> np.ndarray:
    """Of texts without padding."""
    rows = tables(loaded.model, loaded.context, tokens.shape[1])
    compiled = jax.jit(apply_decoder, static_argnames="cfg")
    return np.asarray(compiled(loaded.params, jnp.asarray(tokens, jnp.int32), rows, loaded.cfg)[0])


def tensors_by_name(loaded: PublishedModel, params: Decoder) -> dict[str, np.ndarray]:
    """Weights, or their gradients, as tensors of the checkpoint."""
    leaves, tensors = weights_by_name(params), {}
    for row in loaded.rows:
        weights = [np.asarray(leaves[name]) for name in row.weights]
        for name, layer in tensors_of(row, loaded.cfg.layers):
            tensors[name] = np.asarray(row.theirs(*(weight[layer] if row.by_layer else weight for weight in weights)))
    return tensors


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest, relative to the largest number."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


class Parity:
    """What holds of every architecture."""

    @pytest.mark.parametrize("length", LENGTHS)
    def test_logits(self, pair: Pair, length: int) -> None:
        theirs, ours = pair.computed[length]
        assert difference(ours.logits, theirs.logits) < ROUNDING

    @pytest.mark.parametrize("length", LENGTHS)
    def test_attention_of_every_head(self, pair: Pair, length: int) -> None:
        theirs, ours = pair.computed[length]
        assert difference(ours.attention, theirs.attention) < ROUNDING

    def test_gradients_in_every_tensor(self, pair: Pair) -> None:
        theirs, ours = pair.computed[LENGTHS[-1]]
        differences = {name: difference(ours.gradients[name], gradient) for name, gradient in theirs.gradients.items()}
        assert set(theirs.gradients) == set(ours.gradients)
        assert max(differences.values()) < ROUNDING, differences

    def test_a_text_in_chunks_with_a_cache(self, pair: Pair) -> None:
        loaded, length = pair.loaded, LENGTHS[-1]
        cfg, rows, tokens = loaded.cfg, tables(loaded.model, loaded.context, length), texts_of(length)[:1]
        cache = full_cache(cfg.layers, 1, cfg.block.kv_heads, cfg.block.head_dim, room=length)
        step, logits = jax.jit(extend, static_argnames="cfg"), []
        for start in range(0, length, CHUNK):
            chunk = jnp.asarray(tokens[:, start : start + CHUNK], jnp.int32)
            of_chunk, cache = step(loaded.params, cache, chunk, rows, cfg)
            logits.append(np.asarray(of_chunk))
        theirs, _ = pair.computed[length]
        assert difference(np.concatenate(logits, axis=1), theirs.logits[:1]) < ROUNDING

    def test_every_tensor_is_there_once_and_goes_back_to_itself(self, pair: Pair) -> None:
        names = [name for row in pair.loaded.rows for name, _ in tensors_of(row, pair.loaded.cfg.layers)]
        assert sorted(names) == sorted(pair.checkpoint.entries)
        for name, tensor in tensors_by_name(pair.loaded, pair.loaded.params).items():
            np.testing.assert_array_equal(tensor, pair.checkpoint.read(name), err_msg=name)

    def test_other_tensors_are_named(self, pair: Pair) -> None:
        entries = pair.checkpoint.entries
        name, entry = next((name, entry) for name, entry in entries.items() if ".1." in name)
        changed = {
            f"lacks {name}": {other: entries[other] for other in entries if other != name},
            "has model.extra.weight, which": {**entries, "model.extra.weight": Entry((3,), "F32")},
            rf"has {name} of shape \[7, 5\]": {**entries, name: entry._replace(shape=(7, 5))},
        }
        for message, given in changed.items():
            with pytest.raises(UserError, match=message):
                load(replace(pair.checkpoint, entries=given))

    def test_an_unknown_setting_is_named(self, pair: Pair) -> None:
        with pytest.raises(UserError, match="unheard_of = 3"):
            load(replace(pair.checkpoint, config=pair.checkpoint.config | {"unheard_of": 3}))

    def test_a_missing_base_is_an_error(self, pair: Pair) -> None:
        if not isinstance(pair.loaded.model.position, Rope):
            pytest.skip("this architecture does not rotate")
        with pytest.raises(UserError, match=r"lacks 'ro(pe|tary)_"):
            load(replace(pair.checkpoint, config=without_base(pair.checkpoint.config)))


def without_base(config: Any) -> Any:
    if not isinstance(config, dict):
        return config
    return {key: without_base(value) for key, value in config.items() if key != "rope_theta"}
