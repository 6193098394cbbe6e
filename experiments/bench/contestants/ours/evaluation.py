"""One model at many lengths with many frequency tables: tables as values, as studies measure, and tables compiled in."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.bench.contestants.compilations import Compilations
from leadline.experiments.bench.contestants.ours.step import loaded
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import BASE, Size, config, structure
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import NtkAware, NtkByParts, PositionInterpolation, Yarn
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import TOKENS_AT_ONCE, evaluate, in_batches
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import compiled as compile_once
from leadline.experiments.runtime.ensemble import ensemble_mesh, over_arms, share, stack
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.mesh import make_mesh
from leadline.model.positions.tables import PositionTables


def tables_as_values(size: Mapping[str, int], lengths: Sequence[int], tokens: int, compiled: bool) -> Prepared:
    """One program for each length, which takes the tables as values."""
    jax.config.update("jax_num_cpu_devices", cores())
    shape, counted = Size(**size), Compilations()
    model, weights, programs = structure(shape, "float32"), loaded(shape), {}

    def measured(params: Decoder, table: PositionTables, batches: Int[Array, "C B T"]) -> Float[Array, ""]:
        return loss(params, table, batches, model)

    def at(length: int) -> float:
        """Like `runtime.ensemble.in_rounds`, but it keeps the program."""
        batches, rows = windows(shape, length, tokens), six_tables(shape, length)
        mesh = ensemble_mesh(len(rows), batches.shape[1], shape.width)
        with jax.set_mesh(mesh):
            inputs = stack([weights] * len(rows), mesh), stack(rows, mesh), share(batches, mesh)
            if length not in programs:
                programs[length] = compile_once(str(length), over_arms(measured), [], *inputs)
            return float(np.asarray(programs[length](*inputs))[: len(rows)].sum())

    def work() -> float:
        if not compiled:
            programs.clear()
            counted.begin()
        return sum(at(length) for length in lengths)

    return _prepared(work, counted, programs)


def tables_compiled_in(size: Mapping[str, int], lengths: Sequence[int], tokens: int, compiled: bool) -> Prepared:
    """One program for each table and length."""
    jax.config.update("jax_num_cpu_devices", 1)
    shape, counted, mesh = Size(**size), Compilations(), make_mesh()
    model, programs = structure(shape, "float32"), {}
    with jax.set_mesh(mesh):
        weights = jax.device_put(loaded(shape))

    def at(length: int, number: int) -> Any:
        with jax.set_mesh(mesh):
            if (length, number) not in programs:
                table = six_tables(shape, length)[number]
                programs[length, number] = jax.jit(lambda params, batches: loss(params, table, batches, model))
            return programs[length, number](weights, windows(shape, length, tokens))

    def work() -> float:
        if not compiled:
            programs.clear()
            counted.begin()
        losses = [at(length, number) for length in lengths for number in range(len(six_tables(shape, length)))]
        return float(sum(map(float, losses)))

    return _prepared(work, counted, programs)


def loss(params: Decoder, table: PositionTables, batches: Int[Array, "C B T"], model: DecoderConfig) -> Float[Array, ""]:
    """The mean loss of all targets [nats]."""
    return mean_loss(evaluate(params, table, batches, model)[0])


def windows(size: Size, length: int, tokens: int) -> Int[np.ndarray, "C B T"]:
    """Uniform random ids, in batches."""
    rows = np.random.default_rng(0).integers(0, size.vocabulary, (tokens // length, length + 1), dtype=np.int32)
    return in_batches(rows, TOKENS_AT_ONCE)


def six_tables(size: Size, length: int) -> list[PositionTables]:
    """Tables for texts of this length: RoPE, another base, NTK-by-parts, YaRN, PI and NTK-aware from `size.length`."""
    factor = max(length / size.length, 1.0)
    ways = [NtkByParts(factor=factor), Yarn(factor=factor), PositionInterpolation(factor=factor), NtkAware(factor=factor)]
    positions = [Rope(base=BASE), Rope(base=10 * BASE), *(Rope(base=BASE, scaling=way) for way in ways)]
    model = config(size, "float32")
    return [tables(model.model_copy(update={"position": position}), size.length, length) for position in positions]


def _prepared(work: Any, counted: Compilations, programs: Mapping[Any, Any]) -> Prepared:
    """`compilations` also counts the small programs that compute tables; `programs` are those of the model."""

    def facts(value: float) -> dict[str, Any]:
        counts = {"programs": len(programs), "compilations": counted.programs, "compile_seconds": counted.seconds}
        return {"value": value, **counts}

    return Prepared(work, often=False, more=facts)
