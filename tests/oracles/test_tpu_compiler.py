"""Google's compiler for TPUs, which needs none: what it makes of our kernels, and of a decoder's gradient on four devices."""

import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import topologies
from jax.sharding import PartitionSpec as P

from leadline.model.block import BlockConfig
from leadline.model.decoder import DecoderConfig, apply_decoder, init_decoder
from leadline.model.mesh import make_mesh
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import position_tables
from tests.model.attention.test_pallas import summed

pytestmark = pytest.mark.oracle

KERNEL = 'custom_call_target="tpu_custom_call"'


def chips(kind: str) -> Sequence[Any]:
    """Four devices of a kind."""
    pytest.importorskip("libtpu", reason="libtpu is not here: make oracles brings it")
    return topologies.get_topology_desc(platform="tpu", topology_name=kind).devices


ON = {
    "v5e:2x2": {"dtype": "bfloat16", "channels": 64, "tokens": 8192},
    "v5p:2x2x1": {"dtype": "float32", "channels": 80, "tokens": 1000},
    "v6e:2x2": {"dtype": "bfloat16", "channels": 128, "tokens": 16384},
}


@pytest.mark.parametrize("kind", [kind if "v5p" in kind else pytest.param(kind, marks=pytest.mark.slow) for kind in ON])
def test_attention_and_its_gradients_are_three_kernels_that_fit_on_the_chip(kind: str) -> None:
    dtype, channels, tokens = ON[kind].values()
    with jax.set_mesh(make_mesh(devices=chips(kind)[:1])):
        heads = {"q": 4, "k": 2, "v": 2}
        given = {name: jax.ShapeDtypeStruct((1, tokens, heads[name], channels), dtype) for name in heads}
        given |= {name: jax.ShapeDtypeStruct((4,), jnp.float32) for name in ("sink_logit", "slopes")}
        sight, padding = (jax.ShapeDtypeStruct((), jnp.int32),) * 3, jax.ShapeDtypeStruct((1, tokens), bool)
        program = jax.jit(jax.value_and_grad(summed)).lower(given, sight, padding).compile()
    text, plan = program.as_text(), program.memory_analysis()
    assert text is not None
    assert plan is not None
    assert text.count(KERNEL) == 3
    assert plan.temp_size_in_bytes < 4 * 4 * tokens * 128 * 4  # 4 arrays of 4 heads; scores would take 4 · 4 · tokens²


def test_a_decoder_and_its_gradient_are_cut_over_four_devices() -> None:
    block = BlockConfig(width=128, heads=4, kv_heads=2, head_dim=32, hidden=256)
    config = DecoderConfig(vocabulary=512, layers=9, block=block, compute="bfloat16")  # 9 are a loop

    def total(params: Any, tokens: Any) -> Any:
        tables = position_tables(9, 4, 32, inverse_frequencies=inverse_frequencies(32, 1e4))
        return jnp.sum(apply_decoder(params, tokens, tables, config)[0].astype(jnp.float32))

    with jax.set_mesh(make_mesh(data=2, model=2, devices=chips("v5e:2x2"))):
        params = jax.eval_shape(lambda: init_decoder(jax.random.key(0), config))
        tokens = jax.ShapeDtypeStruct((4, 512), jnp.int32, sharding=P("data", None))
        text = jax.jit(jax.grad(total)).lower(params, tokens).compile().as_text()
    assert text is not None
    assert text.count(KERNEL) == 3
    travelling = re.findall(r"= (\(?)bf16\[.* all-reduce(?:-start)?\(", text)  # a bracket is around several at once
    assert travelling == [""] * 3  # of a layer: one forward, where the other is float32, and two backward
