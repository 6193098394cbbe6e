"""An ensemble in one program: members do not affect each other, and devices do not change what is computed."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.data.sample import Sample
from leadline.experiments.runtime.ensemble import compiled, ensemble_mesh, over_arms, share, stack, unstack
from leadline.experiments.training.step import TrainState, Values, init_state, train_step
from leadline.model.mesh import AXES, make_mesh

pytestmark = pytest.mark.usefixtures("in_use")


@pytest.mark.parametrize(
    ("members", "divided", "arm", "data"),
    [
        (1, (16, 8), 1, 8),
        (1, (12, 8), 1, 4),
        (1, (16, 9), 1, 1),
        (2, (16, 16), 2, 4),
        (3, (16, 16), 3, 2),
        (20, (16, 16), 8, 1),
    ],
)
def test_mesh_of_an_ensemble(
    monkeypatch: pytest.MonkeyPatch, members: int, divided: tuple[int, ...], arm: int, data: int
) -> None:
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    mesh = ensemble_mesh(members, *divided)
    assert (mesh.shape["arm"], mesh.shape["data"], mesh.shape["model"]) == (arm, data, 1)


@pytest.mark.parametrize(
    ("members", "divided", "text", "sizes"),
    [
        (1, (1, 8), 4096, (1, 8, 1)),  # a single text, on all devices
        (1, (2, 8), 4096, (1, 4, 2)),
        (2, (1, 8), 4096, (2, 4, 1)),
        (1, (1, 8), 12, (1, 4, 1)),
        (8, (1, 8), 4096, (8, 1, 1)),
    ],
)
def test_what_is_left_of_the_devices_shares_a_text(
    monkeypatch: pytest.MonkeyPatch, members: int, divided: tuple[int, ...], text: int, sizes: tuple[int, ...]
) -> None:
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    shape = ensemble_mesh(members, *divided, text=text).shape
    assert (shape["arm"], shape["text"], shape["data"]) == sizes


def test_the_cores_of_a_cpu_share_a_model_without_dividing_its_data() -> None:
    assert dict(ensemble_mesh(1, 16, 8).shape) == dict.fromkeys(AXES, 1)


def test_three_members_on_two_devices_are_each_alone() -> None:
    members = [np.random.default_rng(i).normal(size=(4, 4)).astype(np.float32) for i in range(3)]
    gains = [np.float32(i + 1) for i in range(3)]

    def scaled_product(state: jax.Array, gain: jax.Array, shared: jax.Array) -> jax.Array:
        return gain * (state @ shared)

    weights = np.random.default_rng(9).normal(size=(4, 4)).astype(np.float32)
    mesh = make_mesh(arm=2)
    with jax.set_mesh(mesh):
        held = stack(members, mesh)
        assert held.shape == (4, 4, 4)
        np.testing.assert_array_equal(np.asarray(held)[3], members[2])  # the last member fills the axis
        programs: list[str] = []
        arguments = (held, stack(gains, mesh), share(weights, mesh))
        program = compiled("product", over_arms(scaled_product), programs, *arguments)
        products = unstack(program(*arguments), 3)
        assert programs == ["product"]
        with pytest.raises(TypeError, match="compiled"):
            program(stack([np.zeros((5, 5), np.float32)] * 3, mesh), *arguments[1:])
    for product, member, gain in zip(products, members, gains, strict=True):
        np.testing.assert_allclose(product, gain * (member @ weights), rtol=1e-5)


def _trained(arm: int, data: int, seeds: list[int]) -> list[TrainState]:
    """Three steps of small decoders, one seed a member, on arm × data devices."""
    model = ModelConfig(layers=1, width=8, heads=2, hidden=8, position=Rope(base=100.0))
    cfg = TrainConfig(steps=3, batch=4, learning_rate=1e-2)
    structure = decoder_config(model, 11, 8)
    values = Values(
        tables=tables(model, 8),
        sink_logit=jnp.float32(0),
        text=jnp.int32(0),
        logit_rate=jnp.float32(1),
        weight_decay=jnp.float32(0.1),
        clip=jnp.float32(1),
    )
    mesh = make_mesh(arm=arm, data=data)
    with jax.set_mesh(mesh):
        stacked = stack([values for _ in seeds], mesh)
        init = over_arms(lambda seed, values, shared: init_state(seed, values, structure, cfg))  # noqa: ARG005
        state = init(stack([np.uint32(seed) for seed in seeds], mesh), stacked, None)

        def member_step(state: TrainState, inputs: tuple[jax.Array, Values], shared: None) -> TrainState:  # noqa: ARG001
            return train_step(state, Sample(inputs[0]), inputs[1], jnp.float32(1e-2), structure, cfg)[0]

        step = over_arms(member_step, donate=True)
        for number in range(3):
            batches = [np.random.default_rng((seed, number)).integers(0, 11, (4, 9)).astype(np.int32) for seed in seeds]
            state = jax.block_until_ready(step(state, (stack(batches, mesh), stacked), None))
        return unstack(state, len(seeds))


@pytest.fixture(scope="module")
def alone(in_use: None) -> TrainState:  # noqa: ARG001
    return _trained(1, 1, [5])[0]


@pytest.mark.parametrize(("arm", "data", "seeds"), [(2, 1, [5, 6, 7]), (1, 2, [5])])
def test_devices_and_neighbours_change_nothing(alone: TrainState, arm: int, data: int, seeds: list[int]) -> None:
    first, *others = _trained(arm, data, seeds)
    chex.assert_trees_all_close(first.params, alone.params, rtol=1e-4, atol=1e-5)
    if others:
        assert not np.allclose(others[0].params.embedding, alone.params.embedding, atol=1e-2)
