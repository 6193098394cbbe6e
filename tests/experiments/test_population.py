"""Many models in one program: nobody sees a neighbour, and devices do not change what is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.build import decoder_config
from experiments.config.model import ModelConfig
from experiments.config.position import Rope
from experiments.config.train import TrainConfig
from experiments.data.sample import Sample
from experiments.population import compiled, over_arms, population_mesh, share, stack, unstack
from experiments.position_tables import tables
from experiments.train import TrainState, Values, init_state, train_step
from model.mesh import AXES, make_mesh

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
def test_mesh_of_a_population(
    monkeypatch: pytest.MonkeyPatch, members: int, divided: tuple[int, ...], arm: int, data: int
) -> None:
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    mesh = population_mesh(members, *divided)
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
    shape = population_mesh(members, *divided, text=text).shape
    assert (shape["arm"], shape["text"], shape["data"]) == sizes


def test_the_cores_of_a_cpu_share_a_model_without_dividing_its_data() -> None:
    assert dict(population_mesh(1, 16, 8).shape) == dict.fromkeys(AXES, 1)


def test_three_members_on_two_devices_are_each_alone() -> None:
    members = [np.random.default_rng(i).normal(size=(4, 4)).astype(np.float32) for i in range(3)]
    gains = [np.float32(i + 1) for i in range(3)]

    def power(state: jax.Array, own: jax.Array, shared: jax.Array) -> jax.Array:
        return own * (state @ shared)

    weights = np.random.default_rng(9).normal(size=(4, 4)).astype(np.float32)
    mesh = make_mesh(arm=2)
    with jax.set_mesh(mesh):
        held = stack(members, mesh)
        assert held.shape == (4, 4, 4)
        np.testing.assert_array_equal(np.asarray(held)[3], members[2])  # the last one fills the axis
        programs: list[str] = []
        arguments = (held, stack(gains, mesh), share(weights, mesh))
        program = compiled("power", over_arms(power), programs, *arguments)
        found = unstack(program(*arguments), 3)
        assert programs == ["power"]
        with pytest.raises(TypeError, match="compiled"):
            program(stack([np.zeros((5, 5), np.float32)] * 3, mesh), *arguments[1:])
    assert len(found) == 3
    for own, member, gain in zip(found, members, gains, strict=True):
        np.testing.assert_allclose(own, gain * (member @ weights), rtol=1e-5)


def _trained(arm: int, data: int, seeds: list[int]) -> list[TrainState]:
    """Three steps of small decoders, one seed a member, on arm × data devices."""
    model = ModelConfig(layers=1, width=8, heads=2, hidden=8, position=Rope(base=100.0))
    cfg = TrainConfig(steps=3, batch=4, learning_rate=1e-2)
    structure = decoder_config(model, 11, 8)
    values = Values(
        tables=tables(model, 8),
        extra_logit=jnp.float32(0),
        text=jnp.int32(0),
        logit_rate=jnp.float32(1),
        weight_decay=jnp.float32(0.1),
        clip=jnp.float32(1),
    )
    mesh = make_mesh(arm=arm, data=data)
    with jax.set_mesh(mesh):
        own = stack([values for _ in seeds], mesh)
        init = over_arms(lambda seed, own, shared: init_state(seed, own, structure, cfg))  # noqa: ARG005
        state = init(stack([np.uint32(seed) for seed in seeds], mesh), own, None)

        def one(state: TrainState, own: tuple[jax.Array, Values], shared: None) -> TrainState:  # noqa: ARG001
            return train_step(state, Sample(own[0]), own[1], jnp.float32(1e-2), structure, cfg)[0]

        step = over_arms(one, donate=True)
        for number in range(3):
            batches = [np.random.default_rng((seed, number)).integers(0, 11, (4, 9)).astype(np.int32) for seed in seeds]
            state = jax.block_until_ready(step(state, (stack(batches, mesh), own), None))
        return unstack(state, len(seeds))


@pytest.fixture(scope="module")
def alone(in_use: None) -> TrainState:  # noqa: ARG001
    return _trained(1, 1, [5])[0]


@pytest.mark.parametrize(("arm", "data", "seeds"), [(2, 1, [5, 6, 7]), (1, 2, [5])])
def test_devices_and_neighbours_change_nothing(alone: TrainState, arm: int, data: int, seeds: list[int]) -> None:
    found = _trained(arm, data, seeds)
    for (path, own), expected in zip(
        jax.tree_util.tree_leaves_with_path(found[0].params), jax.tree.leaves(alone.params), strict=True
    ):
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-5, err_msg=jax.tree_util.keystr(path))
    if len(found) > 1:
        assert not np.allclose(found[1].params.embedding, alone.params.embedding, atol=1e-2)
