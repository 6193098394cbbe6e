"""Interventions in heads, by hand."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.attention.gate import GateConfig
from leadline.model.block import BlockConfig
from leadline.model.context import Context
from leadline.model.decoder import Decoder, apply_decoder
from leadline.model.intervention import Intervention, no_intervention, with_first_value, with_heads
from tests.model.naive import numbers
from tests.model.weights import BLOCK, CONFIG, VARIANTS, nope, weights

pytestmark = pytest.mark.usefixtures("quick_to_compile", "mesh")

NONE = no_intervention(2, 4, 2)
ROW = jax.tree.map(lambda leaf: leaf[0], NONE)
TWO_TEXTS = jnp.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])


@jax.jit
def intervened(p: Decoder, intervention: Intervention | None) -> jax.Array:
    return apply_decoder(p, TWO_TEXTS, nope(), CONFIG, context=Context(intervention=intervention))[0]


@pytest.mark.parametrize(("kept", "where"), [(1, np.s_[:]), (0, np.s_[1, 2])], ids=["no change", "a removed head"])
def test_a_removed_head_is_one_whose_output_weights_are_zero(kept, where):
    p = weights()
    by_hand = replace(p, blocks=replace(p.blocks, output=p.blocks.output.at[where].multiply(kept)))
    changed = replace(NONE, head=NONE.head.at[where].set(kept))
    np.testing.assert_allclose(intervened(p, changed), intervened(by_hand, None), atol=1e-5)


def test_all_mass_on_the_first_token_gives_its_value():
    """Of heads that share a key/value head too; a share of the mass moves that share of the output."""
    o, v, forced = numbers(1, 2, 5, 4, 3), numbers(2, 2, 5, 2, 3), np.array([1.0, 0.25, 0.0, 1.0], np.float32)
    moved = jax.jit(with_heads)(o, v, replace(ROW, forced=jnp.asarray(forced)))
    first = np.repeat(np.asarray(v)[:, :1], 2, axis=2)
    np.testing.assert_allclose(moved, (1 - forced[:, None]) * np.asarray(o) + forced[:, None] * first, atol=1e-6)


def test_an_emptied_first_value_is_zero_and_a_mean_one_is_the_mean_of_the_others():
    v = numbers(0, 2, 5, 2, 4)
    emptied = with_first_value(v, replace(ROW, first_value=jnp.zeros(2)))
    np.testing.assert_array_equal(emptied, v.at[:, 0].set(0))
    averaged = with_first_value(v, replace(ROW, first_value=jnp.zeros(2), mean_value=jnp.ones(2)))
    np.testing.assert_allclose(averaged[:, 0], np.mean(np.asarray(v)[:, 1:], axis=1), atol=1e-6)
    np.testing.assert_array_equal(with_first_value(v[:, :1], ROW), v[:, :1])  # a text of one token has no others


def layer_with(block: BlockConfig, **changes: float) -> tuple[Any, Any]:
    """The traces of a layer by itself and of one that is intervened in."""
    cfg, none = replace(CONFIG, layers=1, block=block), no_intervention(1, block.heads, block.kv_heads)

    @jax.jit
    def trace(p: Decoder, intervention: Intervention) -> Any:
        context = Context(intervention=intervention)
        return apply_decoder(p, TWO_TEXTS, nope(1), cfg, context=context, measure=lambda trace: trace)[1]

    changed = replace(none, **{name: jnp.full_like(getattr(none, name), value) for name, value in changes.items()})
    return trace(weights(cfg), none), trace(weights(cfg), changed)


def first_values(trace: Any, block: BlockConfig) -> np.ndarray:
    """What the heads of a layer [B, 1, N, H] give whose attention is all on the first token."""
    return np.repeat(np.asarray(trace.value)[0, :, :1], block.heads // block.kv_heads, axis=2)


def output_of(heads: np.ndarray, block: BlockConfig) -> np.ndarray:
    return np.einsum("btnh,nhd->btd", heads, weights(replace(CONFIG, layers=1, block=block)).blocks.output[0])


def test_a_first_value_is_changed_after_its_gate_and_before_attention() -> None:
    block = replace(BLOCK, gate=GateConfig("value", "channel"))
    plain, changed = layer_with(block, first_value=0, mean_value=1)
    np.testing.assert_array_equal(changed.key, plain.key)
    np.testing.assert_array_equal(changed.value[:, :, 1:], plain.value[:, :, 1:])
    np.testing.assert_allclose(changed.value[:, :, 0], np.mean(plain.value[:, :, 1:], axis=2), atol=1e-5)
    np.testing.assert_allclose(changed.output[0, :, :1], output_of(first_values(changed, block), block), atol=1e-5)


def test_mass_is_moved_to_the_first_token_before_the_gate_of_outputs() -> None:
    block = VARIANTS["gate"]
    _, changed = layer_with(block, forced=1)
    gated = np.asarray(changed.gate)[0][..., None] * first_values(changed, block)
    np.testing.assert_allclose(changed.output[0], output_of(gated, block), atol=1e-5)
