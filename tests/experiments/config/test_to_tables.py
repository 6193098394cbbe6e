"""From a configured position encoding to tables, and agreement of one pass over a text with cached decoding."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.model import Clipped, KeyBias, ModelConfig, Relu, Sigmoid, Softpick
from leadline.experiments.config.position import (
    T5,
    Alibi,
    Axial,
    Cope,
    Fire,
    Kerple,
    LearnedPositions,
    Nope,
    Pope,
    Rope,
    Sinusoidal,
    Temperature,
    XPos,
)
from leadline.experiments.config.scaling import (
    DynamicNtk,
    DynamicYarn,
    Llama3,
    LongRope,
    NtkAware,
    NtkByParts,
    PositionInterpolation,
    Scaling,
    Yarn,
)
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.runtime.errors import UserError
from leadline.model.cache.full import full_cache
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, extend, init_decoder
from leadline.model.positions.angles import fixed_point
from leadline.model.positions.frequencies import inverse_frequencies, ntk_aware
from leadline.model.positions.tables import PositionTables
from tests.model.weights import drawn

SMALL = ModelConfig(layers=1, width=16, heads=4, kv_heads=2, hidden=24, position=Rope(base=100.0))
V, TRAINED, T = 11, 6, 14
PART = 2  # tokens that are read at a time, across the training length; every further size is another program
SHORT, LONG = (1.0, 1.5), (2.0, 5.0)


def rope(scaling: Scaling, **changes: Any) -> Rope:
    return Rope(base=100.0, scaling=scaling, **changes)


# LongRoPE and the dynamic ones once a text, once a query, once a token.
ENCODINGS: dict[str, Any] = {
    "rope": Rope(base=100.0),
    "interleaved": Rope(base=100.0, interleaved=True),
    "pi": rope(PositionInterpolation(factor=2.0)),
    "ntk": rope(NtkAware(factor=2.0)),
    "ntk_by_parts": rope(NtkByParts(factor=2.0)),
    "yarn": rope(Yarn(factor=2.0)),
    "llama3": rope(Llama3(factor=2.0)),
    "partial": Rope(base=100.0, partial=0.5, scaling=Yarn(factor=2.0)),
    "p_rope": Rope(base=100.0, p=0.5),
    "irope": Rope(base=100.0, nope_every=2, temperature=Temperature(span=3)),
    "drope": Rope(base=100.0, drop_after=0.5),
    "m_rope": Rope(base=100.0, sections=(1, 1), grid=(3,)),
    "axial": Axial(grid=(3,)),
    "xpos": XPos(base=100.0),
    "pope": Pope(base=100.0),
    "alibi": Alibi(),
    "t5": T5(buckets=4, furthest=6),
    "kerple": Kerple(),
    "kerple_power": Kerple(form="power"),
    "fire": Fire(hidden=4),
    "cope": Cope(positions=4),
    "sinusoidal": Sinusoidal(),
    "learned": LearnedPositions(capacity=T),
    "nope": Nope(),
} | {
    f"{name}_{per}": rope(scaling.model_copy(update={"per": per}))
    for name, scaling in (
        ("dynamic_ntk", DynamicNtk()),
        ("dynamic_yarn", DynamicYarn()),
        ("longrope", LongRope(short=SHORT, long=LONG, factor=2.0)),
    )
    for per in ("sequence", "query", "token")
}


# These encodings have tables or weights that differ between layers; the others need one layer.
LAYERS = {"rope": 2, "irope": 2, "t5": 2}

# What else attention may do to its scores.
SCORES: dict[str, dict[str, Any]] = {
    "clipped": {"normalizer": Clipped(low=-0.05, high=1.1)},
    "softpick": {"normalizer": Softpick()},
    "relu": {"normalizer": Relu()},
    "sigmoid": {"normalizer": Sigmoid()},
    "key and value bias": {"sink": KeyBias(kind="key_value_bias")},
    "temperature and soft cap": {"temperature": 0.5, "soft_cap": 2.0},
    "norms": {"qk_norm": True},
    "scalable softmax": {"scalable_softmax": True},
}

whole_text = jax.jit(apply_decoder, static_argnames="cfg")


def model_of(**changes: Any) -> tuple[ModelConfig, DecoderConfig, Decoder]:
    model = SMALL.model_copy(update=changes)
    cfg = decoder_config(model, V, TRAINED)
    return model, cfg, drawn(lambda: init_decoder(jax.random.key(0), cfg), seed=3)


extended_text = jax.jit(extend, static_argnames="cfg")


def decoded(p: Decoder, tokens: jax.Array, table: PositionTables, cfg: DecoderConfig) -> jax.Array:
    """Logits of the text, read in parts."""
    block = cfg.block
    sizes = cfg.layers, tokens.shape[0], block.kv_heads, block.head_dim
    cache = full_cache(*sizes, room=tokens.shape[1], key_dim=2 * block.head_dim if block.polar else None)
    logits = []
    for part in np.split(np.asarray(tokens), T // PART, axis=1):
        part_logits, cache = extended_text(p, cache, jnp.asarray(part), table, cfg)
        logits.append(part_logits)
    return jnp.concatenate(logits, axis=1)


CHANGES: dict[str, dict[str, Any]] = {
    **{name: {"position": position, "layers": LAYERS.get(name, 1)} for name, position in ENCODINGS.items()},
    **SCORES,
}


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", CHANGES)
def test_cached_decoding_agrees_with_one_pass_over_the_text(name: str) -> None:
    model, cfg, p = model_of(**CHANGES[name])
    table = tables(model, TRAINED, T)
    tokens = jax.random.randint(jax.random.key(1), (2, T), 0, V)
    whole, _ = whole_text(p, tokens, table, cfg)
    np.testing.assert_allclose(decoded(p, tokens, table, cfg), whole, atol=2e-5)


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", [name for name in ENCODINGS if name not in ("nope", "drope")])
def test_the_order_of_the_earlier_tokens_matters(name: str) -> None:
    """One layer without positions sees a bag of tokens: its last logits depend on the order only by the encoding."""
    model, cfg, p = model_of(position=ENCODINGS[name], layers=2 if name == "irope" else 1)
    tokens = jnp.array([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 0], [3, 2, 1, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]])
    logits, _ = whole_text(p, tokens, tables(model, TRAINED, T), cfg)
    assert np.abs(logits[0, -1] - logits[1, -1]).max() > 1e-4


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", ["dynamic_ntk", "longrope"])
def test_the_forms_of_a_dynamic_table_differ_beyond_the_training_length(name: str) -> None:
    """Tables by query and by token agree up to the training length and differ beyond it.

    One table a text is chosen by the length of the whole text, so that it differs before that length too.
    """
    logits = {}
    tokens = jax.random.randint(jax.random.key(1), (2, T), 0, V)
    for per in ("sequence", "query", "token"):
        model, cfg, p = model_of(position=ENCODINGS[f"{name}_{per}"])
        logits[per], _ = whole_text(p, tokens, tables(model, TRAINED, T), cfg)
    np.testing.assert_allclose(logits["query"][:, :TRAINED], logits["token"][:, :TRAINED], atol=1e-5)
    assert np.abs(logits["sequence"] - logits["query"])[:, :TRAINED].max() > 1e-3
    assert np.abs(logits["query"] - logits["token"])[:, TRAINED:].max() > 1e-3


@pytest.mark.usefixtures("mesh")
def test_a_table_a_query_is_the_table_of_each_prefix() -> None:
    """The last logits of a one-layer model are those of the text that ends there, with the one table of its length."""
    model, cfg, p = model_of(position=rope(DynamicNtk(per="query")))
    fixed, one_table, _ = model_of(position=rope(DynamicNtk()))
    tokens = jax.random.randint(jax.random.key(1), (2, T), 0, V)
    logits, _ = whole_text(p, tokens, tables(model, TRAINED, T), cfg)
    for length in (TRAINED, TRAINED + 1, T):
        prefix, _ = whole_text(p, tokens[:, :length], tables(fixed, TRAINED, length), one_table)
        np.testing.assert_allclose(logits[:, length - 1], prefix[:, -1], atol=1e-5)


def units(position: Any, length: int = T) -> np.ndarray:
    return np.asarray(tables(SMALL.model_copy(update={"position": position}), TRAINED, length).frequencies.units)


def test_dynamic_ntk_is_ntk_by_the_length_over_the_training_length() -> None:
    expected = fixed_point(ntk_aware(4, 100.0, T / TRAINED)).units
    np.testing.assert_array_equal(units(rope(DynamicNtk()))[0, 0], expected)
    np.testing.assert_array_equal(units(rope(DynamicNtk(per="token")))[0, T - 1, 0], expected)
    np.testing.assert_array_equal(units(rope(DynamicNtk()), TRAINED), units(Rope(base=100.0)))


def test_longrope_changes_lists_behind_the_training_length() -> None:
    whole = rope(LongRope(short=SHORT, long=LONG, factor=2.0))
    short, long = (fixed_point(inverse_frequencies(4, 100.0) / np.array(factors)).units for factors in (SHORT, LONG))
    np.testing.assert_array_equal(units(whole, TRAINED)[0, 0], short)
    np.testing.assert_array_equal(units(whole, TRAINED + 1)[0, 0], long)


def test_every_other_layer_has_no_positions_and_a_temperature() -> None:
    position = Rope(base=100.0, nope_every=2, temperature=Temperature(strength=0.3, span=3))
    table = tables(SMALL.model_copy(update={"position": position, "layers": 4}), TRAINED)
    np.testing.assert_array_equal(np.asarray(table.frequencies.units).any(axis=(1, 2)), [True, False] * 2)
    np.testing.assert_allclose(table.temperature, [0, 0.3] * 2, rtol=1e-6)


def test_positions_are_dropped_in_training() -> None:
    model = SMALL.model_copy(update={"position": Rope(base=100.0, drop_after=0.9)})
    early, late = (tables(model, TRAINED, trained=trained).frequencies.units for trained in (0.8, 0.9))
    assert np.any(early)
    assert not np.any(late)


def test_the_attention_factor_is_that_of_the_rotated_pairs() -> None:
    model = SMALL.model_copy(update={"position": Rope(base=100.0, partial=0.5, scaling=Yarn(factor=2.0, attention_factor=1.3))})
    np.testing.assert_allclose(tables(model, TRAINED).attention_factor[0], [1.3, 1.0], rtol=1e-6)
    multiplied = rope(Yarn(factor=np.e, attention_multiplier=2.0))
    factor = tables(SMALL.model_copy(update={"position": multiplied}), TRAINED).attention_factor
    np.testing.assert_allclose(factor, 2.2, rtol=1e-6)


def test_a_text_that_xpos_cannot_take_is_refused() -> None:
    model = SMALL.model_copy(update={"position": XPos(base=100.0)})
    with pytest.raises(UserError, match=r"xPos leaves the range of float32 at \d+ tokens, this text has 10000000"):
        tables(model, TRAINED, 10_000_000)
