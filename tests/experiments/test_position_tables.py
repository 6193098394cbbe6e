"""From a configured position encoding to tables, and what a model does with them: one pass and cached decoding agree."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.build import decoder_config
from experiments.config.model import ModelConfig
from experiments.config.position import (
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
from experiments.config.scaling import (
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
from experiments.config.scores import Clipped, Relu, RowSink, Sigmoid, Softpick
from experiments.errors import UserError
from experiments.position_tables import tables
from model.cache import Cache, empty_cache
from model.decoder import Decoder, DecoderConfig, apply_decoder, extend, init_decoder
from model.positions.phase import fixed_point
from model.positions.rope_scaling import inverse_frequencies, ntk_aware
from model.positions.tables import PositionTables
from tests.model.weights import drawn

SMALL = ModelConfig(layers=1, width=16, heads=4, kv_heads=2, hidden=24, position=Rope(base=100.0))
V, TRAINED, T = 11, 6, 14
PARTS = (5, 1, 1, 1, 1, 5)  # single tokens across the training length; every further size is another program
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
    "p_rope": Rope(base=100.0, kept=0.5),
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


# One layer is enough for what does not differ between layers; these show that each layer has its own tables and weights.
LAYERS = {"rope": 2, "irope": 2, "t5": 2}

# What else attention may do to its scores, with RoPE.
SCORES: dict[str, dict[str, Any]] = {
    "clipped": {"kernel": Clipped(low=-0.05, high=1.1)},
    "softpick": {"kernel": Softpick()},
    "relu": {"kernel": Relu()},
    "sigmoid": {"kernel": Sigmoid()},
    "prepended row": {"sink": RowSink(value=True)},
    "temperature and soft cap": {"temperature": 0.5, "soft_cap": 2.0},
    "norms": {"qk_norm": True},
    "scalable": {"scalable": True},
}


def made(position: Any, **changes: Any) -> tuple[ModelConfig, DecoderConfig, Decoder]:
    model = SMALL.model_copy(update={"position": position, **changes})
    cfg = decoder_config(model, V, TRAINED)
    return model, cfg, drawn(lambda: init_decoder(jax.random.key(0), cfg), seed=3)


def decoded(p: Decoder, tokens: jax.Array, table: PositionTables, cfg: DecoderConfig, parts: tuple[int, ...]) -> jax.Array:
    """Logits of the text, read in parts of these sizes."""
    block = cfg.block
    cache: Cache = empty_cache(cfg.layers, tokens.shape[0], tokens.shape[1], block.kv_heads, block.head_dim)
    step = jax.jit(extend, static_argnames="cfg")
    logits = []
    for part in np.split(np.asarray(tokens), np.cumsum(parts)[:-1], axis=1):
        found, cache = step(p, cache, jnp.asarray(part), table, cfg)
        logits.append(found)
    return jnp.concatenate(logits, axis=1)


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", ENCODINGS)
def test_cached_decoding_agrees_with_one_pass_over_the_text(name: str) -> None:
    model, cfg, p = made(ENCODINGS[name], layers=LAYERS.get(name, 1))
    table = tables(model, TRAINED, T)
    tokens = jax.random.randint(jax.random.key(1), (2, T), 0, V)
    whole, _ = jax.jit(apply_decoder, static_argnames="cfg")(p, tokens, table, cfg)
    np.testing.assert_allclose(decoded(p, tokens, table, cfg, PARTS), whole, atol=2e-5)


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", SCORES)
def test_so_it_does_whatever_becomes_of_the_scores(name: str) -> None:
    model, cfg, p = made(Rope(base=100.0), **SCORES[name])
    table = tables(model, TRAINED, T)
    tokens = jax.random.randint(jax.random.key(1), (2, T), 0, V)
    whole, _ = jax.jit(apply_decoder, static_argnames="cfg")(p, tokens, table, cfg)
    np.testing.assert_allclose(decoded(p, tokens, table, cfg, PARTS), whole, atol=2e-5)


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", [name for name in ENCODINGS if name not in ("nope", "drope")])
def test_the_order_of_the_earlier_tokens_matters(name: str) -> None:
    """To the last logits of one layer, which without positions see a bag of tokens."""
    model, cfg, p = made(ENCODINGS[name], layers=2 if name == "irope" else 1)
    tokens = jnp.array([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 0], [3, 2, 1, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]])
    logits, _ = jax.jit(apply_decoder, static_argnames="cfg")(p, tokens, tables(model, TRAINED, T), cfg)
    assert np.abs(logits[0, -1] - logits[1, -1]).max() > 1e-4


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", ["dynamic_ntk", "longrope"])
def test_the_forms_of_a_dynamic_table_differ_beyond_the_training_length(name: str) -> None:
    """What is one under the published names: up to the training length all forms agree, beyond it no two of them do. Only the
    one table a text, chosen by a length that the text has yet to reach, changes what comes before."""
    logits = {}
    tokens = jax.random.randint(jax.random.key(1), (2, T), 0, V)
    for per in ("sequence", "query", "token"):
        model, cfg, p = made(ENCODINGS[f"{name}_{per}"])
        logits[per], _ = jax.jit(apply_decoder, static_argnames="cfg")(p, tokens, tables(model, TRAINED, T), cfg)
    np.testing.assert_allclose(logits["query"][:, :TRAINED], logits["token"][:, :TRAINED], atol=1e-5)
    assert np.abs(logits["sequence"] - logits["query"])[:, :TRAINED].max() > 1e-3
    assert np.abs(logits["query"] - logits["token"])[:, TRAINED:].max() > 1e-3


@pytest.mark.usefixtures("mesh")
def test_a_table_a_query_is_the_table_of_each_prefix() -> None:
    """The last logits of a one-layer model are those of the text that ends there, with the one table of its length."""
    model, cfg, p = made(rope(DynamicNtk(per="query")))
    fixed, one_table, _ = made(rope(DynamicNtk()))
    tokens = jax.random.randint(jax.random.key(1), (2, T), 0, V)
    compiled = jax.jit(apply_decoder, static_argnames="cfg")
    found, _ = compiled(p, tokens, tables(model, TRAINED, T), cfg)
    for length in (TRAINED, TRAINED + 1, T):
        prefix, _ = compiled(p, tokens[:, :length], tables(fixed, TRAINED, length), one_table)
        np.testing.assert_allclose(found[:, length - 1], prefix[:, -1], atol=1e-5)


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
