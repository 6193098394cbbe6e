"""A study: one TOML file with its question, its arms, what is measured of them, and how the records are shown and judged."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from leadline.experiments.config.base import Frozen, Positive, nearest
from leadline.experiments.config.claim import Claim
from leadline.experiments.config.data import BackcopyData, Data, MixedData, RetrievalData, TextData
from leadline.experiments.config.exact import Exact
from leadline.experiments.config.measure import AblationMeasure, Measure, PerplexityMeasure, RecallMeasure, StreamingMeasure
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Alibi, Nope, Position, Rope, Rotating
from leadline.experiments.config.report import FigureSpec, Published, Selector, TableSpec
from leadline.experiments.config.scaling import extension_of
from leadline.experiments.config.train import TrainConfig


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            raise ValueError(f"{seed} is there twice: a seed is one member of a study")
    return seeds


Seed = Annotated[int, Field(ge=0, lt=2**32 - 1)]  # uint32 on the device; the last one draws what is held out
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_distinct)]
FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*")


def _folder_name(name: str) -> str:
    if not FOLDER.fullmatch(name):
        raise ValueError(f"{name!r} names a folder: use letters, digits and _ . = + - only, and begin with none of . = + -")
    return name


Name = Annotated[str, AfterValidator(_folder_name)]
# The data that each table of [measure] measures.
MEASURED = {
    "ablation": TextData | BackcopyData,
    "perplexity": TextData,
    "retrieval": RetrievalData,
    "recall": MixedData,
    "streaming": TextData,
    "vocabulary": TextData,
}


class Settings(Frozen):
    """What trains and measures one model: everything that an arm may change."""

    model: ModelConfig
    data: Data
    train: TrainConfig
    measure: Measure = Measure()

    @model_validator(mode="after")
    def _can_be_measured(self) -> "Settings":
        measure, data = self.measure, self.data
        _check_longest(self, data.length, "data.length")
        for table, kinds in MEASURED.items():
            if getattr(measure, table) is not None and not isinstance(data, kinds):
                raise ValueError(f"[measure.{table}] does not measure data.kind = {data.kind!r}")
        if isinstance(data, BackcopyData) and measure.sink.length != data.length:
            raise ValueError(
                f"measure.sink.length = {measure.sink.length}: sinks of this task are measured on whole sequences, of "
                f"data.length = {data.length}; make them equal"
            )
        if measure.ablation is not None:
            _check_ablation(measure.ablation, data.length)
        if measure.perplexity is not None:
            _check_perplexity(self, measure.perplexity)
        if measure.retrieval is not None:
            _check_longest(self, max(measure.retrieval.lengths), "measure.retrieval.lengths")
        if measure.recall is not None and isinstance(data, MixedData):
            _check_recall(self, measure.recall, data)
        if measure.streaming is not None and isinstance(data, TextData):
            _check_streaming(self.model.position, data, measure.streaming)
        return self


class Study(Frozen):
    """Either models that are trained, or what `exact` computes; each with its tables, figures and claims.

    `selectors` name configurations of arms for the claims: what an arm is, whatever it is called.
    """

    study: Name
    title: str = ""
    question: str = ""
    seeds: Seeds = (0, 1, 2)
    model: ModelConfig | None = None
    data: Data | None = None
    train: TrainConfig | None = None
    measure: Measure = Measure()
    exact: Exact | None = None
    arms: dict[str, dict[str, Any]] = Field(default_factory=dict)
    sweep: dict[str, Annotated[tuple[object, ...], Field(min_length=1)]] = Field(default_factory=dict)
    selectors: dict[str, Selector] = Field(default_factory=dict)
    tables: tuple[TableSpec, ...] = ()
    figures: tuple[FigureSpec, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def heading(self) -> str:
        return self.title or self.study.replace("_", " ")

    @model_validator(mode="after")
    def _trains_or_computes(self) -> "Study":
        parts = {"model": self.model, "data": self.data, "train": self.train}
        if self.exact is not None:
            superfluous = [name for name, part in parts.items() if part is not None] + ["arms"] * bool(self.arms)
            if superfluous:
                raise ValueError(f"a study with [exact] trains nothing: leave out {', '.join(superfluous)}")
            return self
        for name, part in parts.items():
            if part is None:
                raise ValueError(f"{name}: this key is required, unless [exact] says what is computed without training")
        return self

    @model_validator(mode="after")
    def _claims_are_distinct_and_have_their_selectors(self) -> "Study":
        for place, claim in enumerate(self.claims):
            if claim.id in [earlier.id for earlier in self.claims[:place]]:
                raise ValueError(f"claims: {claim.id!r} is there twice")
            for name in claim.selectors():
                if name not in self.selectors:
                    raise ValueError(f"claim {claim.id}: [selectors] lacks {name!r}{nearest(name, list(self.selectors))}")
        return self


class Start(Frozen):
    """Where the training of an arm goes on: from the last weights of another arm of its study, of the same seed."""

    arm: str
    length: Positive  # that the first weights were trained at, before any arm between: what scalings are relative to
    steps: Positive  # made before, by that arm and those that it started from: the data go on where they stopped


class Arm(Settings):
    """One row of a table: a name and everything that training and measuring it needs."""

    name: Name
    label: str = ""
    published: tuple[Published, ...] = ()
    start: Start | None = None  # absent: from fresh weights

    @property
    def original_length(self) -> int:
        """The training length to which the factors of scalings relate: that of the arm at the beginning of all."""
        return self.data.length if self.start is None else self.start.length


def _check_longest(settings: Settings, longest: int, key: str) -> None:
    """ValueError where the positions of a model end before the longest text that it is measured on."""
    end, why = settings.model.position.longest(settings.model.attention_heads, settings.data.length)
    if longest > end:
        raise ValueError(f"{key}: {why} at {end:.0f} tokens: nothing is measured at {longest}")


def _check_last(measure: PerplexityMeasure | RecallMeasure, key: str) -> None:
    shortest = min(measure.lengths)
    if measure.last > shortest:
        raise ValueError(f"measure.{key}.last = {measure.last} is more than the {shortest} tokens of a window")


def _check_ablation(ablation: AblationMeasure, length: int) -> None:
    if max(ablation.hidden, default=0) >= length:
        raise ValueError(f"measure.ablation.hidden = {list(ablation.hidden)} leaves nothing of {length} tokens")
    if ablation.map > length:
        raise ValueError(f"measure.ablation.map = {ablation.map} is more than the {length} tokens of a text")


def _check_perplexity(settings: Settings, measure: PerplexityMeasure) -> None:
    _check_longest(settings, max(measure.lengths), "measure.perplexity.lengths")
    _check_last(measure, "perplexity")
    if measure.stride is not None and measure.stride >= min(measure.lengths):
        raise ValueError(
            f"measure.perplexity.stride = {measure.stride} is not below the {min(measure.lengths)} tokens of a window: leave "
            "it out for windows that do not overlap"
        )
    position = settings.model.position
    for extension in measure.extensions if isinstance(position, Rotating) else ():
        extension_of(extension, 1.0).check(position.base, position.spectrum(settings.model.attention_heads))


def _check_recall(settings: Settings, measure: RecallMeasure, data: MixedData) -> None:
    lengths = measure.lengths
    if not isinstance(settings.model.position, Rope):
        raise ValueError(f"model.position.kind = {settings.model.position.kind!r}: [measure.recall] is about the base of RoPE")
    if data.length not in lengths:
        raise ValueError(f"measure.recall.lengths = {list(lengths)} lacks data.length = {data.length}, what is trained on")
    if settings.train.batch % 2:
        raise ValueError(f"train.batch = {settings.train.batch} is odd: half of its rows are text, half recall")
    _check_last(measure, "recall")
    data.check_keys(max(lengths))


def _check_streaming(position: Position, data: TextData, measure: StreamingMeasure) -> None:
    cache = measure.cache or data.length
    if not isinstance(position, Rope | Alibi | Nope):
        raise ValueError(f'model.position.kind = "{position.kind}" cannot be streamed: take "rope", "alibi" or "nope"')
    if isinstance(position, Rope) and (position.grid or position.table_per != "sequence"):
        raise ValueError("a stream has no grid, and one table for all of its tokens: leave out grid and scaling.per")
    if data.bos == "random":
        raise ValueError('data.bos = "random": a stream has one first token; take "fixed" or "absent"')
    if (most := max(*measure.initial_tokens, *measure.text_positions, 0)) >= cache:
        raise ValueError(f"{most} initial tokens fill a cache of {cache}: keep fewer, or raise measure.streaming.cache")
    if measure.stride >= cache:
        raise ValueError(f"measure.streaming.stride = {measure.stride} is not below the {cache} tokens of a window")
    if not cache < measure.full_attention <= measure.tokens:
        raise ValueError(
            f"measure.streaming.full_attention = {measure.full_attention}: full attention reads more than the {cache} tokens "
            f"of a cache, at most the {measure.tokens} of the stream"
        )
