"""A model: its sizes and which mechanisms it has.

Sinks, normalizers and gates are in config/attention.py, position encodings in config/position.py.
"""

import itertools
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.attention import (
    AnyGate,
    Clipped,
    Gate,
    KeyBias,
    LearnedSink,
    NoGate,
    Normalizer,
    NoSink,
    Sink,
    SinkLogit,
    Softmax,
)
from leadline.experiments.config.base import Frozen, Positive
from leadline.experiments.config.encoding import Heads, RotationLayout
from leadline.experiments.config.position import Axial, LearnedPositions, Nope, Pope, Position, Rope, Sinusoidal, XPos
from leadline.experiments.config.position_bias import T5, Alibi

# Position encodings that some layers may have and others not, since they are rows of the tables alone.
BY_LAYER = Rope | Axial | XPos | Alibi | Nope
# Beyond this the number of weights of a matrix has no place in 64 bits.
Channels = Annotated[int, Field(gt=0, le=2**24)]


class Encoder(Frozen):
    """An encoder, whose output the decoder sees by cross-attention (Vaswani et al. 2017); its blocks are as the decoder's."""

    layers: int = Field(default=0, ge=0)  # number of blocks; 0: a decoder alone
    shared_embedding: bool = True  # it has the embedding of the decoder; with `tied`, one matrix in three places


