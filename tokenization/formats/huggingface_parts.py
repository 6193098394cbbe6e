"""The parts of a tokenizer.json that all kinds share: names of specials, normalizers, and pre-tokenizers."""

from collections.abc import Iterable, Sequence

from tokenizers import Regex, normalizers, pre_tokenizers

from leadline.tokenization.normalization import Step
from leadline.tokenization.pretokenization import PATTERNS
from leadline.tokenization.tokenizer import Specials

# The class \w of Python's `regex`. Oniguruma, the engine of `tokenizers`, adds fractions and superscripts to it.
WORD = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]"

# The models of the library would take the name of a special inside a word for a piece. So where a word may contain "<" and
# never contains a space (the pattern whitespace, and texts with escaped spaces), "<" is written as a space.
BRACKET, STAND_IN = "<", " "
_BETWEEN_SPACES = r"[^\n]+"


def special_names(specials: Specials) -> dict[str, int]:
    """The ids of the specials by their names in a file."""
    return {f"<{name}>": token for name, token in specials.named().items()}


def numbered(specials: Specials, pieces: Iterable[str]) -> dict[str, int]:
    """Numbers the specials and, after them, the pieces.

    Raises:
        ValueError: Two of them are spelled alike.
    """
    vocabulary = special_names(specials)
    for piece in pieces:
        if piece in vocabulary:
            raise ValueError(f"the piece {piece!r} is spelled like a special or another piece, which no file can hold")
        vocabulary[piece] = len(vocabulary)
    return vocabulary


def with_stand_in(piece: str) -> str:
    """Spells "<" as a space.

    Raises:
        ValueError: The piece contains a space.
    """
    if STAND_IN in piece:
        raise ValueError(f"the piece {piece!r} has a space in it, which no word has here, and which stands for < in the file")
    return piece.replace(BRACKET, STAND_IN)


def stand_in_normalizers() -> list:
    """The normalizers that spell all white space as a line feed and "<" as a space, for the pattern whitespace."""
    return [normalizers.Replace(Regex(r"\s"), "\n"), normalizers.Replace(BRACKET, STAND_IN)]


def step_normalizers(steps: Sequence[Step]) -> list:
    """The normalizers of the steps."""
    parts = []
    for step in steps:
        match step:
            case "nfc":
                parts += [normalizers.NFC()]
            case "nfkc":
                parts += [normalizers.NFKC()]
            case "lower":
                parts += [normalizers.Lowercase()]
            case "spaces":
                parts += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    return parts


def oniguruma_pattern(pattern: str) -> str:
    """A key of PATTERNS, or an expression of the package `regex`, as an expression of the library's engine."""
    return PATTERNS.get(pattern, pattern).replace(r"\w", WORD)


def digit_split() -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer that makes every digit a word."""
    return pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")


def word_splits(pattern: str, *, single_digits: bool) -> list:
    """The pre-tokenizers that cut as a key of PATTERNS does; whitespace needs `stand_in_normalizers` before.

    Raises:
        ValueError: The pattern is another expression, which might cut out the name of a special.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"only the patterns {', '.join(PATTERNS)} can be exported, not {pattern!r}")
    expression = _BETWEEN_SPACES if pattern == "whitespace" else oniguruma_pattern(pattern)
    cut = pre_tokenizers.Split(Regex(expression), "removed", invert=True)
    return [digit_split(), cut] if single_digits else [cut]
