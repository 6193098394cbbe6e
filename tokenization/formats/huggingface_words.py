"""tokenizer.json of words, characters, WordPieces and unigram pieces."""

from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from leadline.tokenization.base import SPECIALS
from leadline.tokenization.byte import BYTES
from leadline.tokenization.character import CharacterTokenizer
from leadline.tokenization.formats.huggingface_parts import (
    BRACKET,
    STAND_IN,
    digit_split,
    numbered,
    stand_in_normalizers,
    step_normalizers,
    with_stand_in,
    word_splits,
)
from leadline.tokenization.normalization import Step
from leadline.tokenization.unigram.tokenizer import SPACE, UnigramTokenizer
from leadline.tokenization.word import WordTokenizer
from leadline.tokenization.wordpiece.tokenizer import CONTINUATION, WORDPIECE_SPECIALS, WordPieceTokenizer, continues

_UNK = "<unk>"
_EACH = r"[\s\S]"  # any character; a dot does not match a line feed
# The library looks for ## at the start of a word too, where our pieces that continue a word never match. No pattern but "words"
# cuts out a word that begins with these three characters, and words of letters do not begin with ## either.
_CONTINUATION = "\n" + CONTINUATION
_BYTE_NAMES = tuple(f"<0x{value:02X}>" for value in range(BYTES))


