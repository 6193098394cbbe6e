"""tokenizer.json of words, characters and WordPieces: a text is cut into words, and each is looked up or cut further."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tokenization.character import CharacterTokenizer
from tokenization.defined import SPECIALS
from tokenization.huggingface_parts import (
    BRACKET,
    STAND_IN,
    numbered,
    read_steps,
    read_word_cut,
    stand_ins,
    with_stand_in,
    without_stand_in,
    word_cut,
    written_steps,
)
from tokenization.normalization import Step
from tokenization.word import WordTokenizer
from tokenization.wordpiece import CONTINUATION, WORDPIECE_SPECIALS, WordPieceTokenizer, continues

_UNK = "<unk>"
_EACH = r"[\s\S]"  # any character; a dot leaves out the line feed
# The model also looks for ## at the beginning of a word, where ours knows no pieces that continue one. No pattern cuts out
# a word that begins with these three characters, and words of letters do not begin with ## either.
_CONTINUATION = "\n" + CONTINUATION


def words_form(tokenizer: WordTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """The form of a word tokenizer. Raises ValueError for a pattern without a name and a word that no file can hold."""
    open_ended = tokenizer.pattern == "whitespace"
    words = map(with_stand_in, tokenizer.words) if open_ended else tokenizer.words
    found = Tokenizer(models.WordLevel(numbered(SPECIALS, words), unk_token=_UNK))
    _cut_into_words(found, tokenizer.pattern, tokenizer.single_digits, steps)
    found.decoder = _decoder(_CONTINUATION, open_ended)
    return found


def characters_form(tokenizer: CharacterTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """The form of a character tokenizer, whose words are characters."""
    found = Tokenizer(models.WordLevel(numbered(SPECIALS, tokenizer.alphabet), unk_token=_UNK))
    if steps:
        found.normalizer = normalizers.Sequence(written_steps(steps))
    found.pre_tokenizer = pre_tokenizers.Split(Regex(_EACH), "isolated")
    found.decoder = decoders.Fuse()
    return found


def wordpiece_form(tokenizer: WordPieceTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """The form of a WordPiece tokenizer. Raises ValueError for a pattern without a name and a piece that no file can hold."""
    open_ended, sign = tokenizer.pattern == "whitespace", _sign(tokenizer.pattern)
    spelled = (with_stand_in(piece) if open_ended else piece for piece in tokenizer.pieces)
    vocabulary = numbered(WORDPIECE_SPECIALS, [_signed(piece, sign) for piece in spelled])
    longest = max(tokenizer.longest_word, 0)
    model = models.WordPiece(vocabulary, unk_token=_UNK, max_input_chars_per_word=longest, continuing_subword_prefix=sign)
    found = Tokenizer(model)
    _cut_into_words(found, tokenizer.pattern, tokenizer.single_digits, steps)
    found.decoder = _decoder(sign, open_ended)
    return found


def read_word_level(file: Mapping[str, Any]) -> WordTokenizer | CharacterTokenizer:
    """The tokenizer of a file that `words_form` or `characters_form` wrote, which its caller checks."""
    words, steps = _in_order(file["model"]["vocab"])[len(SPECIALS.ids()) :], read_steps(file["normalizer"])[0]
    if file["pre_tokenizer"].get("pattern") == {"Regex": _EACH}:
        return CharacterTokenizer("".join(words), steps)
    pattern, digits = _named_cut(file)
    return WordTokenizer(_spelled_back(words, pattern), pattern, digits, steps)


def read_wordpiece(file: Mapping[str, Any]) -> WordPieceTokenizer:
    """The tokenizer of a file that `wordpiece_form` wrote, which its caller checks."""
    model, (pattern, digits) = file["model"], _named_cut(file)
    pieces = _in_order(model["vocab"])[len(WORDPIECE_SPECIALS.ids()) :]
    sign = _sign(pattern)
    plain = [CONTINUATION + piece.removeprefix(sign) if piece.startswith(sign) else piece for piece in pieces]
    steps, longest = read_steps(file["normalizer"])[0], model["max_input_chars_per_word"]
    return WordPieceTokenizer(_spelled_back(plain, pattern), pattern, digits, steps, longest)


def _cut_into_words(found: Tokenizer, pattern: str, single_digits: bool, steps: Sequence[Step]) -> None:
    normalizer = written_steps(steps) + (stand_ins() if pattern == "whitespace" else [])
    if normalizer:
        found.normalizer = normalizers.Sequence(normalizer)
    found.pre_tokenizer = pre_tokenizers.Sequence(word_cut(pattern, single_digits=single_digits))


def _decoder(sign: str, open_ended: bool) -> decoders.Decoder:
    """A space before each word but the first."""
    joined = decoders.WordPiece(prefix=sign, cleanup=False)
    return decoders.Sequence([decoders.Replace(STAND_IN, BRACKET), joined]) if open_ended else joined


def _sign(pattern: str) -> str:
    return CONTINUATION if pattern == "words" else _CONTINUATION


def _signed(piece: str, sign: str) -> str:
    """A piece with the sign of continuation of the file. Raises ValueError for one that would continue words only there."""
    if continues(piece):
        return sign + piece.removeprefix(CONTINUATION)
    if piece.startswith(_CONTINUATION):
        raise ValueError(f"the piece {piece!r} begins like those that continue a word in the file, where it would match too")
    return piece


def _named_cut(file: Mapping[str, Any]) -> tuple[str, bool]:
    pattern, digits = read_word_cut(file["pre_tokenizer"])
    if pattern is None:
        raise ValueError(f"pre_tokenizer is {file['pre_tokenizer']!r}, which cuts no words")
    return pattern, digits


def _spelled_back(pieces: Sequence[str], pattern: str) -> tuple[str, ...]:
    return tuple(map(without_stand_in, pieces)) if pattern == "whitespace" else tuple(pieces)


def _in_order(vocabulary: Mapping[str, int]) -> list[str]:
    return sorted(vocabulary, key=vocabulary.__getitem__)
