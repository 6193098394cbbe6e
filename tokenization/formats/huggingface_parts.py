"""The parts of a tokenizer.json that all kinds share: names of specials, normalizers, and pre-tokenizers."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    """Numbers the specials and, behind them, the pieces.

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


def without_stand_in(piece: str) -> str:
    """Inverts `with_stand_in`."""
    return piece.replace(STAND_IN, BRACKET)


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


def read_steps(normalizer: Mapping[str, Any] | None) -> tuple[tuple[Step, ...], list[Mapping[str, Any]]]:
    """The steps with which the normalizer of a file begins, and the parts behind them."""
    parts = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    known: dict[str, Step] = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lower"}
    spaces = [{"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}]
    spaces += [{"type": "Strip", "strip_left": True, "strip_right": True}]
    steps: list[Step] = []
    while parts:
        if parts[:2] == spaces:
            steps.append("spaces")
            parts = parts[2:]
        elif parts[0]["type"] in known:
            steps.append(known[parts[0]["type"]])
            parts = parts[1:]
        else:
            break
    return tuple(steps), parts


def oniguruma_pattern(pattern: str) -> str:
    """A key of PATTERNS, or an expression of the package `regex`, as an expression of the library's engine."""
    return PATTERNS.get(pattern, pattern).replace(r"\w", WORD)


def digit_split() -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer that makes every digit a word."""
    return pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")


def is_digit_split(part: Mapping[str, Any]) -> bool:
    """Whether a part of a file's pre-tokenizer makes every digit a word."""
    return part in (
        {"type": "Split", "pattern": {"Regex": r"\p{N}"}, "behavior": "Isolated", "invert": False},
        {"type": "Digits", "individual_digits": True},
    )


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


def read_word_splits(pre_tokenizer: Mapping[str, Any] | None) -> tuple[str | None, bool]:
    """The pattern of a file that has `word_splits`, None if nothing cuts; and whether every digit is a word.

    Raises:
        ValueError: The expression is none of PATTERNS.
    """
    parts = [] if pre_tokenizer is None else pre_tokenizer["pretokenizers"]
    digits = bool(parts) and is_digit_split(parts[0])
    splits = [part for part in parts[digits:] if part["type"] == "Split"]
    if not splits:
        return None, digits
    names = {oniguruma_pattern(name): name for name in PATTERNS if name != "whitespace"} | {_BETWEEN_SPACES: "whitespace"}
    expression = splits[0]["pattern"].get("Regex")
    require(expression in names, "pre_tokenizer", splits[0], "a Split by the expression of a named pattern")
    return names[expression], digits


def require(holds: bool, part: str, value: object, expected: object) -> None:
    """Raises ValueError, naming a part of the file with its value and what is expected, unless the condition holds."""
    if not holds:
        raise ValueError(f"{part} is {_shown(value)}, and only {_shown(expected)} can be read here")


def _shown(value: object) -> str:
    return repr(value) if len(repr(value)) < 1000 else reprlib.repr(value)
