"""Gradient norms of layers against optax's of each slice."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from leadline.experiments.measure.gradient import gradient_norms

norms = jax.jit(gradient_norms)


def test_norms_are_those_of_optax_layer_by_layer() -> None:
    rng = np.random.default_rng(0)
    query, scale, sink = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((3, 4, 2, 5), (3, 4), (3,)))
    blocks = {"query": query, "norm": {"scale": scale, "bias": None}, "sink": sink}
    computed = norms(blocks)
    of_slice = jax.jit(optax.tree.norm)
    expected = [of_slice(jax.tree.map(lambda leaf, layer=layer: jnp.asarray(leaf[layer]), blocks)) for layer in range(3)]
    np.testing.assert_allclose(computed, expected, rtol=1e-6)
    assert np.sqrt(np.sum(np.square(computed))) == pytest.approx(of_slice(blocks).item(), rel=1e-6)


def test_norms_by_hand() -> None:
    tree = {"a": jnp.array([[3.0], [0.0]]), "b": (jnp.array([4.0, 0.0], jnp.bfloat16), None), "c": jnp.zeros((2, 1, 2))}
    computed = norms(tree)
    assert (computed.tolist(), computed.dtype) == ([5, 0], jnp.float32)
    assert norms({"a": jnp.ones((1, 512), jnp.bfloat16)}).item() ** 2 == pytest.approx(512, rel=1e-6)  # bfloat16 stops at 256


@pytest.mark.parametrize(
    ("tree", "named"),
    [({}, "[]"), ({"a": jnp.ones(2), "b": jnp.ones((3, 2))}, "[(2,), (3,)]"), ({"a": jnp.float32(1)}, "[()]")],
)
def test_what_is_not_stacked(tree: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError) as error:
        gradient_norms(tree)
    assert str(error.value) == f"gradients of stacked layers have one leading axis in common, not {named}"
