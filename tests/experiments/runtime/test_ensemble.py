"""An ensemble in one program: members do not affect each other, and devices do not change what is computed."""

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from leadline.experiments.runtime import ensemble
from leadline.experiments.runtime.ensemble import (
    compiled,
    ensemble_mesh,
    in_rounds,
    over_arms,
    share,
    stack,
    stack_rows,
    unstack,
)
from leadline.model.mesh import AXES, make_mesh


@pytest.mark.parametrize(
    ("members", "divided", "text", "sizes"),
    [
        (1, (16, 8), 1, (1, 1, 8)),
        (1, (12, 8), 1, (1, 1, 4)),
        (1, (16, 9), 1, (1, 1, 1)),
        (2, (16, 16), 1, (2, 1, 4)),
        (3, (16, 16), 1, (3, 1, 2)),
        (20, (16, 16), 1, (8, 1, 1)),
        (1, (1, 8), 4096, (1, 8, 1)),  # a single text, on all devices
        (1, (2, 8), 4096, (1, 4, 2)),
        (2, (1, 8), 4096, (2, 4, 1)),
        (1, (1, 8), 12, (1, 4, 1)),
        (8, (1, 8), 4096, (8, 1, 1)),
    ],
)
def test_devices_are_for_members_then_data_then_text(
    monkeypatch: pytest.MonkeyPatch, members: int, divided: tuple[int, ...], text: int, sizes: tuple[int, ...]
) -> None:
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    shape = ensemble_mesh(members, *divided, text=text).shape
    assert (shape["arm"], shape["text"], shape["data"], shape["model"]) == (*sizes, 1)


def test_processes_that_run_together_leave_none_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three members on eight devices; a batch that two divide, of one member on eight."""
    monkeypatch.setattr("jax.process_count", lambda: 2)
    assert [dict(ensemble_mesh(*sizes).shape)["arm"] for sizes in ((3, 16, 16), (1, 2, 16))] == [4, 4]
    assert all(ensemble_mesh(*sizes).size == 8 for sizes in ((3, 16, 16), (1, 2, 16)))


def test_rows_of_a_batch_are_read_where_they_are_needed() -> None:
    batches, mesh, read = np.arange(3 * 4 * 5).reshape(3, 4, 5).astype(np.int32), make_mesh(arm=2, data=2), []

    def rows(member: int, chosen: slice) -> np.ndarray:
        read.append((member, chosen.start, chosen.stop))
        return batches[member, chosen]

    stacked = stack_rows(rows, 3, (4, 5), mesh)
    np.testing.assert_array_equal(stacked, batches[[0, 1, 2, 2]])  # the last member fills the axis
    assert sorted(read) == sorted((member, start, start + 2) for member in (0, 1, 2, 2) for start in (0, 2))


def test_the_cores_of_a_cpu_share_a_model_without_dividing_its_data() -> None:
    assert dict(ensemble_mesh(1, 16, 8).shape) == dict.fromkeys(AXES, 1)


@pytest.mark.parametrize(("data", "backend"), [(1, "cpu"), (2, "cpu"), (2, "gpu")])
def test_three_members_on_two_devices_each_are_alone(monkeypatch: pytest.MonkeyPatch, data: int, backend: str) -> None:
    """training/test_sharded_step.py divides the data of a training step, training/test_plan.py has neighbours that diverge."""
    members = [np.random.default_rng(i).normal(size=(4, 4)).astype(np.float32) for i in range(3)]
    gains = [np.float32(i + 1) for i in range(3)]

    def scaled_product(state: jax.Array, gain: jax.Array, shared: jax.Array) -> jax.Array:
        return gain * (jax.reshard(state, P("data", None)) @ shared)

    weights = np.random.default_rng(9).normal(size=(4, 4)).astype(np.float32)
    monkeypatch.setattr("jax.default_backend", lambda: backend)
    mesh = make_mesh(arm=2, data=data)
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


def test_jobs_of_one_model_share_its_weights_and_come_one_by_one() -> None:
    weights, programs, heard = np.arange(3, dtype=np.float32), [], []

    def product(weights: jax.Array, gain: jax.Array, shared: jax.Array) -> jax.Array:
        return gain * weights + shared

    jobs = [(weights, np.float32(gain)) for gain in range(3)]
    results = in_rounds("product", product, jobs, np.float32(1), programs, tell=lambda done, total: heard.append((done, total)))
    np.testing.assert_array_equal(results, np.outer(range(3), weights) + 1)
    assert programs == ["product"]
    assert heard == [(0, 3), (1, 3), (2, 3), (3, 3)]
    apart = in_rounds("product", product, [(weights.copy(), gain) for _, gain in jobs], np.float32(1), programs)
    np.testing.assert_array_equal(apart, results)


def test_a_last_round_may_have_fewer_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 17 jobs, at most two on each of eight devices: nine, then eight."""
    monkeypatch.setattr(ensemble, "JOBS_A_DEVICE", 2)
    jobs, heard = [(np.full(3, number, np.float32), np.float32(10)) for number in range(17)], []

    def product(weights: jax.Array, gain: jax.Array, shared: jax.Array) -> jax.Array:
        return gain * weights + shared

    results = in_rounds("product", product, jobs, np.float32(1), [], tell=lambda *told: heard.append(told))
    np.testing.assert_array_equal(results, [[10 * number + 1] * 3 for number in range(17)])
    assert heard == [(0, 17), (9, 17), (17, 17)]
