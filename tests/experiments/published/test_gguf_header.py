"""Headers of GGUF that lie, and what is said of them."""

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.experiments.published.gguf_header import read_header
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.tiny import tiny_gguf

Change = Callable[[bytes], bytes]
NORM = b"output_norm.weight"  # of rank 1, F32
HUGE = 1 << 62


def _at(place: int, form: str, value: int) -> Change:
    """A number at a place."""
    return lambda data: data[:place] + struct.pack(f"<{form}", value) + data[place + struct.calcsize(form) :]


def _after(name: bytes, offset: int, form: str, value: int) -> Change:
    """A number some bytes after a name."""
    return lambda data: _at(data.index(name) + len(name) + offset, form, value)(data)


def _instead(old: bytes, new: bytes) -> Change:
    def change(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: b"", "the file is empty"),
        (_at(0, "I", 0), "not a GGUF file, which begins with GGUF"),
        (_at(4, "I", 1), "version 1 of GGUF; little-endian versions 2 and 3"),
        (_at(4, "I", 3 << 24), "version 50331648 of GGUF; little-endian"),
        (lambda data: data[:20], "16 bytes from byte 8 on, of 20 bytes"),
        (_at(8, "Q", HUGE), f"{HUGE} tensors from byte 24 on"),
        (_at(16, "Q", HUGE), f"{HUGE} key-value pairs from byte 24 on"),
        (_at(24, "Q", HUGE), f"{HUGE} bytes from byte 32 on"),
        (_after(b"ggml.tokens", 8, "Q", HUGE), f"{HUGE} strings from byte"),
        (_after(b"ggml.token_type", 8, "Q", HUGE), f"{4 * HUGE} bytes from byte"),
        (_after(b"ggml.tokens", 4, "I", 9), "'tokenizer.ggml.tokens' is an array of type 9, neither numbers nor strings"),
        (_after(b"ggml.tokens", 0, "I", 13), "'tokenizer.ggml.tokens' is of the unknown type 13"),
        (_instead(b"smollm", b"\xff" * 6), "is not UTF-8"),
        (_instead(b"llama.context_length", b"general.architecture"), "the key 'general.architecture' is there twice"),
        (_instead(b"llama.block_count\4\0\0\0\2", b"general.alignment\4\0\0\0\3"), "general.alignment is 3, no power of two"),
        (_instead(b"blk.1.attn_q.weight", b"blk.0.attn_q.weight"), "the tensor 'blk.0.attn_q.weight' is there twice"),
        (_after(NORM, 0, "I", 0), "the tensor 'output_norm.weight' has 0 axes"),
        (_after(NORM, 0, "I", 5), "the tensor 'output_norm.weight' has 5 axes"),
        (_after(NORM, 4, "Q", 0), "the tensor 'output_norm.weight' of type F32 has shape (0,)"),
        (_after(NORM, 4, "Q", HUGE), f"the tensor 'output_norm.weight' has {4 * HUGE} bytes at"),
        (_after(NORM, 12, "I", 99), "the tensor 'output_norm.weight' is of the unknown type 99"),
        (_after(NORM, 12, "I", 12), "the tensor 'output_norm.weight' of type Q4_K has shape (64,)"),
        (_after(NORM, 16, "Q", HUGE), "the tensor 'output_norm.weight' has 256 bytes at"),
        (_after(NORM, 16, "Q", 1), "the tensor 'output_norm.weight' has 256 bytes at"),
        (_after(NORM, 16, "Q", 0), "overlap"),
        (lambda data: data[:-64], "bytes at"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, change: Change, message: str) -> None:
    path = tiny_gguf(tmp_path / "a.gguf")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=re.escape(message)):
        read_header(path)
