"""Counted memory and FLOPs: against what XLA counts of compiled programs, and against arrays."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.exact import Released
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import attention_channels, decoder_config, feedforward_weights, forward_flops
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.memory import (
    Sized,
    blockwise_score_bytes,
    cache_by_layer,
    memory_of,
    of_decoder,
    of_shape,
    prefill_flops,
    score_bytes,
    token_flops,
)
from leadline.experiments.published.load import decoder_shapes
from leadline.model.attention.attention import attend, attention
from leadline.model.cache.ring import ring_cache
from leadline.model.decoder import DecoderConfig, apply_decoder
from leadline.model.generate import Decoding, Policy, empty_cache, layers_of, step
from tests.experiments.committed import COMMITTED

pytestmark = pytest.mark.usefixtures("in_use")

ROPE = {"kind": "rope", "base": 100.0}
SMALL: dict[str, Any] = {"layers": 2, "width": 64, "heads": 4, "hidden": 96, "position": ROPE}
V, T, B = 97, 64, 2
STRUCTURES = {
    "multi-head": {},
    "grouped queries": {"kv_heads": 2},
    "one key head": {"kv_heads": 1},
    "wide heads": {"head_dim": 32},
    "every second layer windowed": {"window": 8, "windowed": [True, False]},
    "window and initial tokens": {"window": 8, "initial_tokens": 2},
    "experts": {"experts": 4, "active_experts": 2},
    "without a gated feed-forward": {"feedforward": "relu"},
    "output gate": {"gate": {"kind": "output", "per": "channel"}},
    "PoPE": {"position": {"kind": "pope", "base": 100.0}},
    "ALiBi, sandwich, biases": {"position": "alibi", "norm_placement": "sandwich", "biases": ["query", "feedforward"]},
    "untied, learned positions, key bias": {"position": "learned", "tied": False, "sink": "key_bias"},
    "T5": {"position": "t5"},
}
(EXACT,) = [study.exact for _, study in COMMITTED if isinstance(study.exact, Released)]


@pytest.fixture(scope="module", autouse=True)
def scanned() -> None:
    """Layers are unrolled: XLA counts the body of a loop once."""


class Compiled(NamedTuple):
    """What XLA counts of a program."""

    flops: float
    arguments: int  # bytes
    temporary: int  # bytes


def compiled(function: Any, *arguments: Any) -> Compiled:
    program = jax.jit(function).lower(*arguments).compile()
    sizes: Any = program.memory_analysis()
    return Compiled((program.cost_analysis() or {})["flops"], sizes.argument_size_in_bytes, sizes.temp_size_in_bytes)


def sized(name: str) -> tuple[Sized, DecoderConfig]:
    model = ModelConfig.model_validate(SMALL | STRUCTURES[name])
    return of_decoder(name, name, model, V, T), decoder_config(model, V, T)


def behind_the_mask(model: Sized, keys: int) -> int:
    """FLOPs of a query and `keys` keys that XLA counts whether they are visible or not, and of experts that are not chosen.

    XLA's CPU back end multiplies the rows of every expert by all experts.
    """
    cfg = model.model
    network = feedforward_weights(cfg.width, cfg.hidden_width, cfg.feedforward)
    unchosen = 0 if cfg.experts is None else cfg.layers * cfg.active_experts * (cfg.experts - 1) * network
    return forward_flops(model.products + unchosen, attention_channels(cfg), 1, cfg.layers * keys)


def decoding(cfg: DecoderConfig, room: int) -> Decoding:
    """A text with room for so many tokens, as shapes."""

    def text() -> Decoding:
        cache = empty_cache(cfg, Policy(), B, room)
        rows = tuple(jax.tree.map(lambda leaf, n=n: leaf[n], cache) for n in range(cfg.layers))
        return Decoding(rows, jnp.zeros((B, V)))

    return jax.eval_shape(text)


def compiled_step(model: ModelConfig, cfg: DecoderConfig, room: int) -> Compiled:
    p = decoder_shapes(cfg)
    layers = jax.eval_shape(lambda p: layers_of(p, tables(model, room)), p)
    token = jax.ShapeDtypeStruct((B,), jnp.int32)
    return compiled(lambda p, layers, text, token: step(p, layers, text, token, cfg), p, layers, decoding(cfg, room), token)


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_pass_has_the_flops_and_the_weights_that_the_compiler_counts(name: str) -> None:
    """XLA also counts element-wise work (norms, softmax, rotations), up to 6 % at this width, and all T keys of each query."""
    model, cfg = sized(name)
    table = tables(model.model, T)
    tokens = jax.ShapeDtypeStruct((B, T), jnp.int32)
    program = compiled(lambda p, tokens: apply_decoder(p, tokens, table, cfg)[0], decoder_shapes(cfg), tokens)
    assert 1.0 < program.flops / (B * T * behind_the_mask(model, T)) < 1.06
    # Every block has sink logits, which are no parameters unless they are trained.
    sinks = 4 * model.model.layers * model.model.heads
    assert program.arguments == 4 * sum(model.parts.values()) + sinks + 4 * B * T


@pytest.mark.parametrize("name", [name for name in STRUCTURES if "learned" not in name])
def test_a_token_has_the_flops_that_the_compiler_counts(name: str) -> None:
    """Its keys are those that there is room for, and its own. T5's bias is made for all distances: 12 % more at this width."""
    model, cfg = sized(name)
    flops = compiled_step(model.model, cfg, T - 1).flops
    assert 1.0 < flops / (B * behind_the_mask(model, T)) < (1.19 if name == "T5" else 1.07)


