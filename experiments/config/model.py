"""A model: its sizes and its mechanisms."""

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from experiments.config.base import Frozen, Positive
from experiments.config.position import Position, check_position

# The extra softmax logit (model/softmax.py) and the gates (model/gating.py).


class NoSink(Frozen):
    kind: Literal["none"] = "none"


class FixedSink(Frozen):
    """Logit 0 is the softmax off by one, -inf the plain softmax."""

    kind: Literal["fixed"] = "fixed"
    logit: float = Field(lt=math.inf, allow_inf_nan=True)


class LearnedSink(Frozen):
    kind: Literal["learned"] = "learned"
    logit: float = 0.0  # at the start of training


Sink = Annotated[NoSink | FixedSink | LearnedSink, Field(discriminator="kind")]


class NoGate(Frozen):
    kind: Literal["none"] = "none"


class OutputGate(Frozen):
    kind: Literal["output"] = "output"
    per: Literal["head", "channel"]


class ValueGate(Frozen):
    kind: Literal["value"] = "value"
    per: Literal["head", "channel"]


GateConfig = Annotated[NoGate | OutputGate | ValueGate, Field(discriminator="kind")]


class ModelConfig(Frozen):
    layers: Positive = 2
    width: Positive = 128
    heads: Positive = 4
    kv_heads: Positive | None = None  # absent: as many as heads
    head_dim: Positive | None = None  # absent: width / heads
    hidden: Positive | None = None  # absent: 4 · width
    norm: Literal["rms", "layer"] = "rms"
    feedforward: Literal["swiglu", "gelu", "relu"] = "swiglu"
    position: Position
    sink: Sink = NoSink()
    gate: GateConfig = NoGate()
    window: Positive | None = None  # newest tokens that a query sees; absent: all
    tied: bool = True
    scaled_embedding: bool = False
    compute: Literal["float32", "bfloat16"] = "float32"

    @property
    def head_width(self) -> int:
        """Channels of a head."""
        return self.head_dim or self.width // self.heads

    @model_validator(mode="after")
    def _heads_fit(self) -> "ModelConfig":
        size = self.head_width
        if self.head_dim is None and self.width % self.heads:
            raise ValueError(f"width {self.width} does not divide into {self.heads} heads: change one, or set head_dim")
        if size % 2:
            raise ValueError(f"the head dimension {size} is odd: RoPE rotates pairs")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(f"kv_heads {self.kv_heads} does not divide heads {self.heads}")
        check_position(self.position, size)
        return self
