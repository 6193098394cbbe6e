"""One compiled program for many models of equal structure, none of which sees another.

An ensemble is a tree with a leading arm axis A, sharded over the mesh axis "arm". On an accelerator the models of one device
run under `vmap`; on a CPU they run one after the other with a core each, because batched small products gain nothing there.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from leadline.experiments.runtime.hosts import on_host
from leadline.model.mesh import AXES, make_mesh

Tree = Any
# Hears how many jobs are done, of how many. It may raise to end the work.
Tell = Callable[[int, int], None]
# Trained models on one device at once (`in_rounds`).
JOBS_A_DEVICE = 8
ROWS = P("arm", "data")  # of the batches of all members, [A, B, …]


def ensemble_mesh(members: int, *divided: int, text: int = 1) -> Mesh:
    """The mesh of an ensemble. On a CPU, whose products use all cores anyway, it has an arm axis only.

    Processes that run together need a device of each in the mesh: there the arm axis takes those that divide nothing else.

    Args:
        members: models. The arm axis has as many devices, or all that there are.
        divided: sizes that the data axis shards, such as batches and the width of the model: of the devices that are left it
            has as many as divide all of them.
        text: the tokens of a text: of the devices that are left then, the text axis has as many as divide it.
    """
    devices, processes = len(jax.devices()), jax.process_count()
    arm = min(devices, members)
    if jax.default_backend() == "cpu" and processes == 1:
        return make_mesh(arm=arm)
    data = math.gcd(devices // arm, *divided)
    of_text = math.gcd(devices // arm // data, text)
    return make_mesh(arm=arm if processes == 1 else devices // (data * of_text), data=data, text=of_text)


def over_arms(function: Callable[[Tree, Tree, Tree], Tree], *, donate: bool = False) -> Callable[..., Tree]:
    """jit of `function(state, values, shared)` for every member. Needs the mesh of `ensemble_mesh`.

    Args:
        function: of one member. Its first two arguments have an arm axis in the ensemble, `shared` has none.
        donate: gives up the buffers of `state`.
    """

    def local(state: Tree, values: Tree, shared: Tree) -> Tree:
        if jax.default_backend() == "cpu":
            return jax.lax.map(lambda member: function(member[0], member[1], shared), (state, values))
        return jax.vmap(function, in_axes=(0, 0, None))(state, values, shared)

    # Members never meet, so there is no replication over "arm" to check, and a scan need not say that its carry varies.
    specs = {"in_specs": (P("arm"), P("arm"), P()), "out_specs": P("arm")}
    sharded = jax.shard_map(local, **specs, axis_names={"arm"}, check_vma=False)
    return jax.jit(sharded, donate_argnums=(0,) if donate else ())


def compiled(name: str, function: Callable[..., Tree], programs: list[str], *arguments: Tree) -> Callable[..., Tree]:
    """Compiles for these arguments and adds `name` to `programs`; another shape will be an error, not a compile."""
    programs.append(name)
    return function.lower(*arguments).compile()  # pyright: ignore[reportFunctionMemberAccess]


def stack(trees: Sequence[Tree], mesh: Mesh) -> Tree:
    """Trees of equal structure under one arm axis, each device holding its share; the last is repeated to fill the axis."""
    rows = [*trees, *[trees[-1]] * _surplus(len(trees), mesh)]
    host = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *rows)
    return _placed(host, NamedSharding(mesh, P("arm")))


def stack_rows(read: Callable[[int, slice], np.ndarray], members: int, shape: tuple[int, ...], mesh: Mesh) -> Array:
    """The batches of all members, [A, B, …], whose rows the axis "data" divides: each process reads those of its devices.

    Args:
        read: gives some rows of the batch of a member, by its number.
        members: how many there are.
        shape: [B, …], of a batch.
        mesh: whose axis "data" divides B.
    """
    whole = members + _surplus(members, mesh)

    def part(index: Any) -> np.ndarray:
        return np.stack([read(min(arm, members - 1), index[1]) for arm in range(whole)[index[0]]])

    return jax.make_array_from_callback((whole, *shape), NamedSharding(mesh, ROWS), part)


def _surplus(members: int, mesh: Mesh) -> int:
    """Copies of the last member that fill the arm axis."""
    return -members % mesh.shape["arm"]


def share(tree: Tree, mesh: Mesh) -> Tree:
    """The same tree on every device."""
    return _placed(jax.tree.map(np.asarray, tree), NamedSharding(mesh, P()))


def _placed(tree: Tree, sharding: NamedSharding) -> Tree:
    """Arrays of the host on the devices; each process has all of them, and brings what lies on its own devices."""
    return jax.tree.map(lambda leaf: jax.make_array_from_callback(leaf.shape, sharding, leaf.__getitem__), tree)


def of_each_device(value: bool, mesh: Mesh) -> Tree:  # the value, not a mode
    """What the process of each device says, an array [devices]; `everywhere` tells it to all."""
    if jax.process_count() == 1:
        return np.full(mesh.size, value)
    sharding = NamedSharding(mesh, P(AXES))
    return jax.make_array_from_callback((mesh.size,), sharding, lambda index: np.full(mesh.size, value)[index])


def everywhere(tree: Tree, mesh: Mesh) -> Tree:
    """The tree with all of its parts on every device, so that every process can read it; it is not waited for."""
    return tree if jax.process_count() == 1 else jax.jit(_same, out_shardings=NamedSharding(mesh, P()))(tree)


def _same(tree: Tree) -> Tree:
    return tree


def unstack(tree: Tree, members: int) -> list[Tree]:
    """The members' trees on the host, as numpy arrays, without those that only filled the axis."""
    host = on_host(tree)
    return [jax.tree.map(lambda leaf, i=i: leaf[i, ...], host) for i in range(members)]