@pytest.mark.parametrize("name", ["multi-head", "grouped queries", "one key head", "wide heads", "PoPE"])
def test_the_cache_grows_by_the_bytes_of_its_arguments(name: str) -> None:
    model, cfg = sized(name)
    short, long = (compiled_step(model.model, cfg, room).arguments for room in (T, 3 * T))
    counted = [cache_by_layer(model, tokens, B, 32).sum() for tokens in (T, 3 * T)]
    assert long - short == counted[1] - counted[0] > 0


def test_a_layer_with_a_window_caches_what_a_ring_holds() -> None:
    model, cfg = sized("window and initial tokens")
    b = cfg.block
    ring = ring_cache(cfg.layers, B, b.kv_heads, b.head_dim, initial_tokens=2, window=8)
    held = sum(x.nbytes for x in (ring.key, ring.value, ring.first_key, ring.first_value))
    assert cache_by_layer(model, T, B, 32).sum() == held
    by_layer = cache_by_layer(sized("every second layer windowed")[0], T, 1, 16)
    np.testing.assert_array_equal(by_layer, [2 * 2 * 4 * 16 * 8, 2 * 2 * 4 * 16 * T])


def test_flops_are_those_of_visible_keys() -> None:
    """A pass sees Σ min(i, window) keys, and is the tokens one after the other."""
    for name in ("multi-head", "every second layer windowed", "window and initial tokens", "PoPE", "experts"):
        model, _ = sized(name)
        assert prefill_flops(model, T, B) == sum(token_flops(model, n, B) for n in range(1, T + 1))
    full, windowed = (prefill_flops(sized(name)[0], T, 1) for name in ("multi-head", "every second layer windowed"))
    assert full - windowed == 4 * 64 * sum(max(i - 8, 0) for i in range(1, T + 1))


@pytest.mark.parametrize(("tokens", "heads", "kv_heads"), [(512, 4, 4), (1024, 4, 2), (2048, 4, 4), (4096, 8, 2)])
def test_attention_holds_the_scores_that_are_counted(tokens: int, heads: int, kv_heads: int) -> None:
    """Temporary memory has scores and their exponentials, and at most twice as much of masks, copies of q, k, v, and sums."""
    model = ModelConfig.model_validate(SMALL | {"heads": heads, "kv_heads": kv_heads, "head_dim": 16})
    q, k = (jax.ShapeDtypeStruct((1, tokens, n, 16), jnp.float32) for n in (heads, kv_heads))
    every = compiled(lambda q, k, v: attend(q, k, v)[0], q, k, k).temporary / score_bytes(model, tokens, 1)
    held = blockwise_score_bytes(model, tokens, 1, "cpu")
    blocks = compiled(lambda q, k, v: attention(q, k, v)[0], q, k, k).temporary / held
    assert 2.0 <= every < 2.1
    assert 1.0 < blocks < 3.0
    assert held < score_bytes(model, tokens, 1)


def test_what_attention_holds_depends_on_its_form() -> None:
    """All for 4 heads: a tile of 512, or 8 chunks of T / 8 queries, of which 128 see their keys at once."""
    model = ModelConfig.model_validate(SMALL)
    capped = model.model_copy(update={"soft_cap": 50.0})
    by_query = ModelConfig.model_validate(
        SMALL | {"position": {**ROPE, "scaling": {"kind": "dynamic_ntk", "factor": 2.0, "per": "query"}}}
    )
    assert blockwise_score_bytes(model, 4096, 3, "cpu") == 3 * 4 * 4 * 512**2
    assert blockwise_score_bytes(capped, 4096, 1, "cpu") == 4 * 4 * 128 * sum(512 * n for n in range(1, 9))
    assert blockwise_score_bytes(by_query, 4096, 1, "cpu") == 4 * 4 * 4096
    assert blockwise_score_bytes(model, 4096, 1, "gpu") == 0


@pytest.mark.parametrize("name", [name for name, shape in EXACT.models.items() if not (shape.latent or shape.encoder)])
def test_parts_are_those_that_are_counted_from_shapes(name: str) -> None:
    shape = EXACT.models[name]
    counted = of_shape(name, name, shape)
    traced = of_decoder(name, name, shape.model, shape.vocabulary, shape.context)
    assert {part: number for part, number in counted.parts.items() if part != "other"} == traced.parts
    assert counted.products == traced.products


def test_latent_attention_is_counted_as_it_is_computed() -> None:
    """DeepSeek-V2: N = 128, H = 128, r = 512, R = 64. 60 layers; a pass makes keys and values, a token does not."""
    model = of_shape("v2", "v2", EXACT.models["deepseek_v2"])
    assert model.products == pytest.approx(21e9, rel=0.02)  # the abstract has 21B active
    more = [flops(model, 8, 1) - 2 * model.products * tokens for flops, tokens in ((prefill_flops, 8), (token_flops, 1))]
    assert more == [2 * 60 * 128 * (192 + 128) * 36, 2 * 60 * 128 * (576 + 512) * 8]
    assert cache_by_layer(model, 8, 1, 16).tolist() == [2 * 576 * 8] * 60


def test_an_encoder_sees_all_tokens_and_caches_none() -> None:
    report = memory_of(of_shape("bert", "BERT", EXACT.models["bert_base"]), (), 1, "float16", "cpu")
    (entry,) = report["contexts"]
    assert (report["parameter_count"], report["weight_bytes"]) == (109_482_240, 2 * 109_482_240)
    assert (entry["context"], entry["cache_bytes"], entry["token_flops"]) == (512, 0, None)
    # 12 (4 D² + 8 D²) weights in products; 4 D T² for scores and values.
    assert entry["prefill_flops"] == 12 * (2 * 12 * 768**2 * 512 + 4 * 768 * 512**2)
