"""A model measured on held-out batches, in memory that does not grow with their number; and many of them in one program."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measured import Measured
from leadline.experiments.config.to_tables import tables
from leadline.experiments.records.measurement import Reading
from leadline.experiments.runtime.ensemble import Tell, in_rounds, silent
from leadline.model.block import LayerTrace
from leadline.model.context_parallel import apply_context_parallel
from leadline.model.decoder import Decoder, DecoderConfig, unembed
from leadline.model.embedding import token_losses
from leadline.model.encoder_decoder import model_layers
from leadline.model.mesh import TEXT, axis_size, on_mesh
from leadline.model.positions.tables import PositionTables

# Tokens of one forward pass: enough to fill a core, few enough that a block of scores stays small.
TOKENS_AT_ONCE = 5000

# Logits that exist at once: 2^25 are 128 MiB.
LOGITS_AT_ONCE = 2**25

Statistics = dict[Reading, Float[Array, "..."]]
# `evaluate` with weights, tables and structure already given.
Evaluation = Callable[..., tuple[Any, Statistics]]
# The tables of a model by the tokens of a text.
TablesByLength = Mapping[int, PositionTables]
Tree = TypeVar("Tree")


def evaluate(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T_and_1"],
    cfg: DecoderConfig,
    *,
    of_target: Callable[[Float[Array, "B T V"], Int[Array, "B T"]], Any] = token_losses,
    of_layer: Callable[[LayerTrace, Int[Array, "B T"]], Statistics] = lambda trace, tokens: {},  # noqa: ARG005
) -> tuple[Any, Statistics]:
    """Measures a model on C batches of windows, one batch after the other, inside a compiled program.

    Texts are spread over the devices of the mesh axis "text" where it has several, unless each query rotates all keys.

    Args:
        params: the weights.
        tables: of the positions, for texts of T tokens.
        batches: ids; the targets of row[:-1] are row[1:].
        cfg: the structure.
        of_target: from logits and targets, a tree of values for every target; the loss [nats] where it is not given.
        of_layer: from the trace of one layer and its tokens, statistics that do not depend on B.

    Returns:
        What `of_target` gives, for every target: arrays [C · B, T]. What `of_layer` gives, stacked to [L, …] and averaged
        over the batches.
    """
    over_devices = axis_size(TEXT) > 1 and cfg.block.table_per != "query"

    def measured(tokens: Int[Array, "B T_and_1"]) -> tuple[Any, Statistics]:
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        if over_devices:
            scores, layers = apply_context_parallel(params, inputs, tables, cfg, measure=of_layer)
            values = of_target(scores, jax.reshard(targets, P(None, TEXT)))
        else:
            x, layers = model_layers(params, inputs, tables, cfg, measure=lambda trace: of_layer(trace, inputs))
            values = of_targets(params, x, targets, cfg, of_target)
        return jax.tree.map(lambda value: jax.reshard(value, P(None, None)), values), layers

    values, layers = jax.lax.map(measured, batches)
    return as_rows(values), jax.tree.map(lambda statistic: jnp.mean(statistic, axis=0), layers)


def evaluation(params: Decoder, tables: TablesByLength, cfg: DecoderConfig) -> Evaluation:
    """`evaluate` with weights and structure already given, and the tables of texts of the length of its batches."""

    def of_batches(batches: Int[Array, "C B T_and_1"], **measures: Any) -> tuple[Any, Statistics]:
        return evaluate(params, tables[batches.shape[-1] - 1], batches, cfg, **measures)

    return of_batches


def of_targets(
    params: Decoder,
    x: Float[Array, "B T D"],
    targets: Int[Array, "B T"],
    cfg: DecoderConfig,
    of_target: Callable[[Float[Array, "B t V"], Int[Array, "B t"]], Any],
    logits_at_once: int = LOGITS_AT_ONCE,
) -> Any:
    """`of_target` of the residual stream after the last layer, in the fewest parts of equal length whose logits fit.

    Args:
        params: the weights.
        x: the residual stream.
        targets: ids.
        cfg: the structure.
        of_target: from logits and targets, a tree of values for every target.
        logits_at_once: most logits that exist at once, unless those of one token of every text are more.

    Returns:
        The tree, of arrays [B, T].
    """
    B, T, D = x.shape
    parts = next(n for n in range(1, T + 1) if T % n == 0 and (n == T or B * T // n * cfg.vocabulary <= logits_at_once))
    if parts == 1:
        return of_target(unembed(params, x, cfg), targets)

    def of_part(part: tuple[Float[Array, "B t D"], Int[Array, "B t"]]) -> Any:
        return of_target(unembed(params, part[0], cfg), part[1])

    pieces = x.reshape(B, parts, -1, D, out_sharding=on_mesh(P("data", None, None, None)))
    ids = targets.reshape(B, parts, -1, out_sharding=on_mesh(P("data", None, None)))
    values = jax.lax.map(of_part, (jnp.swapaxes(pieces, 0, 1), jnp.swapaxes(ids, 0, 1)))
    return jax.tree.map(lambda value: jnp.swapaxes(value, 0, 1).reshape(B, T, out_sharding=on_mesh(P("data", None))), values)


def as_rows(tree: Tree) -> Tree:
    """Batches [C, B, T] as rows [C · B, T], of every array of a tree."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), tree)


