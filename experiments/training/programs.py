"""The compiled programs of a group, and the values in which its members differ."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.kinds.registry import curve_of
from leadline.experiments.records.measurement import Point
from leadline.experiments.runtime.ensemble import compiled, over_arms, share, stack, unstack
from leadline.experiments.training.group import Member, RunGroup
from leadline.experiments.training.history import History
from leadline.experiments.training.saving import resumed
from leadline.experiments.training.step import TrainState, Values, init_state, learning_rates, train_step, values_of
from leadline.model.decoder import Decoder


@dataclass(frozen=True)
class Ensemble:
    """A group on its devices: the compiled programs and what they take besides the state.

    Attributes:
        group: whose.
        phases: the values of the members from a step on, the last phase first.
        rates: learning rates [A, steps].
        held_out: what a point of the curves is measured on.
        shared: the arrays of the task.
        step_program: one training step.
        point_program: one point of the curves.
    """

    group: RunGroup
    phases: tuple[tuple[int, Values], ...]
    rates: np.ndarray
    held_out: Any
    shared: Any
    step_program: Callable[..., tuple[TrainState, dict[str, Array]]]
    point_program: Callable[..., Statistics]

    def step(self, state: TrainState, step: int) -> tuple[TrainState, dict[str, Array]]:
        return self.step_program(state, _step_values(self.group, self.phases, self.rates, step), self.shared)

    def points(self, state: TrainState, step: int) -> list[Point]:
        statistics = self.point_program(state.params, _values_at(self.phases, step), (self.held_out, self.shared))
        return unstack(statistics, len(self.group.members))


def prepare(group: RunGroup, programs: list[str]) -> tuple[Ensemble, TrainState, History]:
    """Compiles the three programs of a group, and restores what it goes on from.

    Raises:
        UserError: if weights to start from cannot be used.
    """
    mesh, common, source = group.mesh, group.structure, group.sources[0]
    curve = curve_of(common.data)
    phases, rates = _phases(group), np.stack([learning_rates(member.arm.train) for member in group.members])
    seeds = stack([np.uint32(member.seed) for member in group.members], mesh)
    held_out, shared = share(group.held_out, mesh), share(source.shared, mesh)

    def initialise(seed: Array, values: Values, nothing: None) -> TrainState:  # noqa: ARG001
        return init_state(seed, values, common.model, common.train)

    def step(state: TrainState, inputs: tuple[Any, Values, Array], task: Any) -> tuple[TrainState, dict[str, Array]]:
        drawn, values, rate = inputs
        return train_step(state, source.sample(drawn, task, common.train.batch), values, rate, common.model, common.train)

    def point(params: Decoder, values: Values, texts_and_task: tuple[Any, Any]) -> Statistics:
        texts, task = texts_and_task
        batches = jax.tree.map(lambda leaf: leaf[values.text], texts)
        return curve.point(params, values.tables, batches, task, common.model, common.measure)

    first = _values_at(phases, 0)
    init = compiled("initialise", over_arms(initialise), programs, seeds, first, None)
    state, history = resumed(group, init(seeds, first, None))
    inputs = _step_values(group, phases, rates, 0)
    ensemble = Ensemble(
        group=group,
        phases=phases,
        rates=rates,
        held_out=held_out,
        shared=shared,
        step_program=compiled("train", over_arms(step, donate=True), programs, state, inputs, shared),
        point_program=compiled("measure", over_arms(point), programs, state.params, first, (held_out, shared)),
    )
    return ensemble, state, history


def _phases(group: RunGroup) -> tuple[tuple[int, Values], ...]:
    """The members' values from step 0 on, and from each step at which one of them drops its positions; the last phase first."""
    steps = group.structure.train.steps
    positions = [member.arm.model.position for member in group.members]
    drops = {
        math.ceil(position.drop_after * steps)
        for position in positions
        if isinstance(position, Rope) and position.drop_after is not None
    }
    return tuple(
        (step, stack([_values(group, member, step / steps) for member in group.members], group.mesh))
        for step in sorted({0} | drops, reverse=True)
    )


def _values(group: RunGroup, member: Member, trained: float) -> Values:
    """The values of a member when that part of its training is over."""
    arm = member.arm
    rows = tables(arm.model, arm.original_length, arm.data.length, trained=trained)
    return values_of(arm.model, arm.train, rows, group.source_index(member))


def _values_at(phases: tuple[tuple[int, Values], ...], step: int) -> Values:
    return next(values for start, values in phases if start <= step)


def _step_values(
    group: RunGroup, phases: tuple[tuple[int, Values], ...], rates: np.ndarray, step: int
) -> tuple[Any, Values, Array]:
    """What a step takes of each member: its inputs, its values, its learning rate.

    The data of an arm that starts from another one go on where that one's stopped.
    """
    batch, inputs = group.structure.train.batch, []
    for member in group.members:
        before = 0 if member.arm.start is None else member.arm.start.steps
        inputs.append(member.source.inputs(member.seed, before + step, batch))
    return stack(inputs, group.mesh), _values_at(phases, step), stack(list(rates[:, step]), group.mesh)
