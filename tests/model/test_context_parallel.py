"""Texts spread over several devices against one device, what travels between them, and memory."""

import functools
from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from leadline.model.attention.attention import attention
from leadline.model.attention.gate import GateConfig
from leadline.model.attention.mask import Mask, Tiling
from leadline.model.attention.scores import Scores
from leadline.model.context import Context
from leadline.model.context_parallel import apply_context_parallel
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.mesh import TEXT, make_mesh
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.t5 import T5
from leadline.model.positions.xpos import xpos_decay
from tests.model.exchanges import exchanged
from tests.model.naive import numbers, tiling
from tests.model.weights import BLOCK, CONFIG, FREQUENCIES, nope, rope, weights

pytestmark = pytest.mark.usefixtures("quick_to_compile")

TWO_TEXTS = np.random.default_rng(0).integers(0, 29, (2, 40))
PADDING = np.arange(40)[None] >= np.array([[0], [3]])
# The blocks and tables of models, between which all encodings and mechanisms are shared out.
MODELS = {
    "rope, window, initial tokens, ALiBi": (BLOCK, lambda: rope(window=9, initial_tokens=2, slopes=alibi_slopes(4))),
    "T5 bias": (replace(BLOCK, position_bias=T5()), lambda: nope(1)),
    "xPos, soft cap, KV bias": (
        replace(BLOCK, soft_cap=True, key_bias=True, value_bias=True, gate=GateConfig("output", "head", static=True)),
        lambda: rope(1, decay=xpos_decay(8)),
    ),
    "scalable softmax, gate, a table a token, a document mask": (
        replace(BLOCK, scalable_softmax=True, qk_norm=True, gate=GateConfig("output", "head"), table_per="token"),
        lambda: rope(1, inverse_frequencies=FREQUENCIES / np.arange(1, 41)[:, None, None]),
    ),
}


def configured(name: str) -> tuple[DecoderConfig, Any]:
    """The structure and the tables of a model."""
    block, tables = MODELS[name]
    learned, layers = name == "T5 bias", 2 if "window" in name else 1
    end = 5 if "gate" in name else None  # a token that ends documents, some of which reach over several devices
    fields = {"layers": layers, "learned_positions": 40 * learned, "sinusoidal": learned, "document_end": end}
    return replace(CONFIG, block=block, **fields), tables


def both(cfg: DecoderConfig, tables: Any, parts: int) -> tuple[Any, Any]:
    """Logits and traces on one device, and on several."""

    def one_device(p: Decoder, tokens: jax.Array) -> Any:
        context = Context(padding=jnp.asarray(PADDING))
        return apply_decoder(p, tokens, given, cfg, context=context, measure=lambda trace: (trace, tokens))

    def several(p: Decoder, tokens: jax.Array) -> Any:
        return apply_context_parallel(p, tokens, given, cfg, padding=jnp.asarray(PADDING), measure=lambda *both: both)

    with jax.set_mesh(make_mesh()):
        params = jax.device_get(weights(cfg))
        given = jax.device_get(tables())
        alone = jax.device_get(jax.jit(one_device)(params, TWO_TEXTS))
    with jax.set_mesh(make_mesh(text=parts)):
        return alone, jax.device_get(jax.jit(several)(params, TWO_TEXTS))


@pytest.mark.parametrize(("name", "parts"), [(name, 8 if "window" in name else 4) for name in MODELS])
def test_it_is_the_text_on_one_device(name: str, parts: int) -> None:
    alone, spread = both(*configured(name), parts)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=2e-5, rtol=2e-5), spread, alone)


