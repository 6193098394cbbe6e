"""What attention makes of its scores: the normalizer, and what stands in its denominator."""

import math
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen, Positive

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


def check_scores(normalizer: Normalizer, sink: Sink) -> None:
    """ValueError for a sink in the denominator of a normalizer that has none."""
    if not isinstance(sink, NoSink) and not isinstance(normalizer, Softmax | Clipped):
        raise ValueError(
            f"sink {sink.kind!r} stands in the denominator of a softmax, and normalizer {normalizer.kind!r} has none: "
            'set sink = { kind = "none" }, or normalizer = { kind = "softmax" } or "clipped"'
        )
