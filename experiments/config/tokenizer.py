"""Which tokenizer text is read with: one that is trained on the training text, or a published one."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen, Positive
from leadline.tokenization.normalization import Step

Size = Annotated[int, Field(ge=8, le=2**20)]


class Words(Frozen):
    """Word level: the words of the training text, the most frequent where there are more than fit; others are UNK."""

    kind: Literal["word"] = "word"
    vocabulary: Size  # ids, specials included
    pattern: str = "words"  # cuts text into words: the name of a pattern, or a regular expression
    normalization: tuple[Step, ...] = ()  # steps before the text is cut


class Characters(Frozen):
    """The characters of the training text; others are UNK, or their bytes."""

    kind: Literal["character"] = "character"
    vocabulary: Size  # ids, specials included
    byte_fallback: bool = False  # unknown characters become bytes, instead of UNK
    normalization: tuple[Step, ...] = ()  # steps before the text is cut


class Bpe(Frozen):
    """Byte-pair encoding, of bytes (every text is known) or of characters with an end-of-word marker."""

    kind: Literal["bpe"] = "bpe"
    vocabulary: Size  # ids, specials included
    alphabet: Literal["bytes", "characters"] = "bytes"  # what merges begin with
    pattern: str = "gpt4"  # cuts text into words: the name of a pattern, or a regular expression
    single_digits: bool = False  # every digit is a word of its own
    normalization: tuple[Step, ...] = ()  # steps before the text is cut
    # share of the merges that are left out at random where training text is encoded (Provilkov et al. 2020)
    dropout: float = Field(default=0.0, ge=0, le=1)
    encodings: Positive = 1  # of the training text with dropout

    @property
    def at_random(self) -> bool:
        return self.dropout > 0

    def problems(self) -> Iterator[str]:
        if self.encodings > 1 and not self.dropout:
            yield f"encodings = {self.encodings} are all the same without dropout; set dropout, or leave encodings out"


class WordPiece(Frozen):
    """WordPiece by one of the three criteria of `tokenization/wordpiece/training.py`; libraries train by frequency."""

    kind: Literal["wordpiece"] = "wordpiece"
    vocabulary: Size  # ids, specials included
    criterion: Literal["frequency", "ratio", "likelihood_gain"] = "ratio"  # which pair is joined next
    byte_fallback: bool = False  # characters that match no piece become bytes, instead of words UNK
    pattern: str = "words"  # cuts text into words: the name of a pattern, or a regular expression
    normalization: tuple[Step, ...] = ()  # steps before the text is cut


class Unigram(Frozen):
    """A unigram model over pieces, trained by EM and pruned to its size; characters that it has not seen become bytes."""

    kind: Literal["unigram"] = "unigram"
    vocabulary: Size  # ids, specials included
    byte_fallback: bool = True  # unknown characters become bytes, instead of UNK
    pattern: str = "gpt4"  # cuts text into words: the name of a pattern, or a regular expression
    normalization: tuple[Step, ...] = ()  # steps before the text is cut
    # training text is cut at random, each segmentation x as likely as P(x)^sampling (alpha of Kudo 2018); absent: the best one
    sampling: float | None = Field(default=None, ge=0)
    encodings: Positive = 1  # of the training text with sampling

    @property
    def at_random(self) -> bool:
        return self.sampling is not None

    def problems(self) -> Iterator[str]:
        if self.encodings > 1 and self.sampling is None:
            yield f"encodings = {self.encodings} are all the same without sampling; set sampling, or leave encodings out"


class PublishedSource(Frozen):
    """A tokenizer that exists: it is not trained."""

    kind: Literal["published"] = "published"
    source: str  # a tokenizer.json, a folder with one, or another tokenizer as `leadline tokens --tokenizer` has it
    vocabulary: Size | None = None  # ids of the model, at least those of the tokenizer; absent: as many


TrainedConfig = Annotated[Words | Characters | Bpe | WordPiece | Unigram, Field(discriminator="kind")]
TokenizerConfig = Annotated[Words | Characters | Bpe | WordPiece | Unigram | PublishedSource, Field(discriminator="kind")]
