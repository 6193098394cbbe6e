"""Cutting a text into pieces that no token crosses, by the patterns of published tokenizers or by words."""

from collections.abc import Iterator

import regex

# The patterns of byte-level tokenizers cover every character. gpt2: Radford et al. 2019; gpt4 (cl100k) and o200k: as tiktoken
# prints them. The patterns of word-level ones leave white space out. words: runs of letters, digits, marks and
# underscores, and each other character by itself; whitespace: what stands between white space.
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4": "|".join(
        (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
            r"[^\r\n\p{L}\p{N}]?\p{L}+",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
    "o200k": "|".join(
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
    "words": r"\w+|[^\w\s]",
    "whitespace": r"\S+",
}
COVERING = frozenset({"gpt2", "gpt4", "o200k"})
_DIGITS, _WHOLE = r"\p{N}|\P{N}+", r"(?s:.+)"


def cut(text: str, pattern: str, *, single_digits: bool = False) -> list[str]:
    """The pieces of the text, in order.

    Args:
        text: what is cut.
        pattern: a name of PATTERNS, or a regular expression (of the package regex) without capturing groups.
        single_digits: every digit stands alone, before the pattern cuts what is between digits.

    Raises ValueError for a pattern that is no such expression.
    """
    compiled = _compiled(pattern)
    if not single_digits:
        return compiled.findall(text)
    return [piece for part in regex.findall(_DIGITS, text) for piece in compiled.findall(part)]


def places(text: str, pattern: str, *, single_digits: bool = False) -> Iterator[tuple[int, str]]:
    """The pieces as `cut` finds them, each behind the index of the character at which it begins. Raises what `cut` does."""
    compiled = _compiled(pattern)
    for part in regex.finditer(_DIGITS if single_digits else _WHOLE, text):
        yield from ((part.start() + piece.start(), piece.group()) for piece in compiled.finditer(part.group()))


def _compiled(pattern: str) -> regex.Pattern[str]:
    try:
        found = regex.compile(PATTERNS.get(pattern, pattern))
    except regex.error as error:
        raise ValueError(f"{pattern!r} is no regular expression ({error}), nor one of {', '.join(PATTERNS)}") from error
    if found.groups:
        raise ValueError(f"{pattern!r} has a capturing group; write (?:…) for each of its {found.groups}")
    return found
