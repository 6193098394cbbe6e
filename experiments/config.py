"""What a TOML file may say: every key, its range and its default. Nothing else in the project knows a default.

Mechanisms are tagged values (`kind`). Every class is frozen and refuses keys that it does not know.
"""

import math
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from experiments.config_base import Frozen, Positive, Share
from experiments.config_position import (
    Extension,
    Position,
    Rope,
    Rotating,
    check_position,
    check_scaling,
    extension_of,
    longest_text,
    spectrum,
)
from experiments.data.retrieval.vocabulary import DIGITS, TASKS, Task
from experiments.errors import UserError

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


class RetrievalData(Frozen):
    """A mixture of retrieval tasks (experiments/data/retrieval); `shares` are their probabilities, up to a factor."""

    kind: Literal["retrieval"] = "retrieval"
    tasks: tuple[Task, ...] = Field(default=TASKS, min_length=1)
    shares: tuple[Annotated[float, Field(gt=0)], ...] | None = None  # absent: equal
    length: Positive
    keys: Positive = 128  # ids that name things
    values: int = Field(default=32, ge=DIGITS)  # ids that are looked up, copied, added
    fillers: Positive = 8  # ids of the noise
    symbols: Positive = 1  # of a passkey, or of the value of a key
    needles: Positive = 4  # of multi_key
    queries: Positive = 8  # pairs of multi_query
    answers: Positive = 4  # of multi_value
    chains: Positive = 2  # of variable_tracking
    hops: Positive = 2

    @model_validator(mode="after")
    def _one_share_a_task(self) -> "RetrievalData":
        if len(set(self.tasks)) < len(self.tasks):
            raise ValueError(f"tasks = {list(self.tasks)}: each is there once; give it a larger share instead")
        if self.shares is not None and len(self.shares) != len(self.tasks):
            raise ValueError(f"{len(self.shares)} shares for {len(self.tasks)} tasks: give one a task, or none")
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
    """Windows do not overlap, or with a stride they slide: of each one after the first only its last tokens count."""

    every: Positive = 100
    sequences: Positive = 100  # of sink.length tokens, for the sinks
    tokens: Positive = 65536  # held-out tokens that each perplexity is measured on
    lengths: tuple[Positive, ...] = Field(min_length=1)
    stride: Positive | None = None  # tokens from one window to the next; absent: the whole window
    last: Positive = 64
    extensions: tuple[Extension, ...] = Field(default=("none",), min_length=1)
    sink: SinkRate = SinkRate()


class RetrievalMeasure(Frozen):
    """At every length each task is asked `rows` times at each of `depths` depths, or sizes of copy and addition."""

    every: Positive = 250
    sequences: Positive = 512  # of the mixture, for the curves
    lengths: tuple[Positive, ...] = Field(min_length=1)
    depths: int = Field(default=16, ge=8)
    rows: Positive = 16


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
    arms: dict[str, Overrides] = Field(default_factory=dict)
    sweep: dict[str, Annotated[tuple[object, ...], Field(min_length=1)]] = Field(default_factory=dict)


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
        end, why = longest_text(self.model.position, self.model.head_width, self.data.length)
        if longest > end:
            raise ValueError(f"{why} at {end:.0f} tokens: nothing is measured at {longest}")
        if self.measure.last > min(self.measure.lengths):
            raise ValueError(
                f"measure.last = {self.measure.last} is more than the {min(self.measure.lengths)} tokens of a window"
            )
        if self.measure.stride is not None and self.measure.stride >= min(self.measure.lengths):
            raise ValueError(
                f"measure.stride = {self.measure.stride} is not below the {min(self.measure.lengths)} tokens of a window: "
                "leave it out for windows that do not overlap"
            )
        for extension in self.measure.extensions:
            if isinstance(self.model.position, Rotating):
                size = spectrum(self.model.position, self.model.head_width)
                check_scaling(extension_of(extension, 1.0), self.model.position.base, size)
        return self


class EncodingsStudy(ExtrapolationStudy):
    """The same study with every encoding, under a name of its own: both may lie in one results folder."""

    study: Literal["encodings"] = "encodings"  # pyright: ignore[reportIncompatibleVariableOverride]


class RetrievalStudy(Training):
    study: Literal["retrieval"] = "retrieval"
    data: RetrievalData
    measure: RetrievalMeasure

    @model_validator(mode="after")
    def _can_be_measured(self) -> "RetrievalStudy":
        longest = max(self.measure.lengths)
        end, why = longest_text(self.model.position, self.model.head_width, self.data.length)
        if longest > end:
            raise ValueError(f"{why} at {end:.0f} tokens: nothing is measured at {longest}")
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


HeadDim = Annotated[int, Field(ge=4, multiple_of=2)]


class RopeBaseStudy(Frozen):
    """Distances m = 0, every, 2 · every, … below each length, or up to it if `inclusive`."""

    study: Literal["rope_base"] = "rope_base"
    head_dims: tuple[HeadDim, ...] = Field(default=(128,), min_length=1)
    lengths: tuple[Positive, ...] = Field(min_length=1)
    inclusive: bool = False
    every: Positive = 1


class PrecisionStudy(Frozen):
    study: Literal["precision"] = "precision"
    head_dim: int = Field(default=128, ge=2, multiple_of=2)
    base: float = Field(default=10000.0, gt=0)
    lengths: tuple[Positive, ...] = Field(min_length=1)


TrainingStudy = SinksStudy | ExtrapolationStudy | EncodingsStudy | RetrievalStudy | BaseLengthStudy
ExactStudy = RopeBaseStudy | PrecisionStudy  # nothing is trained
Study = Annotated[TrainingStudy | ExactStudy, Field(discriminator="study")]


class Start(Frozen):
    """Where the training of an arm goes on: from the last weights of another arm of its study, of the same seed."""

    arm: str
    length: Positive  # that the first weights were trained at, before any arm between: what scalings are relative to
    steps: Positive  # made before, by that arm and those that it started from: the data go on where they stopped


class Arm(Frozen):
    """One row of a table: a name and everything that training and measuring it needs."""

    name: str
    model: ModelConfig
    data: TextData | BackcopyData | RetrievalData | MixedData
    train: TrainConfig
    measure: SinksMeasure | ExtrapolationMeasure | RetrievalMeasure | BaseLengthMeasure
    start: Start | None = None  # absent: from fresh weights

    @property
    def original_length(self) -> int:
        """The training length to which the factors of scalings relate: that of the arm at the beginning of all."""
        return self.data.length if self.start is None else self.start.length


def checked_arm_name(name: str) -> str:
    """A name that can be a folder. UserError otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*", name):
        raise UserError(
            f"the arm {name!r} names a folder: use letters, digits and _ . = + - only, and begin with none of . = + -"
        )
    return name
