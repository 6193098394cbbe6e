"""Byte pair encoding of a text by a published tokenizer, merge by merge."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from leadline.tokenization.formats.piece_bytes import piece_bytes
from leadline.tokenization.formats.published import PublishedTokenizer


class TracedMerge(NamedTuple):
    """One merge in one word.

    Attributes:
        word: The bytes of the word.
        left: The bytes of the left part.
        right: The bytes of the right part.
        rank: The place of the merge in the list of merges.
        tokens: How many tokens the word has then.
    """

    word: bytes
    left: bytes
    right: bytes
    rank: int
    tokens: int


def trace_merges(tokenizer: PublishedTokenizer, text: str) -> Iterator[TracedMerge]:
    """Yields the merges that encode a text, word by word: always the earliest of the list, of equal ones the leftmost.

    A word that the file takes whole where it is a piece (`ignore_merges`) has no merges.

    Args:
        tokenizer: One whose model is BPE.
        text: The text.

    Raises:
        ValueError: The model is another or marks where words begin or end, or the text has an added token, which is matched
            before words are cut.
    """
    model = json.loads(tokenizer.file)["model"]
    marks = [key for key in ("continuing_subword_prefix", "end_of_word_suffix") if model.get(key)]
    if "merges" not in model or marks:
        kind = f"{model.get('type', 'BPE')} with {marks[0]}" if marks else model.get("type")
        raise ValueError(f"only BPE is traced merge by merge, not a model of the type {kind}")
    merges = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    vocabulary, decoder = model["vocab"], tokenizer.decoder
    ids: list[int | None] = []
    steps: list[TracedMerge] = []
    for word in _words(tokenizer, text):
        parts = [word] if model.get("ignore_merges") and word in vocabulary else _symbols(word, vocabulary)
        whole = b"".join(piece_bytes(part, decoder) for part in parts)
        while candidates := [(ranks[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in ranks]:
            rank, at = min(candidates)
            left, right = parts[at : at + 2]
            parts[at : at + 2] = [left + right]
            steps.append(TracedMerge(whole, piece_bytes(left, decoder), piece_bytes(right, decoder), rank, len(parts)))
        ids += [vocabulary.get(part) for part in parts]
    if ids != tokenizer.encode(text).tolist():
        raise ValueError("the text has an added token or a character that is unknown, which no merges make; leave it out")
    yield from steps


def _words(tokenizer: PublishedTokenizer, text: str) -> list[str]:
    """The words of a text, as the library normalizes it and cuts it."""
    normalizer, cut = tokenizer.library.normalizer, tokenizer.library.pre_tokenizer
    text = text if normalizer is None else normalizer.normalize_str(text)
    return [text] if cut is None else [word for word, _ in cut.pre_tokenize_str(text)]


def _symbols(word: str, vocabulary: dict[str, int]) -> list[str]:
    """What merges begin with: the characters, or the names of their bytes where they are no pieces."""
    return [
        symbol
        for character in word
        for symbol in ([character] if character in vocabulary else [f"<0x{byte:02X}>" for byte in character.encode()])
    ]
