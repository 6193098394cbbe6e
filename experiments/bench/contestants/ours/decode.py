"""Decoding as `leadline generate` compiles it."""

import time
import zlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from leadline.experiments.bench.contestants.ours.step import loaded
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import Size, config, structure, tokens
from leadline.experiments.config.to_tables import tables
from leadline.model.generate import Policy, begin, decode, layers_of
from leadline.model.mesh import make_mesh
from leadline.model.sampling import sampling


def prepare(size: Mapping[str, int], count: int, window: int | None, initial_tokens: int) -> Prepared:
    """Decodes `count` tokens after a prompt that has been read. The value is a checksum of the tokens."""
    shape = Size(**size)
    cfg, policy = structure(shape, "float32"), Policy(window, initial_tokens)
    mesh = make_mesh()
    with jax.set_mesh(mesh):
        params = jax.tree.map(jnp.asarray, loaded(shape))
        rows = tables(config(shape, "float32"), shape.length)
        prompt = jnp.asarray(tokens(shape)[:, :-1], jnp.int32)
        text = begin(params, prompt, rows, cfg, policy, shape.length + count)
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
