"""A published model as its files hold it: configuration, tensors by name, tokenizer.

`open_checkpoint` of open.py makes one from what the user names.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from leadline.experiments.records.json_file import file_sha256
from leadline.tokenization.formats.gguf import GgufTokenizer


class Entry(NamedTuple):
    """What the header of a file says of a tensor.

    Attributes:
        shape: as in PyTorch: that of a linear layer's weight is (outputs, inputs), for GGUF too.
        dtype: the name in the file, "F32", "F16", "BF16", "I64" … of safetensors, or a quantised type of GGUF such as "Q4_1".
    """

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Checkpoint:
    """The checked files of a model. Headers are in memory; weights are read when they are asked for.

    Attributes:
        name: of the model, for titles.
        config: config.json as it stands. For GGUF the same keys, from the metadata: `model_type`, `hidden_size`, `rope_theta`
            and `rope_scaling` at the top level.
        entries: every tensor by the name that it has in the Hub's safetensors of the architecture, such as
            "model.layers.0.self_attn.q_proj.weight". `lm_head.weight` is absent where it is tied to the embedding.
        tokenizer: tokenizer.json, or tokenizer.model where there is no such file; the metadata of a GGUF file; None where
            the files hold no tokenizer.
        files: those that hold the weights.
        reader: what `read` calls.
    """

    name: str
    config: dict[str, Any]
    entries: Mapping[str, Entry]
    tokenizer: Path | GgufTokenizer | None
    files: tuple[Path, ...]
    reader: Callable[[str], np.ndarray]

    def read(self, name: str) -> Shaped[np.ndarray, "..."]:
        """The values of a tensor, with the shape of its entry.

        Returns:
            A read-only view of the memory-mapped file for a type that NumPy has (with ml_dtypes: bfloat16 and float8); a copy
            of a query or key weight whose rows GGUF permutes; float32 for a quantised type.

        Raises:
            KeyError: for a name that is not in `entries`.
        """
        return self.reader(name)

    def digest(self) -> str:
        """SHA-256 of the weights: of the file where there is one, as the Hub shows it; of the files' sums in order otherwise.

        Each call reads all files once, block by block.
        """
        sums = [file_sha256(path) for path in self.files]
        return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()
