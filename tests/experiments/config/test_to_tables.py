"""From a configured position encoding to tables, and agreement of one pass over a text with cached decoding."""

import math
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.runtime.errors import UserError
from leadline.model.attention.mask import NO_WINDOW
from leadline.model.cache.full import full_cache
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.extend import extend
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.angles import fixed_point
from leadline.model.positions.frequencies import inverse_frequencies, ntk_aware, position_interpolation
from leadline.model.positions.tables import PositionTables
from leadline.model.positions.yarn import ntk_by_parts, yarn
from tests.model.weights import drawn

Tree = dict[str, Any]  # a table of a configuration
V, TRAINED, T = 11, 6, 14
PART = 2  # tokens that are read at a time, across the training length; every further size is another program
SHORT, LONG = (1.0, 1.5), (2.0, 5.0)
DYNAMIC: dict[str, Tree] = {"dynamic_ntk": {}, "dynamic_yarn": {}, "longrope": {"short": SHORT, "long": LONG, "factor": 2.0}}


def rope(**fields: Any) -> Tree:
    return {"kind": "rope", "base": 100.0, **fields}


def scaled(kind: str, **fields: Any) -> Tree:
    return rope(scaling={"kind": kind, **fields})


def configured(**changes: Any) -> ModelConfig:
    sizes = {"layers": 1, "width": 16, "heads": 4, "kv_heads": 2, "hidden": 24}
    return ModelConfig.model_validate({**sizes, "position": rope(), **changes})


# LongRoPE and the dynamic ones once a text, once a query, once a token.
ENCODINGS: dict[str, Tree] = {
    "rope": rope(),
    "interleaved": rope(interleaved=True),
    **{kind: scaled(kind, factor=2.0) for kind in ("pi", "ntk", "ntk_by_parts", "yarn", "llama3")},
    **{f"{kind}_{per}": scaled(kind, per=per, **DYNAMIC[kind]) for kind in DYNAMIC for per in ("sequence", "query", "token")},
    "partial": rope(partial=0.5, scaling={"kind": "yarn", "factor": 2.0}),
    "p_rope": rope(p=0.5),
    "irope": rope(nope_every=2, temperature={"span": 3}),
    "drope": rope(drop_after=0.5),
    "m_rope": rope(sections=(1, 1), grid=(3,)),
    "axial": {"kind": "axial", "grid": (3,)},
    **{kind: {"kind": kind, "base": 100.0} for kind in ("xpos", "pope")},
    "t5": {"kind": "t5", "buckets": 4, "furthest": 6},
    "fire": {"kind": "fire", "hidden": 4},
    "cope": {"kind": "cope", "positions": 4},
    "learned": {"kind": "learned", "capacity": T},
    **{kind: {"kind": kind} for kind in ("alibi", "kerple", "sinusoidal", "nope")},
}
# What else attention may do to its scores, besides tests.model.weights.VARIANTS; one program serves several.
SCORES: dict[str, Tree] = {
    "clipped, norms and soft cap": {
        "normalizer": {"kind": "clipped", "low": -0.05, "high": 1.1},
        "qk_norm": True,
        "soft_cap": 2.0,
    },
    "softpick and scalable softmax": {"normalizer": {"kind": "softpick"}, "scalable_softmax": True},
    "sigmoid and temperature": {"normalizer": {"kind": "sigmoid"}, "temperature": 0.5},
}
# What published models mix among their layers, and do besides attention.
MODELS: dict[str, Tree] = {
    "windows and bases by layer": {
        "layers": 2,
        "window": 5,
        "windowed": (True, False),
        "window_position": rope(base=10.0),
        "zero_centered_norm": True,
        "norm_placement": "sandwich",
        "final_cap": 2.0,
    },
    "chunks": {"layers": 2, "window": 5, "windowed": (True, False), "chunked": True},
    "experts": {"experts": 3, "active_experts": 2, "biases": ("key", "feedforward"), "norm_placement": "parallel_one_norm"},
}
CHANGES: dict[str, Tree] = {name: {"position": position} for name, position in ENCODINGS.items()} | SCORES | MODELS
CHANGES["irope"]["layers"] = 2  # its tables differ between layers

TEXT = np.random.default_rng(1).integers(0, V, (2, T))
whole_text = jax.jit(apply_decoder, static_argnames="cfg")
extended_text = jax.jit(extend, static_argnames="cfg")


def model_of(**changes: Any) -> tuple[ModelConfig, DecoderConfig, Decoder]:
    model = configured(**changes)
    cfg = decoder_config(model, V, TRAINED)
    return model, cfg, drawn(lambda: init_decoder(jax.random.key(0), cfg), seed=3)


