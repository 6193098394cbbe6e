"""What attention makes of its scores: the kernel, and what stands in its denominator."""

import math
from typing import Annotated, Literal

from pydantic import Field

from experiments.config.base import Frozen, Positive

# The extra softmax logit (model/kernels/softmax.py).


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


class RowSink(Frozen):
    """A learned row before the first token: a key for each head, and a value or none (K and KV biases)."""

    kind: Literal["row"] = "row"
    value: bool = False
    dims: Positive | None = None  # the first channels of the key, which are learned while the others are 0; absent: all


Sink = Annotated[NoSink | FixedSink | LearnedSink | RowSink, Field(discriminator="kind")]

# The kernels (model/kernels).


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


KernelConfig = Annotated[Softmax | Clipped | Softpick | Relu | Sigmoid, Field(discriminator="kind")]


def check_scores(kernel: KernelConfig, sink: Sink) -> None:
    """ValueError for a sink in the denominator of a kernel that has none."""
    if not isinstance(sink, NoSink) and not isinstance(kernel, Softmax | Clipped):
        raise ValueError(
            f"sink {sink.kind!r} stands in the denominator of a softmax, and kernel {kernel.kind!r} has none: "
            'set sink = { kind = "none" }, or kernel = { kind = "softmax" } or "clipped"'
        )
