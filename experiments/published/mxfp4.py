"""MXFP4 tensors as GPT-OSS publishes its experts: 4-bit floats in blocks of 32 with a power of two as their scale
(Open Compute Project 2023, OCP Microscaling Formats v1.0)."""

import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Num, Shaped, UInt8

from leadline.experiments.published.checkpoint import Checkpoint, Entry
from leadline.experiments.runtime.errors import UserError

BLOCKS, SCALES = "_blocks", "_scales"
# E2M1: a sign, two bits of exponent, one of mantissa.
MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
VALUES = np.concatenate([MAGNITUDES, -MAGNITUDES]).astype(jnp.bfloat16)
# The two values of a byte, the lower four bits first.
PAIRS = np.stack([VALUES[np.arange(256) % 16], VALUES[np.arange(256) // 16]], axis=1)
BIAS = 127  # of the exponents in `_scales`


def dequantised(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with one tensor X in place of each X_blocks [E, F, G, 16] and X_scales [E, F, G]: bfloat16 [E, 32 G, F].

    Every value is exact. A tensor is dequantised when it is read.

    Raises:
        UserError: for blocks without scales, scales without blocks, and shapes that do not fit.
    """
    entries = dict(checkpoint.entries)
    packed = {name.removesuffix(end) for end in (BLOCKS, SCALES) for name in entries if name.endswith(end)}
    for name in packed:
        if absent := [name + end for end in (BLOCKS, SCALES) if name + end not in entries]:
            raise UserError(f"{checkpoint.name}: lacks {absent[0]}, without which {name} cannot be dequantised")
        blocks, scales = (entries.pop(name + end) for end in (BLOCKS, SCALES))
        if blocks.shape[3:] != (16,) or blocks.shape[:3] != scales.shape or {blocks.dtype, scales.dtype} != {"U8"}:
            raise UserError(
                f"{checkpoint.name}: {name}{BLOCKS} is {blocks.dtype} of shape {list(blocks.shape)} and {name}{SCALES} "
                f"{scales.dtype} of shape {list(scales.shape)}: no MXFP4 tensor, which is U8 [E, F, G, 16] and U8 [E, F, G]"
            )
        experts, outputs, groups = scales.shape
        entries[name] = Entry((experts, 32 * groups, outputs), "BF16")

    def read(name: str) -> Shaped[np.ndarray, "..."]:
        return values(*(checkpoint.read(name + end) for end in (BLOCKS, SCALES))) if name in packed else checkpoint.read(name)

    return replace(checkpoint, entries=entries, reader=read) if packed else checkpoint


def values(blocks: UInt8[np.ndarray, "E F G 16"], scales: UInt8[np.ndarray, "E F G"]) -> Num[np.ndarray, "E D F"]:
    """The values of the blocks, with D = 32 G inputs in front of the F outputs."""
    factors = np.ldexp(np.float32(1), scales.astype(np.int32) - BIAS).astype(PAIRS.dtype)
    scaled = PAIRS[blocks] * factors[..., None, None]
    return scaled.reshape(*scales.shape[:2], math.prod(scaled.shape[2:])).swapaxes(1, 2)