def decoded(p: Decoder, table: PositionTables, cfg: DecoderConfig) -> jax.Array:
    """Logits of the text, read in parts."""
    block = cfg.block
    sizes = cfg.layers, len(TEXT), block.kv_heads, block.head_dim
    cache = full_cache(*sizes, room=T, key_dim=2 * block.head_dim if block.polar else None)
    logits = []
    for part in np.split(TEXT, T // PART, axis=1):
        part_logits, cache = extended_text(p, cache, jnp.asarray(part), table, cfg)
        logits.append(part_logits)
    return jnp.concatenate(logits, axis=1)


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", CHANGES)
def test_cached_decoding_agrees_with_one_pass_over_the_text(name: str) -> None:
    model, cfg, p = model_of(**CHANGES[name])
    table = tables(model, TRAINED, T)
    whole, _ = whole_text(p, jnp.asarray(TEXT), table, cfg)
    np.testing.assert_allclose(decoded(p, table, cfg), whole, atol=2e-5)


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", ENCODINGS)
def test_the_order_of_the_earlier_tokens_matters_by_positions_alone(name: str) -> None:
    """One layer without positions sees a bag of tokens: its last logits depend on the order only by the encoding."""
    model, cfg, p = model_of(**CHANGES[name])
    tokens = jnp.array([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 0], [3, 2, 1, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]])
    logits, _ = whole_text(p, tokens, tables(model, TRAINED, T), cfg)
    assert (np.abs(logits[0, -1] - logits[1, -1]).max() > 1e-4) == (name not in ("nope", "drope"))


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", ["dynamic_ntk", "longrope"])
def test_the_forms_of_a_dynamic_table_differ_beyond_the_training_length(name: str) -> None:
    """Tables by query and by token agree up to the training length and differ beyond it.

    One table a text is chosen by the length of the whole text, so that it differs before that length too.
    """
    logits = {}
    for per in ("sequence", "query", "token"):
        model, cfg, p = model_of(position=ENCODINGS[f"{name}_{per}"])
        logits[per], _ = whole_text(p, jnp.asarray(TEXT), tables(model, TRAINED, T), cfg)
    np.testing.assert_allclose(logits["query"][:, :TRAINED], logits["token"][:, :TRAINED], atol=1e-5)
    assert np.abs(logits["sequence"] - logits["query"])[:, :TRAINED].max() > 1e-3
    assert np.abs(logits["query"] - logits["token"])[:, TRAINED:].max() > 1e-3


@pytest.mark.usefixtures("mesh")
def test_a_table_a_query_is_the_table_of_each_prefix() -> None:
    """The last logits of a one-layer model are those of the text that ends there, with the one table of its length."""
    model, cfg, p = model_of(position=scaled("dynamic_ntk", per="query"))
    fixed, one_table, _ = model_of(position=scaled("dynamic_ntk"))
    logits, _ = whole_text(p, jnp.asarray(TEXT), tables(model, TRAINED, T), cfg)
    for length in (TRAINED + 1, T):
        prefix, _ = whole_text(p, jnp.asarray(TEXT[:, :length]), tables(fixed, TRAINED, length), one_table)
        np.testing.assert_allclose(logits[:, length - 1], prefix[:, -1], atol=1e-5)


SHORTENED, LENGTHENED = (inverse_frequencies(4, 100.0) / np.array(factors) for factors in (SHORT, LONG))
WHOLE = ENCODINGS["longrope_sequence"]


@pytest.mark.parametrize(
    ("position", "length", "expected"),
    [
        (rope(base=50.0), T, inverse_frequencies(4, 50.0)),
        (scaled("pi", factor=4.0), T, position_interpolation(4, 100.0, 4.0)),
        (scaled("ntk", factor=4.0), T, ntk_aware(4, 100.0, 4.0)),
        (scaled("yarn", factor=4.0), T, yarn(4, 100.0, 4.0, TRAINED)),
        (scaled("yarn", factor=4.0, original_length=999, truncate=False), T, yarn(4, 100.0, 4.0, 999, truncate=False)),
        (scaled("dynamic_ntk"), T, ntk_aware(4, 100.0, T / TRAINED)),
        (scaled("dynamic_ntk", per="token"), T, ntk_aware(4, 100.0, T / TRAINED)),
        (scaled("dynamic_ntk"), TRAINED, inverse_frequencies(4, 100.0)),
        (WHOLE, TRAINED, SHORTENED),
        (WHOLE, TRAINED + 1, LENGTHENED),
        (scaled("longrope", factor=4.0), TRAINED, inverse_frequencies(4, 100.0)),
        (scaled("longrope", factor=4.0), TRAINED + 1, ntk_by_parts(4, 100.0, 4.0, TRAINED)),
    ],
)
def test_the_last_frequencies_are_those_of_the_scaling(position: Tree, length: int, expected: np.ndarray) -> None:
    table, wanted = tables(configured(position=position), TRAINED, length), fixed_point(expected)
    for name in ("units", "remainder"):
        np.testing.assert_array_equal(getattr(table.frequencies, name).reshape(-1, 2)[-1], getattr(wanted, name))


