"""Which tokenizer is trained on the training text, and read with."""

from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen
from leadline.tokenization.normalization import Step

Size = Annotated[int, Field(ge=8, le=2**20)]


class Words(Frozen):
    """Word level: the words of the training text, the most frequent where there are more than fit; others are UNK."""

    kind: Literal["word"] = "word"
    vocabulary: Size
    pattern: str = "words"
    normalization: tuple[Step, ...] = ()


class Characters(Frozen):
    """The characters of the training text; others are UNK."""

    kind: Literal["character"] = "character"
    vocabulary: Size
    normalization: tuple[Step, ...] = ()


class Bpe(Frozen):
    """Byte-pair encoding, of bytes (every text is known) or of characters with an end-of-word marker."""

    kind: Literal["bpe"] = "bpe"
    vocabulary: Size
    alphabet: Literal["bytes", "characters"] = "bytes"
    pattern: str = "gpt4"
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()


class WordPiece(Frozen):
    """WordPiece by one of the three criteria of `tokenization/wordpiece/training.py`; libraries train by frequency."""

    kind: Literal["wordpiece"] = "wordpiece"
    vocabulary: Size
    criterion: Literal["frequency", "ratio", "likelihood_gain"] = "ratio"
    pattern: str = "words"
    normalization: tuple[Step, ...] = ()


class Unigram(Frozen):
    """A unigram model over pieces, trained by EM and pruned to its size; characters that it has not seen become bytes."""

    kind: Literal["unigram"] = "unigram"
    vocabulary: Size
    byte_fallback: bool = True
    pattern: str = "gpt4"
    normalization: tuple[Step, ...] = ()


TokenizerConfig = Annotated[Words | Characters | Bpe | WordPiece | Unigram, Field(discriminator="kind")]
