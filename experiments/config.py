"""What a TOML file may say: every key, its range and its default. Nothing else in the project knows a default.

Mechanisms are tagged values (`kind`). Every class is frozen and refuses keys that it does not know.
"""

import math
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from experiments.errors import UserError

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)


# Position encodings and the context extensions of RoPE (model/positions).


class NoScaling(Frozen):
    kind: Literal["none"] = "none"


class PositionInterpolation(Frozen):
    kind: Literal["pi"] = "pi"
    factor: float = Field(ge=1)


class NtkAware(Frozen):
    kind: Literal["ntk"] = "ntk"
    factor: float = Field(ge=1)


class Yarn(Frozen):
    """`attention_factor` is the final multiplier of cos and sin; absent, it is 0.1 ln(factor) + 1."""

    kind: Literal["yarn"] = "yarn"
    factor: float = Field(ge=1)
    original_length: Positive | None = None  # absent: the training length
    beta_fast: float = Field(default=32.0, gt=0)
    beta_slow: float = Field(default=1.0, gt=0)
    truncate: bool = True
    attention_factor: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _ramp_has_two_ends(self) -> "Yarn":
        if self.beta_fast <= self.beta_slow:
            raise ValueError(f"beta_fast {self.beta_fast} must be above beta_slow {self.beta_slow}")
        return self


Scaling = Annotated[NoScaling | PositionInterpolation | NtkAware | Yarn, Field(discriminator="kind")]


class Rope(Frozen):
    kind: Literal["rope"] = "rope"
    base: float = Field(gt=0)  # no default: a base that is missing must be noticed
    scaling: Scaling = NoScaling()
    interleaved: bool = False


class Alibi(Frozen):
    kind: Literal["alibi"] = "alibi"


class Nope(Frozen):
    kind: Literal["nope"] = "nope"


class LearnedPositions(Frozen):
    kind: Literal["learned"] = "learned"


Position = Annotated[Rope | Alibi | Nope | LearnedPositions, Field(discriminator="kind")]


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

    @model_validator(mode="after")
    def _heads_fit(self) -> "ModelConfig":
        if self.head_dim is None and self.width % self.heads:
            raise ValueError(f"width {self.width} does not divide into {self.heads} heads: change one, or set head_dim")
        if (self.head_dim or self.width // self.heads) % 2:
            raise ValueError(f"the head dimension {self.head_dim or self.width // self.heads} is odd: RoPE rotates pairs")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(f"kv_heads {self.kv_heads} does not divide heads {self.heads}")
        if isinstance(self.position, Rope):
            self.check_scaling(self.position.scaling.kind)
        return self

    def check_scaling(self, kind: str) -> None:
        """ValueError where the RoPE of this model cannot be scaled in that way."""
        if not isinstance(self.position, Rope):
            return
        if kind == "yarn" and self.position.base <= 1:
            raise ValueError(f"YaRN needs a RoPE base above 1, not {self.position.base}")
        if kind == "ntk" and (self.head_dim or self.width // self.heads) < 4:
            raise ValueError("NTK-aware scaling needs a head dimension of 4 or more, not the head dimension 2")


# Data.


def _files(corpus: object) -> object:
    """Said here because a union would say it of its first member only."""
    if corpus != "stdlib" and not (isinstance(corpus, list | tuple) and all(isinstance(path, str) for path in corpus)):
        raise ValueError(f'{corpus!r} is neither "stdlib" nor a list of files and folders, as in ["book.txt"]')
    return corpus


class TextData(Frozen):
    """`corpus` is "stdlib" (sources and documentation topics of the running Python) or a list of files and folders."""

    kind: Literal["text"] = "text"
    corpus: Annotated[Literal["stdlib"] | tuple[str, ...], BeforeValidator(_files)] = "stdlib"
    length: Positive
    bos: Literal["fixed", "absent", "random"] = "absent"
    held_out: float = Field(default=0.05, gt=0, lt=1)


class BackcopyData(Frozen):
    """Bigram-Backcopy (Guo et al. 2024); `task_seed` draws the bigram, which all seeds of training share."""

    kind: Literal["backcopy"] = "backcopy"
    vocabulary: int = Field(default=64, ge=2)
    triggers: Positive = 3
    length: int = Field(default=64, ge=16)
    task_seed: int = Field(default=0, ge=0)
    zipf: float = Field(default=0.9, ge=0)  # token frequencies fall as rank^-zipf; 0.9 is about that of text

    @model_validator(mode="after")
    def _some_token_is_no_trigger(self) -> "BackcopyData":
        if self.triggers >= self.vocabulary:
            raise ValueError(f"triggers = {self.triggers} leaves no other token of a vocabulary of {self.vocabulary}")
        return self


class MixedData(Frozen):
    """Half of the rows are text, half associative recall (experiments/data/recall.py), whose ids lie behind those of text."""

    kind: Literal["mixed"] = "mixed"
    corpus: Annotated[Literal["stdlib"] | tuple[str, ...], BeforeValidator(_files)] = "stdlib"
    length: int = Field(ge=4, multiple_of=2)
    held_out: float = Field(default=0.05, gt=0, lt=1)
    keys: Positive = 128
    values: int = Field(default=4, ge=2)  # of each key

    @model_validator(mode="after")
    def _keys_suffice(self) -> "MixedData":
        self.check_keys(self.length)
        return self

    def check_keys(self, length: int) -> None:
        """ValueError where a row of this length may need more keys than there are."""
        if length // 2 > self.keys:
            raise ValueError(
                f"keys = {self.keys}: a row of {length} tokens may need {length // 2}; raise keys or shorten the row"
            )


# Training.


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


class TrainConfig(Frozen):
    steps: Positive
    batch: Positive
    learning_rate: float = Field(gt=0)
    schedule: Schedule = Constant()
    warmup: int = Field(default=50, ge=0)  # steps of linear warm-up
    weight_decay: float = Field(default=0.1, ge=0)  # of matrices; norms and logits never decay
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0)
    clip: float = Field(default=1.0, gt=0)  # largest global norm of the gradient
    diverged: float = Field(default=3.0, gt=1)  # a loss above this many times ln(vocabulary) ends the arm
    checkpoint_every: int = Field(default=0, ge=0)  # steps; 0: at the end and when interrupted


# Measurements.


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
    every: Positive = 100
    sequences: Positive = 100  # of sink.length tokens, for the sinks
    tokens: Positive = 65536  # held-out tokens that each perplexity is measured on
    lengths: tuple[Positive, ...] = Field(min_length=1)
    last: Positive = 64
    extensions: tuple[Literal["none", "pi", "ntk", "yarn"], ...] = Field(default=("none",), min_length=1)
    sink: SinkRate = SinkRate()


class BaseLengthMeasure(Frozen):
    """At every length, which has to be that of training for one of them: perplexity of text and recall by distance."""

    every: Positive = 100
    sequences: Positive = 64  # of text, and as many of recall, for the curves
    tokens: Positive = 65536  # held-out tokens that each perplexity is measured on
    rows: Positive = 512  # of recall that each accuracy is measured on
    lengths: tuple[Annotated[int, Field(ge=4, multiple_of=2)], ...] = Field(min_length=1)
    last: Positive = 32


# Studies.


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            raise ValueError(f"{seed} is there twice: a seed is one member of a study")
    return seeds


Seed = Annotated[int, Field(ge=0, lt=2**32 - 1)]  # uint32 on the device; the last one draws what is held out
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_distinct)]
Overrides = dict[str, object]


