"""A model written as the Hub lays it out: config.json, safetensors, tokenizer."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import processors

from leadline.experiments.published.architectures.base import Row
from leadline.experiments.published.load import shape_in_file, tensors_of, weights_by_name
from leadline.experiments.published.safetensors_files import INDEX, SINGLE
from leadline.experiments.runtime.packages import needed_package
from leadline.model.decoder import Decoder
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.published import CONFIG, FILE, PublishedTokenizer
from leadline.tokenization.tokenizer import Tokenizer

LARGEST = 5 * 10**9  # bytes of the tensors of one file


def write_weights(
    folder: Path, params: Decoder, rows: Sequence[Row], dtype_of: Callable[[str], np.dtype], *, largest: int = LARGEST
) -> None:
    """Writes the tensors of the rows: one file, or several and their index.

    Args:
        folder: where.
        params: on the host or on the devices; besides them the host has one file.
        rows: every tensor.
        dtype_of: the type of a tensor in the file.
        largest: most bytes of the tensors of one file; a single tensor may have more.
    """
    weights = weights_by_name(params)
    sizes = {
        name: math.prod(shape_in_file(row, weights)) * dtype_of(name).itemsize
        for row in rows
        for name, _ in tensors_of(row, len(params.blocks.query))
    }
    tensors, shards = _tensors(weights, rows, dtype_of), _shards(sizes, largest)
    count = len(shards)
    files = [SINGLE] if count == 1 else [f"model-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)]
    library = needed_package("safetensors.numpy", str(folder), "published")
    for file, names in zip(files, shards, strict=True):
        path = folder / file
        path.touch()
        mode = path.stat().st_mode
        library.save_file(dict(next(tensors) for _ in names), path, metadata={"format": "pt"})
        path.chmod(mode)  # the library leaves a file that its owner alone may read
    if count > 1:
        shard_of = {name: file for file, names in zip(files, shards, strict=True) for name in names}
        write_json(folder / INDEX, {"metadata": {"total_size": sum(sizes.values())}, "weight_map": shard_of})


def _tensors(
    weights: Mapping[str, Any], rows: Iterable[Row], dtype_of: Callable[[str], np.dtype]
) -> Iterator[tuple[str, Shaped[np.ndarray, "..."]]]:
    """The tensors of the rows, one after the other."""
    for row in rows:
        hosts = [np.asarray(weights[name]) for name in row.weights]
        for name, layer in tensors_of(row, len(hosts[0])):
            tensor = row.theirs(*(host[layer] if row.by_layer else host for host in hosts))
            yield name, np.ascontiguousarray(tensor, dtype=dtype_of(name))


def _shards(sizes: Mapping[str, int], largest: int) -> list[list[str]]:
    """The names of the tensors of each file: as many as there is room for, and at least one."""
    shards, room = [[]], largest
    for name, size in sizes.items():
        if size > room and shards[-1]:
            shards.append([])
            room = largest
        shards[-1].append(name)
        room -= size
    return shards


def write_tokenizer(folder: Path, tokenizer: Tokenizer, *, add_bos: bool, length: int) -> None:
    """Writes tokenizer.json and tokenizer_config.json.

    Args:
        folder: where.
        tokenizer: whose ids they give.
        add_bos: whether BOS is put in front of a text.
        length: of the longest text of the model [tokens].

    Raises:
        ValueError: for a tokenizer that no tokenizer.json can express.
    """
    published = isinstance(tokenizer, PublishedTokenizer)
    library = LibraryTokenizer.from_str(tokenizer.file) if published else to_huggingface(tokenizer)
    names = {name: library.id_to_token(token) for name, token in tokenizer.specials.named().items()}
    if add_bos:
        bos = names["bos"]
        library.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokenizer.specials.bos)]
        )
    library.save(str(folder / FILE))
    specials = {f"{name}_token": spelling for name, spelling in names.items()}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length, "add_bos_token": add_bos}
    write_json(folder / CONFIG, {**settings, "clean_up_tokenization_spaces": False, **specials})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes an object as a file of the Hub."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
