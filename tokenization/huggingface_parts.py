"""What files of all kinds have in them: names of specials, a normaliser, and a pre-tokenizer that cuts by a pattern."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Regex, normalizers, pre_tokenizers

from tokenization.normalization import Step
from tokenization.pretokenization import PATTERNS
from tokenization.tokenizer import Specials

# What Python's `regex` means by \w. Oniguruma, the engine of `tokenizers`, adds fractions and superscripts to it.
WORD = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]"

# In a word between white space, and in a text without spaces, "<" is written as a space. So no text has the name of a special
# in it, which the models of the library would take for a piece; where another pattern cuts, no word has one.
BRACKET, STAND_IN = "<", " "
_BETWEEN_SPACES = r"[^\n]+"


def special_names(specials: Specials) -> dict[str, int]:
    """The ids of the specials by their names in a file."""
    return {f"<{name}>": i for name, i in specials.named().items()}


def numbered(specials: Specials, pieces: Iterable[str]) -> dict[str, int]:
    """The ids of the specials and, behind them, of the pieces. Raises ValueError for two that are spelled alike."""
    found = special_names(specials)
    for piece in pieces:
        if piece in found:
            raise ValueError(f"the piece {piece!r} is spelled like a special or another piece, which no file can hold")
        found[piece] = len(found)
    return found


def with_stand_in(piece: str) -> str:
    """A piece as it is spelled where "<" is a space. Raises ValueError for one that has a space already."""
    if STAND_IN in piece:
        raise ValueError(f"the piece {piece!r} has a space in it, which no word here has, and which stands for < in the file")
    return piece.replace(BRACKET, STAND_IN)


def without_stand_in(piece: str) -> str:
    """The piece that `with_stand_in` spelled so."""
    return piece.replace(STAND_IN, BRACKET)


def written_steps(steps: Sequence[Step]) -> list:
    """The normalisers of the steps."""
    found = []
    for step in steps:
        match step:
            case "nfc":
                found += [normalizers.NFC()]
            case "nfkc":
                found += [normalizers.NFKC()]
            case "lower":
                found += [normalizers.Lowercase()]
            case "spaces":
                found += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    return found


def read_steps(normalizer: Mapping[str, Any] | None) -> tuple[tuple[Step, ...], list[Mapping[str, Any]]]:
    """The steps with which a file's normaliser begins, and what is behind them."""
    parts = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    known: dict[str, Step] = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lower"}
    space = [{"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}]
    space += [{"type": "Strip", "strip_left": True, "strip_right": True}]
    steps: list[Step] = []
    while parts:
        if parts[:2] == space:
            steps.append("spaces")
            parts = parts[2:]
        elif parts[0]["type"] in known:
            steps.append(known[parts[0]["type"]])
            parts = parts[1:]
        else:
            break
    return tuple(steps), parts


def written_pattern(pattern: str) -> str:
    """An expression of the package `regex`, or the name of a pattern, as an expression of the library."""
    return PATTERNS.get(pattern, pattern).replace(r"\w", WORD)


def single_digits_cut() -> pre_tokenizers.PreTokenizer:
    """Every digit stands alone."""
    return pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")


def is_single_digits(part: Mapping[str, Any]) -> bool:
    """Whether a part of a file's pre-tokenizer lets every digit stand alone."""
    return part in (
        {"type": "Split", "pattern": {"Regex": r"\p{N}"}, "behavior": "Isolated", "invert": False},
        {"type": "Digits", "individual_digits": True},
    )


def stand_ins() -> list:
    """The normalisers that write all white space as a line feed and "<" as a space; `word_cut` of whitespace needs them."""
    return [normalizers.Replace(Regex(r"\s"), "\n"), normalizers.Replace(BRACKET, STAND_IN)]


def word_cut(pattern: str, *, single_digits: bool) -> list:
    """The pre-tokenizers that cut as a pattern of PATTERNS does; whitespace behind the normalisers `stand_ins`.

    Raises ValueError for a pattern of one's own, of which nobody knows whether it can cut out the name of a special.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"only the patterns {', '.join(PATTERNS)} can be exported, not {pattern!r}")
    expression = _BETWEEN_SPACES if pattern == "whitespace" else written_pattern(pattern)
    cut = pre_tokenizers.Split(Regex(expression), "removed", invert=True)
    return [single_digits_cut(), cut] if single_digits else [cut]


def read_word_cut(pre_tokenizer: Mapping[str, Any] | None) -> tuple[str | None, bool]:
    """The name of the pattern of a file that has `word_cut`, None if nothing cuts, and whether digits stand alone."""
    parts = [] if pre_tokenizer is None else pre_tokenizer["pretokenizers"]
    digits = bool(parts) and is_single_digits(parts[0])
    splits = [part for part in parts[digits:] if part["type"] == "Split"]
    if not splits:
        return None, digits
    names = {written_pattern(name): name for name in PATTERNS if name != "whitespace"} | {_BETWEEN_SPACES: "whitespace"}
    expression = splits[0]["pattern"].get("Regex")
    fits(expression in names, "pre_tokenizer", splits[0], "a Split by the expression of a pattern that has a name")
    return names[expression], digits


def fits(holds: bool, part: str, value: object, wanted: object) -> None:
    """Raises ValueError, naming the part of the file, unless it holds."""
    if not holds:
        raise ValueError(f"{part} is {_shown(value)}, and only {_shown(wanted)} can be read here")


def _shown(value: object) -> str:
    return repr(value) if len(repr(value)) < 1000 else reprlib.repr(value)
