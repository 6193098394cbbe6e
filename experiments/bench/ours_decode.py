"""leadline's decoding, as `leadline generate` compiles it."""

import time
import zlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bench.llama import Size, config, structure, tokens
from experiments.bench.ours_step import loaded
from experiments.bench.worker import Prepared
from experiments.position_tables import tables
from model.generate import Policy, begin, decode, layers_of, sampling
from model.mesh import make_mesh


def prepare(size: Mapping[str, int], count: int, window: int | None, kept: int) -> Prepared:
    """`count` tokens behind a prompt that is read already. The value is a sum of the tokens."""
    own = Size(**size)
    cfg, policy = structure(own, "float32"), Policy(window, kept)
    mesh = make_mesh()
    with jax.set_mesh(mesh):
        params = jax.tree.map(jnp.asarray, loaded(own))
        rows = tables(config(own, "float32"), own.length)
        prompt = jnp.asarray(tokens(own)[:, :-1], jnp.int32)
        text = begin(params, prompt, rows, cfg, policy, own.length + count)
        layers = jax.jit(layers_of)(params, rows)
        given = (params, layers, text, sampling(), jax.random.key(0))
        began = time.perf_counter()
        program = decode.lower(*given[:3], count, cfg, *given[3:]).compile()
        seconds = time.perf_counter() - began

    def work() -> np.ndarray:
        return np.asarray(program(*given)[0])

    return Prepared(work, {"value": checksum(work()), "compile_seconds": seconds})


def checksum(ids: np.ndarray) -> float:
    """Equal for equal tokens [B, T] alone."""
    return float(zlib.crc32(np.ascontiguousarray(ids, np.int32).tobytes()))
