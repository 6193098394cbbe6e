"""A model at many lengths with many tables, as studies measure it, and with every table compiled in."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from experiments.bench.compilations import Compilations
from experiments.bench.llama import BASE, Size, config, structure
from experiments.bench.ours_step import loaded
from experiments.bench.worker import Prepared
from experiments.config.position import Rope
from experiments.config.scaling import NtkAware, NtkByParts, PositionInterpolation, Yarn
from experiments.cores import cores
from experiments.evaluate import TOKENS_AT_ONCE, evaluate, in_batches
from experiments.measure.perplexity import mean_loss
from experiments.population import compiled as compile_once
from experiments.population import over_arms, population_mesh, share, stack
from experiments.position_tables import tables
from model.decoder import Decoder, DecoderConfig
from model.mesh import make_mesh
from model.positions.tables import PositionTables


def tables_as_values(size: Mapping[str, int], lengths: Sequence[int], tokens: int, compiled: bool) -> Prepared:
    """One program a length, which takes the tables."""
    jax.config.update("jax_num_cpu_devices", cores())
    own, counted = Size(**size), Compilations()
    model, weights, programs = structure(own, "float32"), loaded(own), {}

    def measured(params: Decoder, table: PositionTables, batches: Int[Array, "C B T"]) -> Float[Array, ""]:
        return loss(params, table, batches, model)

    def at(length: int) -> float:
        """As `experiments.population.in_rounds` does it, but the program may stay."""
        batches, given = windows(own, length, tokens), six(own, length)
        mesh = population_mesh(len(given), batches.shape[1], own.width)
        with jax.set_mesh(mesh):
            inputs = stack([weights] * len(given), mesh), stack(given, mesh), share(batches, mesh)
            if length not in programs:
                programs[length] = compile_once(str(length), over_arms(measured), [], *inputs)
            return float(np.asarray(programs[length](*inputs))[: len(given)].sum())

    def work() -> float:
        if not compiled:
            programs.clear()
            counted.begin()
        return sum(at(length) for length in lengths)

    return _prepared(work, counted, programs)


def tables_compiled_in(size: Mapping[str, int], lengths: Sequence[int], tokens: int, compiled: bool) -> Prepared:
    """A program for each table and length."""
    jax.config.update("jax_num_cpu_devices", 1)
    own, counted, mesh = Size(**size), Compilations(), make_mesh()
    model, programs = structure(own, "float32"), {}
    with jax.set_mesh(mesh):
        weights = jax.device_put(loaded(own))

    def at(length: int, number: int) -> Any:
        with jax.set_mesh(mesh):
            if (length, number) not in programs:
                table = six(own, length)[number]
                programs[length, number] = jax.jit(lambda params, batches: loss(params, table, batches, model))
            return programs[length, number](weights, windows(own, length, tokens))

    def work() -> float:
        if not compiled:
            programs.clear()
            counted.begin()
        losses = [at(length, number) for length in lengths for number in range(len(six(own, length)))]
        return float(sum(map(float, losses)))

    return _prepared(work, counted, programs)


def loss(params: Decoder, table: PositionTables, batches: Int[Array, "C B T"], model: DecoderConfig) -> Float[Array, ""]:
    """The mean of all targets [nats]."""
    found = evaluate(
        params,
        table,
        batches,
        model,
        of_layer=lambda trace, ids: {},  # noqa: ARG005
        of_losses=lambda losses, ids: {"loss": mean_loss(losses)},  # noqa: ARG005
    )
    return found["loss"]


def windows(size: Size, length: int, tokens: int) -> Int[np.ndarray, "C B T"]:
    """Ids of which each is as likely as another."""
    rows = np.random.default_rng(0).integers(0, size.vocabulary, (tokens // length, length + 1), dtype=np.int32)
    return in_batches(rows, TOKENS_AT_ONCE)


def six(size: Size, length: int) -> list[PositionTables]:
    """The tables for texts of this length of a model that was trained at `size.length`."""
    factor = max(length / size.length, 1.0)
    ways = [NtkByParts(factor=factor), Yarn(factor=factor), PositionInterpolation(factor=factor), NtkAware(factor=factor)]
    positions = [Rope(base=BASE), Rope(base=10 * BASE), *(Rope(base=BASE, scaling=way) for way in ways)]
    model = config(size, "float32")
    return [tables(model.model_copy(update={"position": one}), size.length, length) for one in positions]


def _prepared(work: Any, counted: Compilations, programs: Mapping[Any, Any]) -> Prepared:
    """The tables are computed by small programs too: all compilations are more than the programs of the model."""

    def told(value: float) -> dict[str, Any]:
        facts = {"programs": len(programs), "compilations": counted.programs, "compile_seconds": counted.seconds}
        return {"value": value, **facts}

    return Prepared(work, often=False, more=told)