class ModelConfig(Frozen):
    """The sizes and mechanisms of a model."""

    layers: Positive = 2  # number of blocks, of the decoder where there is an encoder
    encoder: Encoder = Encoder()  # of the sources of data.kind = "transduction"
    width: Channels = 128  # channels of the residual stream
    heads: Positive = 4  # query heads of a layer
    kv_heads: Positive | None = None  # key and value heads, shared by the query heads (GQA); absent: as many as heads
    head_dim: Channels | None = None  # channels of a head; absent: width / heads
    hidden: Channels | None = None  # channels of the feed-forward layer; absent: 4 · width
    norm: Literal["rms", "layer"] = "rms"  # RMSNorm or LayerNorm
    norm_epsilon: float | None = Field(default=None, gt=0)  # ε of the norms; absent: 1e-6 of RMSNorm, 1e-5 of LayerNorm
    zero_centered_norm: bool = False  # norms multiply by 1 + weight, as those of Gemma
    # before each sublayer; after its residual sum; before and after it; after it only; or before two parallel sublayers,
    # which have a norm each or share one
    norm_placement: Literal["pre", "post", "sandwich", "reordered", "parallel", "parallel_one_norm"] = "pre"
    # the form of the feed-forward layer
    feedforward: Literal["swiglu", "geglu_tanh", "swiglu_clamped", "gelu", "gelu_tanh", "relu"] = "swiglu"
    experts: Positive | None = None  # networks of a feed-forward layer, between which a router chooses; absent: one for all
    active_experts: Positive = 1  # experts that each token goes through
    biases: tuple[Literal["query", "key", "value", "output", "feedforward"], ...] = ()  # products that have a bias
    position: Position  # the position encoding
    normalizer: Normalizer = Softmax()  # what turns scores into the weights of the values
    sink: Sink = NoSink()  # what joins the scores without a token: an extra logit, or a learned key
    temperature: float = Field(default=1.0, gt=0)  # by which scores are divided
    soft_cap: float | None = Field(default=None, gt=0)  # c of c · tanh(score / c); absent: none
    qk_norm: bool = False  # RMSNorm of queries and keys
    joint_qk_norm: bool = False  # the RMSNorm is over the channels of all heads together
    clip_qkv: float | None = Field(default=None, gt=0)  # queries, keys and values are clipped to ± this; absent: not
    scalable_softmax: bool = False  # scores times s · ln n for n visible keys, s learned
    gate: AnyGate = NoGate()  # a gate on a part of the attention
    window: Positive | None = None  # newest tokens that a query sees; absent: all
    initial_tokens: Positive | None = None  # first tokens that it sees besides the window; absent: none
    # which layers have the window, repeated to all of them, as in [true, false]; empty: all layers
    windowed: tuple[bool, ...] = ()
    # the position encoding of layers with the window, where both are "rope", "axial", "xpos", "alibi" or "nope"; absent: as in
    # the others
    window_position: Position | None = None
    window_sink: SinkLogit | None = None  # the sink of layers with the window; absent: as in the others
    # the window begins anew every `window` tokens, so that a query sees the tokens of its own chunk (Llama 4)
    chunked: bool = False
    document_mask: bool = False  # attention does not reach across the ends of documents; needs data.kind = "text"
    tied: bool = True  # the unembedding is the embedding
    scaled_embedding: bool = False  # embeddings times sqrt(width)
    embedding_norm: bool = False  # the embeddings are normalised
    # standard deviation, or bound, at which embeddings, learned positions and unembeddings are drawn; absent: 1 / sqrt(width)
    embedding_init_scale: float | None = Field(default=None, gt=0)
    uniform_embedding_init: bool = False  # they are drawn uniformly within ± the scale, and not from a normal distribution
    zero_padding_embedding: bool = False  # the embedding of padding is 0 and is not trained by its look-ups; needs an encoder
    final_norm: bool = True  # a norm stands after the last layer
    final_cap: float | None = Field(default=None, gt=0)  # c of c · tanh(logit / c) of the last logits; absent: none
    unembedding_bias: bool = False  # the unembedding has a bias
    compute_dtype: Literal["float32", "bfloat16"] = "float32"  # of the products; weights are float32

    @property
    def table_rows(self) -> int:
        """Layers of both stacks, those of the encoder first: rows of the position tables."""
        return self.encoder.layers + self.layers

    @property
    def head_width(self) -> int:
        """Channels of a head."""
        return self.head_dim or self.width // self.heads

    @property
    def key_heads(self) -> int:
        """Key and value heads of a layer."""
        return self.kv_heads or self.heads

    @property
    def hidden_width(self) -> int:
        """Channels of the feed-forward layer."""
        return self.hidden or 4 * self.width

    @property
    def with_window(self) -> tuple[bool, ...]:
        """Whether each layer has the window."""
        if self.window is None:
            return (False,) * self.table_rows
        return tuple(itertools.islice(itertools.cycle(self.windowed or (True,)), self.table_rows))

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The sink of each layer."""
        return tuple(self.window_sink if there and self.window_sink else self.sink for there in self.with_window)

    @property
    def untrained_logits(self) -> int:
        """Sink logits that are no parameters: every head of every block has one, and few are trained."""
        return self.heads * sum(not isinstance(sink, LearnedSink) for sink in self.sinks)

    @property
    def attention_heads(self) -> Heads:
        return Heads(self.heads, self.head_width)

    @property
    def positions(self) -> tuple[Position, ...]:
        """The position encodings that it has: of all layers, or of those without and with the window."""
        return (self.position,) if self.window_position is None else (self.position, self.window_position)

    @property
    def rotation_layout(self) -> RotationLayout:
        """How positions rotate pairs of channels, in the layers where they do."""
        return next(
            (position.rotation_layout for position in self.positions if position.rotation_layout is not None), RotationLayout()
        )

    def longest(self, trained: int) -> tuple[float, str]:
        """The most tokens of a text, and what ends there; `trained` is the training length."""
        return min(position.longest(self.attention_heads, trained) for position in self.positions)

    def problems(self) -> Iterator[str]:
        size = self.head_width
        if self.head_dim is None and self.width % self.heads:
            yield f"width {self.width} does not divide into {self.heads} heads: change one, or set head_dim"
        if self.width % 2 and any(isinstance(position, Sinusoidal) for position in self.positions):
            yield f"width {self.width} is odd: sinusoidal positions fill pairs of channels"
        if size % 2:
            yield f"the head dimension {size} is odd: channels come in pairs"
        if self.initial_tokens is not None and self.window is None:
            yield f"initial_tokens = {self.initial_tokens}: without a window every token is seen; set window, or leave it out"
        if self.windowed and self.window is None:
            yield f"windowed = {list(self.windowed)} says which layers have a window: set window, or leave it out"
        for name in ("window_position", "window_sink"):
            if getattr(self, name) is not None and not self.windowed:
                yield f"{name} is that of the layers with a window: say which they are, as in windowed = [true, false]"
        if self.chunked and (self.window is None or self.initial_tokens is not None):
            yield "chunked attention sees the tokens of a chunk alone: set window to its size, and leave initial_tokens out"
        if self.experts is not None and self.active_experts > self.experts:
            yield f"active_experts = {self.active_experts} is more than the {self.experts} experts"
        if self.window is not None and self.scalable_softmax:
            yield "scalable_softmax counts all tokens before a query, of which a window hides some: choose one of the two"
        if self.document_mask and self.scalable_softmax:
            yield "scalable_softmax counts all tokens of a row, of which document_mask hides some: choose one of the two"
        if self.joint_qk_norm and not self.qk_norm:
            yield "joint_qk_norm says how queries and keys are normalised: set qk_norm = true"
        if self.kv_heads is not None and self.heads % self.kv_heads:
            yield f"kv_heads {self.kv_heads} does not divide heads {self.heads}"
        for position in self.positions:
            yield from position.misfits(self.attention_heads)
        yield from self._window_position_problems()
        yield from self._encoder_problems()
        yield from self._sink_problems()
        if isinstance(self.gate, Gate) and (dims := self.gate.dims or 0) > self.width:
            yield f"the gate cannot see the first {dims} of {self.width} channels: set dims = {self.width}"

    def _window_position_problems(self) -> Iterator[str]:
        """Layers differ in the rows of the tables alone: all else of a position encoding is compiled into all of them."""
        if self.window_position is None:
            return
        for name, position in (("position", self.position), ("window_position", self.window_position)):
            if not isinstance(position, BY_LAYER):
                yield (
                    f"{name}.kind = {position.kind!r} is of all layers or none: beside a window_position take "
                    '"rope", "axial", "xpos", "alibi" or "nope", or leave window_position out'
                )
        if self.window_position.table_per != self.position.table_per:
            yield "window_position and position need tables of one shape: give both the same scaling.per"
        if len({position.rotation_layout for position in self.positions} - {None}) > 1:
            yield "window_position and position rotate pairs alike: give both the same interleaved, grid and number of sections"

    def _sink_problems(self) -> Iterator[str]:
        sinks = (self.sink,) if self.window_sink is None else (self.sink, self.window_sink)
        sink = next((sink for sink in sinks if not isinstance(sink, NoSink)), None)
        if sink is not None and not isinstance(self.normalizer, Softmax | Clipped):
            yield (
                f"sink {sink.kind!r} stands in the denominator of a softmax, and normalizer {self.normalizer.kind!r} has "
                'none: set sink = { kind = "none" }, or normalizer = { kind = "softmax" } or "clipped"'
            )
        if len({sink.rate if isinstance(sink, LearnedSink) else 0.0 for sink in sinks if not isinstance(sink, NoSink)}) > 1:
            yield "sink and window_sink are trained at one rate, or both are fixed"
        if isinstance(self.sink, KeyBias) and self.window_sink is not None:
            yield f"sink {self.sink.kind!r} is of weights that every layer has: leave window_sink out"
        if isinstance(self.sink, KeyBias) and (self.sink.dims or 0) > self.head_width:
            yield f"sink.dims = {self.sink.dims}: the key has {self.head_width} channels"
        if isinstance(self.position, Pope) and isinstance(self.sink, KeyBias):
            yield 'position "pope" cannot have a key bias: set another position, or another sink'

    def _encoder_problems(self) -> Iterator[str]:
        if not self.encoder.layers:
            if self.zero_padding_embedding:
                yield "zero_padding_embedding: id 0 is padding beside an encoder alone; leave it out, or set encoder.layers"
            return
        if not isinstance(self.position, Sinusoidal | LearnedPositions | T5 | Nope):
            yield f'an encoder has no position {self.position.kind!r}: take "sinusoidal", "learned", "t5" or "nope"'
        if isinstance(self.position, T5) and (self.position.buckets < 4 or self.position.buckets % 2):
            yield f"an encoder has half of the buckets for each direction: {self.position.buckets} must be even, and 4 or more"
        if isinstance(self.position, LearnedPositions) and self.position.capacity is not None:
            yield "with an encoder, learned positions end with the longest source: leave position.capacity out"
        if self.norm_placement not in ("pre", "post", "reordered"):
            yield f'with an encoder, norm_placement is "pre", "post" or "reordered", not {self.norm_placement!r}'
        if self.window is not None:
            yield f"window = {self.window}: an encoder sees the whole source; leave window out"
