"""Pre-tokenization: cutting a text into words, which no token crosses, by the patterns of published tokenizers."""

from collections.abc import Iterator

import regex

_CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*")
_SPACES = (r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+")
# gpt2: Radford et al. 2019. gpt4: that of cl100k_base as it was first published, and of LLaMA 3. cl100k: that of cl100k_base in
# tiktoken 0.14, where white space at the end of a text is one word. o200k: that of o200k_base. words: runs of letters, digits,
# marks and underscores, and every other character alone. whitespace: runs without white space.
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4": "|".join((*_CL100K, *_SPACES)),
    "cl100k": "|".join((*_CL100K, r"\s++$", *_SPACES)),
    "o200k": "|".join(
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            *_SPACES,
        )
    ),
    "words": r"\w+|[^\w\s]",
    "whitespace": r"\S+",
}
# All character classes in PATTERNS.
CLASSES = (r"\w", r"\s", *(rf"\p{{{name}}}" for name in ("L", "N", "M", "Lu", "Lt", "Lm", "Lo", "Ll")))
COVERING = frozenset({"gpt2", "gpt4", "cl100k", "o200k"})  # whose words join to the whole text
WHOLE = r"(?s:.+)"  # the whole text is one word: no pre-tokenization
EXPANSION_LIMIT = 100_000  # about 30 MB compiled: the engine copies what is repeated, some 270 bytes a copy

_DIGITS = r"\p{N}|\P{N}+"
# An escaped character, a character class, a bound of repetition, or any other character.
_SYNTAX = regex.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]|\{(?<least>[\d\s]*+)(?:,(?<most>[\d\s]*+))?\}|.", regex.DOTALL)


def covers(pattern: str | None) -> bool:
    """Whether the words of a pattern are known to join to the whole of every text; None is no pattern, which cuts nothing."""
    return pattern in {None, WHOLE, *COVERING, *(PATTERNS[name] for name in COVERING)}


def pretokenize(text: str, pattern: str, *, single_digits: bool = False) -> list[str]:
    """Cuts a text into words. What the pattern does not match is left out.

    Args:
        text: The normalized text.
        pattern: A key of PATTERNS, or a regular expression of the package `regex` without capturing groups.
        single_digits: Whether every digit is a word. The pattern then cuts what lies between digits.

    Returns:
        The words in order.

    Raises:
        ValueError: As `compile_pattern`.
    """
    expression = compile_pattern(pattern)
    if not single_digits:
        return expression.findall(text)
    return [word for part in regex.findall(_DIGITS, text) for word in expression.findall(part)]


def pretokenize_with_starts(text: str, pattern: str, *, single_digits: bool = False) -> Iterator[tuple[int, str]]:
    """Like `pretokenize`, with the index of each word's first character before the word."""
    expression = compile_pattern(pattern)
    for part in regex.finditer(_DIGITS if single_digits else WHOLE, text):
        yield from ((part.start() + match.start(), match.group()) for match in expression.finditer(part.group()))


def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Compiles a pattern.

    Args:
        pattern: A key of PATTERNS or a regular expression.

    Raises:
        ValueError: The expression is invalid, has a capturing group, or repeats more than EXPANSION_LIMIT elements.
    """
    if pattern in PATTERNS:
        return regex.compile(PATTERNS[pattern])
    shown = repr(pattern if len(pattern) <= 200 else pattern[:200] + "…")
    if "{" in pattern and expanded_size(pattern) > EXPANSION_LIMIT:
        raise ValueError(f"the repetitions of {shown} expand to more than {EXPANSION_LIMIT} elements; use smaller bounds")
    try:
        expression = regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise ValueError(f"{shown} is not a regular expression ({error}), nor one of {', '.join(PATTERNS)}") from error
    if expression.groups:
        raise ValueError(f"{shown} has a capturing group; write (?:…) for each of its {expression.groups}")
    return expression


def expanded_size(pattern: str) -> int:
    """The number of elements of an expression when {n}, {n,} and {n,m} are written out, nested ones multiplied."""
    sequences = [[0]]  # the sizes of the elements of each group that is open
    for element in _SYNTAX.finditer(pattern):
        match element.group()[0]:
            case "(":
                sequences.append([0])
            case ")" if len(sequences) > 1:
                size = sum(sequences.pop())
                sequences[-1].append(max(size, 1))
            case "{" if len(element.group()) > 1:
                sequences[-1][-1] *= max(1, *map(_bound, element.group("least", "most")))
            case _:
                sequences[-1].append(1)
    return sum(map(sum, sequences))


def _bound(text: str | None) -> int:
    digits = "".join((text or "").split()).lstrip("0")
    return int(digits[:20] or 0)
