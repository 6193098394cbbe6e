"""tokenizer.json of bytes, and of byte pair encoding over bytes and over characters."""

from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.huggingface_parts import (
    WORD,
    digit_split,
    oniguruma_pattern,
    special_names,
    step_normalizers,
)
from leadline.tokenization.formats.piece_bytes import BYTE_OF, byte_characters
from leadline.tokenization.normalization import Step


def bpe_to_huggingface(tokenizer: BpeTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """Converts a BPE tokenizer.

    Raises:
        ValueError: The library cannot express the pattern (over characters, all but words and whitespace), or a piece is
            spelled like a special.
    """
    return (_from_bytes if tokenizer.unit == "bytes" else _from_characters)(tokenizer, step_normalizers(steps))


def bytes_to_huggingface(tokenizer: ByteTokenizer) -> Tokenizer:
    """Converts the byte tokenizer: byte-level BPE without merges."""
    converted = Tokenizer(models.BPE(vocab=BYTE_OF | special_names(tokenizer.specials), merges=[]))
    converted.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    converted.decoder = decoders.ByteLevel()
    return converted


def _vocabulary(tokenizer: BpeTokenizer) -> dict[str, int]:
    """The ids of the specials and pieces by their spelling. A byte is its character; END is a space, which no word contains."""
    character = byte_characters()
    vocabulary = special_names(tokenizer.specials)
    for token, piece in enumerate(tokenizer.table[len(vocabulary) :], start=len(vocabulary)):
        spelling = "".join([character[byte] for byte in piece]) if tokenizer.unit == "bytes" else piece.decode()
        if spelling in vocabulary:
            raise ValueError(
                f"the piece {spelling!r} is spelled like a special, which no file can hold; shorten to {token} ids"
            )
        vocabulary[spelling] = token
    return vocabulary


def _model(tokenizer: BpeTokenizer, unk: str | None) -> Tokenizer:
    vocabulary = _vocabulary(tokenizer)
    spelling = {token: piece for piece, token in vocabulary.items()}
    merges = [(spelling[left], spelling[right]) for left, right in tokenizer.merges]
    return Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **({} if unk is None else {"unk_token": unk})))


def _from_bytes(tokenizer: BpeTokenizer, steps: list) -> Tokenizer:
    converted = _model(tokenizer, None)
    if steps:
        converted.normalizer = normalizers.Sequence(steps)
    parts = [digit_split()] if tokenizer.single_digits else []
    parts += [pre_tokenizers.Split(_expression(tokenizer.pattern), "removed", invert=True)]
    parts += [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    converted.pre_tokenizer = pre_tokenizers.Sequence(parts)
    converted.decoder = decoders.ByteLevel()
    return converted


def _expression(pattern: str) -> Regex:
    try:
        return Regex(oniguruma_pattern(pattern))
    except Exception as error:  # the library raises no narrower one
        raise ValueError(f"the tokenizers library cannot read the pattern {pattern!r} ({error})") from error


def _from_characters(tokenizer: BpeTokenizer, steps: list) -> Tokenizer:
    """The last normalizer puts the space that stands for END after every word, as no later part of the library can."""
    inside = {"whitespace": r"\S", "words": WORD}.get(tokenizer.pattern)
    if inside is None:
        raise ValueError(f"over characters only the patterns whitespace and words can be exported, not {tokenizer.pattern!r}")
    if tokenizer.single_digits:
        inside = rf"[{inside}&&[^\p{{N}}]]"
    alone = rf"[^\s{inside}]"
    end = normalizers.Replace(Regex(f"(?<={inside})(?!{inside})|(?<={alone})"), " ")
    converted = _model(tokenizer, "<unk>")
    converted.normalizer = normalizers.Sequence([*steps, end])
    converted.pre_tokenizer = pre_tokenizers.Split(Regex(f"(?:{inside}+|{alone}) "), "removed", invert=True)
    converted.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)])
    return converted
