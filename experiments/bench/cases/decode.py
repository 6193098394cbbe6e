"""Decoding, as `leadline generate` compiles it, with a cache of the first and the newest tokens (StreamingLLM)."""

import dataclasses
import time
import zlib

import jax
import jax.numpy as jnp
import numpy as np

from leadline.experiments.bench.cases.step import SMALL
from leadline.experiments.bench.contest import Benchmark, Case, ours, peer
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.arms import loaded
from leadline.experiments.bench.workloads.llama import Size, config, structure, tokens
from leadline.experiments.config.to_tables import tables
from leadline.model.generate import Policy, begin, decode, layers_of
from leadline.model.mesh import make_mesh
from leadline.model.sampling import sampling

WINDOW, INITIAL_TOKENS, COUNT = 256, 4, 128
RATES = {1: 2900.0, 8: 7000.0}  # tokens a second that are aimed at, by batch


def prepare(size: Size, count: int, window: int | None, initial_tokens: int) -> Prepared:
    """Decodes `count` tokens after a prompt that has been read. The value is a checksum of the tokens."""
    cfg, policy = structure(size, "float32"), Policy(window, initial_tokens)
    with jax.set_mesh(make_mesh()):
        params = jax.tree.map(jnp.asarray, loaded(size))
        rows = tables(config(size, "float32"), size.length)
        prompt = jnp.asarray(tokens(size)[:, :-1], jnp.int32)
        text = begin(params, prompt, rows, cfg, policy, size.length + count)
        layers = jax.jit(layers_of)(params, rows)
        inputs = (params, layers, text, sampling(), jax.random.key(0))
        began = time.perf_counter()
        program = decode.lower(*inputs[:3], count, cfg, *inputs[3:]).compile()
        seconds = time.perf_counter() - began

    def work() -> np.ndarray:
        return np.asarray(program(*inputs)[0])

    return Prepared(work, {"value": checksum(work()), "compile_seconds": seconds})


def checksum(ids: np.ndarray) -> float:
    """CRC-32 of tokens [B, T]."""
    return float(zlib.crc32(np.ascontiguousarray(ids, np.int32).tobytes()))


def _case(batch: int) -> Case:
    size = dataclasses.replace(SMALL, batch=batch)
    common = {"size": size, "count": COUNT}
    stream = {**common, "window": WINDOW, "initial_tokens": INITIAL_TOKENS}
    cache = f"{INITIAL_TOKENS} initial + {WINDOW} newest"
    return Case(
        f"decoding, L{SMALL.layers} d{SMALL.width} V{SMALL.vocabulary} B{batch}, {cache}, float32",
        (
            ours(prepare, stream),
            peer("torch, same algorithm", "torch_stream:prepare", stream),
            peer("transformers generate", "transformers_llama:prepare_generation", common),
        ),
        targets={"torch, same algorithm": 2.0, "transformers generate": 6.0},
        tokens=batch * COUNT,
        rate=RATES[batch],
        tolerance=0.0,
    )


DECODING = Benchmark(
    "decode",
    "How many tokens a second does a stream give?",
    tuple(_case(batch) for batch in RATES),
    (
        f"{COUNT} greedy tokens after a prompt of {SMALL.length} tokens that has been read; the cache keeps "
        f"{INITIAL_TOKENS} initial tokens and the {WINDOW} newest; positions are those in the cache; torch agrees",
        f"transformers evicts nothing: its context grows from {SMALL.length} to {SMALL.length + COUNT}",
    ),
)
