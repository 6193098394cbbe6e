"""What is measured of trained models: curves along the way, and at the end each of the tables below that is given."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from leadline.experiments.config.base import Frozen, Positive
from leadline.experiments.config.scaling import Extension

Lengths = Annotated[tuple[Positive, ...], Field(min_length=1)]


class SinkRate(Frozen):
    """Sink_k^ε of Gu et al. 2025: share of heads that give token k more than ε of their attention, at T = length."""

    token: Positive = 1
    epsilon: float = Field(default=0.3, gt=0, lt=1)
    length: Positive = 64

    def problems(self) -> Iterator[str]:
        if self.token > self.length:
            yield f"token {self.token} is not within a text of length {self.length}"


class AblationMeasure(Frozen):
    """Layer statistics, interventions and the attention map, on whole windows of the training length."""

    hidden: tuple[Positive, ...] = (1, 4)  # first tokens that are hidden from all others, one case each
    map: Positive = 32  # tokens of the attention map


class PerplexityMeasure(Frozen):
    """Windows do not overlap, or with a stride they slide: only the last `stride` targets of each count."""

    lengths: Lengths
    windows: Positive = 256
    stride: Positive | None = None  # targets that count in each window; absent: all
    last: Positive = 64
    extensions: tuple[Extension, ...] = ()  # of the context, besides the model as it was trained


class RetrievalMeasure(Frozen):
    """At every length each task is asked `rows` times at each of `depths` depths, or sizes of copy and addition."""

    lengths: Lengths
    depths: int = Field(default=16, ge=8)
    rows: Positive = 16


class RecallMeasure(Frozen):
    """Perplexity of text, and recall by distance, at every length."""

    lengths: Annotated[tuple[Annotated[int, Field(ge=4, multiple_of=2)], ...], Field(min_length=1)]
    windows: Positive = 256  # of text
    rows: Positive = 512  # of recall
    last: Positive = 32


class StreamingMeasure(Frozen):
    """One stream of held-out text through a cache that keeps its initial tokens and its newest ones (model/cache/ring.py).

    `cache` counts both, as Xiao et al. 2024 do: 4 initial tokens leave a window of cache - 4. `text_positions` are numbers of
    initial tokens that are measured again with the positions of the text. Of every half-octave of stream positions at most
    `recomputed` tokens are read again, each by a fresh pass over the last `cache` tokens up to it; one pass serves `stride` of
    them, so that each has a context of more than cache - stride tokens.
    """

    tokens: Positive  # of the stream
    cache: Positive | None = None  # entries; absent: as many as the training length
    initial_tokens: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0, 1, 2, 4, 8), min_length=1)
    text_positions: tuple[Positive, ...] = (4,)
    full_attention: Positive = 4096  # first tokens of the stream, read with full attention too
    recomputed: Positive = 2048
    stride: Positive = 16


class VocabularyMeasure(Frozen):
    """Bits per byte of the same held-out bytes, whatever the vocabulary, and how the vocabulary is used."""

    bytes: Positive = 262144


class Measure(Frozen):
    """The curves, and each measurement at the end that has a table: [measure.ablation], [measure.perplexity] …

    `functions` are measurements from elsewhere, as `module:function` (leadline.experiments.measure.kinds.plugin).
    """

    every: Positive = 100  # steps between points of the curves
    windows: Positive = 256  # held-out windows, or sequences of a task, of each point and of the final numbers
    sink: SinkRate = SinkRate()
    ablation: AblationMeasure | None = None
    perplexity: PerplexityMeasure | None = None
    retrieval: RetrievalMeasure | None = None
    recall: RecallMeasure | None = None
    streaming: StreamingMeasure | None = None
    vocabulary: VocabularyMeasure | None = None
    functions: tuple[str, ...] = ()
