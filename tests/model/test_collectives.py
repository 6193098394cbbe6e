"""What devices tell each other, counted in the text of compiled programs."""

import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from leadline.model.block import BlockConfig
from leadline.model.decoder import DecoderConfig, apply_decoder, init_decoder
from leadline.model.embedding import embed
from leadline.model.mesh import make_mesh
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import position_tables

pytestmark = pytest.mark.usefixtures("quick_to_compile")

LAYERS, MATRICES = 2, 7  # of a layer: query, key, value, output, gate, up, down
CONFIG = DecoderConfig(
    vocabulary=17, layers=LAYERS, block=BlockConfig(width=16, heads=4, kv_heads=4, head_dim=4, hidden=32), tied=False
)
BATCH, TOKENS = 8, 13
COLLECTIVE = re.compile(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")


def found(function: Any, *shapes: Any) -> list[tuple[str, str]]:
    """What travels in the program, several arrays at once in brackets, and by which kind of exchange."""
    text = jax.jit(function).lower(*shapes).compile().as_text()
    assert text is not None
    return COLLECTIVE.findall(text)


def collectives(function: Any, *shapes: Any) -> Counter[str]:
    """How often each kind stands in the program; several arrays that travel at once are one."""
    return Counter(kind for _, kind in found(function, *shapes))


def given(mesh: Any) -> tuple[Any, Any]:
    """Shapes and shardings of the weights and of a batch."""

    def placed(leaf: Any, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    shapes = jax.eval_shape(lambda: init_decoder(jax.random.key(0), CONFIG))
    tokens = jax.ShapeDtypeStruct((BATCH, TOKENS), jnp.int32)
    return jax.tree.map(lambda leaf: placed(leaf, leaf.sharding.spec), shapes), placed(tokens, P("data", None))


def logits(params: Any, tokens: Any) -> jax.Array:
    tables = position_tables(LAYERS, 4, 4, inverse_frequencies=inverse_frequencies(4, 100.0))
    return apply_decoder(params, tokens, tables, CONFIG)[0]


def loss(params: Any, tokens: Any) -> jax.Array:
    return jnp.mean(logits(params, tokens) ** 2)


@pytest.mark.parametrize(("data", "model"), [(8, 1), (1, 2), (4, 2)])
def test_the_look_up_of_an_embedding_needs_none(data, model):
    mesh = make_mesh(data=data, model=model)
    with jax.set_mesh(mesh):
        params, tokens = given(mesh)
        assert not collectives(lambda table, tokens: embed(table, tokens, scaled=False), params.embedding, tokens)


def test_heads_and_hidden_units_on_devices_are_summed_twice_a_layer_each_way():
    """Behind attention's output and the feed-forward's; backward, before what they read."""
    mesh = make_mesh(model=2)
    with jax.set_mesh(mesh):
        one_sum = (f"f32[{BATCH * TOKENS},{CONFIG.block.width}]{{1,0}}", "all-reduce")
        assert Counter(found(logits, *given(mesh))) == {one_sum: 2 * LAYERS}
        assert Counter(found(jax.grad(loss), *given(mesh))) == {one_sum: 4 * LAYERS}


def test_weights_in_parts_are_gathered_once_each_way_and_gradients_summed_at_once():
    mesh = make_mesh(data=2)
    with jax.set_mesh(mesh):
        assert collectives(logits, *given(mesh)) == {"all-gather": MATRICES * LAYERS}
        assert collectives(jax.grad(loss), *given(mesh)) == {"all-gather": 2 * MATRICES * LAYERS, "all-reduce": 1}


def test_both_at_once_need_what_each_needs():
    mesh = make_mesh(data=2, model=2)
    with jax.set_mesh(mesh):
        assert collectives(logits, *given(mesh)) == {"all-gather": MATRICES * LAYERS, "all-reduce": 2 * LAYERS}
