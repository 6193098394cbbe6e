"""The arms of a sweep, in one program as `leadline run` trains them, and one by one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leadline.experiments.bench.contestants.compilations import Compilations
from leadline.experiments.bench.contestants.ours.step import step_of, training
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import LEARNING_RATE, Size, config, stepping, structure, tokens
from leadline.experiments.config.model import FixedSink, ModelConfig, NoSink
from leadline.experiments.config.position import Alibi, Nope, Rope
from leadline.experiments.config.scaling import NtkAware, PositionInterpolation, Yarn
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.data.sample import Sample
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import ensemble_mesh, over_arms, stack
from leadline.experiments.training.step import TrainState, Values, init_state, values_of
from leadline.model.decoder import DecoderConfig
from leadline.model.mesh import make_mesh


@dataclass(frozen=True)
class Arm:
    """A model of a sweep. Arms differ in values only, so that one program serves all of them."""

    model: ModelConfig
    seed: int
    rate: float


def bases(size: Size, models: int) -> list[Arm]:
    """RoPE with `models` bases, rates and seeds."""
    return [Arm(_with(size, Rope(base=10.0 ** (2 + i / 2))), seed=i, rate=LEARNING_RATE / (1 + i)) for i in range(models)]


def kinds(size: Size) -> list[Arm]:
    """RoPE of several scalings, ALiBi and NoPE, each with and without a sink logit of 0. Rates and seeds differ too."""
    scalings = (PositionInterpolation(factor=2.0), NtkAware(factor=2.0), Yarn(factor=2.0))
    positions = (Rope(base=1e4), *(Rope(base=1e2, scaling=scaling) for scaling in scalings), Alibi(), Nope())
    pairs = [(position, sink) for position in positions for sink in (NoSink(), FixedSink(logit=0.0))]
    return [Arm(_with(size, *pair), seed=i, rate=LEARNING_RATE / (1 + i)) for i, pair in enumerate(pairs)]


def together(size: Mapping[str, int], models: int) -> Prepared:
    """A step of a sweep of bases."""
    shape = Size(**size)
    return arms_together(shape, bases(shape, models))


def with_mechanism(size: Mapping[str, int], compute: str, changes: Mapping[str, Any]) -> Prepared:
    """A step of the benchmarks' model with `changes` in its configuration, from random weights."""
    shape = Size(**size)
    model = ModelConfig.model_validate({**config(shape, compute).model_dump(), **changes})
    return Prepared(arms_together(shape, [Arm(model, seed=0, rate=LEARNING_RATE)]).work)


def arms_together(size: Size, arms: Sequence[Arm]) -> Prepared:
    """A step of all arms, which share a structure, in one program. The value is the sum of the losses of the third step."""
    jax.config.update("jax_num_cpu_devices", cores())
    model = decoder_config(arms[0].model, size.vocabulary, size.length)
    mesh = ensemble_mesh(len(arms), size.batch, size.width)
    with jax.set_mesh(mesh):
        state, inputs = _stacked(size, arms, mesh, model)
        program = over_arms(step_of(size, model), donate=True).lower(state, inputs, None).compile()  # pyright: ignore[reportFunctionMemberAccess]

    def work() -> float:
        nonlocal state
        with jax.set_mesh(mesh):
            state, metrics = program(state, inputs, None)
            return float(np.asarray(metrics["loss"])[: len(arms)].sum())

    return stepping(work)


def one_after_another(size: Mapping[str, int], models: int) -> Prepared:
    """A step of each arm by itself. The next step is queued before the loss of the last one is read."""
    jax.config.update("jax_num_cpu_devices", 1)
    shape = Size(**size)
    model, arms, mesh = structure(shape, "float32"), bases(shape, models), make_mesh()
    step = jax.jit(step_of(shape, model), donate_argnums=0)
    with jax.set_mesh(mesh):
        inputs = [jax.device_put(arm_inputs(shape, arm)) for arm in arms]
        states = _begun(shape, arms, inputs, model)

    def work() -> float:
        losses = []
        with jax.set_mesh(mesh):
            for i, of_arm in enumerate(inputs):
                states[i], metrics = step(states[i], of_arm, None)
                losses.append(metrics["loss"])
        return float(sum(map(float, losses)))

    return stepping(work)