def silent(done: int, total: int) -> None:
    """A `Tell` that says nothing."""


def in_rounds(
    name: str,
    job: Callable[[Tree, Tree, Tree], Tree],
    jobs: Sequence[tuple[Tree, Tree]],
    shared: Tree,
    programs: list[str],
    *divided: int,
    text: int = 1,
    tell: Tell = silent,
) -> list[Tree]:
    """What `job(weights, values, shared)` gives for each (weights, values), on the host; all go through one program.

    They come in rounds of equal size, at most JOBS_A_DEVICE on a device, so that a long list needs no more memory than a short
    one. Jobs that all have the same weights, one and the same tree, come one at a time, and share them instead of copies.
    `divided` and `text` are those of `ensemble_mesh`; `tell` hears of jobs done before each round and at the end.
    """
    size = math.ceil(len(jobs) / math.ceil(len(jobs) / (JOBS_A_DEVICE * len(jax.devices()))))
    if len({id(weights) for weights, _ in jobs}) == 1:
        size, shared, jobs = 1, (jobs[0][0], shared), [((), values) for _, values in jobs]
        function = partial(_of_shared, job)
    else:
        function = job
    mesh = ensemble_mesh(size, *divided, text=text)
    results, program = [], None
    with jax.set_mesh(mesh):
        everywhere = share(shared, mesh)
        for start in range(0, len(jobs), size):
            in_round = jobs[start : start + size]
            filled = [*in_round, *[in_round[-1]] * (size - len(in_round))]
            weights, values = stack(filled, mesh)
            program = program or compiled(name, over_arms(function), programs, weights, values, everywhere)
            tell(len(results), len(jobs))
            results += unstack(program(weights, values, everywhere), len(in_round))
    tell(len(results), len(jobs))
    return results


def _of_shared(job: Callable[[Tree, Tree, Tree], Tree], _: tuple[()], values: Tree, shared: tuple[Tree, Tree]) -> Tree:
    """`job` of the weights that all jobs share."""
    return job(shared[0], values, shared[1])