def in_batches(tree: Tree, tokens_at_once: int = TOKENS_AT_ONCE) -> Tree:
    """Rows [W, T] as equal batches [C, B, T] on the host, of every array of a tree.

    A batch has at most `tokens_at_once` ids, or one row if that is longer. B divides W, so that every row is there once.
    """
    rows, width = jax.tree.leaves(tree)[0].shape
    batch = max(size for size in range(1, max(1, tokens_at_once // width) + 1) if rows % size == 0)
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, batch, leaf.shape[1]), tree)


def in_full_batches(windows: Int[np.ndarray, "W T"], tokens_at_once: int = TOKENS_AT_ONCE) -> Int[np.ndarray, "C B T"]:
    """The windows in as few batches as possible, the last one filled with the first windows again, which callers cut off."""
    batch = min(len(windows), max(1, tokens_at_once // windows.shape[1]))
    filled = np.resize(windows, (len(windows) + -len(windows) % batch, windows.shape[1]))
    return filled.reshape(-1, batch, windows.shape[1])


@dataclass(frozen=True)
class Models:
    """Models of one structure, and what they are measured on."""

    arms: Sequence[Measured]  # one a model; the same arm occurs once for each seed
    params: Sequence[Decoder]  # the weights, in the same order
    source: Any  # of their data; that of any arm, where they differ only in what a sequence of a task begins with
    model: DecoderConfig  # the structure that they share
    programs: list[str]  # names of the programs compiled so far; a measurement appends its own
    tell: Tell = silent  # hears how many jobs of a program are done
    seeds: Sequence[int] = ()  # of the first weights of each model; empty where these are not drawn, or not known

    def tables(self, length: int) -> list[PositionTables]:
        """The position tables of each model as it was trained, for texts of this length."""
        return [tables(arm.model, arm.original_length, length) for arm in self.arms]

    def tables_by_length(self, lengths: Iterable[int]) -> list[dict[int, PositionTables]]:
        """The tables of each model for texts of each of these lengths."""
        by_length = {length: self.tables(length) for length in lengths}
        return [{length: rows[i] for length, rows in by_length.items()} for i in range(len(self.arms))]

    def run(
        self, name: str, job: Callable[[Decoder, Any, Any], Any], inputs: Sequence[Any], shared: Any, *rows: int
    ) -> list[Any]:
        """`job(params, input, shared)` of every model in one compiled program, results on the host.

        Args:
            name: of the program.
            job: a pure function.
            inputs: one a model; or several, those of a model one after the other.
            shared: what is equal for all.
            *rows: the sizes of batches in `shared`, which devices may divide among themselves.
        """
        several = len(inputs) // len(self.params)
        jobs = [(self.params[number // several], values) for number, values in enumerate(inputs)]
        return in_rounds(name, job, jobs, shared, self.programs, *rows, self.model.block.width, tell=self.tell)

    def evaluated(
        self, name: str, batches: Int[np.ndarray, "C B T_and_1"], of_target: Callable[..., Any] = token_losses
    ) -> list[Any]:
        """`of_target` of every target [C · B, T] of each model, its loss [nats] where it is not given, by one program."""

        def job(params: Decoder, row: PositionTables, batches: Int[Array, "C B T_and_1"]) -> Any:
            return evaluate(params, row, batches, self.model, of_target=of_target)[0]

        return self.run(name, job, self.tables(batches.shape[2] - 1), batches, batches.shape[1])

    def window_losses(self, name: str, windows: Int[np.ndarray, "W T_and_1"]) -> list[Float[np.ndarray, "W T"]]:
        """The loss [nats] of every target, of each model, every window by itself."""
        return [losses[: len(windows)] for losses in self.evaluated(name, in_full_batches(windows))]
