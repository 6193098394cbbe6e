"""Characters that the engine of the library tokenizers classes otherwise than ours, since each knows its version of Unicode."""

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

import regex
from tokenizers import Regex, normalizers

from tokenization.huggingface_parts import written_pattern

# All classes in PATTERNS.
_CLASSES = (r"\w", r"\s", *(rf"\p{{{name}}}" for name in ("L", "N", "M", "Lu", "Lt", "Lm", "Lo", "Ll")))


@dataclass(frozen=True)
class Disputed:
    """Finds them by asking both."""

    def among(self, characters: Set[str]) -> set[str]:
        """Those of the characters that a class of PATTERNS holds in one engine only."""
        text = "".join(characters)
        found: set[str] = set()
        for ours, others_of in self._engines:
            found |= set(ours.findall(text)) ^ (characters - set(others_of.normalize_str(text)))
        return found

    @cached_property
    def _engines(self) -> list[tuple[regex.Pattern[str], normalizers.Normalizer]]:
        """For each class an expression of ours, and what removes the class from a text by theirs."""
        return [(regex.compile(name), normalizers.Replace(Regex(written_pattern(name)), "")) for name in _CLASSES]