def words_to_huggingface(tokenizer: WordTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """Converts a word tokenizer.

    Raises:
        ValueError: The pattern is not a key of PATTERNS, or no file can hold a word.
    """
    words = _spelled(tokenizer.words, tokenizer.pattern)
    converted = Tokenizer(models.WordLevel(numbered(SPECIALS, words), unk_token=_UNK))
    _set_word_cut(converted, tokenizer, steps)
    converted.decoder = _word_decoder(_CONTINUATION, tokenizer.pattern)
    return converted


def characters_to_huggingface(tokenizer: CharacterTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """Converts a character tokenizer to one whose words are characters.

    Raises:
        ValueError: There is byte fallback.
    """
    _refuse_bytes(tokenizer)
    converted = Tokenizer(models.WordLevel(numbered(SPECIALS, tokenizer.alphabet), unk_token=_UNK))
    if steps:
        converted.normalizer = normalizers.Sequence(step_normalizers(steps))
    converted.pre_tokenizer = pre_tokenizers.Split(Regex(_EACH), "isolated")
    converted.decoder = decoders.Fuse()
    return converted


def wordpiece_to_huggingface(tokenizer: WordPieceTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """Converts a WordPiece tokenizer.

    Raises:
        ValueError: The pattern is not a key of PATTERNS, no file can hold a piece, or there is byte fallback.
    """
    _refuse_bytes(tokenizer)
    prefix = _continuation(tokenizer.pattern)
    pieces = [_with_prefix(piece, prefix) for piece in _spelled(tokenizer.pieces, tokenizer.pattern)]
    model = models.WordPiece(
        numbered(WORDPIECE_SPECIALS, pieces),
        unk_token=_UNK,
        max_input_chars_per_word=max(tokenizer.longest_word, 0),
        continuing_subword_prefix=prefix,
    )
    converted = Tokenizer(model)
    _set_word_cut(converted, tokenizer, steps)
    converted.decoder = _word_decoder(prefix, tokenizer.pattern)
    return converted


def unigram_to_huggingface(tokenizer: UnigramTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """Converts a unigram tokenizer. The library adds scores from left to right and keeps the first of equal sums, as ours does.

    Raises:
        ValueError: The pattern is not a key of PATTERNS, or is None and spaces are not escaped, so that a text could contain
            the name of a special; all scores are above 0; or no file can hold a piece.
    """
    if tokenizer.pattern is None and not tokenizer.escape:
        raise ValueError("a unigram tokenizer without a pattern can be exported only if it escapes spaces")
    worst = min(tokenizer.scores, default=0.0)
    if worst > 0:  # otherwise a character that is no piece is always worse than a piece that contains it
        raise ValueError(f"the least score is {worst}; log probabilities are at most 0, which the library relies on")
    pieces = _spelled(tokenizer.pieces, tokenizer.pattern)
    vocabulary = numbered(tokenizer.specials, (_BYTE_NAMES if tokenizer.byte_fallback else ()) + pieces)
    # The names of specials and bytes need a score too, which is never used. The worst does not change that of the unknown.
    scores = [worst] * (len(vocabulary) - len(pieces)) + list(tokenizer.scores)
    entries = list(zip(vocabulary, scores, strict=True))
    converted = Tokenizer(models.Unigram(entries, unk_id=vocabulary[_UNK], byte_fallback=tokenizer.byte_fallback))
    if parts := step_normalizers(steps) + _unigram_normalizers(tokenizer):
        converted.normalizer = normalizers.Sequence(parts)
    if splits := _unigram_splits(tokenizer):
        converted.pre_tokenizer = pre_tokenizers.Sequence(splits)
    converted.decoder = _unigram_decoder(tokenizer)
    return converted


def _refuse_bytes(tokenizer: CharacterTokenizer | WordPieceTokenizer) -> None:
    if tokenizer.byte_fallback:
        raise ValueError(f"the tokenizer.json of a {tokenizer.name} tokenizer knows no byte fallback")


def _has_stand_in(pattern: str | None) -> bool:
    """Whether a word may contain the name of a special, so that < is spelled as a space."""
    return pattern in (None, "whitespace")


def _spelled(pieces: Sequence[str], pattern: str | None) -> tuple[str, ...]:
    return tuple(map(with_stand_in, pieces)) if _has_stand_in(pattern) else tuple(pieces)


def _set_word_cut(converted: Tokenizer, tokenizer: WordTokenizer | WordPieceTokenizer, steps: Sequence[Step]) -> None:
    parts = step_normalizers(steps) + (stand_in_normalizers() if tokenizer.pattern == "whitespace" else [])
    if parts:
        converted.normalizer = normalizers.Sequence(parts)
    converted.pre_tokenizer = pre_tokenizers.Sequence(word_splits(tokenizer.pattern, single_digits=tokenizer.single_digits))


def _word_decoder(prefix: str, pattern: str) -> decoders.Decoder:
    """A space before each word but the first."""
    joined = decoders.WordPiece(prefix=prefix, cleanup=False)
    return decoders.Sequence([decoders.Replace(STAND_IN, BRACKET), joined]) if _has_stand_in(pattern) else joined


def _continuation(pattern: str) -> str:
    return CONTINUATION if pattern == "words" else _CONTINUATION


def _with_prefix(piece: str, prefix: str) -> str:
    """A piece with the file's prefix of continuation. Raises ValueError for one that would continue words only there."""
    if continues(piece):
        return prefix + piece.removeprefix(CONTINUATION)
    if piece.startswith(_CONTINUATION):
        raise ValueError(f"the piece {piece!r} begins like those that continue a word in the file, where it would match too")
    return piece


def _unigram_normalizers(tokenizer: UnigramTokenizer) -> list:
    prefix = [normalizers.Prepend(" ")] if tokenizer.dummy_prefix else []
    match tokenizer.pattern:
        case None:
            return [*prefix, normalizers.Replace(" ", SPACE), normalizers.Replace(BRACKET, STAND_IN)]
        case "whitespace":
            return prefix + stand_in_normalizers()
        case _:
            return prefix


def _unigram_splits(tokenizer: UnigramTokenizer) -> list:
    pattern, digits = tokenizer.pattern, tokenizer.single_digits
    if pattern is None:
        return [digit_split()] if digits else []
    # Spaces are escaped after the pattern, which looks for spaces. Between white space there are only those that stand for <.
    escaped = tokenizer.escape and pattern != "whitespace"
    metaspace = [pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never", split=False)] if escaped else []
    return word_splits(pattern, single_digits=digits) + metaspace


def _unigram_decoder(tokenizer: UnigramTokenizer) -> decoders.Decoder:
    parts = [decoders.Replace(STAND_IN, BRACKET)] if _has_stand_in(tokenizer.pattern) else []
    parts += [decoders.Replace(SPACE, " ")] if tokenizer.escape else []
    parts += [decoders.ByteFallback(), decoders.Fuse()]
    parts += [decoders.Strip(" ", 1, 0)] if tokenizer.dummy_prefix else []
    return decoders.Sequence(parts)
