"""Tokenizers with the work done by Hugging Face's `tokenizers` library, where that gives the same ids."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import regex
import tokenizers
from jaxtyping import Int32, Int64
from tokenizers import Regex, normalizers

from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import CharacterTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.huggingface_parts import oniguruma_pattern
from leadline.tokenization.ids import contiguous_offsets
from leadline.tokenization.normalization import normalize, to_utf8
from leadline.tokenization.pretokenization import CLASSES, PATTERNS
from leadline.tokenization.tokenizer import Specials, Tokenizer

# Scripts that join letters, one without spaces, digits, marks, a final sigma, names of specials and every ASCII character.
_PROBES = (
    "",
    "It's 12345 lower lowest words,  and\t\tmore   \n\n x_y = [1.5, -2]; ",
    "Été e\u0301 ΟΔΟΣ Straße I\u0307 ﬁ ² ½ हिन्दी ไทย 日本語のテキスト 🙂👍🏽\u200d\u00a0\u3000",
    "<pad><unk> <bos> <eos></w> ▁ Ġ ## \x00\x7f",
    "".join(map(chr, range(32, 127))),
)


@dataclass(frozen=True)
class UnicodeDisagreement:
    """Finds the characters that the two engines class differently, since each has its own version of Unicode."""

    def among(self, characters: Set[str]) -> set[str]:
        """Those of the characters that are in a class of PATTERNS for one engine only."""
        text = "".join(characters)
        disputed: set[str] = set()
        for pattern, removing in self._classes:
            disputed |= set(pattern.findall(text)) ^ (characters - set(removing.normalize_str(text)))
        return disputed

    @cached_property
    def _classes(self) -> list[tuple[regex.Pattern[str], normalizers.Normalizer]]:
        """For each class, an expression of our engine, and a normalizer of the library that removes the class."""
        return [(regex.compile(name), normalizers.Replace(Regex(oniguruma_pattern(name)), "")) for name in CLASSES]


@dataclass(frozen=True)
class FastTokenizer:
    """Gives the ids of the tokenizer that it wraps, and has its definition and digest.

    Text with a character that the two engines class differently is encoded by the wrapped tokenizer.

    Args:
        wrapped: One of the tokenizers that `to_huggingface` converts.

    Raises:
        ValueError: The library cannot express the tokenizer, or gives other ids for one of a few texts.
    """

    wrapped: Tokenizer

    def __post_init__(self) -> None:
        for text, expected, ids in zip(_PROBES, self.wrapped.encode_batch(_PROBES), self.encode_batch(_PROBES), strict=True):
            if not np.array_equal(expected, ids):
                raise ValueError(f"the {self.name} tokenizer gives {text!r} other ids than its fast form; use it as it is")

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the library's tokenizer, which is copied as a file, where the last bit of a unigram score may change."""
        return {"wrapped": self.wrapped}

    @property
    def name(self) -> str:
        """The name of the wrapped tokenizer."""
        return self.wrapped.name

    @property
    def vocabulary_size(self) -> int:
        """The vocabulary size of the wrapped tokenizer."""
        return self.wrapped.vocabulary_size

    @property
    def specials(self) -> Specials:
        """The specials of the wrapped tokenizer."""
        return self.wrapped.specials

    @property
    def lossless(self) -> bool:
        """Whether the wrapped tokenizer is lossless."""
        return self.wrapped.lossless

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Encodes a text. Raises what the wrapped tokenizer does."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """Encodes each text, on all cores. Raises what `encode` does."""
        normalized = [normalize(text, self._steps) for text in texts]
        encodings = self._converted.encode_batch_fast(normalized, add_special_tokens=False)
        disputed = self._disagreement.among(set().union(*(text for text in normalized if not text.isascii())))
        return [
            self.wrapped.encode(text) if disputed and not disputed.isdisjoint(cleaned) else np.array(encoding.ids, np.int32)
            for text, cleaned, encoding in zip(texts, normalized, encodings, strict=True)
        ]

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """Encodes a text and locates its tokens by their lengths; if it is not lossless, at the speed of the wrapped tokenizer.

        The library's own offsets count characters, so they cannot locate a token that ends inside one. Raises what `encode`
        does.
        """
        if not self.lossless:
            return self.wrapped.encode_with_offsets(text)
        ids = self.encode(text)
        offsets = contiguous_offsets(ids, self._bytes)
        if offsets[-1:, 1].sum() > len(to_utf8(text)):  # the pieces contain a dummy prefix, which the text does not
            return self.wrapped.encode_with_offsets(text)
        return ids, offsets

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Decodes ids. Raises what the wrapped tokenizer does."""
        return self.wrapped.decode(ids)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one id. Raises what the wrapped tokenizer does."""
        return self.wrapped.token_bytes(token)

    def definition(self) -> dict[str, Any]:
        """The definition of the wrapped tokenizer."""
        return self.wrapped.definition()

    def digest(self) -> str:
        """The digest of the wrapped tokenizer, since the ids are equal."""
        return self.wrapped.digest()

    @cached_property
    def _converted(self) -> tokenizers.Tokenizer:
        converted = to_huggingface(self.wrapped, normalize=False)
        converted.encode_special_tokens = True  # despite its name, this makes the names of specials ordinary text
        return converted

    @cached_property
    def _disagreement(self) -> UnicodeDisagreement:
        return UnicodeDisagreement()

    @cached_property
    def _steps(self) -> Sequence:
        """Normalization is done here, because the library's lower case and version of Unicode differ."""
        return getattr(self.wrapped, "normalization", ())

    @cached_property
    def _bytes(self) -> list[bytes]:
        return [self.wrapped.token_bytes(token) for token in range(self.vocabulary_size)]


def accelerate(tokenizer: Tokenizer) -> Tokenizer:
    """Wraps a tokenizer in a `FastTokenizer` where that is quicker and has the same ids, and returns others unchanged.

    Unchanged are tokenizers that the library cannot express or gives other ids; those with a pattern that is not in PATTERNS,
    which the library's engine may read in another way; and the tokenizers of bytes and characters, which are many times as fast
    in NumPy.
    Definition and digest stay the same.

    The library divides a batch among all cores without further processes. On one core only unigram tokenizers gain; on two a
    corpus takes as long either way (`leadline bench tokenization`).
    """
    if isinstance(tokenizer, ByteTokenizer | CharacterTokenizer) or getattr(tokenizer, "pattern", None) not in (
        None,
        *PATTERNS,
    ):
        return tokenizer
    try:
        return FastTokenizer(tokenizer)
    except ValueError:
        return tokenizer
