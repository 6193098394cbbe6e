"""4-bit floats in blocks: every value by hand, and what is no such tensor."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from leadline.experiments.published.checkpoint import Checkpoint, Entry
from leadline.experiments.published.mxfp4 import dequantised
from leadline.experiments.runtime.errors import UserError

EXPERTS, OUTPUTS, GROUPS = 2, 3, 2
RNG = np.random.default_rng(0)
FILES = {
    "down_blocks": RNG.integers(0, 256, (EXPERTS, OUTPUTS, GROUPS, 16), np.uint8),
    "down_scales": RNG.integers(118, 137, (EXPERTS, OUTPUTS, GROUPS), np.uint8),
    "norm": np.ones(4, np.float32),
}
PACKED = Checkpoint(
    name="tiny",
    config={},
    entries={name: Entry(array.shape, "F32" if name == "norm" else "U8") for name, array in FILES.items()},
    tokenizer=None,
    files=(),
    reader=FILES.__getitem__,
)


def value(expert: int, output: int, i: int) -> float:
    """A sign, two bits of exponent and one of mantissa: ±0.5 m below 1, else ±(1 + m/2) 2^(e - 1); times 2^(scale - 127)."""
    byte = int(FILES["down_blocks"][expert, output, i // 32, i % 32 // 2])
    bits = byte >> 4 if i % 2 else byte & 15
    sign, exponent, mantissa = -1 if bits & 8 else 1, bits >> 1 & 3, bits & 1
    magnitude = (1 + mantissa / 2) * 2 ** (exponent - 1) if exponent else mantissa / 2
    return sign * magnitude * 2.0 ** (int(FILES["down_scales"][expert, output, i // 32]) - 127)


def test_every_value_is_exact_and_inputs_stand_before_outputs() -> None:
    plain = dequantised(PACKED)
    assert plain.entries == {"norm": Entry((4,), "F32"), "down": Entry((EXPERTS, 32 * GROUPS, OUTPUTS), "BF16")}
    down = plain.read("down")
    assert down.dtype == ml_dtypes.bfloat16
    expected = [[[value(e, o, i) for o in range(OUTPUTS)] for i in range(32 * GROUPS)] for e in range(EXPERTS)]
    np.testing.assert_array_equal(down.astype(np.float64), expected)
    np.testing.assert_array_equal(plain.read("norm"), 1)


def test_without_such_tensors_a_checkpoint_stays_as_it_is() -> None:
    plain = replace(PACKED, entries={"norm": PACKED.entries["norm"]})
    assert dequantised(plain) is plain


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"down_scales": None}, "lacks down_scales, without which down cannot be dequantised"),
        ({"down_blocks": None}, "lacks down_blocks, without which down cannot be dequantised"),
        ({"down_scales": Entry((2, 3, 1), "U8")}, "down_scales U8 of shape [2, 3, 1]: no MXFP4 tensor"),
        ({"down_scales": Entry((2, 3, 2), "F32")}, "down_scales F32 of shape [2, 3, 2]: no MXFP4 tensor"),
        ({"down_blocks": Entry((2, 3, 2, 8), "U8")}, "down_blocks is U8 of shape [2, 3, 2, 8]"),
        ({"down_blocks": Entry((2, 3), "U8"), "down_scales": Entry((2, 3), "U8")}, "no MXFP4 tensor"),
    ],
)
def test_what_is_no_such_tensor_is_named(entry: dict[str, Entry | None], message: str) -> None:
    entries = {name: value for name, value in {**PACKED.entries, **entry}.items() if value is not None}
    with pytest.raises(UserError, match=re.escape(message)):
        dequantised(replace(PACKED, entries=entries))
