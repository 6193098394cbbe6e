"""The optimiser and its schedule."""

from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen, Positive, Share


class Constant(Frozen):
    """The peak, to the end."""

    kind: Literal["constant"] = "constant"


class Cosine(Frozen):
    """Falls to `final` times the peak along half a cosine."""

    kind: Literal["cosine"] = "cosine"
    final: Share = 0.0  # learning rate at the end, as a share of the peak


class WarmupStableDecay(Frozen):
    """Constant, then falls linearly to 0 over the last `decay` share of the steps, or over all after the warm-up if fewer."""

    kind: Literal["wsd"] = "wsd"
    decay: float = Field(default=0.2, gt=0, le=1)  # share of the steps


class InverseSquareRoot(Frozen):
    """The peak times sqrt(`after` / step) after that step (Vaswani et al. 2017)."""

    kind: Literal["inverse_square_root"] = "inverse_square_root"
    after: Positive | None = None  # steps; absent: those of the warm-up


Schedule = Annotated[Constant | Cosine | WarmupStableDecay | InverseSquareRoot, Field(discriminator="kind")]


class AdamW(Frozen):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"


class Sgd(Frozen):
    """Gradient descent with momentum."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.9, ge=0, lt=1)  # of the gradient


class Muon(Frozen):
    """Orthogonalised momentum (Jordan et al. 2024) for the matrices of the blocks; NAdam, with the same decay, for the rest.

    Each head is a part of a matrix, and each expert has its own. The router of experts is among the rest.
    """

    kind: Literal["muon"] = "muon"
    momentum: float = Field(default=0.95, ge=0, lt=1)  # of the gradient


Optimizer = Annotated[AdamW | Sgd | Muon, Field(discriminator="kind")]


class TrainConfig(Frozen):
    """How a model is trained."""

    steps: int = Field(gt=0, lt=2**31)  # number of updates
    batch: Positive  # windows of an update
    learning_rate: float = Field(gt=0)  # its peak
    optimizer: Optimizer = AdamW()  # what turns gradients into updates
    schedule: Schedule = Constant()  # of the learning rate, after the warm-up
    warmup: int = Field(default=50, ge=0)  # steps of linear warm-up
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)  # share of a target's probability that all ids have together
    weight_decay: float = Field(default=0.1, ge=0)  # of all weights but norms, logits, and logarithms and angles of encodings
    beta1: float = Field(default=0.9, ge=0, lt=1)  # of Adam
    beta2: float = Field(default=0.95, ge=0, lt=1)  # of Adam
    epsilon: float = Field(default=1e-8, gt=0)  # of Adam
    clip: float = Field(default=1.0, gt=0)  # largest global norm of the gradient
    diverged: float = Field(default=3.0, gt=1)  # a loss above this many times ln(vocabulary) ends the arm
    checkpoint_every: int = Field(default=0, ge=0)  # steps; 0: only at the end and when interrupted
