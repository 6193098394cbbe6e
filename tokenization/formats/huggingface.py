"""The tokenizer.json files of Hugging Face's `tokenizers` library: our tokenizers written as such, and such files read.

The offsets of that library count characters of the given text; ours count bytes of the normalized text.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer

from leadline.tokenization import tokenizer as ours
from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.character import CharacterTokenizer
from leadline.tokenization.formats.huggingface_bpe import bpe_to_huggingface, read_bpe
from leadline.tokenization.formats.huggingface_parts import require, special_names
from leadline.tokenization.formats.huggingface_words import (
    characters_to_huggingface,
    read_unigram,
    read_word_level,
    read_wordpiece,
    unigram_to_huggingface,
    wordpiece_to_huggingface,
    words_to_huggingface,
)
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.word import WordTokenizer
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer


def to_huggingface(tokenizer: ours.Tokenizer, *, normalize: bool = True) -> Tokenizer:
    """Converts a tokenizer to one of that library with the same ids. Its specials are called "<pad>" and so on.

    Four things differ. The library takes the names of specials in a text for the specials, unless `encode_special_tokens` is
    set. It lower-cases each character by itself, so a Greek sigma at the end of a word is σ, where Unicode and `normalize` have
    ς. A character that its version of Unicode does not know, or classes otherwise, may be cut otherwise. On reading the file
    of a unigram tokenizer it may change the last bit of a score, which decides between segmentations whose scores differ by no
    more; the returned tokenizer has the exact scores.

    Args:
        tokenizer: One of ours.
        normalize: Whether the result normalizes text; False where that is done before.

    Raises:
        ValueError: The kind, the pattern, a piece or the scores cannot be expressed in a file, or a piece is spelled like a
            special.
    """
    steps = getattr(tokenizer, "normalization", ()) if normalize else ()
    match tokenizer:
        case BpeTokenizer():
            converted = bpe_to_huggingface(tokenizer, steps)
        case WordTokenizer():
            converted = words_to_huggingface(tokenizer, steps)
        case CharacterTokenizer():
            converted = characters_to_huggingface(tokenizer, steps)
        case WordPieceTokenizer():
            converted = wordpiece_to_huggingface(tokenizer, steps)
        case UnigramTokenizer():
            converted = unigram_to_huggingface(tokenizer, steps)
        case _:
            raise ValueError(f"a {tokenizer.name} tokenizer cannot be written as a tokenizer.json here")
    names = special_names(tokenizer.specials)
    converted.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return converted


def from_huggingface(text: str) -> ours.Tokenizer:
    """Reads a tokenizer.json: one that `to_huggingface` wrote, or byte-level BPE with our order of ids.

    That order is "<pad>" 0, "<bos>" 1 and "<eos>" 2, the 256 bytes in the order of the characters that stand for them, and the
    merges in theirs; files trained by `tokenizers` with these specials and all bytes have it. BPE over characters is not read.

    Args:
        text: The content of the file.

    Raises:
        ValueError: The file is no such tokenizer; the message names the part.
    """
    try:
        file = json.loads(text)
        match file["model"].get("type", "BPE"):
            case "WordLevel":
                tokenizer = read_word_level(file)
            case "WordPiece":
                tokenizer = read_wordpiece(file)
            case "Unigram":
                tokenizer = read_unigram(file)
            case _:
                return read_bpe(file)
        _check_equal(file, tokenizer)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"not a tokenizer.json ({error!r}); give the content of one") from error
    return tokenizer


def _check_equal(file: Mapping[str, Any], tokenizer: ours.Tokenizer) -> None:
    """Raises ValueError, naming the part, unless this tokenizer is written as the file is: then nothing was overlooked."""
    written = json.loads(to_huggingface(tokenizer).to_str())
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"):
        require(file.get(part) == written[part], part, file.get(part), written[part])
    for key in written["model"] | file["model"]:
        value, expected = file["model"].get(key), written["model"].get(key)
        require(value == expected, f"model.{key}", value, expected)
