"""The header of a GGUF file: metadata, and where the tensors lie. Every number in it is checked before it is used.

All is little-endian: magic "GGUF", version (uint32), number of tensors and of key-value pairs (uint64 each), the pairs, the
tensors' descriptions, padding to the alignment, the tensors' bytes. A string is its length (uint64) and UTF-8. Memory and time
are at most in proportion to the file, whatever its counts claim. `gguf.GGUFReader` trusts the counts, and makes an array for
each string of the vocabulary: it takes ten times as long.
Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import mmap
import struct
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from leadline.experiments.published.mapped import mapped
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.packages import needed_package

MAGIC, VERSIONS = b"GGUF", (2, 3)
ALIGNMENT = 32  # bytes, unless general.alignment says otherwise
LARGEST_RANK = 4
# By their numbers: uint8, int8, uint16, int16, uint32, int32, float32, bool, uint64, int64, float64; 8 and 9 are below.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
# Bytes of the shortest pair (empty key, one byte) and of the shortest description (empty name, one axis).
SMALLEST_PAIR, SMALLEST_TENSOR, SMALLEST_STRING = 13, 32, 8


class GgufTensor(NamedTuple):
    """A tensor of the file.

    Attributes:
        shape: as in PyTorch, slowest axis first: the file has it the other way round.
        dtype: the name of the type in ggml.
        offset: bytes from the beginning of the file.
        size: bytes in the file.
    """

    shape: tuple[int, ...]
    dtype: str
    offset: int
    size: int


class GgufHeader(NamedTuple):
    """Metadata (numbers, strings and tuples of either) by key, tensors by name, and the whole file."""

    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]
    data: mmap.mmap


class _Cursor:
    """A place in the file, which moves forward with what is read."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.place = path, mapped(path), 0

    def refuse(self, why: str) -> UserError:
        return UserError(f"{self.path}: not a whole GGUF file ({why}); download it again")

    def forward(self, size: int) -> int:
        """Moves by `size` bytes, and returns from where. UserError where the file is too short for them."""
        start = self.place
        self.place += size
        if self.place > len(self.data):
            raise self.refuse(f"{size} bytes from byte {start} on, of {len(self.data)} bytes")
        return start

    def numbers(self, form: str, count: int = 1) -> tuple[Any, ...]:
        """As many numbers as `form` has letters of `struct`, or `count` of its one letter."""
        start = self.forward(count * struct.calcsize(f"<{form}"))
        return struct.unpack_from(f"<{form}" if count == 1 else f"<{count}{form}", self.data, start)

    def string(self) -> str:
        (length,) = self.numbers("Q")
        start = self.forward(length)
        try:
            return self.data[start : self.place].decode()
        except UnicodeDecodeError as error:
            raise self.refuse(f"a string at byte {start} is not UTF-8") from error

    def check_count(self, count: int, smallest: int, what: str) -> None:
        """UserError where the file is too short for `count` things of at least `smallest` bytes."""
        if count * smallest > len(self.data) - self.place:
            raise self.refuse(f"{count} {what} from byte {self.place} on, of {len(self.data)} bytes")

    def value(self, kind: int, key: str) -> Any:
        """A value of the metadata: kind is its type's number."""
        if kind == STRING:
            return self.string()
        if kind in SCALARS:
            return self.numbers(SCALARS[kind])[0]
        if kind != ARRAY:
            raise self.refuse(f"{key!r} is of the unknown type {kind}")
        inner, count = self.numbers("IQ")
        if inner in SCALARS:
            return self.numbers(SCALARS[inner], count)
        if inner != STRING:
            raise self.refuse(f"{key!r} is an array of type {inner}, neither numbers nor strings")
        self.check_count(count, SMALLEST_STRING, "strings")
        return tuple(self.string() for _ in range(count))


def read_header(path: Path) -> GgufHeader:
    """Reads and checks the header.

    Raises:
        UserError: for another magic or version, a count, length or size that the file is too short for, a repeated name, an
            unknown type, an alignment that is no power of two, and tensors that overlap or lie askew.
    """
    cursor = _Cursor(path)
    if cursor.data[:4] != MAGIC:
        raise UserError(f"{path}: not a GGUF file, which begins with {MAGIC.decode()}; name one, or a folder with safetensors")
    cursor.place = 4
    (version,) = cursor.numbers("I")
    if version not in VERSIONS:
        raise UserError(
            f"{path}: version {version} of GGUF; little-endian versions 2 and 3 can be read: convert the model again"
        )
    tensor_count, pair_count = cursor.numbers("Q", 2)
    cursor.check_count(tensor_count, SMALLEST_TENSOR, "tensors")
    cursor.check_count(pair_count, SMALLEST_PAIR, "key-value pairs")
    metadata: dict[str, Any] = {}
    for _ in range(pair_count):
        key = cursor.string()
        if key in metadata:
            raise cursor.refuse(f"the key {key!r} is there twice")
        (kind,) = cursor.numbers("I")
        metadata[key] = cursor.value(kind, key)
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise cursor.refuse(f"general.alignment is {alignment!r}, no power of two")
    return GgufHeader(metadata, _tensors(cursor, tensor_count, alignment), cursor.data)


def _tensors(cursor: _Cursor, count: int, alignment: int) -> dict[str, GgufTensor]:
    """The descriptions of the tensors, from the cursor on."""
    # Of each type, the numbers in a block and the bytes that they take.
    blocks = needed_package("gguf", str(cursor.path), "published").GGML_QUANT_SIZES
    sizes = {int(kind): (kind.name, *size) for kind, size in blocks.items()}
    described: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(count):
        name = cursor.string()
        if name in described:
            raise cursor.refuse(f"the tensor {name!r} is there twice")
        (rank,) = cursor.numbers("I")
        if not 1 <= rank <= LARGEST_RANK:
            raise cursor.refuse(f"the tensor {name!r} has {rank} axes")
        described[name] = (cursor.numbers("Q", rank), *cursor.numbers("IQ"))
    start = -(-cursor.place // alignment) * alignment
    tensors = {}
    for name, (dims, kind, offset) in described.items():
        if kind not in sizes:
            raise cursor.refuse(f"the tensor {name!r} is of the unknown type {kind}")
        dtype, block, block_bytes = sizes[kind]
        if min(dims) < 1 or dims[0] % block:
            raise cursor.refuse(f"the tensor {name!r} of type {dtype} has shape {dims[::-1]}")
        size = prod(dims) // block * block_bytes
        if offset % alignment or start + offset + size > len(cursor.data):
            raise cursor.refuse(f"the tensor {name!r} has {size} bytes at {start + offset}, of {len(cursor.data)}")
        tensors[name] = GgufTensor(dims[::-1], dtype, start + offset, size)
    for (name, first), (other, second) in pairwise(sorted(tensors.items(), key=lambda pair: pair[1].offset)):
        if first.offset + first.size > second.offset:
            raise cursor.refuse(f"the tensors {name!r} and {other!r} overlap")
    return tensors