@pytest.mark.parametrize("name", [name if "gate, a" in name else pytest.param(name, marks=pytest.mark.slow) for name in MODELS])
def test_gradients_of_weights_add_up_over_devices_to_those_on_one(name: str) -> None:
    """Taken within a shard_map."""
    (cfg, tables), w = configured(name), np.asarray(numbers(3, 2, 40, CONFIG.vocabulary))

    def gradient(p: Decoder, tokens: Any, w: Any, padding: Any, *, parallel: bool) -> Decoder:
        def loss(p: Decoder) -> jax.Array:
            context = Context(padding=padding, context_parallel=parallel)
            return jnp.sum(w * apply_decoder(p, tokens, given, cfg, context=context)[0])

        return jax.grad(loss)(p)

    def summed(*arguments: Any) -> Decoder:
        return jax.lax.psum(gradient(*arguments, parallel=True), TEXT)

    with jax.set_mesh(make_mesh()):
        params, given = jax.device_get((weights(cfg), tables()))
        alone = jax.device_get(jax.jit(functools.partial(gradient, parallel=False))(params, TWO_TEXTS, w, PADDING))
    with jax.set_mesh(make_mesh(text=4)):
        along = P(None, TEXT)
        specs = {"in_specs": (P(), along, along, along), "out_specs": P()}
        program = jax.jit(jax.shard_map(summed, **specs, axis_names={TEXT}, check_vma=False))
        spread = jax.device_get(program(params, *(jax.device_put(x, along) for x in (TWO_TEXTS, w, PADDING))))
    for a, b in zip(jax.tree.leaves(spread), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("form", [None, 5, (5, 16)])
def test_attention_its_gradient_and_what_keys_receive_are_those_on_one_device(form: Any) -> None:
    """Taken on the devices, of parts of 8 tokens in one tile or in several that end elsewhere."""
    cut = Tiling() if form is None else tiling(form)
    given = tuple(np.asarray(numbers(seed, 1, 24, 2, 4)) for seed in range(4))
    mask, scores = Mask(7, 2), Scores(slopes=jnp.asarray([0.1, 0.0]))

    def gradient(q: Any, k: Any, v: Any, w: Any, *, parallel: bool) -> Any:
        def loss(q: Any, k: Any, v: Any) -> Any:
            out, statistics = attention(q, k, v, mask, scores, context_parallel=parallel, tiling=cut)
            return jnp.sum(w * out), statistics.received

        return jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(q, k, v)

    with jax.set_mesh(make_mesh()):
        alone = jax.device_get(jax.jit(functools.partial(gradient, parallel=False))(*given))
    with jax.set_mesh(make_mesh(text=3, devices=jax.devices()[:3])):
        along = jax.P(None, TEXT)
        specs = {"in_specs": (along,) * 4, "out_specs": ((along,) * 3, jax.P(None, None, TEXT))}
        part = functools.partial(gradient, parallel=True)
        program = jax.jit(jax.shard_map(part, **specs, axis_names={TEXT}, check_vma=False))
        spread = jax.device_get(program(*(jax.device_put(x, along) for x in given)))
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), spread, alone)


def compiled(cfg: DecoderConfig, length: int, parts: int) -> Any:
    """The logits' sum, of one text."""
    with jax.set_mesh(make_mesh(text=parts)):
        params = jax.eval_shape(lambda: init_decoder(jax.random.key(0), cfg))
        tables = rope(cfg.layers)
        apply = apply_context_parallel if parts > 1 else apply_decoder
        program = jax.jit(lambda p, t: apply(p, t, tables, cfg)[0])
        return program.lower(params, jax.ShapeDtypeStruct((1, length), jnp.int32)).compile()


def test_keys_and_values_travel_and_nothing_else() -> None:
    exchanges = (kind for _, kind in exchanged(compiled(CONFIG, 64, 4)))
    assert Counter(exchanges) == {"all-gather": 2 * CONFIG.layers}


def test_a_device_holds_a_part() -> None:
    """Of the activations of 64k tokens, which the logits of a large vocabulary are most of."""
    cfg = replace(CONFIG, vocabulary=512, layers=1)
    alone, spread = (compiled(cfg, 2**16, parts).memory_analysis() for parts in (1, 8))
    sizes = [plan.temp_size_in_bytes + plan.output_size_in_bytes for plan in (alone, spread)]
    assert sizes[1] < sizes[0] / 4


def test_what_cannot_be_divided_says_so() -> None:
    with jax.set_mesh(make_mesh(text=4)):
        params = weights()
        with pytest.raises(ValueError, match="42 tokens cannot be divided evenly among 4 devices"):
            apply_context_parallel(params, jnp.zeros((1, 42), jnp.int32), rope(), CONFIG)
        short = replace(CONFIG, learned_positions=20)
        with pytest.raises(ValueError, match="learned positions end at 20: 40 tokens are too many"):
            apply_context_parallel(weights(short), jnp.zeros((1, 40), jnp.int32), rope(), short)
        by_query = replace(CONFIG, block=replace(BLOCK, table_per="query"))
        with pytest.raises(ValueError, match="rotates all keys"):
            apply_context_parallel(params, jnp.zeros((1, 40), jnp.int32), rope(), by_query)
