"""What a group compiles: the start of its models, a step of their training, and a point of their curves."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from leadline.experiments.config.data import TextData
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.runtime.ensemble import ROWS, over_arms
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.step import TrainState, Values, init_state, train_step, values_of
from leadline.model.decoder import Decoder

Tree = Any


class Programs(NamedTuple):
    """Of all members at once, as `over_arms` makes them; not compiled yet."""

    initialise: Callable[..., Tree]  # seeds, values, nothing -> states
    step: Callable[..., Tree]  # states, (inputs, values, learning rates), task -> states, metrics
    point: Callable[..., Tree]  # weights, values, (texts, task) -> statistics


def programs_of(group: RunGroup) -> Programs:
    """The functions that a group compiles. They need its mesh."""
    common, source = group.structure, group.sources[0]
    curve = curve_of(common.data)

    def initialise(seed: Array, values: Values, nothing: None) -> TrainState:  # noqa: ARG001
        return init_state(seed, values, common.model, common.train)

    def step(state: TrainState, inputs: tuple[Any, Values, Array], task: Any) -> tuple[TrainState, dict[str, Array]]:
        drawn, values, rate = inputs
        return train_step(state, source.sample(drawn, task, common.train.batch), values, rate, common.model, common.train)

    def point(params: Decoder, values: Values, texts_and_task: tuple[Any, Any]) -> Statistics:
        texts, task = texts_and_task
        batches = jax.tree.map(lambda leaf: leaf[values.text], texts)
        return curve.point(params, values.measured, batches, task, common.model, common.measure)

    return Programs(over_arms(initialise), over_arms(step, donate=True), over_arms(point))


def traced_step(group: RunGroup) -> Any:
    """The training step of a group as `jax.stages.Traced`, of shapes alone: no array is made."""
    member, common = group.members[0], group.structure
    rows = len(group.members) + -len(group.members) % group.mesh.shape["arm"]

    def shaped(tree: Tree, spec: P, *leading: int) -> Tree:
        sharding = NamedSharding(group.mesh, spec)

        def of(leaf: Any) -> jax.ShapeDtypeStruct:
            dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
            return jax.ShapeDtypeStruct((*leading, *leaf.shape), dtype, sharding=sharding)

        return jax.tree.map(of, tree)

    inputs = jax.tree.map(np.asarray, member.source.inputs(member.seed, 0, common.train.batch))
    arm = member.arm
    values = values_of(arm.model, arm.train, tables(arm.model, arm.original_length, arm.data.length))
    functions = programs_of(group)
    with jax.set_mesh(group.mesh):
        seeds, values, rates = (shaped(tree, P("arm"), rows) for tree in (np.uint32(0), values, np.float32(0)))
        inputs = shaped(inputs, ROWS if isinstance(common.data, TextData) else P("arm"), rows)
        state = jax.eval_shape(functions.initialise, seeds, values, None)
        return functions.step.trace(state, (inputs, values, rates), shaped(member.source.shared, P()))  # pyright: ignore[reportFunctionMemberAccess]