class Training(Frozen):
    """What the arms of a study share, and what each of them changes."""

    seeds: Seeds = (0, 1, 2)
    model: ModelConfig
    train: TrainConfig
    arms: dict[str, Overrides] = {}
    sweep: dict[str, Annotated[tuple[object, ...], Field(min_length=1)]] = {}


class SinksStudy(Training):
    study: Literal["sinks"] = "sinks"
    data: BackcopyData
    measure: SinksMeasure = SinksMeasure()

    @model_validator(mode="after")
    def _sinks_are_of_whole_sequences(self) -> "SinksStudy":
        if self.measure.sink.length != self.data.length:
            raise ValueError(
                f"measure.sink.length = {self.measure.sink.length}: this study measures sinks on whole sequences, of "
                f"data.length = {self.data.length}; make them equal"
            )
        return self


class ExtrapolationStudy(Training):
    study: Literal["extrapolation"] = "extrapolation"
    data: TextData
    measure: ExtrapolationMeasure

    @model_validator(mode="after")
    def _can_be_measured(self) -> "ExtrapolationStudy":
        longest = max(*self.measure.lengths, self.measure.sink.length)
        if isinstance(self.model.position, LearnedPositions) and longest > self.data.length:
            raise ValueError(f"learned positions end at data.length = {self.data.length}: nothing is measured at {longest}")
        if self.measure.last > min(self.measure.lengths):
            raise ValueError(
                f"measure.last = {self.measure.last} is more than the {min(self.measure.lengths)} tokens of a window"
            )
        for extension in self.measure.extensions:
            self.model.check_scaling(extension)
        return self


class BaseLengthStudy(Training):
    study: Literal["base_vs_length"] = "base_vs_length"
    data: MixedData
    measure: BaseLengthMeasure

    @model_validator(mode="after")
    def _can_be_measured(self) -> "BaseLengthStudy":
        lengths = self.measure.lengths
        if not isinstance(self.model.position, Rope):
            raise ValueError(f"model.position.kind = {self.model.position.kind!r}: this study is about the base of RoPE")
        if self.data.length not in lengths:
            raise ValueError(f"measure.lengths = {list(lengths)} lacks data.length = {self.data.length}, what is trained on")
        if self.train.batch % 2:
            raise ValueError(f"train.batch = {self.train.batch} is odd: half of its rows are text, half recall")
        if self.measure.last > min(lengths):
            raise ValueError(f"measure.last = {self.measure.last} is more than the {min(lengths)} tokens of a window")
        self.data.check_keys(max(lengths))
        return self


class RopeBaseStudy(Frozen):
    study: Literal["rope_base"] = "rope_base"
    head_dim: int = Field(default=128, ge=4, multiple_of=2)
    lengths: tuple[Positive, ...] = Field(min_length=1)


TrainingStudy = SinksStudy | ExtrapolationStudy | BaseLengthStudy
Study = Annotated[SinksStudy | ExtrapolationStudy | BaseLengthStudy | RopeBaseStudy, Field(discriminator="study")]


class Arm(Frozen):
    """One row of a table: a name and everything that training and measuring it needs."""

    name: str
    model: ModelConfig
    data: TextData | BackcopyData | MixedData
    train: TrainConfig
    measure: SinksMeasure | ExtrapolationMeasure | BaseLengthMeasure


def checked_arm_name(name: str) -> str:
    """A name that can be a folder. UserError otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*", name):
        raise UserError(
            f"the arm {name!r} names a folder: use letters, digits and _ . = + - only, and begin with none of . = + -"
        )
    return name
