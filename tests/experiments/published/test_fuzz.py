"""Files with random mistakes are opened or refused: no other error, and no memory that the file's size does not explain."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from jaxtyping import config

from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.gguf_file import open_gguf
from leadline.experiments.published.gguf_header import read_header
from leadline.experiments.published.safetensors_files import INDEX, open_folder
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.tiny import (
    gguf_metadata,
    gguf_tensors,
    llama3_divisors,
    safetensors_folder,
    tiny_gguf,
    write_gguf,
)
from tests.faults.mutation import mutated

MOST_MEMORY = 1 << 22  # bytes, for files of at most 200 kB
# A file, the length of its header, and what opens it.
Format = tuple[Path, int, Callable[[], Checkpoint]]


def _llama(folder: Path) -> Format:
    divisors = {"rope_freqs.weight": (llama3_divisors(8.0), GGMLQuantizationType.F32)}
    return _gguf(write_gguf(folder / "a.gguf", gguf_metadata(), gguf_tensors() | divisors))


def _qwen3(folder: Path) -> Format:
    yarn = {"type": "yarn", "factor": 2.0, "original_context_length": 64}
    scaling = {f"rope.scaling.{key}": value for key, value in yarn.items()}
    return _gguf(tiny_gguf(folder / "a.gguf", "qwen3", "Q4_1", **scaling))


def _gguf(path: Path) -> Format:
    return path, min(tensor.offset for tensor in read_header(path).tensors.values()), lambda: open_gguf(path, "a")


def _safetensors(folder: Path) -> Format:
    path = safetensors_folder(folder, {name: values for name, (values, _) in gguf_tensors().items()}) / "model.safetensors"
    return path, 8 + int.from_bytes(path.read_bytes()[:8], "little"), lambda: open_folder(folder, "a")


def _index(folder: Path) -> Format:
    names = list(gguf_tensors())
    shards = [{name: np.ones(3, np.float32) for name in part} for part in (names[:9], names[9:])]
    path = safetensors_folder(folder, *shards) / INDEX
    return path, path.stat().st_size, lambda: open_folder(folder, "a")


def _outcomes(file: Format, cases: int) -> dict[str, int]:
    """How many were opened and refused; every tensor of those that were opened is read."""
    path, header, opened = file
    data, random = path.read_bytes(), Random(0)
    outcomes = {"opened": 0, "refused": 0}
    for _ in range(cases):
        path.write_bytes(mutated(data, header, random))
        try:
            checkpoint = opened()
        except UserError as error:
            assert str(path.parent) in str(error) and "\n" not in str(error)
            outcomes["refused"] += 1
        else:
            with np.errstate(all="ignore"):
                assert all(checkpoint.read(name).shape == entry.shape for name, entry in checkpoint.entries.items())
            outcomes["opened"] += 1
    return outcomes


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Checking the types of arguments takes ten times as long as reading a header."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("cases", [300, pytest.param(2_500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [_llama, _qwen3, _safetensors, _index])
def test_mistakes_in_a_header_are_refused_or_harmless(tmp_path: Path, make: Callable[[Path], Format], cases: int) -> None:
    file = make(tmp_path)
    file[2]()  # imports what it needs
    tracemalloc.start()
    try:
        outcomes = _outcomes(file, cases)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcomes["refused"] > cases / 2 and outcomes["opened"] > 0, outcomes
    assert peak < MOST_MEMORY, peak
