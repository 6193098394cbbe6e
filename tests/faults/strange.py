"""Tokenizers of other makers, texts in every format, and things in the place of files that are none."""

import base64
import gzip
import hashlib
import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as arrow
import zstandard
from pyarrow import parquet

from leadline.experiments.published.write import write_tokenizer
from leadline.tokenization.formats.saving import DEFINITION, MANIFEST, load
from tests.tokenization.sentencepiece_models import BYTEWISE, PLAIN, trained_bytes

TEXTS = [f"Document {number} is a line.\nIts square is {number**2}: ¡así!\n" for number in range(40)]
EXPANDED = 3 << 30  # bytes that an archive of some megabytes unpacks to


def published_tokenizers(made: Path) -> None:
    """A tokenizer.json, a SentencePiece model and a rank file, each in a folder beside tokenizers that are saved there."""
    for kind in ("bpe", "unigram"):
        (made / f"published-{kind}").mkdir()
        write_tokenizer(made / f"published-{kind}", load(made / kind), add_bos=False, length=64)
    (made / "sentencepiece").mkdir()
    (made / "sentencepiece" / "toy.model").write_bytes(trained_bytes(TEXTS, 320, **PLAIN | BYTEWISE))
    (made / "ranks").mkdir()
    pieces = [bytes([byte]) for byte in range(256)]
    lines = [base64.b64encode(piece) + b" %d" % rank for rank, piece in enumerate([*pieces, b"is", b" is"])]
    (made / "ranks" / "toy.tiktoken").write_bytes(b"\n".join(lines))
    settings = {"pat_str": r"\s+|\S+", "special_tokens": {"<|endoftext|>": 300}}
    (made / "ranks" / "toy.json").write_text(json.dumps(settings), encoding="utf-8")


def spec(folder: Path) -> Path:
    """What a command names to open the tokenizer of a folder."""
    return next((path for path in folder.iterdir() if path.suffix in (".model", ".tiktoken")), folder)


def summed(folder: Path) -> None:
    """Writes the sum of a definition into its manifest, as if it had been saved so."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        manifest["files"][DEFINITION] = hashlib.sha256((folder / DEFINITION).read_bytes()).hexdigest()
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or the mistake is in it
        return
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def corpora(folder: Path) -> list[Path]:
    """A file of each format."""
    folder.mkdir()
    text, lines = "".join(TEXTS).encode(), "".join(json.dumps({"text": entry}) + "\n" for entry in TEXTS).encode()
    packed = zstandard.ZstdCompressor(write_checksum=True).compress
    contents = {
        "a.txt": text,
        "a.txt.gz": gzip.compress(text),
        "a.txt.zst": packed(text),
        "a.jsonl": lines,
        "a.jsonl.gz": gzip.compress(lines),
        "a.jsonl.zst": packed(lines),
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    table = arrow.table({"text": TEXTS, "number": list(range(len(TEXTS)))})
    forms: tuple[tuple[str, dict[str, Any]], ...] = (
        ("a", {}),
        ("b", {"compression": "zstd", "row_group_size": 7}),
        ("c", {"write_page_checksum": True}),
    )
    for name, settings in forms:
        parquet.write_table(table, folder / f"{name}.parquet", **settings)
    return sorted(folder.iterdir())


def place(folder: Path, random: Random) -> Path:
    """Something that is no file of text, or more than fits into memory."""
    path = folder / random.choice(("x.txt", "x.jsonl", "x.txt.gz", "x.jsonl.gz", "x.txt.zst", "x.parquet"))
    match random.randrange(7):
        case 0:
            os.mkfifo(path)  # in a folder; nobody writes into it
            return folder
        case 1:
            path.symlink_to(path)
        case 2:
            path.symlink_to(folder / "nowhere")
        case 3:
            (folder / "inner").symlink_to(folder)
        case 4:
            path.symlink_to(random.choice(("/dev/zero", "/dev/null")))
        case 5:
            path.mkdir()
        case _:
            path = _expanding(folder, zipped=random.random() < 0.5)
    return path


def _expanding(folder: Path, *, zipped: bool) -> Path:
    """An archive of one document that would not fit."""
    block = b"x" * (1 << 24)
    path = folder / ("x.txt.gz" if zipped else "x.txt.zst")
    frame = gzip.compress(block) if zipped else zstandard.ZstdCompressor().compress(block)
    path.write_bytes(frame * (EXPANDED // len(block)))
    return path
