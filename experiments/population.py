"""One compiled program for many models of equal structure, none of which sees another.

A population is a tree with a leading arm axis A, sharded over the mesh axis "arm". On an accelerator the models of one device
run under `vmap`; on a CPU they run one after the other with a core each, because batched small products gain nothing there.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from model.mesh import make_mesh

Tree = Any
# Trained models on one device at once (`in_rounds`).
JOBS_A_DEVICE = 8


def population_mesh(members: int, *divided: int, text: int = 1) -> Mesh:
    """As many devices as there are members on the arm axis; of what is left, as many on the data axis as divide all sizes
    that it shards: batches, and the width of the model; of what is left of these, as many on the text axis as divide the
    tokens of a text. A CPU's products use all its cores anyway: there the data are whole."""
    devices = len(jax.devices())
    arm = min(devices, members)
    if jax.default_backend() == "cpu":
        return make_mesh(arm=arm)
    data = math.gcd(devices // arm, *divided)
    return make_mesh(arm=arm, data=data, text=math.gcd(devices // arm // data, text))


def over_arms(
    function: Callable[[Tree, Tree, Tree], Tree], *, donate: bool = False, together: bool | None = None
) -> Callable[..., Tree]:
    """jit of `function(state, own, shared)` for every member: the first two have an arm axis, `shared` has none.

    Needs the mesh of `population_mesh`. `donate` gives up the buffers of `state`. `together` runs the members of a device under
    `vmap`, else one after the other; None is what this backend is faster at.
    """
    vmapped = jax.default_backend() != "cpu" if together is None else together

    def local(state: Tree, own: Tree, shared: Tree) -> Tree:
        if vmapped:
            return jax.vmap(function, in_axes=(0, 0, None))(state, own, shared)
        return jax.lax.map(lambda member: function(member[0], member[1], shared), (state, own))

    # Members never meet, so there is no replication over "arm" to check, and a scan need not say that its carry varies.
    specs = {"in_specs": (P("arm"), P("arm"), P()), "out_specs": P("arm")}
    spread = jax.shard_map(local, **specs, axis_names={"arm"}, check_vma=False)
    return jax.jit(spread, donate_argnums=(0,) if donate else ())


def compiled(name: str, function: Callable[..., Tree], programs: list[str], *arguments: Tree) -> Callable[..., Tree]:
    """Compiles for these arguments and adds `name` to `programs`; another shape will be an error, not a compile."""
    programs.append(name)
    return function.lower(*arguments).compile()  # pyright: ignore[reportFunctionMemberAccess]


def stack(trees: Sequence[Tree], mesh: Mesh) -> Tree:
    """Trees of equal structure under one arm axis, each device holding its share; the last is repeated to fill the axis."""
    surplus = -len(trees) % mesh.shape["arm"]
    rows = [*trees, *[trees[-1]] * surplus]
    host = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *rows)
    return jax.device_put(host, NamedSharding(mesh, P("arm")))


def share(tree: Tree, mesh: Mesh) -> Tree:
    """The same tree on every device."""
    return jax.device_put(jax.tree.map(jnp.asarray, tree), NamedSharding(mesh, P()))


def unstack(tree: Tree, members: int) -> list[Tree]:
    """The members' trees on the host, as numpy arrays, without those that only filled the axis."""
    host = jax.device_get(tree)
    return [jax.tree.map(lambda leaf, i=i: leaf[i, ...], host) for i in range(members)]


def in_rounds(
    name: str,
    job: Callable[[Tree, Tree, Tree], Tree],
    jobs: Sequence[tuple[Tree, Tree]],
    shared: Tree,
    programs: list[str],
    *divided: int,
    text: int = 1,
) -> list[Tree]:
    """What `job(weights, own, shared)` gives for each (weights, own), on the host; all go through the one program.

    They come in rounds of equal size, at most JOBS_A_DEVICE on a device, so that a long list needs no more memory than a short
    one. `divided` are the sizes that the data axis has to divide, `text` that of the text axis (`population_mesh`).
    """
    size = math.ceil(len(jobs) / math.ceil(len(jobs) / (JOBS_A_DEVICE * len(jax.devices()))))
    mesh = population_mesh(size, *divided, text=text)
    found, program = [], None
    with jax.set_mesh(mesh):
        everywhere = share(shared, mesh)
        for start in range(0, len(jobs), size):
            now = jobs[start : start + size]
            filled = [*now, *[now[-1]] * (size - len(now))]
            weights, own = (stack([one[i] for one in filled], mesh) for i in (0, 1))
            program = program or compiled(name, over_arms(job), programs, weights, own, everywhere)
            found += unstack(program(weights, own, everywhere), len(now))
    return found
