"""The arms of a sweep, in one program as `leadline run` trains them, and by themselves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bench.compilations import Compilations
from experiments.bench.llama import LEARNING_RATE, Size, config, structure, tokens
from experiments.bench.ours_step import step_of, training
from experiments.bench.worker import Prepared
from experiments.build import decoder_config, extra_logit
from experiments.config.model import ModelConfig
from experiments.config.position import Alibi, Nope, Rope
from experiments.config.scaling import NtkAware, PositionInterpolation, Yarn
from experiments.config.scores import FixedSink, NoSink
from experiments.cores import cores
from experiments.data.sample import Sample
from experiments.population import over_arms, population_mesh, stack
from experiments.position_tables import tables
from experiments.train import TrainState, Values, init_state
from model.decoder import DecoderConfig
from model.mesh import make_mesh


@dataclass(frozen=True)
class Arm:
    """A model of a sweep: it differs from the others in values only."""

    model: ModelConfig
    seed: int
    rate: float


def bases(size: Size, models: int) -> list[Arm]:
    """RoPE with as many bases, rates and seeds."""
    return [Arm(_with(size, Rope(base=10.0 ** (2 + i / 2))), seed=i, rate=LEARNING_RATE / (1 + i)) for i in range(models)]


def kinds(size: Size) -> list[Arm]:
    """Bases, scalings, ALiBi and none, each with and without a logit of 0 in the denominator; rates and seeds differ too."""
    scalings = (PositionInterpolation(factor=2.0), NtkAware(factor=2.0), Yarn(factor=2.0))
    positions = (Rope(base=1e4), *(Rope(base=1e2, scaling=scaling) for scaling in scalings), Alibi(), Nope())
    both = [(position, sink) for position in positions for sink in (NoSink(), FixedSink(logit=0.0))]
    return [Arm(_with(size, *pair), seed=i, rate=LEARNING_RATE / (1 + i)) for i, pair in enumerate(both)]


def together(size: Mapping[str, int], models: int) -> Prepared:
    """A step of a sweep of bases."""
    own = Size(**size)
    return arms_together(own, bases(own, models))


def arms_together(size: Size, arms: Sequence[Arm]) -> Prepared:
    """A step of all of them, which have the structure of the first, in one program. The value is the sum of the losses of the
    third step."""
    jax.config.update("jax_num_cpu_devices", cores())
    model = decoder_config(arms[0].model, size.vocabulary, size.length)
    mesh = population_mesh(len(arms), size.batch, size.width)
    with jax.set_mesh(mesh):
        state, given = _stacked(size, arms, mesh, model)
        program = over_arms(step_of(size, model), donate=True).lower(state, given, None).compile()  # pyright: ignore[reportFunctionMemberAccess]

    def work() -> float:
        nonlocal state
        with jax.set_mesh(mesh):
            state, metrics = program(state, given, None)
            return float(np.asarray(metrics["loss"])[: len(arms)].sum())

    return Prepared(work, {"value": [work() for _ in range(3)][-1]})


def one_after_another(size: Mapping[str, int], models: int) -> Prepared:
    """A step of each by itself, the next one queued before the last one's loss is read."""
    jax.config.update("jax_num_cpu_devices", 1)
    own = Size(**size)
    model, arms, mesh = structure(own, "float32"), bases(own, models), make_mesh()
    step = jax.jit(step_of(own, model), donate_argnums=0)
    with jax.set_mesh(mesh):
        given = [jax.device_put(inputs(own, arm)) for arm in arms]
        begin = jax.jit(partial(init_state, model=model, cfg=training(own)))
        states = [begin(np.uint32(arm.seed), one[1]) for arm, one in zip(arms, given, strict=True)]

    def work() -> float:
        losses = []
        with jax.set_mesh(mesh):
            for i, one in enumerate(given):
                states[i], metrics = step(states[i], one, None)
                losses.append(metrics["loss"])
        return float(sum(map(float, losses)))

    return Prepared(work, {"value": [work() for _ in range(3)][-1]})


def one_program(size: Mapping[str, int]) -> Prepared:
    """From no program to the losses of two steps of every arm, whose sum is the value."""
    jax.config.update("jax_num_cpu_devices", cores())
    own = Size(**size)
    model, arms, counted = structure(own, "float32"), kinds(own), Compilations()
    mesh = population_mesh(len(arms), own.batch, own.width)
    with jax.set_mesh(mesh):
        state, given = _stacked(own, arms, mesh, model)

    def work() -> float:
        counted.begin()
        with jax.set_mesh(mesh):
            step = over_arms(step_of(own, model))
            after, first = step(state, given, None)
            _, second = step(after, given, None)
            return float(sum(np.asarray(metrics["loss"])[: len(arms)].sum() for metrics in (first, second)))

    return _counted(work, counted)


def program_an_arm(size: Mapping[str, int]) -> Prepared:
    """Likewise, each arm with its values compiled in."""
    jax.config.update("jax_num_cpu_devices", 1)
    own = Size(**size)
    model, mesh = structure(own, "float32"), make_mesh()
    arms, counted = kinds(own), Compilations()
    with jax.set_mesh(mesh):
        given = [inputs(own, arm) for arm in arms]
        begin = jax.jit(partial(init_state, model=model, cfg=training(own)))
        states = [begin(np.uint32(arm.seed), one[1]) for arm, one in zip(arms, given, strict=True)]

    def work() -> float:
        counted.begin()
        losses = []
        with jax.set_mesh(mesh):
            for state, one in zip(states, given, strict=True):
                step = jax.jit(lambda state, one=one: step_of(own, model)(state, jax.tree.map(jnp.asarray, one), None))
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
    """The states of all arms at their beginning, and what a step takes for them."""
    given = tuple(stack(parts, mesh) for parts in zip(*(inputs(size, arm) for arm in arms), strict=True))
    cfg = training(size)
    begin = over_arms(lambda seed, own, shared: init_state(seed, own, model, cfg))  # noqa: ARG005
    return begin(stack([np.uint32(arm.seed) for arm in arms], mesh), given[1], None), given


def inputs(size: Size, arm: Arm) -> tuple[Sample, Values, np.float32]:
    """Ids, values and learning rate of one arm, on the host."""
    logit, rate = extra_logit(arm.model)
    ids: Any = tokens(size).astype(np.int32)
    own = Values(
        tables=tables(arm.model, size.length),
        extra_logit=jnp.float32(logit),
        text=jnp.int32(0),
        logit_rate=jnp.float32(rate),
        weight_decay=jnp.float32(training(size).weight_decay),
        clip=jnp.float32(training(size).clip),
    )
    return Sample(ids), own, np.float32(arm.rate)