def one_program(size: Mapping[str, int]) -> Prepared:
    """Compiles one program for all arms and takes two steps. The value is the sum of their losses."""
    jax.config.update("jax_num_cpu_devices", cores())
    shape = Size(**size)
    model, arms, counted = structure(shape, "float32"), kinds(shape), Compilations()
    mesh = ensemble_mesh(len(arms), shape.batch, shape.width)
    with jax.set_mesh(mesh):
        state, inputs = _stacked(shape, arms, mesh, model)

    def work() -> float:
        counted.begin()
        with jax.set_mesh(mesh):
            step = over_arms(step_of(shape, model))
            after, first = step(state, inputs, None)
            _, second = step(after, inputs, None)
            return float(sum(np.asarray(metrics["loss"])[: len(arms)].sum() for metrics in (first, second)))

    return _counted(work, counted)


def program_an_arm(size: Mapping[str, int]) -> Prepared:
    """The same with one program for each arm, whose values are compiled in."""
    jax.config.update("jax_num_cpu_devices", 1)
    shape = Size(**size)
    model, mesh = structure(shape, "float32"), make_mesh()
    arms, counted = kinds(shape), Compilations()
    with jax.set_mesh(mesh):
        inputs = [arm_inputs(shape, arm) for arm in arms]
        states = _begun(shape, arms, inputs, model)

    def work() -> float:
        counted.begin()
        losses = []
        with jax.set_mesh(mesh):
            for state, of_arm in zip(states, inputs, strict=True):
                step = jax.jit(
                    lambda state, of_arm=of_arm: step_of(shape, model)(state, jax.tree.map(jnp.asarray, of_arm), None)
                )
                after, first = step(state)
                losses += [first["loss"], step(after)[1]["loss"]]
        return float(sum(map(float, losses)))

    return _counted(work, counted)


def _counted(work: Callable[[], float], counted: Compilations) -> Prepared:
    return Prepared(work, often=False, more=lambda value: {"value": value, **counted.facts()})


def _with(size: Size, position: Any, sink: Any = None) -> ModelConfig:
    changes = {"position": position, "sink": sink or NoSink()}
    return config(size, "float32").model_copy(update=changes)


def _stacked(size: Size, arms: Sequence[Arm], mesh: Any, model: DecoderConfig) -> tuple[TrainState, Any]:
    """The first states of all arms, and the inputs of a step, stacked."""
    inputs = tuple(stack(parts, mesh) for parts in zip(*(arm_inputs(size, arm) for arm in arms), strict=True))
    cfg = training(size)
    begin = over_arms(lambda seed, values, shared: init_state(seed, values, model, cfg))  # noqa: ARG005
    return begin(stack([np.uint32(arm.seed) for arm in arms], mesh), inputs[1], None), inputs


def _begun(size: Size, arms: Sequence[Arm], inputs: Sequence[Any], model: DecoderConfig) -> list[TrainState]:
    """The first state of each arm by itself."""
    begin = jax.jit(partial(init_state, model=model, cfg=training(size)))
    return [begin(np.uint32(arm.seed), of_arm[1]) for arm, of_arm in zip(arms, inputs, strict=True)]


def arm_inputs(size: Size, arm: Arm) -> tuple[Sample, Values, np.float32]:
    """Ids, values and learning rate of an arm, on the host."""
    ids: Any = tokens(size).astype(np.int32)
    values = values_of(arm.model, training(size), tables(arm.model, size.length))
    return Sample(ids), values, np.float32(arm.rate)
