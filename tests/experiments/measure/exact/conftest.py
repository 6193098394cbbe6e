"""A vocabulary for tests of tokenizers."""

import base64
import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary in the files of a published one: the bytes, and "th" and "the"."""
    folder = tmp_path_factory.mktemp("ranks")
    pieces = [bytes([byte]) for byte in range(256)] + [b"th", b"the"]
    lines = [f"{base64.b64encode(piece).decode()} {rank}\n" for rank, piece in enumerate(pieces)]
    (folder / "toy.tiktoken").write_text("".join(lines))
    (folder / "toy.json").write_text(json.dumps({"pat_str": r"\s?\S+|\s+", "special_tokens": {"<|endoftext|>": 258}}))
    return folder
