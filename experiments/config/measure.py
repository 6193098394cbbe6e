"""What a study measures, of how much, and how often."""

from typing import Annotated

from pydantic import Field, model_validator

from experiments.config.base import Frozen, Positive
from experiments.config.scaling import Extension


class SinkRate(Frozen):
    """Sink_k^ε of Gu et al. 2025: share of heads that give token k more than ε of their attention, at T = length."""

    token: Positive = 1
    epsilon: float = Field(default=0.3, gt=0, lt=1)
    length: Positive = 64

    @model_validator(mode="after")
    def _token_is_in_the_text(self) -> "SinkRate":
        if self.token > self.length:
            raise ValueError(f"token {self.token} is not within a text of length {self.length}")
        return self


class SinksMeasure(Frozen):
    every: Positive = 50  # steps between points of the curves
    sequences: Positive = 256
    sink: SinkRate = SinkRate()


class ExtrapolationMeasure(Frozen):
    """Windows do not overlap, or with a stride they slide: of each one after the first only its last tokens count."""

    every: Positive = 100
    sequences: Positive = 100  # of sink.length tokens, for the sinks
    tokens: Positive = 65536  # held-out tokens that each perplexity is measured on
    lengths: tuple[Positive, ...] = Field(min_length=1)
    stride: Positive | None = None  # tokens from one window to the next; absent: the whole window
    last: Positive = 64
    extensions: tuple[Extension, ...] = Field(default=("none",), min_length=1)
    sink: SinkRate = SinkRate()


class AnatomyMeasure(Frozen):
    """Of a language model at its training length: sinks along the way, and the whole anatomy at the end."""

    every: Positive = 100
    sequences: Positive = 64  # of sink.length tokens, for the curves
    tokens: Positive = 32768  # held-out tokens that the anatomy, and the loss with it, is measured on
    hidden: tuple[Positive, ...] = (1, 4)  # first tokens that are hidden from all others, one case each
    map: Positive = 32  # tokens of the attention map
    sink: SinkRate = SinkRate()


class RetrievalMeasure(Frozen):
    """At every length each task is asked `rows` times at each of `depths` depths, or sizes of copy and addition."""

    every: Positive = 250
    sequences: Positive = 512  # of the mixture, for the curves
    lengths: tuple[Positive, ...] = Field(min_length=1)
    depths: int = Field(default=16, ge=8)
    rows: Positive = 16


class BaseLengthMeasure(Frozen):
    """At every length, which has to be that of training for one of them: perplexity of text and recall by distance."""

    every: Positive = 100
    sequences: Positive = 64  # of text, and as many of recall, for the curves
    tokens: Positive = 65536  # held-out tokens that each perplexity is measured on
    rows: Positive = 512  # of recall that each accuracy is measured on
    lengths: tuple[Annotated[int, Field(ge=4, multiple_of=2)], ...] = Field(min_length=1)
    last: Positive = 32


class StreamingMeasure(Frozen):
    """One stream of held-out text through a cache that keeps its first tokens and its newest ones (model/streaming.py).

    `cache` counts both, as Xiao et al. 2024 do: 4 kept tokens leave a window of cache - 4. `in_text` are numbers of kept tokens
    that are measured again without re-indexing: with the positions that they have in the text. Of every half-octave of stream
    positions at most `recomputed` tokens are read again, each by a fresh pass over the last `cache` tokens up to it; one pass
    serves `stride` of them, so that each has a context of more than cache - stride tokens.
    """

    every: Positive = 100
    sequences: Positive = 100  # of sink.length tokens, for the curves
    tokens: Positive  # of the stream
    cache: Positive | None = None  # entries; absent: as many as the training length
    kept: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0, 1, 2, 4, 8), min_length=1)
    in_text: tuple[Positive, ...] = (4,)
    dense: Positive = 4096  # first tokens of the stream, read with full attention too
    recomputed: Positive = 2048
    stride: Positive = 16
    sink: SinkRate = SinkRate()


class VocabularyMeasure(Frozen):
    """Of models with vocabularies of their own: everything on the same held-out bytes."""

    every: Positive = 100
    sequences: Positive = 64  # windows of the training length, for the curves
    bytes: Positive = 262144  # held-out text that the final bits per byte are measured on
