"""What is measured of trained models: curves along the way, and at the end each of the tables below that is given."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen, Positive
from leadline.experiments.config.data import Texts
from leadline.experiments.config.scaling import Extension

# Queries and norms count from this position on: earlier queries see too few keys to show where a head rests.
START = 8
Lengths = Annotated[tuple[Positive, ...], Field(min_length=1)]


class SinkRate(Frozen):
    """Sink_k^ε of Gu et al. 2025: share of heads that give token k more than ε of their attention, at T = length."""

    token: Positive = 1  # k, counted from 1
    epsilon: float = Field(default=0.3, gt=0, lt=1)  # ε
    length: Positive = 64  # tokens of a text

    def problems(self) -> Iterator[str]:
        if self.token > self.length:
            yield f"token {self.token} is not within a text of length {self.length}"


class AblationMeasure(Frozen):
    """Layer statistics, interventions and the attention map, on whole windows of the training length."""

    hidden: tuple[Positive, ...] = (1, 4)  # first tokens that are hidden from all others, one case each
    map: Positive = 32  # tokens of the attention map


class PerplexityMeasure(Frozen):
    """Perplexity of held-out text by evaluation length, protocol and context extension."""

    lengths: Lengths  # tokens of a window
    windows: Positive = 256  # number of windows at each length
    stride: Positive | None = None  # targets that count in each window; absent: all, and windows do not overlap
    last: Positive = 64  # positions at the end of a window whose perplexity is given by itself
    extensions: tuple[Extension, ...] = ()  # of the context, besides the model as it was trained


class RetrievalMeasure(Frozen):
    """Accuracy of each task by length and depth."""

    lengths: Lengths  # tokens of a row
    depths: int = Field(default=16, ge=8)  # depths at each length, or sizes of copy and addition
    rows: Positive = 16  # of each task at each depth


class RecallMeasure(Frozen):
    """Perplexity of text, and recall by distance, at every length."""

    lengths: Annotated[tuple[Annotated[int, Field(ge=4, multiple_of=2)], ...], Field(min_length=1)]  # tokens of a row
    windows: Positive = 256  # of text
    rows: Positive = 512  # of recall
    last: Positive = 32  # positions at the end of a window whose perplexity is given by itself


class TransductionMeasure(Frozen):
    """Accuracy of whole answers by the size of the string or number."""

    sizes: Annotated[tuple[Positive, ...], Field(min_length=1)]  # symbols, or digits; those above data.size are longer rows
    rows: Positive = 256  # of each size


class GridMeasure(Frozen):
    """Accuracy by direction, on the grid of the training and on larger ones."""

    # times the sizes of data.sizes: [1, 2] is a grid of rows and columns that is twice as wide
    factors: Annotated[tuple[tuple[Positive, ...], ...], Field(min_length=1)]
    rows: Positive = 64  # pictures of each size


class StreamingMeasure(Frozen):
    """One stream of held-out text through a cache that keeps its initial tokens and its newest ones (Xiao et al. 2024)."""

    tokens: Positive  # of the stream
    # entries, initial tokens included: 4 of them leave a window of cache - 4; absent: as many as the training length
    cache: Positive | None = None
    # numbers of initial tokens, one stream each
    initial_tokens: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0, 1, 2, 4, 8), min_length=1)
    # numbers of initial tokens that are measured again with the positions of the text
    text_positions: tuple[Positive, ...] = (4,)
    full_attention: Positive = 4096  # first tokens of the stream, read with full attention too
    # most tokens of a half-octave of stream positions that are read again, each by a fresh pass over the last cache tokens
    recomputed: Positive = 2048
    stride: Positive = 16  # tokens that share such a pass, so that each has a context of more than cache - stride tokens


class VocabularyMeasure(Frozen):
    """Bits per byte of the same held-out bytes, whatever the vocabulary, and how the vocabulary is used."""

    bytes: Positive = 262144  # of held-out text


class FrequencyMeasure(Frozen):
    """Embeddings and loss by how often an id occurs in the training text, in bins of equally many ids."""

    bins: int = Field(default=8, ge=2)  # quantiles of the ids, the rarest first
    windows: Positive = 1024  # held-out windows of the training length that the loss is of


class InputsMeasure(Frozen):
    """Sinks of natural text, of random tokens and of one token repeated, each with BOS in front and without (Gu et al. 2025).

    Texts have measure.sink.length tokens, BOS included.
    """

    sequences: Positive = 100  # of each kind of input


class ContextMeasure(Frozen):
    """Sinks, attention and massive activations on a few long windows (Sun et al. 2024), in memory linear in their length."""

    lengths: Lengths | None = None  # tokens of a window; absent: the training length
    windows: Positive = 2  # at each length
    largest: Positive = 3  # activations of a layer whose channels and positions are given


class InterventionsMeasure(Frozen):
    """Loss gained by interventions on short windows, and the predictions that are decoded after each layer."""

    length: Positive = 256  # tokens of a window
    windows: Positive = 16  # number of windows
    hidden: tuple[Positive, ...] = (1, 4)  # first tokens that are hidden from all others, one case each
    heads: bool = False  # each head is removed by itself too: one case each


Prompt = Literal["passkey", "key_value"]
LONGEST_ANSWER = 8  # tokens of an answer to a prompt, " 12345", whatever the vocabulary: one token a byte, and more


class PromptsMeasure(Frozen):
    """Retrieval in words: a passkey among other sentences, and one of many numbered things, each at several depths."""

    tasks: tuple[Prompt, ...] = Field(default=("passkey", "key_value"), min_length=1)  # what is asked for
    lengths: Lengths = (1024,)  # tokens of a prompt, without its answer
    depths: int = Field(default=5, ge=2)  # depths at each length, from the beginning to the end
    rows: Positive = 4  # of each task at each depth


class LanguagesMeasure(Frozen):
    """Tokens by language of the model's tokenizer, on parallel texts."""

    texts: Texts = "embedded"  # "embedded", or files and folders, one file per language
    reference: str = "eng"  # the language that others are measured against


class Measure(Frozen):
    """The curves, and each measurement at the end that has a table: [measure.ablation], [measure.perplexity] …"""

    every: Positive = 100  # steps between points of the curves
    windows: Positive = 256  # held-out windows, or sequences of a task, of each point and of the final numbers
    sink: SinkRate = SinkRate()  # the sink rate of the curves and of the final numbers
    ablation: AblationMeasure | None = None  # layer statistics and interventions; absent: not measured, as for the tables below
    perplexity: PerplexityMeasure | None = None  # by length, protocol and extension
    retrieval: RetrievalMeasure | None = None  # by length and depth
    recall: RecallMeasure | None = None  # by length and distance
    transduction: TransductionMeasure | None = None  # by size
    grid: GridMeasure | None = None  # by size of the grid
    streaming: StreamingMeasure | None = None  # of one long stream
    vocabulary: VocabularyMeasure | None = None  # bits per byte
    frequency: FrequencyMeasure | None = None  # embeddings and loss by the frequency of an id
    inputs: InputsMeasure | None = None  # sinks by kind of input, with BOS and without
    context: ContextMeasure | None = None  # sinks and massive activations of long windows
    interventions: InterventionsMeasure | None = None  # what the loss gains by them
    prompts: PromptsMeasure | None = None  # retrieval in words
    languages: LanguagesMeasure | None = None  # tokens by language
    # measurements from elsewhere, as "module:function" (leadline.experiments.measure.kinds.plugin)
    functions: tuple[str, ...] = ()
