"""The optimiser and its schedule."""

from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen, Positive, Share


class Constant(Frozen):
    kind: Literal["constant"] = "constant"


class Cosine(Frozen):
    """Falls to `final` times the peak along half a cosine."""

    kind: Literal["cosine"] = "cosine"
    final: Share = 0.0


class WarmupStableDecay(Frozen):
    """Constant, then falls linearly to 0 over the last `decay` share of the steps."""

    kind: Literal["wsd"] = "wsd"
    decay: float = Field(default=0.2, gt=0, le=1)


Schedule = Annotated[Constant | Cosine | WarmupStableDecay, Field(discriminator="kind")]


class AdamW(Frozen):
    kind: Literal["adamw"] = "adamw"


class Sgd(Frozen):
    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.9, ge=0, lt=1)


class Muon(Frozen):
    """Of the blocks' matrices; NAdam, with the same decay, trains the rest."""

    kind: Literal["muon"] = "muon"
    momentum: float = Field(default=0.95, ge=0, lt=1)


Optimizer = Annotated[AdamW | Sgd | Muon, Field(discriminator="kind")]


class TrainConfig(Frozen):
    steps: int = Field(gt=0, lt=2**31)
    batch: Positive
    learning_rate: float = Field(gt=0)
    optimizer: Optimizer = AdamW()
    schedule: Schedule = Constant()
    warmup: int = Field(default=50, ge=0)  # steps of linear warm-up
    weight_decay: float = Field(default=0.1, ge=0)  # of matrices; norms, logits and scales never decay
    beta1: float = Field(default=0.9, ge=0, lt=1)  # beta1, beta2 and epsilon are Adam's
    beta2: float = Field(default=0.95, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0)
    clip: float = Field(default=1.0, gt=0)  # largest global norm of the gradient
    diverged: float = Field(default=3.0, gt=1)  # a loss above this many times ln(vocabulary) ends the arm
    checkpoint_every: int = Field(default=0, ge=0)  # steps; 0: at the end and when interrupted
