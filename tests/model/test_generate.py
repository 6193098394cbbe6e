"""Decoding token by token against one pass over the text, and with a stream that forgets against `extend`."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from leadline.model.attention.hyperparameters import hyperparameters
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.extend import extend
from leadline.model.generate import Policy, begin, decode, empty_cache, generate, layers_of
from leadline.model.mesh import make_mesh
from leadline.model.positions.cope import Cope
from leadline.model.positions.fire import Fire
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.relative import PositionBias
from leadline.model.positions.t5 import T5
from leadline.model.positions.tables import PositionTables, position_tables
from leadline.model.positions.xpos import longest_with, xpos_decay
from leadline.model.sampling import Sampling, draw_token, sampling
from tests.model.weights import BLOCK, CONFIG, FREQUENCIES, VARIANTS, alibi, nope, rope, weights

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")

ONE_LAYER = replace(CONFIG, layers=1)
KEY = jax.random.key(0)
PROMPT = np.random.default_rng(3).integers(0, 29, (2, 9))
INITIAL = Policy(6, 3)
ONE_PASS = jax.jit(apply_decoder, static_argnames="cfg")
loud = functools.partial(weights, sink_logit=0.5)


def by_token(p: Decoder, tables: PositionTables, cfg: DecoderConfig, policy: Policy, count: int) -> tuple[Any, Any]:
    """Greedy tokens, and the logits after the last one."""
    text = begin(p, jnp.asarray(PROMPT), tables, cfg, policy, PROMPT.shape[1] + count)
    tokens, text = decode(p, layers_of(p, tables), text, count, cfg, sampling(), KEY)
    return np.asarray(tokens), text.logits


def assert_one_pass(p: Decoder, tables: PositionTables, cfg: DecoderConfig, policy: Policy = Policy()) -> None:
    """The tokens are those that one pass over all of them finds most likely."""
    tokens, last = by_token(p, tables, cfg, policy, 12)
    whole, _ = ONE_PASS(p, jnp.asarray(np.concatenate([PROMPT, tokens], axis=1)), tables, cfg)
    np.testing.assert_array_equal(tokens, np.argmax(whole[:, 8:-1], axis=-1))
    np.testing.assert_allclose(last, whole[:, -1], atol=2e-5)


def biased(bias: PositionBias, **fields: Any) -> DecoderConfig:
    return replace(ONE_LAYER, block=replace(BLOCK, position_bias=bias), **fields)


# Models that need the whole text, and their tables.
WHOLE = {
    "learned positions and the bias T5": (biased(T5(), learned_positions=64), FREQUENCIES),
    "sinusoidal positions and the bias Fire": (biased(Fire(), sinusoidal=True, scaled_embedding=True), FREQUENCIES),
    "the bias Cope": (biased(Cope()), FREQUENCIES),
    "PoPE": (replace(ONE_LAYER, block=replace(BLOCK, polar=True)), inverse_frequencies(16, 100.0)),
    "a grid": (replace(ONE_LAYER, grid=(5,)), np.stack([FREQUENCIES, 2 * inverse_frequencies(8, 50.0)])),
    "one table per token": (
        replace(ONE_LAYER, block=replace(BLOCK, table_per="token")),
        np.linspace(0.5, 1.0, 24)[:, None, None] * FREQUENCIES,
    ),
}


@pytest.mark.parametrize("what", WHOLE)
def test_what_needs_the_whole_text_has_it_and_cannot_be_streamed(what: str) -> None:
    cfg, table = WHOLE[what]
    tables = position_tables(1, 4, 2 * table.shape[-1], inverse_frequencies=table)
    with pytest.raises(ValueError, match=f"a model with {what} cannot be streamed: take rope, alibi or nope"):
        begin(loud(cfg), jnp.asarray(PROMPT), tables, cfg, Policy(6, 2), 20)
    assert_one_pass(loud(cfg), tables, cfg)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_mechanism_of_a_block_is_decoded(variant: str) -> None:
    cfg = replace(ONE_LAYER, block=VARIANTS[variant])
    values = hyperparameters(1, scale=1.5, cap=3.0, gate=(0.0, 2.0))
    tables = replace(rope(1), attention=values, temperature=jnp.full(1, 0.1), temperature_span=jnp.full(1, 4.0))
    assert_one_pass(loud(cfg), tables, cfg)


WINDOWS = replace(rope(), window=jnp.asarray([4, 3]), initial_tokens=jnp.asarray([1, 4]))
XPOS = rope(decay=xpos_decay(8))
CHUNKS = rope(chunk=4)
REMEMBERED = {"alibi": alibi(), "windows and initial tokens": WINDOWS, "xPos": XPOS, "chunks": CHUNKS}


@pytest.mark.parametrize("what", REMEMBERED)
def test_all_of_a_text_is_remembered(what: str) -> None:
    """The tables are values of one program."""
    assert_one_pass(loud(), REMEMBERED[what], CONFIG)


def test_a_ring_as_wide_as_a_chunk_remembers_all_that_counts() -> None:
    assert_one_pass(loud(), CHUNKS, CONFIG, Policy(6))


@functools.partial(jax.jit, static_argnames=("count", "cfg"))
def readable(p: Decoder, tables: PositionTables, memory: Any, prompt: Any, count: int, cfg: DecoderConfig) -> tuple[Any, Any]:
    """Greedy tokens and the scores after the last one, by `extend` with one token at a time."""

    def read(carry: Any, given: Any) -> Any:
        memory, last = carry
        token = jnp.where(given < 0, last, given)
        scores, memory = extend(p, memory, token[:, None], tables, cfg)
        return (memory, jnp.argmax(scores[:, 0], axis=-1).astype(given.dtype)), (token, scores[:, 0])

    prompt = jax.reshard(prompt, P("data", None))
    given = jnp.pad(prompt, [(0, 0), (0, count)], constant_values=-1)
    tokens, scores = jax.lax.scan(read, (memory, prompt[:, 0]), given.T)[1]
    return tokens[prompt.shape[1] :].T, scores[-1]


def assert_stream(policy: Policy, tables: PositionTables, count: int) -> bytes:
    """The tokens are the readable ones."""
    tokens, last = by_token(loud(), tables, CONFIG, policy, count)
    memory = empty_cache(CONFIG, policy, 2, 9 + count)
    expected, scores = readable(loud(), tables, memory, jnp.asarray(PROMPT), count, CONFIG)
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(last, scores, atol=1e-5)
    return tokens.tobytes()


@pytest.mark.parametrize("policy", [Policy(6), pytest.param(Policy(1, 2), marks=pytest.mark.slow)], ids=["window", "one"])
def test_a_stream_is_the_readable_one(policy: Policy) -> None:
    assert_stream(policy, rope(), 20)


def test_streams_of_one_program_are_the_readable_ones_for_hundreds_of_tokens() -> None:
    in_text = replace(INITIAL, reindexed=False)
    streams = [(INITIAL, rope()), (INITIAL, alibi()), (INITIAL, nope()), (INITIAL, WINDOWS), (in_text, rope())]
    assert len({assert_stream(policy, tables, 300) for policy, tables in streams}) == len(streams)


@pytest.mark.parametrize("policy", [Policy(), INITIAL], ids=["all", "a ring"])
def test_a_cache_is_of_the_type_that_the_model_computes_in(policy: Policy) -> None:
    cache = empty_cache(replace(CONFIG, compute="bfloat16"), policy, 2, 20)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(cache) if leaf.ndim > 1} == {"bfloat16"}


@pytest.mark.parametrize(
    ("changes", "tokens", "policy", "message"),
    [
        ({}, 9, Policy(6, 2), "xPos cannot be streamed"),
        ({"block": replace(BLOCK, table_per="query")}, 9, Policy(6, 2), "one table per query cannot be streamed"),
        ({"block": replace(BLOCK, table_per="query")}, 9, Policy(), "rotates all keys anew"),
        ({"learned_positions": 12}, 9, Policy(), "learned positions end at 12"),
        ({"block": replace(BLOCK, table_per="token")}, 9, Policy(), "the tables end at 4 positions: 20 tokens are too many"),
        ({}, 0, Policy(), "empty prompt"),
        ({}, 21, Policy(), "21 tokens does not fit into room for 20"),
    ],
)
def test_what_cannot_be_decoded_says_so(changes: dict[str, Any], tokens: int, policy: Policy, message: str) -> None:
    cfg = replace(CONFIG, **changes)
    with pytest.raises(ValueError, match=message):
        begin(loud(cfg), jnp.zeros((2, tokens), jnp.int32), XPOS, cfg, policy, 20)


def test_xpos_ends_before_its_factors_leave_float32() -> None:
    longest = longest_with(np.asarray(XPOS.decay))
    with pytest.raises(ValueError, match=rf"xPos reaches {longest} tokens in float32: {longest + 1} tokens are too many"):
        begin(loud(), jnp.zeros((2, 9), jnp.int32), XPOS, CONFIG, Policy(), longest + 1)


@pytest.mark.parametrize("starts", [[0, 9], [-1, 0]])
def test_a_prompt_begins_in_its_row(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="give each of the prompts a place from 0 to 8"):
        begin(loud(), jnp.zeros((2, 9), jnp.int32), rope(), CONFIG, Policy(), 20, starts=jnp.asarray(starts))


def test_more_tokens_at_once_than_a_cache_has_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="7 tokens at once do not fit into a cache with room for 6"):
        extend(loud(), empty_cache(CONFIG, Policy(), 2, 6), jnp.zeros((2, 7), jnp.int32), rope(), CONFIG)


def test_a_top_p_of_nearly_nothing_is_the_likeliest_token() -> None:
    logits = jnp.asarray([[0.0, 3.0, 1.0, 2.0]])
    assert draw_token(logits, sampling(1.0, None, 1e-50), KEY).tolist() == [1]


OUT_OF_RANGE = [(0, 0), (None, 1), (4, -1), (-1.0, None, 1.0), (1.0, 0, 1.0), (1.0, None, 0.0), (np.nan, 1, 1.0)]


@pytest.mark.parametrize("values", OUT_OF_RANGE)
def test_a_policy_or_sampling_out_of_range_is_refused(values: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="window" if len(values) == 2 else "temperature"):
        Policy(*values) if len(values) == 2 else sampling(*values)


def test_a_top_k_beyond_every_vocabulary_is_all() -> None:
    assert sampling(1.0, 2**40) == sampling(1.0)


def test_a_text_in_pieces_is_the_text() -> None:
    """So many tokens at once, and a prompt of several chunks: the same tokens, drawn or not."""
    p, prompt, layers = loud(), jnp.asarray(PROMPT), layers_of(loud(), rope())
    begun = begin(p, prompt, rope(), CONFIG, INITIAL, 21, chunk=4)
    for drawn_by in (sampling(), sampling(1.0, 20, 0.9)):
        whole = generate(p, prompt, 12, rope(), CONFIG, policy=INITIAL, sampling=drawn_by, key=KEY)
        first, text = decode(p, layers, begun, 6, CONFIG, drawn_by, KEY)
        then, _ = decode(p, layers, text, 6, CONFIG, drawn_by, KEY)
        np.testing.assert_array_equal(np.concatenate([first, then], axis=1), whole)


# Models, and what is remembered of a text.
SLOW = ("learned positions and the bias T5", "the bias Cope")
IN_BATCHES = {
    "rope": (CONFIG, rope(), Policy()),
    "alibi": (CONFIG, alibi(), Policy()),
    "windows": (CONFIG, replace(rope(), window=jnp.asarray([4, 3])), Policy()),
    "a ring": (CONFIG, rope(), Policy(3)),
    **{what: (WHOLE[what][0], nope(1), Policy()) for what in SLOW},
}


@pytest.mark.parametrize("what", [pytest.param(what, marks=[pytest.mark.slow] if what in SLOW else []) for what in IN_BATCHES])
def test_prompts_of_several_lengths_go_on_as_each_alone(what: str) -> None:
    """Of the shorter prompt the first of three chunks is padding, and part of the second."""
    cfg, tables, policy = IN_BATCHES[what]
    p, layers = loud(cfg), layers_of(loud(cfg), tables)
    starts = jnp.asarray([0, 3])
    together = begin(p, jnp.asarray(PROMPT), tables, cfg, policy, 21, starts=starts, chunk=4)
    tokens, text = decode(p, layers, together, 12, cfg, sampling(), KEY)
    for row, start in enumerate(starts.tolist()):
        alone = begin(p, jnp.asarray(PROMPT[row : row + 1, start:]), tables, cfg, policy, 21)
        expected, scores = decode(p, layers, alone, 12, cfg, sampling(), KEY)
        np.testing.assert_array_equal(tokens[row], expected[0])
        np.testing.assert_allclose(text.logits[row], scores.logits[0], atol=2e-5)


@pytest.mark.parametrize(
    ("cfg", "tables", "policy", "message"),
    [
        (CONFIG, CHUNKS, Policy(), "chunks: prompts of one batch"),
        (CONFIG, rope(), Policy(6, 2), "initial tokens: prompts of one batch must have equally many tokens"),
        (CONFIG, WINDOWS, Policy(), "initial tokens"),
        (replace(ONE_LAYER, sinusoidal=True), rope(1), Policy(), "sinusoidal positions"),
        (biased(Fire()), rope(1), Policy(), "the bias Fire"),
        (replace(ONE_LAYER, block=VARIANTS["norms"]), rope(1), Policy(), "a softmax scaled by the position"),
        (ONE_LAYER, replace(rope(1), temperature=jnp.full(1, 0.1)), Policy(), "a temperature by the position"),
        (replace(ONE_LAYER, block=VARIANTS["KV bias"]), rope(1), Policy(), "a rotated key bias"),
    ],
)
def test_what_depends_on_the_place_in_a_row_has_no_padding(
    cfg: DecoderConfig, tables: PositionTables, policy: Policy, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        begin(loud(cfg), jnp.asarray(PROMPT), tables, cfg, policy, 20, starts=jnp.asarray([0, 3]))


def test_two_devices_of_each_axis_give_the_same_tokens() -> None:
    eight = functools.partial(generate, count=8, cfg=CONFIG, policy=INITIAL, key=KEY)
    expected = eight(loud(), jnp.asarray(PROMPT), tables=rope(), sampling=sampling())
    p, tables = jax.device_get((loud(), rope()))
    with jax.set_mesh(make_mesh(data=2, model=2)):
        shapes = jax.eval_shape(lambda: init_decoder(jax.random.key(0), CONFIG))
        specs = jax.tree.map(lambda leaf: leaf.sharding.spec, shapes), P("data", None), jax.tree.map(lambda _: P(), tables)
        p, prompt, tables = jax.device_put((p, PROMPT, tables), specs)
        np.testing.assert_array_equal(eight(p, prompt, tables=tables, sampling=sampling()), expected)


def test_every_token_row_and_key_has_a_draw_of_its_own() -> None:
    """All tokens are equally likely: of 29, 40 draws find 22 on average."""
    p = replace(loud(), unembedding=jnp.zeros((CONFIG.vocabulary, BLOCK.width)))
    text = begin(p, jnp.zeros((2, 1), jnp.int32), rope(), CONFIG, Policy(), 41)
    tokens = [decode(p, layers_of(p, rope()), text, 40, CONFIG, sampling(1.0), jax.random.key(seed))[0] for seed in (0, 1)]
    rows = np.concatenate(tokens)
    assert min(len(np.unique(row)) for row in rows) > 15
    assert len(np.unique(rows, axis=0)) == len(rows)


def shares(drawn_by: Sampling, scores: list[float], count: int = 4000) -> np.ndarray:
    rows = jnp.asarray([scores] * count)
    return np.bincount(np.asarray(draw_token(rows, drawn_by, KEY)), minlength=len(scores)) / count


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), [0, 1, 0, 0]),
        ((1.0,), [0.1, 0.4, 0.3, 0.2]),
        ((0.5,), np.square([0.1, 0.4, 0.3, 0.2]) / 0.3),
        ((1.0, 2), [0, 4 / 7, 3 / 7, 0]),
        ((1.0, None, 0.6), [0, 4 / 7, 3 / 7, 0]),
        ((1.0, 3, 0.5), [0, 4 / 7, 3 / 7, 0]),  # of 0.9
        ((1.0, None, 1e-6), [0, 1, 0, 0]),
    ],
)
def test_tokens_are_drawn_from_what_was_asked_for(values: tuple[Any, ...], expected: Any) -> None:
    drawn = shares(sampling(*values), np.log([0.1, 0.4, 0.3, 0.2]).tolist())
    np.testing.assert_allclose(drawn, expected, atol=0.03 if max(expected) < 1 else 0)


def test_the_first_of_equally_likely_tokens_is_taken() -> None:
    np.testing.assert_array_equal(shares(sampling(), [1.0, 3.0, 3.0, 2.0]), [0, 1, 0, 0])
