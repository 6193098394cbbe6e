"""One model at many lengths with many frequency tables: tables as values, as studies measure, and tables compiled in."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.bench.compilations import Compilations
from leadline.experiments.bench.contest import Benchmark, Case, ours
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.arms import loaded
from leadline.experiments.bench.workloads.llama import BASE, Size, config, structure
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import NtkAware, NtkByParts, PositionInterpolation, Yarn
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import TOKENS_AT_ONCE, evaluate, in_batches
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import ensemble_mesh, over_arms, share, stack
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.mesh import make_mesh
from leadline.model.positions.tables import PositionTables

MODEL = Size(layers=2, width=64, heads=2, hidden=176, vocabulary=256, length=128, batch=1)
LENGTHS = tuple(32 << i for i in range(8))
TOKENS = 4096  # at each length, with each table


def tables_as_values(size: Size, lengths: Sequence[int], tokens: int, compiled: bool) -> Prepared:
    """One program for each length, which takes the tables as values."""
    jax.config.update("jax_num_cpu_devices", cores())
    programs, model, weights = {}, structure(size, "float32"), loaded(size)

    def at(length: int) -> float:
        """Like `runtime.ensemble.in_rounds`, but it keeps the program."""
        batches, rows = windows(size, length, tokens), six_tables(size, length)
        mesh = ensemble_mesh(len(rows), batches.shape[1], size.width)
        with jax.set_mesh(mesh):
            inputs = stack([weights] * len(rows), mesh), stack(rows, mesh), share(batches, mesh)
            if length not in programs:
                programs[length] = over_arms(partial(loss, model=model)).lower(*inputs).compile()  # pyright: ignore[reportFunctionMemberAccess]
            return float(np.asarray(programs[length](*inputs))[: len(rows)].sum())

    return _prepared(lambda: sum(at(length) for length in lengths), programs, compiled)


def tables_compiled_in(size: Size, lengths: Sequence[int], tokens: int, compiled: bool) -> Prepared:
    """One program for each table and length."""
    jax.config.update("jax_num_cpu_devices", 1)
    programs, mesh, model = {}, make_mesh(), structure(size, "float32")
    with jax.set_mesh(mesh):
        weights = jax.device_put(loaded(size))

    def at(length: int, number: int) -> Any:
        with jax.set_mesh(mesh):
            if (length, number) not in programs:
                table = six_tables(size, length)[number]
                programs[length, number] = jax.jit(lambda params, batches: loss(params, table, batches, model))
            return programs[length, number](weights, windows(size, length, tokens))

    def total() -> float:
        losses = [at(length, number) for length in lengths for number in range(len(six_tables(size, length)))]
        return float(sum(map(float, losses)))

    return _prepared(total, programs, compiled)


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


def _prepared(total: Callable[[], float], programs: dict[Any, Any], compiled: bool) -> Prepared:
    """The contestant, whose value is the sum of all losses. Each call of `work` compiles every program unless `compiled`.

    `compilations` also counts the small programs that compute tables; `programs` are those of the model.
    """
    counted = Compilations()

    def work() -> float:
        if not compiled:
            programs.clear()
            counted.begin()
        return total()

    def facts(value: float) -> dict[str, Any]:
        counts = {"programs": len(programs), "compilations": counted.programs, "compile_seconds": counted.seconds}
        return {"value": value, **counts}

    return Prepared(work, often=False, more=facts)


def _case(compiled: bool, targets: Mapping[str, float]) -> Case:
    settings = {"size": MODEL, "lengths": LENGTHS, "tokens": TOKENS, "compiled": compiled}
    with_what = "programs compiled before" if compiled else "compilations included"
    title = f"8 lengths x 6 tables, L{MODEL.layers} d{MODEL.width} V{MODEL.vocabulary}, {with_what}"
    contestants = ours(tables_as_values, settings), ours(tables_compiled_in, settings, "table compiled in")
    return Case(title, contestants, targets=targets, tokens=48 * TOKENS)


EVALUATION = Benchmark(
    "evaluation",
    "How long does a model take at 8 lengths with 6 frequency tables?",
    # Tables as values save compilations. Without them both do the same work.
    (_case(compiled=False, targets={"table compiled in": 1.0}), _case(compiled=True, targets={})),
    (
        f"the mean loss of {TOKENS} tokens at each of {', '.join(map(str, LENGTHS))} with six tables: RoPE as trained, PI, "
        "NTK-aware, NTK-by-parts, YaRN and another base; the value is the sum of the 48 losses",
        "table compiled in: one jit for each table and length, in a process with one device of all cores",
    ),
)
