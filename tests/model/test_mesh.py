"""Meshes: what they hold, and what travels between the devices of one."""

from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from leadline.model.decoder import apply_decoder, init_decoder
from leadline.model.embedding import embed
from leadline.model.mesh import AXES, make_mesh, platform
from tests.model.exchanges import exchanged
from tests.model.weights import BLOCK, CONFIG, rope

pytestmark = pytest.mark.usefixtures("quick_to_compile")

UNGROUPED = replace(CONFIG, block=replace(BLOCK, kv_heads=4))
GATHERED = 7 * CONFIG.layers  # query, key, value, output, gate, up, down of each layer
BATCH, TOKENS = 8, 13


def collectives(function: Any, *, data: int = 1, model: int = 1) -> Counter[tuple[str, str]]:
    """What travels how often in a function of weights and of a batch, on a mesh."""
    with jax.set_mesh(make_mesh(data=data, model=model)):
        params = jax.eval_shape(lambda: init_decoder(jax.random.key(0), UNGROUPED))
        tokens = jax.ShapeDtypeStruct((BATCH, TOKENS), jnp.int32, sharding=P("data", None))
        return Counter(exchanged(jax.jit(function).lower(params, tokens).compile()))


def kinds(counted: Counter[tuple[str, str]]) -> Counter[str]:
    return Counter(kind for _, kind in counted.elements())


def logits(params: Any, tokens: Any) -> jax.Array:
    return apply_decoder(params, tokens, rope(), UNGROUPED)[0]


def loss(params: Any, tokens: Any) -> jax.Array:
    return jnp.mean(logits(params, tokens) ** 2)


def test_the_look_up_of_an_embedding_needs_no_exchange():
    assert not collectives(lambda params, tokens: embed(params.embedding, tokens, scaled=False), data=4, model=2)


def test_heads_and_hidden_units_on_devices_are_summed_twice_a_layer_each_way():
    """Behind attention's output and the feed-forward's; backward, before what they read."""
    one_sum = (f"f32[{BATCH * TOKENS},{BLOCK.width}]{{1,0}}", "all-reduce")
    assert collectives(logits, model=2) == {one_sum: 2 * CONFIG.layers}
    assert collectives(jax.grad(loss), model=2) == {one_sum: 4 * CONFIG.layers}


def test_weights_in_parts_are_gathered_once_each_way_and_gradients_summed_at_once():
    assert kinds(collectives(logits, data=2)) == {"all-gather": GATHERED}
    assert kinds(collectives(jax.grad(loss), data=2)) == {"all-gather": 2 * GATHERED, "all-reduce": 1}


def test_both_at_once_need_what_each_needs():
    assert kinds(collectives(logits, data=2, model=2)) == {"all-gather": GATHERED, "all-reduce": 2 * CONFIG.layers}


def test_axes_that_are_not_named_are_one():
    mesh = make_mesh(data=4, model=2)
    assert mesh.axis_names == AXES
    assert dict(mesh.shape) == {"arm": 1, "text": 1, "data": 4, "model": 2}
    assert make_mesh(devices=jax.devices()[3:4]).devices.item() == jax.devices()[3]


def test_a_mesh_larger_than_the_machine_is_an_error():
    with pytest.raises(ValueError, match=r"needs 16 devices, 8 here"):
        make_mesh(data=8, model=2)


def test_the_platform_is_that_of_the_devices_of_the_mesh():
    machines = [AbstractDevice(device_kind=name, num_cores=None, platform=name) for name in ("gpu", "tpu")]
    for expected, kind in zip(("cpu", "gpu", "tpu"), (None, *machines), strict=True):
        mesh = AbstractMesh((1,) * 4, AXES, axis_types=(AxisType.Explicit,) * 4, abstract_device=kind)
        with jax.sharding.use_abstract_mesh(mesh):
            assert platform() == expected
