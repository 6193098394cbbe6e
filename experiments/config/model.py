"""A model: its sizes, and its mechanisms besides the positions."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen, Positive
from leadline.experiments.config.position import Heads, Pope, Position

# The sink logit (leadline.model.attention.normalizers).


class NoSink(Frozen):
    kind: Literal["none"] = "none"


class FixedSink(Frozen):
    """Logit 0 is the softmax off by one, -inf the plain softmax."""

    kind: Literal["fixed"] = "fixed"
    logit: float = Field(lt=math.inf, allow_inf_nan=True)


class LearnedSink(Frozen):
    kind: Literal["learned"] = "learned"
    logit: float = 0.0  # at the start of training
    rate: float = Field(default=1.0, gt=0)  # times the learning rate of the other weights


class KeyBias(Frozen):
    """A learned key for each head before the first token, with a learned value or with value 0 (Gu et al. 2025)."""

    kind: Literal["key_bias", "key_value_bias"]
    dims: Positive | None = None  # first channels of the key that are learned, the others being 0; absent: all


Sink = Annotated[NoSink | FixedSink | LearnedSink | KeyBias, Field(discriminator="kind")]

# The normalizers (leadline.model.attention.normalizers).


class Softmax(Frozen):
    kind: Literal["softmax"] = "softmax"


class Clipped(Frozen):
    kind: Literal["clipped"] = "clipped"
    low: float = Field(default=-0.03, le=0)
    high: float = Field(default=1.0, ge=1)


class Softpick(Frozen):
    kind: Literal["softpick"] = "softpick"


class Relu(Frozen):
    kind: Literal["relu"] = "relu"
    by: Literal["one", "keys", "sum"] = "keys"  # what the weights are divided by


class Sigmoid(Frozen):
    kind: Literal["sigmoid"] = "sigmoid"
    bias: float | None = None  # absent: minus the logarithm of the training length
    normalised: bool = False


Normalizer = Annotated[Softmax | Clipped | Softpick | Relu | Sigmoid, Field(discriminator="kind")]


# The gates (leadline.model.attention.gate).


class NoGate(Frozen):
    kind: Literal["none"] = "none"


class Gate(Frozen):
    """low + (high - low) · σ(…) times what it gates, for each `per`."""

    kind: Literal["output", "value", "key", "query", "projection"]
    per: Literal["head", "channel", "shared"]
    activation: Literal["sigmoid", "silu", "tanh"] = "sigmoid"
    dims: Positive | None = None  # the first channels of the layer input that it sees; absent: all
    static: bool = False  # it sees no input
    zero: bool = False  # its weights start at 0; with high = 2 it starts as no gate
    low: float = 0.0
    high: float = 1.0

    def problems(self) -> Iterator[str]:
        if self.kind == "projection" and self.per != "channel":
            yield f'a gate on the projection has per = "channel", not {self.per!r}: there are no heads behind it'
        if self.static and self.dims is not None:
            yield f"a static gate sees no input, so it cannot see the first {self.dims} channels: leave dims out"


AnyGate = Annotated[NoGate | Gate, Field(discriminator="kind")]


class ModelConfig(Frozen):
    layers: Positive = 2
    width: Positive = 128
    heads: Positive = 4
    kv_heads: Positive | None = None  # absent: as many as heads
    head_dim: Positive | None = None  # absent: width / heads
    hidden: Positive | None = None  # absent: 4 · width
    norm: Literal["rms", "layer"] = "rms"
    norm_placement: Literal["pre", "post", "sandwich"] = "pre"
    feedforward: Literal["swiglu", "gelu", "relu"] = "swiglu"
    position: Position
    normalizer: Normalizer = Softmax()
    sink: Sink = NoSink()
    temperature: float = Field(default=1.0, gt=0)  # of the scores
    soft_cap: float | None = Field(default=None, gt=0)  # c of c · tanh(score / c)
    qk_norm: bool = False  # RMSNorm of queries and keys
    scalable_softmax: bool = False  # scores times s · ln n, s learned
    gate: AnyGate = NoGate()
    window: Positive | None = None  # newest tokens that a query sees; absent: all
    initial_tokens: Positive | None = None  # first tokens that it sees besides; absent: none
    tied: bool = True
    scaled_embedding: bool = False
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    @property
    def head_width(self) -> int:
        """Channels of a head."""
        return self.head_dim or self.width // self.heads

    @property
    def attention_heads(self) -> Heads:
        return Heads(self.heads, self.head_width)

    def problems(self) -> Iterator[str]:
        size = self.head_width
        if self.head_dim is None and self.width % self.heads:
            yield f"width {self.width} does not divide into {self.heads} heads: change one, or set head_dim"
        if size % 2:
            yield f"the head dimension {size} is odd: RoPE rotates pairs"
        if self.initial_tokens is not None and self.window is None:
            yield f"initial_tokens = {self.initial_tokens}: without a window every token is seen; set window, or leave it out"
        if self.kv_heads is not None and self.heads % self.kv_heads:
            yield f"kv_heads {self.kv_heads} does not divide heads {self.heads}"
        yield from self.position.misfits(self.attention_heads)
        if not isinstance(self.sink, NoSink) and not isinstance(self.normalizer, Softmax | Clipped):
            yield (
                f"sink {self.sink.kind!r} stands in the denominator of a softmax, and normalizer {self.normalizer.kind!r} has "
                'none: set sink = { kind = "none" }, or normalizer = { kind = "softmax" } or "clipped"'
            )
        if isinstance(self.sink, KeyBias) and (self.sink.dims or 0) > size:
            yield f"sink.dims = {self.sink.dims}: the key has {size} channels"
        if isinstance(self.position, Pope) and isinstance(self.sink, KeyBias):
            yield 'position "pope" cannot have a key bias: set another position, or another sink'
        if isinstance(self.gate, Gate) and (dims := self.gate.dims or 0) > self.width:
            yield f"the gate cannot see the first {dims} of {self.width} channels: set dims = {self.width}"
