"""The files tokenizer.json of the library `tokenizers`: ours written as one, and theirs read where they fit.

The offsets of that library count characters of the text as it was given; ours are bytes of the normalised text.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer

from tokenization import tokenizer as ours
from tokenization.bpe import BpeTokenizer
from tokenization.character import CharacterTokenizer
from tokenization.huggingface_bpe import bpe_form, read_bpe
from tokenization.huggingface_parts import fits, special_names
from tokenization.huggingface_unigram import read_unigram, unigram_form
from tokenization.huggingface_words import characters_form, read_word_level, read_wordpiece, wordpiece_form, words_form
from tokenization.unigram import UnigramTokenizer
from tokenization.word import WordTokenizer
from tokenization.wordpiece import WordPieceTokenizer


def to_huggingface(tokenizer: ours.Tokenizer, *, normalize: bool = True) -> Tokenizer:
    """The tokenizer of that library that gives a text the same ids; its specials are called "<pad>" and so on.

    Four things differ. It takes the names of specials in a text for the specials, unless `encode_special_tokens` is set. It
    lower-cases each character by itself, so that a Greek sigma that ends a word is σ, where Unicode and `normalized` have ς.
    A character that its version of Unicode classes otherwise, or does not know yet, may be cut otherwise. And when it reads
    the file of a unigram tokenizer, it may change the last bit of a score, which decides between segmentations whose scores
    differ by no more than that; the tokenizer that is returned has the scores as they are.

    Args:
        tokenizer: one of ours.
        normalize: whether it normalises the text; False where that is done before.

    Raises ValueError for a tokenizer of another kind, for a pattern, a piece or scores that no file can express, and for a
    piece that is spelled like a special.
    """
    steps = getattr(tokenizer, "normalization", ()) if normalize else ()
    match tokenizer:
        case BpeTokenizer():
            found = bpe_form(tokenizer, steps)
        case WordTokenizer():
            found = words_form(tokenizer, steps)
        case CharacterTokenizer():
            found = characters_form(tokenizer, steps)
        case WordPieceTokenizer():
            found = wordpiece_form(tokenizer, steps)
        case UnigramTokenizer():
            found = unigram_form(tokenizer, steps)
        case _:
            raise ValueError(f"a {tokenizer.name} tokenizer has no form in tokenizer.json here")
    names = special_names(tokenizer.specials)
    found.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return found


def from_huggingface(text: str) -> ours.Tokenizer:
    """The tokenizer of a tokenizer.json, given as text: one that `to_huggingface` wrote, or byte-level BPE in our order of ids.

    The latter is: "<pad>", "<bos>" and "<eos>" are the ids 0, 1 and 2, then come the 256 bytes in the order of the characters
    that stand for them, then the merges in theirs. Trained by `tokenizers` with these specials and all bytes, a file is so.
    BPE over characters is not read.

    Raises ValueError, naming the part, for a file that is no such tokenizer.
    """
    try:
        file = json.loads(text)
        match file["model"].get("type", "BPE"):
            case "WordLevel":
                found = read_word_level(file)
            case "WordPiece":
                found = read_wordpiece(file)
            case "Unigram":
                found = read_unigram(file)
            case _:
                return read_bpe(file)
        _written_alike(file, found)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"this is no tokenizer.json ({error!r}); give the text of one") from error
    return found


def _written_alike(file: Mapping[str, Any], found: ours.Tokenizer) -> None:
    """Raises ValueError, naming the part, unless this tokenizer is written as the file is: then nothing was overlooked."""
    written = json.loads(to_huggingface(found).to_str())
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"):
        fits(file.get(part) == written[part], part, file.get(part), written[part])
    for key in written["model"] | file["model"]:
        value, wanted = (one["model"].get(key) for one in (file, written))
        fits(value == wanted, f"model.{key}", value, wanted)
