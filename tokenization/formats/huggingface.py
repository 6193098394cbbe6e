"""Our tokenizers as those of Hugging Face's `tokenizers` library, which writes them as tokenizer.json.

The offsets of that library count characters of the given text; ours count bytes of the normalized text.
"""

from tokenizers import AddedToken, Tokenizer

from leadline.tokenization import tokenizer as ours
from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import CharacterTokenizer
from leadline.tokenization.formats.huggingface_bpe import bpe_to_huggingface, bytes_to_huggingface
from leadline.tokenization.formats.huggingface_parts import special_names
from leadline.tokenization.formats.huggingface_words import (
    characters_to_huggingface,
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
        case ByteTokenizer():
            converted = bytes_to_huggingface(tokenizer)
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
