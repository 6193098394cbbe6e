"""Decoding against the readable forms, token by token: `extend` with a cache, and with a stream that forgets."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from leadline.model.attention.hyperparameters import hyperparameters
from leadline.model.decoder import Decoder, DecoderConfig, extend, init_decoder
from leadline.model.generate import Policy, begin, decode, empty_cache, generate, layers_of
from leadline.model.mesh import make_mesh
from leadline.model.positions.distance import alibi_slopes
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.relative import BiasConfig
from leadline.model.positions.tables import PositionTables, position_tables
from leadline.model.positions.xpos import xpos_decay
from leadline.model.sampling import Sampling, draw_token, sampling
from tests.model.weights import BLOCK, VARIANTS, drawn

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")

CONFIG = DecoderConfig(vocabulary=29, layers=2, block=BLOCK, tied=False)
ONE_LAYER = replace(CONFIG, layers=1)
KEY = jax.random.key(0)
PROMPT = np.random.default_rng(3).integers(0, 29, (2, 9))
FREQUENCIES = inverse_frequencies(8, 100.0)
ROPE = position_tables(2, 4, 8, inverse_frequencies=FREQUENCIES)
TABLES = {"rope": ROPE, "alibi": position_tables(2, 4, 8, slopes=alibi_slopes(4)), "nope": position_tables(2, 4, 8)}
POLICIES = {
    "all": Policy(),
    "window": Policy(6),
    "one": Policy(1, 2),
    "initial": Policy(6, 3),
    "text": Policy(6, 3, reindexed=False),
}


def weights(cfg: DecoderConfig, logit: float = 0.5) -> Decoder:
    p = drawn(lambda: init_decoder(jax.random.key(0), cfg), seed=2)
    blocks = replace(p.blocks, sink_logit=jnp.full_like(p.blocks.sink_logit, logit))
    return replace(p, embedding=4 * p.embedding, blocks=blocks)


@functools.partial(jax.jit, static_argnames=("count", "cfg"))
def readable(p: Decoder, tables: PositionTables, memory: Any, prompt: Any, count: int, cfg: DecoderConfig) -> tuple[Any, Any]:
    """Greedy tokens and the scores behind the last one, by `extend` with one token at a time."""

    def read(carry: Any, given: Any) -> Any:
        memory, last = carry
        token = jnp.where(given < 0, last, given)
        scores, memory = extend(p, memory, token[:, None], tables, cfg)
        return (memory, jnp.argmax(scores[:, 0], axis=-1).astype(given.dtype)), (token, scores[:, 0])

    prompt = jax.reshard(prompt, P("data", None))
    given = jnp.pad(prompt, [(0, 0), (0, count)], constant_values=-1)
    tokens, scores = jax.lax.scan(read, (memory, prompt[:, 0]), given.T)[1]
    return tokens[prompt.shape[1] :].T, scores[-1]


def agree(p: Decoder, tables: PositionTables, cfg: DecoderConfig, policy: Policy, count: int) -> np.ndarray:
    prompt = jnp.asarray(PROMPT)
    text = begin(p, prompt, tables, cfg, policy, PROMPT.shape[1] + count)
    tokens, text = decode(p, layers_of(p, tables), text, count, cfg, sampling(), KEY)
    memory = empty_cache(cfg, policy, prompt.shape[0], prompt.shape[1] + count)
    expected, scores = readable(p, tables, memory, prompt, count, cfg)
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(text.logits, scores, atol=1e-5)
    return np.asarray(tokens)


@pytest.mark.parametrize(
    ("encoding", "policy"),
    [
        *(("rope", policy) for policy in POLICIES),
        *((other, policy) for other in ("alibi", "nope") for policy in ("all", "initial")),
    ],
)
def test_every_policy_is_the_readable_one(encoding: str, policy: str) -> None:
    tokens = agree(weights(CONFIG), TABLES[encoding], CONFIG, POLICIES[policy], 40)
    assert len(np.unique(tokens)) > 3


def test_it_stays_so_for_hundreds_of_tokens() -> None:
    p = weights(CONFIG, -np.inf)
    tokens = agree(p, ROPE, CONFIG, POLICIES["initial"], 400)
    assert (tokens != agree(p, ROPE, CONFIG, POLICIES["text"], 400)).any()
    assert (tokens != agree(p, ROPE, CONFIG, POLICIES["window"], 400)).any()


@pytest.mark.parametrize("policy", ["all", "initial"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_mechanism_of_a_block(variant: str, policy: str) -> None:
    cfg = replace(ONE_LAYER, block=VARIANTS[variant])
    values = hyperparameters(1, scale=1.5, cap=3.0, gate=(0.0, 2.0))
    rope = position_tables(1, 4, 8, inverse_frequencies=FREQUENCIES)
    tables = replace(rope, attention=values, temperature=jnp.full(1, 0.1), temperature_span=jnp.full(1, 4.0))
    agree(weights(cfg), tables, cfg, POLICIES[policy], 12)


# Models that need the whole text, and their tables.
WHOLE = {
    "learned positions": (replace(ONE_LAYER, learned_positions=64), FREQUENCIES),
    "sinusoidal positions": (replace(ONE_LAYER, sinusoidal=True, scaled_embedding=True), FREQUENCIES),
    "PoPE": (replace(ONE_LAYER, block=replace(BLOCK, polar=True)), inverse_frequencies(16, 100.0)),
    "a grid": (replace(ONE_LAYER, grid=(5,)), np.stack([FREQUENCIES, 2 * inverse_frequencies(8, 50.0)])),
    "a table a token": (
        replace(ONE_LAYER, block=replace(BLOCK, table_per="token")),
        np.linspace(0.5, 1.0, 24)[:, None, None] * FREQUENCIES,
    ),
    **{
        f"the bias {kind}": (replace(ONE_LAYER, block=replace(BLOCK, position_bias=BiasConfig(kind))), FREQUENCIES)
        for kind in ("t5", "fire", "cope")
    },
}


@pytest.mark.parametrize("what", WHOLE)
def test_what_needs_the_whole_text_has_it(what: str) -> None:
    cfg, table = WHOLE[what]
    tables = position_tables(1, 4, 2 * table.shape[-1], inverse_frequencies=table)
    agree(weights(cfg), tables, cfg, Policy(), 12)
    with pytest.raises(ValueError, match=f"a model with {what} cannot be streamed: take rope, alibi or nope"):
        begin(weights(cfg), jnp.asarray(PROMPT), tables, cfg, Policy(6, 2), 20)


def test_the_window_of_a_model_and_xpos() -> None:
    p = weights(CONFIG)
    agree(p, replace(ROPE, window=jnp.asarray([4, 9])), CONFIG, POLICIES["initial"], 30)
    initial = replace(ROPE, window=jnp.asarray([4, 3]), initial_tokens=jnp.asarray([1, 4]))
    for policy in ("all", "initial"):
        agree(p, initial, CONFIG, POLICIES[policy], 30)
    xpos = position_tables(2, 4, 8, inverse_frequencies=FREQUENCIES, decay=xpos_decay(8))
    agree(p, xpos, CONFIG, Policy(), 12)
    with pytest.raises(ValueError, match="xPos cannot be streamed"):
        begin(p, jnp.asarray(PROMPT), xpos, CONFIG, POLICIES["window"], 20)


def test_what_cannot_be_decoded_says_so() -> None:
    p, prompt = weights(CONFIG), jnp.asarray(PROMPT)
    by_query = replace(CONFIG, block=replace(BLOCK, table_per="query"))
    with pytest.raises(ValueError, match="a table a query cannot be streamed"):
        begin(p, prompt, ROPE, by_query, Policy(6, 2), 20)
    for cfg, tokens, room, message in (
        (by_query, prompt, 20, "rotates all keys"),
        (CONFIG, prompt[:, :0], 20, "empty prompt"),
        (CONFIG, prompt, 8, "9 tokens does not fit into room for 8"),
    ):
        with pytest.raises(ValueError, match=message):
            begin(p, tokens, ROPE, cfg, Policy(), room)
    learned = replace(CONFIG, learned_positions=12)
    with pytest.raises(ValueError, match="learned positions end at 12"):
        generate(weights(learned), prompt, 4, ROPE, learned, policy=Policy(), sampling=sampling(), key=KEY)


def test_policies_and_samplings_out_of_range() -> None:
    for window, initial_tokens in ((0, 0), (None, 1), (4, -1)):
        with pytest.raises(ValueError, match="window"):
            Policy(window, initial_tokens)
    for temperature, top_k, top_p in ((-1.0, None, 1.0), (1.0, 0, 1.0), (1.0, None, 0.0), (float("nan"), None, 1.0)):
        with pytest.raises(ValueError, match="temperature"):
            sampling(temperature, top_k, top_p)


def test_a_text_in_pieces_is_the_text() -> None:
    """So many tokens at once, and a prompt of several chunks: the same tokens, drawn or not."""
    p, prompt, layers = weights(CONFIG), jnp.asarray(PROMPT), layers_of(weights(CONFIG), ROPE)
    begun = begin(p, prompt, ROPE, CONFIG, POLICIES["initial"], 21, chunk=4)
    for drawn_by in (sampling(), sampling(1.0, 20, 0.9)):
        whole = generate(p, prompt, 12, ROPE, CONFIG, policy=POLICIES["initial"], sampling=drawn_by, key=KEY)
        first, text = decode(p, layers, begun, 5, CONFIG, drawn_by, KEY)
        then, _ = decode(p, layers, text, 7, CONFIG, drawn_by, KEY)
        np.testing.assert_array_equal(np.concatenate([first, then], axis=1), whole)


def test_two_devices_of_each_axis_give_the_same_tokens() -> None:
    expected = generate(
        weights(CONFIG), jnp.asarray(PROMPT), 8, ROPE, CONFIG, policy=POLICIES["initial"], sampling=sampling(), key=KEY
    )
    four = make_mesh(data=2, model=2)
    with jax.set_mesh(four):
        shapes = jax.eval_shape(lambda: init_decoder(jax.random.key(0), CONFIG))
        specs = [NamedSharding(four, shape.sharding.spec) for shape in jax.tree.leaves(shapes)]
        leaves, structure = jax.tree.flatten(weights(CONFIG))
        p = structure.unflatten([jax.device_put(np.asarray(leaf), spec) for leaf, spec in zip(leaves, specs, strict=True)])
        prompt = jax.device_put(PROMPT, NamedSharding(four, P("data", None)))
        tables = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf), NamedSharding(four, P())), ROPE)
        found = generate(p, prompt, 8, tables, CONFIG, policy=POLICIES["initial"], sampling=sampling(), key=KEY)
    np.testing.assert_array_equal(found, expected)


def shares(drawn_by: Sampling, scores: list[float], count: int = 4000) -> np.ndarray:
    rows = jnp.asarray([scores] * count)
    return np.bincount(np.asarray(draw_token(rows, drawn_by, KEY)), minlength=len(scores)) / count


def test_tokens_are_drawn_from_what_was_asked_for() -> None:
    scores = np.log([0.1, 0.4, 0.3, 0.2]).tolist()
    np.testing.assert_array_equal(shares(sampling(), [1.0, 3.0, 3.0, 2.0]), [0, 1, 0, 0])
    np.testing.assert_allclose(shares(sampling(1.0), scores), [0.1, 0.4, 0.3, 0.2], atol=0.03)
    np.testing.assert_allclose(shares(sampling(0.5), scores), np.square([0.1, 0.4, 0.3, 0.2]) / 0.3, atol=0.03)
    np.testing.assert_allclose(shares(sampling(1.0, 2), scores), [0, 4 / 7, 3 / 7, 0], atol=0.03)
    np.testing.assert_allclose(shares(sampling(1.0, None, 0.6), scores), [0, 4 / 7, 3 / 7, 0], atol=0.03)
    np.testing.assert_allclose(shares(sampling(1.0, 3, 0.5), scores), [0, 4 / 7, 3 / 7, 0], atol=0.03)  # of 0.9
    np.testing.assert_array_equal(shares(sampling(1.0, None, 1e-6), scores), [0, 1, 0, 0])
