"""Any of our tokenizers that `to_huggingface` knows, with the library `tokenizers` doing the work."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Int32, Int64

from tokenization.character import CharacterTokenizer
from tokenization.disputed import Disputed
from tokenization.huggingface import to_huggingface
from tokenization.ids import offsets
from tokenization.normalization import normalized
from tokenization.pretokenization import PATTERNS
from tokenization.text import characters, utf8
from tokenization.tokenizer import Specials, Tokenizer

# Two scripts that join letters, one without spaces, digits, marks, a final sigma, names of specials and every ASCII sign.
_PROBES = (
    "",
    "It's 12345 lower lowest words,  and\t\tmore   \n\n x_y = [1.5, -2]; ",
    "Été e\u0301 ΟΔΟΣ Straße I\u0307 ﬁ ² ½ हिन्दी ไทย 日本語のテキスト 🙂👍🏽\u200d\u00a0\u3000",
    "<pad><unk> <bos> <eos></w> ▁ Ġ ## \x00\x7f",
    "".join(map(chr, range(32, 127))),
)


@dataclass(frozen=True)
class FastTokenizer:
    """Gives the ids of the tokenizer that it wraps, whose definition and digest are its own.

    A text with a character that the library's version of Unicode classes otherwise is encoded by the tokenizer within.

    Raises ValueError where the library has no form of that tokenizer, or gives other ids for one of a few texts.
    """

    wrapped: Tokenizer

    def __post_init__(self) -> None:
        for text, ids, fast in zip(_PROBES, self.wrapped.encode_batch(_PROBES), self.encode_batch(_PROBES), strict=True):
            if not np.array_equal(ids, fast):
                raise ValueError(f"the {self.name} tokenizer gives {text!r} other ids than its fast form; use it as it is")

    def __getstate__(self) -> dict[str, Any]:
        """Without the library's tokenizer: it would be copied as a file, which may change the last bit of a unigram's score."""
        return {"wrapped": self.wrapped}

    @cached_property
    def _fast(self) -> tokenizers.Tokenizer:
        found = to_huggingface(self.wrapped, normalize=False)
        found.encode_special_tokens = True  # which, in spite of its name, makes their names ordinary text
        return found

    @cached_property
    def _disputed(self) -> Disputed:
        return Disputed()

    @cached_property
    def _steps(self) -> Sequence:
        """They are done here, as the lower case and the Unicode of the library are others."""
        return self.wrapped.definition().get("normalization", ())

    @cached_property
    def _pieces(self) -> list[bytes]:
        return [self.wrapped.token_bytes(i) for i in range(self.vocabulary_size)]

    @property
    def name(self) -> str:
        """The name that tables print."""
        return self.wrapped.name

    @property
    def vocabulary_size(self) -> int:
        """That of the tokenizer within."""
        return self.wrapped.vocabulary_size

    @property
    def specials(self) -> Specials:
        """Those of the tokenizer within."""
        return self.wrapped.specials

    @property
    def lossless(self) -> bool:
        """Whether the tokenizer within is."""
        return self.wrapped.lossless

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The ids of a text. Raises ValueError where the tokenizer within does."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """`encode` of each text, in order, on all cores. Raises what it does."""
        given = [normalized(characters(text), self._steps) for text in texts]
        found = self._fast.encode_batch_fast(given, add_special_tokens=False)
        disputed = self._disputed.among(set().union(*(text for text in given if not text.isascii())))
        return [
            self.wrapped.encode(text) if disputed and not disputed.isdisjoint(cleaned) else np.array(fast.ids, np.int32)
            for text, cleaned, fast in zip(texts, given, found, strict=True)
        ]

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and the places by the lengths of the pieces; where a text does not come back, at the speed of the wrapped.

        The library's own offsets count characters, so that they cannot say where a piece ends inside one.
        """
        if not self.lossless:
            return self.wrapped.encode_with_offsets(text)
        ids = self.encode(text)
        places = offsets(ids, self._pieces)
        if places[-1:, 1].sum() > len(utf8(text)):  # the pieces have a dummy prefix, which is no part of the text
            return self.wrapped.encode_with_offsets(text)
        return ids, places

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of the ids. Raises what the tokenizer within does."""
        return self.wrapped.decode(ids)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one id. Raises what the tokenizer within does."""
        return self.wrapped.token_bytes(token)

    def definition(self) -> dict[str, Any]:
        """That of the tokenizer within."""
        return self.wrapped.definition()

    def digest(self) -> str:
        """That of the tokenizer within: the ids are equal."""
        return self.wrapped.digest()


def quickest(tokenizer: Tokenizer) -> Tokenizer:
    """A FastTokenizer of the tokenizer where that has the same ids and is quicker, and itself where not.

    Itself are those of which the library has no equal form; those with a pattern of one's own, which the library's engine may
    read in another way; and characters, which an array finds 40 times as fast. Definition and digest stay the same.

    What is gained is that the library divides a batch among all cores without further processes. On one core only unigram
    tokenizers gain; on two, a corpus takes as long either way (BPE 8k, three rounds: 0.98 to 1.08 of the library's own time
    by the library, 0.91 to 1.06 by processes of ours).
    """
    if isinstance(tokenizer, CharacterTokenizer) or tokenizer.definition().get("pattern") not in (None, *PATTERNS):
        return tokenizer
    try:
        return FastTokenizer(tokenizer)
    except ValueError:
        return tokenizer