IROPE = {"layers": 8, "position": rope(nope_every=4, temperature={"strength": 0.3, "span": 3})}
YARN = scaled("yarn", factor=2.0, attention_factor=1.3)
MIXED = {"layers": 3, "window": 5, "windowed": (True, False)}


@pytest.mark.parametrize(
    ("changes", "name", "expected"),
    [
        ({"position": YARN}, "attention_factor", 1.3),
        ({"position": scaled("yarn", factor=4.0)}, "attention_factor", 0.1 * math.log(4) + 1),
        ({"position": {**YARN, "partial": 0.5}}, "attention_factor", [[1.3, 1.0]] * 2),
        ({"position": scaled("yarn", factor=math.e, attention_multiplier=2.0)}, "attention_factor", 2.2),
        (IROPE, "frequencies.units.any", [True, True, True, False] * 2),
        (IROPE, "temperature", [0, 0, 0, 0.3] * 2),
        *(({"position": {"kind": kind}}, "frequencies.units", 0) for kind in ("alibi", "nope", "learned")),
        *(({"position": other}, "slopes", 0) for other in (rope(), {"kind": "nope"}, {"kind": "learned"})),
        ({"position": {"kind": "alibi"}}, "slopes", [alibi_slopes(4)] * 2),
        ({}, "window", NO_WINDOW),
        ({"window": 5, "initial_tokens": 2}, "window", 5),
        ({"window": 5, "initial_tokens": 2}, "initial_tokens", 2),
        (MIXED, "window", [5, NO_WINDOW, 5]),
        (MIXED, "attention_factor", 1),
        ({**MIXED, "window_position": YARN}, "attention_factor", [[1.3, 1.3], [1, 1], [1.3, 1.3]]),
        ({**MIXED, "window_position": {"kind": "nope"}}, "frequencies.units.any", [False, True, False]),
        ({"gate": {"kind": "output", "per": "head", "low": 0.5, "high": 1.5}}, "attention.gate", [[0.5, 1.5]] * 2),
        ({"normalizer": {"kind": "clipped", "low": -0.1, "high": 1.2}}, "attention.normalizer", [[-0.1, 1.2]] * 2),
        ({"normalizer": {"kind": "sigmoid"}}, "attention.normalizer", [[-math.log(TRAINED), 0.0]] * 2),
        ({"normalizer": {"kind": "sigmoid", "bias": -2.0}}, "attention.normalizer", [[-2.0, 0.0]] * 2),
        ({"temperature": 4.0}, "attention.scale", 0.25),
        ({"soft_cap": 30.0}, "attention.cap", 30),
    ],
)
def test_a_setting_is_a_value_of_every_layer(changes: dict[str, Any], name: str, expected: Any) -> None:
    values = attrgetter(name.removesuffix(".any"))(tables(configured(**{"layers": 2, **changes}), TRAINED))
    values = np.any(values, axis=(1, 2)) if name.endswith(".any") else values
    np.testing.assert_allclose(values, np.broadcast_to(expected, np.shape(values)), rtol=1e-6)


@pytest.mark.parametrize(("trained", "rotated"), [(0.8, True), (0.9, False)])
def test_positions_are_dropped_in_training(trained: float, rotated: bool) -> None:
    model = configured(position=rope(drop_after=0.9))
    assert np.any(tables(model, TRAINED, trained=trained).frequencies.units) == rotated


def test_layers_of_irope_keep_their_temperature_where_positions_are_dropped() -> None:
    model = configured(layers=2, position=rope(drop_after=0.9, nope_every=2, temperature={"span": 3}))
    before, after = (tables(model, TRAINED, trained=trained) for trained in (0.8, 0.9))
    assert np.any(before.temperature)
    np.testing.assert_array_equal(after.temperature, before.temperature)
    assert not np.any(after.frequencies.units)


def test_a_text_that_xpos_cannot_take_is_refused() -> None:
    with pytest.raises(UserError, match=r"xPos leaves the range of float32 at \d+ tokens, this text has 10000000"):
        tables(configured(position=ENCODINGS["xpos"]), TRAINED, 10_000_000)
