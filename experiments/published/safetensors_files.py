"""A folder as the Hub lays it out: config.json, and weights in one safetensors file or in several with an index.

A safetensors file is the length of its header (8 bytes, little-endian), the header (JSON: for each tensor dtype, shape and its
range of bytes), and the bytes. The library `safetensors` checks the header: its length, that sizes agree with shapes, and that
the ranges neither overlap nor leave a gap nor reach beyond the file. What it lets pass is checked here: repeated names, and
what an index claims. Source: https://github.com/huggingface/safetensors (the format).
"""

import json
import mmap
import struct
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from leadline.experiments.published.checkpoint import Checkpoint, Entry
from leadline.experiments.published.mapped import file_inside, mapped
from leadline.experiments.records.json_file import parse
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.packages import needed_package

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
TOKENIZERS = ("tokenizer.json", "tokenizer.model")
TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
PICKLE = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl"})
LARGEST_JSON = 1 << 25  # bytes; the index of a model of 91,000 tensors has 9 MB
DTYPES = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "U16": np.uint16,
    "I16": np.int16,
    "U32": np.uint32,
    "I32": np.int32,
    "U64": np.uint64,
    "I64": np.int64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F32": np.float32,
    "F64": np.float64,
}


class _Stored(NamedTuple):
    """Where a tensor lies: `offset` bytes from the beginning of the file that `data` maps."""

    entry: Entry
    data: mmap.mmap
    offset: int


def open_folder(folder: Path, name: str) -> Checkpoint:
    """Checks the files of a folder and maps its weights.

    Args:
        folder: with config.json and model.safetensors, or model.safetensors.index.json and the files that it names.
        name: of the model.

    Raises:
        UserError: where a file is absent, damaged or outside the folder, the index and the files disagree on a name, a tensor
            is of a type that NumPy does not have, or the weights are pickled, which is not read.
    """
    config = _json_object(file_inside(folder, CONFIG))
    if (folder / SINGLE).exists():
        paths = [file_inside(folder, SINGLE)]
        tensors = _tensors(paths[0])
    elif (folder / INDEX).exists():
        paths, tensors = _indexed(folder)
    else:
        raise UserError(_without_weights(folder))
    tokenizer = next((file_inside(folder, file) for file in TOKENIZERS if (folder / file).exists()), None)

    def read(tensor: str) -> np.ndarray:
        entry, data, offset = tensors[tensor]
        return np.frombuffer(data, DTYPES[entry.dtype], prod(entry.shape), offset).reshape(entry.shape)

    entries = {tensor: stored.entry for tensor, stored in tensors.items()}
    return Checkpoint(name, config, entries, tokenizer, tuple(paths), read)


def _tensors(path: Path) -> dict[str, _Stored]:
    """The tensors of one file."""
    library = needed_package("safetensors", str(path), "published")
    data = mapped(path)
    try:
        with library.safe_open(path, framework="numpy"):
            pass
    except (library.SafetensorError, OSError) as error:
        why = str(error).removeprefix("Error while deserializing header: ").encode("unicode_escape").decode()
        raise UserError(f"{path}: not a whole safetensors file ({why}); download it again") from error
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length], object_pairs_hook=lambda pairs: _without_repetition(path, pairs))
    header.pop("__metadata__", None)
    unread = sorted({tensor["dtype"] for tensor in header.values()} - DTYPES.keys())
    if unread:
        names = [name for name, tensor in header.items() if tensor["dtype"] in unread]
        raise UserError(f"{path}: {names[0]!r} is of type {unread[0]}; the types that can be read are {', '.join(DTYPES)}")
    return {
        name: _Stored(Entry(tuple(tensor["shape"]), tensor["dtype"]), data, 8 + length + tensor["data_offsets"][0])
        for name, tensor in header.items()
    }


def _without_repetition(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """One object of a header. Readers differ in which of two values of one name they take."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise UserError(f"{path}: the header has {key!r} twice; download the file again")
        content[key] = value
    return content


def _indexed(folder: Path) -> tuple[list[Path], dict[str, _Stored]]:
    """The files that the index names, sorted, and all their tensors."""
    index = file_inside(folder, INDEX)
    shard_of = _json_object(index).get("weight_map")
    if not isinstance(shard_of, dict) or not all(isinstance(file, str) for file in shard_of.values()):
        raise UserError(f'{index}: no "weight_map" from the names of tensors to those of files; download it again')
    files = sorted(set(shard_of.values()))
    pickled = [file for file in files if Path(file).suffix in PICKLE]
    if pickled:
        raise UserError(f"{index}: it names {pickled[0]!r}, a pickled file, which is not read; get the weights as safetensors")
    paths = [file_inside(folder, file) for file in files]
    tensors: dict[str, _Stored] = {}
    for path in paths:
        shard = _tensors(path)
        named = {tensor for tensor, file in shard_of.items() if file == path.name}
        for difference, where in ((named - shard.keys(), "which has none"), (shard.keys() - named, "which the index denies")):
            if difference:
                raise UserError(f"{index}: {min(difference)!r} in {path.name}, {where}; download both files again")
        tensors |= shard
    return paths, tensors


def _json_object(path: Path) -> dict[str, Any]:
    """An object of a JSON file."""
    if path.stat().st_size > LARGEST_JSON:
        raise UserError(f"{path}: larger than {LARGEST_JSON} bytes, which no such file is; download it again")
    try:
        content = parse(path.read_bytes())
    except (ValueError, OSError) as error:
        raise UserError(f"{path}: not JSON ({error}); download it again") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: not an object; download it again")
    return content


def _without_weights(folder: Path) -> str:
    """What to do about a folder with neither form of weights."""
    names = sorted(path.name for path in folder.iterdir())
    if any(name.endswith(".safetensors") for name in names):
        return f"{folder}: neither {SINGLE} nor {INDEX}, which says what is in the other files; download it"
    pickled = [name for name in names if Path(name).suffix in PICKLE]
    if pickled:
        return f"{folder}: only pickled weights ({pickled[0]}), which are not read, for pickle runs code; get safetensors"
    return f"{folder}: no weights; it needs {SINGLE}, or {INDEX} and the files that it names"
