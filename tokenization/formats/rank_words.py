"""Words as the tiktoken library cuts them, whose engine has another version of Unicode than the package `regex`."""

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

import regex
import tiktoken

from leadline.tokenization.pretokenization import CLASSES, pretokenize, pretokenize_with_starts

# One character of each combination of CLASSES: letters (upper-case, lower-case, title-case, modifier, other), a mark, a digit,
# a fraction, a letter in a circle, white space, and a code point without a character. All versions of Unicode class them alike,
# and no pattern of tiktoken names them.
_STAND_INS = "\u0100\u0101\u01c5\u02b0\u05d0\u0300\u0663\u00bd\u24b6\u3000\u0378"


@dataclass(frozen=True)
class RankWords:
    """Cuts texts by a pattern, where characters have the classes that they have for tiktoken's engine.

    A character of which the two engines disagree is replaced by one that both class as tiktoken does it, and the words are
    those of the original at the same places. This holds for patterns of literal characters and of CLASSES; another class, as
    that of a script, is that of the package `regex`.

    Args:
        pattern: What a word is, as `pretokenize` takes it.
    """

    pattern: str

    def cut(self, text: str) -> list[str]:
        """The words of a text in order."""
        replaced = {} if text.isascii() else self.replacements(set(text))
        if not replaced:
            return pretokenize(text, self.pattern)
        starts = pretokenize_with_starts(text.translate(replaced), self.pattern)
        return [text[start : start + len(word)] for start, word in starts]

    def replacements(self, characters: Set[str]) -> dict[int, str]:
        """For each of the characters that the engines class differently, by its code point, what replaces it."""
        text = "".join({*characters, *_STAND_INS})
        theirs = [set(bytes(encoding.encode_ordinary(text)).decode()) for encoding in self._encodings]
        ours = [set(regex.findall(name, text)) for name in CLASSES]
        by_classes = {tuple(stand_in in members for members in theirs): stand_in for stand_in in _STAND_INS}
        disputed = set[str]().union(*(a ^ b for a, b in zip(theirs, ours, strict=True)))
        return {ord(c): by_classes[tuple(c in members for members in theirs)] for c in disputed}

    @cached_property
    def _encodings(self) -> list[tiktoken.Encoding]:
        """For each class, an encoding whose ids are the bytes of the characters in it."""
        ranks = {bytes([byte]): byte for byte in range(256)}
        return [tiktoken.Encoding(name, pat_str=name, mergeable_ranks=ranks, special_tokens={}) for name in CLASSES]
