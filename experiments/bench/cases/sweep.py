"""Many small models: trained together or one after the other, and in one program or one each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leadline.experiments.bench.compilations import compiling
from leadline.experiments.bench.contest import Benchmark, Case, Where, ours
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.arms import Arm, arms_apart, arms_together, trained_together
from leadline.experiments.bench.workloads.llama import LEARNING_RATE, Size, config, step_flops, stepping
from leadline.experiments.config.attention import FixedSink, NoSink
from leadline.experiments.config.position import Nope, Rope
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.config.scaling import NtkAware, PositionInterpolation, Yarn
from leadline.experiments.runtime.ensemble import over_arms

SIZE = Size(layers=2, width=64, heads=2, hidden=176, vocabulary=64, length=64, batch=4)


def bases(size: Size, models: int) -> list[Arm]:
    """RoPE with `models` bases, rates and seeds."""
    return _arms(size, [{"position": Rope(base=10.0 ** (2 + i / 2)), "sink": NoSink()} for i in range(models)])


def kinds(size: Size) -> list[Arm]:
    """RoPE of several scalings, ALiBi and NoPE, each with and without a sink logit of 0. Rates and seeds differ too."""
    scalings = (PositionInterpolation(factor=2.0), NtkAware(factor=2.0), Yarn(factor=2.0))
    positions = (Rope(base=1e4), *(Rope(base=1e2, scaling=scaling) for scaling in scalings), Alibi(), Nope())
    sinks = (NoSink(), FixedSink(logit=0.0))
    return _arms(size, [{"position": position, "sink": sink} for position in positions for sink in sinks])


def _arms(size: Size, changes: Sequence[Mapping[str, Any]]) -> list[Arm]:
    plain = config(size, "float32")
    return [Arm(plain.model_copy(update=change), i, LEARNING_RATE / (1 + i)) for i, change in enumerate(changes)]


def together(size: Size, models: int) -> Prepared:
    """A step of a sweep of bases in one program. The value is the sum of the losses of the third step."""
    return stepping(trained_together(size, bases(size, models))[0])


def one_after_another(size: Size, models: int) -> Prepared:
    """A step of each arm by itself. The next step is queued before the loss of the last one is read."""
    mesh, step, states, inputs = arms_apart(size, bases(size, models))
    program = jax.jit(step, donate_argnums=0)
    with jax.set_mesh(mesh):
        inputs = jax.device_put(inputs)

    def work() -> float:
        losses = []
        with jax.set_mesh(mesh):
            for i, of_arm in enumerate(inputs):
                states[i], metrics = program(states[i], of_arm, None)
                losses.append(metrics["loss"])
        return float(sum(map(float, losses)))

    return stepping(work)


def one_program(size: Size) -> Prepared:
    """Compiles one program for all arms and takes two steps. The value is the sum of their losses."""
    arms = kinds(size)
    mesh, step, state, inputs = arms_together(size, arms)

    def work() -> float:
        with jax.set_mesh(mesh):
            program = over_arms(step)
            after, first = program(state, inputs, None)
            _, second = program(after, inputs, None)
            return float(sum(np.asarray(metrics["loss"])[: len(arms)].sum() for metrics in (first, second)))

    return compiling(work)


def program_an_arm(size: Size) -> Prepared:
    """The same with one program for each arm, whose values are compiled in."""
    mesh, step, states, inputs = arms_apart(size, kinds(size))

    def work() -> float:
        losses = []
        with jax.set_mesh(mesh):
            for state, of_arm in zip(states, inputs, strict=True):
                program = jax.jit(lambda state, of_arm=of_arm: step(state, jax.tree.map(jnp.asarray, of_arm), None))
                after, first = program(state)
                losses += [first["loss"], program(after)[1]["loss"]]
        return float(sum(map(float, losses)))

    return compiling(work)


def _together(models: int, target: float, batch: int, where: Where) -> Case:
    size = replace(SIZE, batch=batch)
    settings = {"size": size, "models": models}
    return Case(
        f"a step of {models} models, {size.title}",
        (ours(together, settings), ours(one_after_another, settings, "one after the other")),
        targets={"one after the other": target},
        flops=models * step_flops(size),
        tokens=models * size.tokens,
        where=where,
    )


SWEEP = Benchmark(
    "sweep",
    "How much does training the models of a sweep together save?",
    (
        _together(8, target=1.5, batch=4, where="cpu"),
        _together(8, target=1.5, batch=16, where="cpu"),
        _together(32, target=6.0, batch=16, where="accelerator"),
        Case(
            "compiling a sweep of 12 arms and two steps of it",
            (ours(one_program, {"size": SIZE}), ours(program_an_arm, {"size": SIZE}, "a program an arm")),
            targets={"a program an arm": 1.0},
        ),
    ),
    (
        "one after the other: the same step of the same models under jit, in a process with one device of all cores; "
        "leadline: one program with a device for each core, or vmap on an accelerator",
        "programs: every compilation up to the losses of two steps of all arms, which differ in position encoding, base, "
        "scaling, learning rate, seed and sink logit",
    ),
)
