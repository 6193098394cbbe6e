"""A study: what its arms share, what each of them changes, and what does not fit together."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from experiments.config.base import Factor, Frozen, Positive
from experiments.config.data import BackcopyData, Data, MixedData, RetrievalData, TextData
from experiments.config.measure import (
    AnatomyMeasure,
    BaseLengthMeasure,
    ExtrapolationMeasure,
    RetrievalMeasure,
    SinksMeasure,
    StreamingMeasure,
    VocabularyMeasure,
)
from experiments.config.model import ModelConfig
from experiments.config.position import Alibi, Nope, Rope, Rotating, longest_text, spectrum
from experiments.config.scaling import check_scaling, extension_of
from experiments.config.train import TrainConfig
from experiments.errors import UserError


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


def _check_longest(model: ModelConfig, train_length: int, longest: int) -> None:
    """ValueError where the positions of a model end before the longest text that it is measured on."""
    end, why = longest_text(model.position, model.head_width, train_length)
    if longest > end:
        raise ValueError(f"{why} at {end:.0f} tokens: nothing is measured at {longest}")


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


class BackcopyStudy(SinksStudy):
    """The same task with every mechanism, with BOS and without, under a name of its own."""

    study: Literal["sinks_backcopy"] = "sinks_backcopy"  # pyright: ignore[reportIncompatibleVariableOverride]


class AnatomyStudy(Training):
    """Language models, taken apart: what forms a sink, where a gate belongs, what keeps training stable, what depth does."""

    study: Literal["sinks_lm", "gate_position", "stability", "depth"]
    data: TextData
    measure: AnatomyMeasure = AnatomyMeasure()

    @model_validator(mode="after")
    def _can_be_measured(self) -> "AnatomyStudy":
        shortest = min(self.measure.sink.length, self.data.length)
        _check_longest(self.model, self.data.length, self.measure.sink.length)
        for name, tokens in (("hidden", max(self.measure.hidden, default=0)), ("map", self.measure.map)):
            if tokens >= shortest:
                raise ValueError(f"measure.{name} = {tokens} leaves nothing of the {shortest} tokens of a text")
        return self


class ExtrapolationStudy(Training):
    study: Literal["extrapolation"] = "extrapolation"
    data: TextData
    measure: ExtrapolationMeasure

    @model_validator(mode="after")
    def _can_be_measured(self) -> "ExtrapolationStudy":
        longest = max(*self.measure.lengths, self.measure.sink.length)
        _check_longest(self.model, self.data.length, longest)
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
        _check_longest(self.model, self.data.length, longest)
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


class StreamingStudy(Training):
    study: Literal["streaming"] = "streaming"
    data: TextData
    measure: StreamingMeasure

    @property
    def cache(self) -> int:
        """Entries, kept tokens included."""
        return self.measure.cache or self.data.length

    @model_validator(mode="after")
    def _can_be_streamed(self) -> "StreamingStudy":
        position, measure = self.model.position, self.measure
        if not isinstance(position, Rope | Alibi | Nope):
            raise ValueError(f'model.position.kind = "{position.kind}" cannot be streamed: take "rope", "alibi" or "nope"')
        if isinstance(position, Rope) and (position.grid or getattr(position.scaling, "per", "sequence") != "sequence"):
            raise ValueError("a stream has no grid, and one table for all of its tokens: leave out grid and scaling.per")
        if self.data.bos == "random":
            raise ValueError('data.bos = "random": a stream has one first token; take "fixed" or "absent"')
        if (most := max(*measure.kept, *measure.in_text, 0)) >= self.cache:
            raise ValueError(f"{most} kept tokens fill a cache of {self.cache}: keep fewer, or raise measure.cache")
        if measure.stride >= self.cache:
            raise ValueError(f"measure.stride = {measure.stride} is not below the {self.cache} tokens of a re-computed window")
        if not self.cache < measure.dense <= measure.tokens:
            raise ValueError(
                f"measure.dense = {measure.dense}: full attention reads more than the {self.cache} tokens of a cache, at most "
                f"the {measure.tokens} of the stream"
            )
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


class VocabularyStudy(Training):
    """Language models with vocabularies of their own."""

    study: Literal["vocabulary"] = "vocabulary"
    data: TextData
    measure: VocabularyMeasure = VocabularyMeasure()

    @model_validator(mode="after")
    def _can_be_measured(self) -> "VocabularyStudy":
        _check_longest(self.model, self.data.length, self.data.length)
        return self


class WordPieceComparison(Frozen):
    """WordPiece by either criterion, trained on every n-th document of the standard library."""

    vocabularies: tuple[Positive, ...] = Field(min_length=1)
    every: int = Field(default=10, ge=2)


class TokensStudy(Frozen):
    """Parallel texts through tokenizers, each said as `leadline tokens --tokenizer` has it."""

    study: Literal["tokens"] = "tokens"
    tokenizers: dict[str, str] = Field(min_length=1)
    texts: Literal["embedded"] | tuple[str, ...] = "embedded"  # or files and folders: a language a file
    reference: str = "eng"
    window: Positive = 8192
    speed_documents: int = Field(default=50, ge=0)  # of the standard library, a megabyte, to time rank vocabularies on
    ranks: str | None = None  # the folder of NAME.tiktoken and NAME.json; absent: tiktoken downloads them
    wordpiece: WordPieceComparison | None = None


class MultilingualStudy(Frozen):
    """BPE of parallel texts whose shares in training fall by `halving` from one language to the next, to each exponent."""

    study: Literal["multilingual"] = "multilingual"
    vocabularies: tuple[Positive, ...] = Field(min_length=1)
    exponents: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(min_length=1)  # 1: shares as they are, 0: even
    halving: Factor = 2.0
    pattern: str = "gpt4"
    texts: Literal["embedded"] | tuple[str, ...] = "embedded"  # or files and folders: a language a file
    reference: str = "eng"


TrainingStudy = (
    SinksStudy
    | BackcopyStudy
    | AnatomyStudy
    | ExtrapolationStudy
    | EncodingsStudy
    | RetrievalStudy
    | BaseLengthStudy
    | StreamingStudy
    | VocabularyStudy
)
ExactStudy = RopeBaseStudy | PrecisionStudy | TokensStudy | MultilingualStudy  # nothing is trained
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
    data: Data
    train: TrainConfig
    measure: (
        SinksMeasure
        | AnatomyMeasure
        | ExtrapolationMeasure
        | RetrievalMeasure
        | BaseLengthMeasure
        | StreamingMeasure
        | VocabularyMeasure
    )
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
