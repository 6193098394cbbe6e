"""Published tokenizers: the library `tokenizers` encodes, as a tokenizer.json says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Int32, Int64

from leadline.tokenization.base import TableTokenizer
from leadline.tokenization.formats.piece_bytes import BYTE_OF, is_byte_level, parts_of, piece_bytes
from leadline.tokenization.ids import LARGEST_ID, check_ids, contiguous_offsets
from leadline.tokenization.normalization import to_text, to_utf8
from leadline.tokenization.pretokenization import covers
from leadline.tokenization.tokenizer import Specials
from leadline.tokenization.words import byte_starts

FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"
# Where no tokenizer_config.json says which tokens are special, the first of these names that the file has.
NAMES = {
    "pad": ("<pad>", "[PAD]", "<|finetune_right_pad_id|>"),
    "unk": (),
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<\uff5cbegin▁of▁sentence\uff5c>", "<|startoftext|>"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<\uff5cend▁of▁sentence\uff5c>", "<|endoftext|>"),
}


@dataclass(frozen=True)
class PublishedTokenizer(TableTokenizer):
    """The ids of a tokenizer.json as the library gives them, without those that its post-processor adds.

    The names of special tokens in a text are ordinary text, as for every tokenizer here: a document that mentions "</s>" does
    not end there, and its bytes are counted. The library and `transformers` take them for the special tokens unless
    `encode_special_tokens` or `split_special_tokens` is set. Added tokens that are not special, as Gemma's runs of spaces and
    Qwen's "<think>", are pieces of text for all of them.

    Args:
        file: The content of the tokenizer.json.
        pad: The id of PAD, None without one; likewise the following.
        unk: The id of UNK.
        bos: The id of BOS.
        eos: The id of EOS.

    Raises:
        ValueError: The library cannot read the file, it drops merges at random, its decoder is unknown, or an id is above
            LARGEST_ID.
    """

    file: str
    pad: int | None = None
    unk: int | None = None
    bos: int | None = None
    eos: int | None = None

    def __post_init__(self) -> None:
        if self._content["model"].get("dropout"):
            raise ValueError(f"model.dropout is {self._content['model']['dropout']}: ids would be random; set it to null")
        for part in self.decoder:
            piece_bytes("", [part])
        spelling, token = max(self.library.get_vocab().items(), key=itemgetter(1), default=("", 0))
        if token > LARGEST_ID:
            raise ValueError(f"the id of {spelling[:40]!r} is {token}, above {LARGEST_ID}; number the pieces from 0")

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what is made from the file."""
        return {name: vars(self)[name] for name in ("file", *NAMES)}

    @property
    def name(self) -> str:
        """The name in tables and messages."""
        return "published"

    @property
    def specials(self) -> Specials:
        """PAD, UNK, BOS and EOS, as far as they are known."""
        return Specials(pad=self.pad, unk=self.unk, bos=self.bos, eos=self.eos)

    @property
    def lossless(self) -> bool:
        """Whether pieces are of bytes, nothing normalizes, and the pre-tokenizer neither adds nor removes text."""
        return self._lossless

    @cached_property
    def _lossless(self) -> bool:
        if not is_byte_level(self.decoder) or not self.library.get_vocab().keys() >= BYTE_OF.keys():
            return False
        strips = any(token["lstrip"] or token["rstrip"] for token in self._content["added_tokens"] if not token["special"])
        changes = strips or parts_of(self._content["normalizer"], "normalizers")
        return not changes and all(map(_keeps_text, parts_of(self._content["pre_tokenizer"], "pretokenizers")))

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Encodes a text.

        Raises:
            ValueError: The text is not UTF-8 or contains a lone surrogate.
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """Encodes each text, on all cores. Raises what `encode` does."""
        encodings = self.library.encode_batch_fast([to_text(text) for text in texts], add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """Encodes a text and locates its tokens in the text as it is given.

        Where their bytes do not join to the text, as after a normalizer, tokens are located to the character.
        Raises what `encode` does.
        """
        text = to_text(text)
        encoding = self.library.encode(text, add_special_tokens=False)
        ids = np.array(encoding.ids, np.int32)
        if b"".join([self.table[token] for token in encoding.ids])[self._prefix :] == to_utf8(text):
            return ids, (contiguous_offsets(ids, self.table) - self._prefix).clip(min=0)
        places = byte_starts(text)[np.array(encoding.offsets, np.int64).reshape(-1, 2)]
        ends = np.maximum.accumulate(places[:, 1])
        starts = np.maximum(places[:, 0], np.concatenate([[0], ends[:-1]])[: len(ends)])
        return ids, np.stack([starts, np.maximum(starts, ends)], axis=1)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Concatenates the bytes of the ids, without the space that the file puts before a text.

        Where tokens are words or begin words, they are joined by spaces. Specials, UNK included, add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        tokens = check_ids(ids, self.vocabulary_size, self.name).tolist()
        text = b"".join([(b" " if token in self._spaced else b"") + self.table[token] for token in tokens])
        before, behind = (self._prefix or bool(self._spaced)), self._suffix
        text = text.removeprefix(b" ") if before else text
        return text.removesuffix(b" ") if behind else text

    @cached_property
    def library(self) -> tokenizers.Tokenizer:
        """The library's tokenizer, which takes the names of special tokens for text."""
        try:
            library = tokenizers.Tokenizer.from_str(self.file)
        except Exception as error:  # the library raises no narrower one
            raise ValueError(f"not a tokenizer.json that the library tokenizers reads ({error})") from error
        library.encode_special_tokens = True  # despite its name, this makes them ordinary text
        library.no_truncation()
        library.no_padding()
        library.post_processor = None  # it adds specials, and an empty template removes all tokens
        return library

    @cached_property
    def _content(self) -> dict[str, Any]:
        _ = self.library
        content = json.loads(self.file)
        empty = {"normalizer": None, "pre_tokenizer": None, "decoder": None, "added_tokens": []}
        return empty | {key: value for key, value in content.items() if value is not None}

    @cached_property
    def decoder(self) -> list[dict[str, Any]]:
        """The parts of the file's decoder. Where there is none, pieces of bytes are bytes all the same."""
        if self._content["decoder"] is None:
            cut = parts_of(self._content["pre_tokenizer"], "pretokenizers")
            return [part for part in cut if part["type"] == "ByteLevel"]
        return parts_of(self._content["decoder"], "decoders")

    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id, empty for specials and for ids that the file leaves out."""
        vocabulary = self.library.get_vocab(with_added_tokens=True)
        table = [b""] * (max(vocabulary.values(), default=-1) + 1)
        for spelling, token in vocabulary.items():
            table[token] = piece_bytes(spelling, self.decoder)
        for token, added in self.library.get_added_tokens_decoder().items():
            if added.special:
                table[token] = b""
            elif is_byte_level(self.decoder):
                table[token] = added.content.encode()
        if self.unk is not None:
            table[self.unk] = b""
        return tuple(table)

    @cached_property
    def _prefix(self) -> int:
        """The number of spaces that the file puts before a text, and its decoder takes away."""
        stripped = [part["start"] for part in self.decoder if part["type"] == "Strip" and part["content"] == " "]
        added = [part.get("prepend_scheme", "always") != "never" for part in self.decoder if part["type"] == "Metaspace"]
        return sum(stripped) + sum(added)

    @cached_property
    def _suffix(self) -> bool:
        """Whether the last word ends with a space that its decoder takes away."""
        return any(part["type"] == "BPEDecoder" or (part["type"] == "Strip" and part["stop"]) for part in self.decoder)

    @cached_property
    def _spaced(self) -> frozenset[int]:
        """The ids with a space before them: those that begin words, or without a decoder all."""
        prefix = next((part["prefix"] for part in self.decoder if part["type"] == "WordPiece"), None)
        if self.decoder and prefix is None:
            return frozenset()
        vocabulary = self.library.get_vocab(with_added_tokens=True)
        continuing = {s for s in vocabulary if prefix is not None and s.startswith(prefix) and s != prefix}
        return frozenset(token for s, token in vocabulary.items() if s not in continuing and self.table[token])


def _keeps_text(part: Mapping[str, Any]) -> bool:
    """Whether a part of a pre-tokenizer neither adds nor removes text."""
    match part:
        case {"type": "ByteLevel", "add_prefix_space": False} | {"type": "Digits"}:
            return True
        case {"type": "Split", "behavior": "Removed", "invert": True, "pattern": {"Regex": str(expression)}}:
            return covers(expression)
        case {"type": "Split" | "Punctuation", "behavior": behavior}:
            return behavior != "Removed"
    return False


def from_huggingface(text: str, config: Mapping[str, Any] | None = None) -> PublishedTokenizer:
    """Reads a tokenizer.json.

    Args:
        text: The content of the file.
        config: The content of the tokenizer_config.json beside it, which says which tokens are PAD, UNK, BOS and EOS. Of those
            that it leaves out, UNK is the model's, and the others are known by their NAMES.

    Raises:
        ValueError: As `PublishedTokenizer`.
    """
    try:
        content = json.loads(text)
        spelled = {token["content"]: token["id"] for token in content.get("added_tokens") or () if token["special"]}
        model = content["model"]
        unk = model.get("unk_token") if model.get("unk_id") is None else model["vocab"][model["unk_id"]][0]
        names = {**{name: list(NAMES[name]) for name in NAMES}, "unk": [unk]}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a tokenizer.json ({error!r})") from error
    for key, entry in (config or {}).items():
        if (name := key.removesuffix("_token")) in names:
            names[name] = [entry.get("content") if isinstance(entry, Mapping) else entry]
    return PublishedTokenizer(
        text, **{n: next((spelled[s] for s in names[n] if isinstance(s, str) and s in spelled), None) for n in names}
    )


def load_published(path: Path) -> PublishedTokenizer:
    """Reads a tokenizer.json by itself, or that of a folder, with the tokenizer_config.json beside it if there is one.

    Raises:
        ValueError: A file, which is named, is not as described.
        OSError: The file cannot be read.
    """
    file, beside = (path / FILE, path / CONFIG) if path.is_dir() else (path, None)
    try:
        config = json.loads(beside.read_text(encoding="utf-8")) if beside is not None and beside.exists() else {}
        if not isinstance(config, Mapping):
            raise ValueError(f"{CONFIG} is not an object")
        return from_huggingface(file.read_text(encoding="utf-8"), config)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from error
