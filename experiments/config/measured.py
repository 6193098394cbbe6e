"""A model with what it is measured on and what is measured, and where the three do not fit each other."""

import itertools
import math
from collections.abc import Iterator

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.data import (
    MOST_DIGITS,
    BackcopyData,
    Data,
    GridData,
    MixedData,
    RetrievalData,
    TextData,
    TransductionData,
)
from leadline.experiments.config.measure import (
    LONGEST_ANSWER,
    START,
    ContextMeasure,
    GridMeasure,
    Measure,
    PerplexityMeasure,
    RecallMeasure,
    RetrievalMeasure,
    StreamingMeasure,
    TransductionMeasure,
)
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Nope, Position, Rope, Rotating
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.config.scaling import extension_of

# The data that each table of [measure] measures.
MEASURED = {
    "ablation": TextData | BackcopyData,
    "perplexity": TextData,
    "retrieval": RetrievalData,
    "recall": MixedData,
    "transduction": TransductionData,
    "grid": GridData,
    "streaming": TextData,
    "vocabulary": TextData,
    "frequency": TextData,
    "inputs": TextData,
    "context": TextData,
    "interventions": TextData,
    "prompts": TextData,
    "languages": TextData,
}


class Measured(Frozen):
    """A model, what it is measured on, and what is measured."""

    model: ModelConfig
    data: Data
    measure: Measure = Measure()

    @property
    def original_length(self) -> int:
        """The training length to which the factors of scalings relate."""
        return self.data.length

    def problems(self) -> Iterator[str]:
        measure, data = self.measure, self.data
        yield from _too_long(self, data.length, "data.length")
        for table, kinds in MEASURED.items():
            if getattr(measure, table) is not None and not isinstance(data, kinds):
                yield f"[measure.{table}] does not measure data.kind = {data.kind!r}"
        if isinstance(data, BackcopyData) and measure.sink.length != data.length:
            yield (
                f"measure.sink.length = {measure.sink.length}: sinks of this task are measured on whole sequences, of "
                f"data.length = {data.length}; make them equal"
            )
        if isinstance(data, TextData):
            yield from _too_long(self, measure.sink.length, "measure.sink.length")
        if self.model.encoder.layers and not isinstance(data, TransductionData):
            yield f'model.encoder: data.kind = {data.kind!r} has no sources; take "transduction", or leave encoder out'
        if measure.transduction is not None and isinstance(data, TransductionData):
            yield from _transduction_problems(self, measure.transduction, data)
        if isinstance(data, GridData):
            yield from _grid_problems(self, measure.grid, data)
        if measure.ablation is not None:
            hidden, tokens = measure.ablation.hidden, measure.ablation.map
            if max(hidden, default=0) >= data.length:
                yield f"measure.ablation.hidden = {list(hidden)} leaves nothing of {data.length} tokens"
            if tokens > data.length:
                yield f"measure.ablation.map = {tokens} is more than the {data.length} tokens of a text"
        yield from _too_short(self)
        for key, length in _lengths(measure).items():
            yield from _too_long(self, length, key)
        if measure.interventions is not None and max(measure.interventions.hidden, default=0) >= measure.interventions.length:
            yield f"measure.interventions.hidden leaves nothing of {measure.interventions.length} tokens"
        if measure.perplexity is not None:
            yield from _perplexity_problems(self, measure.perplexity)
        if measure.recall is not None and isinstance(data, MixedData):
            yield from _recall_problems(self.model.position, measure.recall, data)
        if measure.streaming is not None and isinstance(data, TextData):
            yield from _streaming_problems(self.model, data, measure.streaming)
        if self.model.document_mask:
            yield from _document_problems(self)


def _document_problems(settings: Measured) -> Iterator[str]:
    """Says so where a model with a document mask meets data without documents, or a table that needs a row to be one text."""
    if not isinstance(settings.data, TextData):
        yield f"model.document_mask: data.kind = {settings.data.kind!r} has no documents; leave it out"
    intervention = "an intervention has one first token, and a row has several documents"
    why = {"streaming": "a stream runs across documents", "ablation": intervention, "interventions": intervention}
    for table, reason in why.items():
        if getattr(settings.measure, table) is not None:
            yield f"model.document_mask: {reason}; leave out [measure.{table}]"


def _lengths(measure: Measure) -> dict[str, int]:
    """The longest texts of tables of [measure], by the key that says so."""
    lengths = {
        f"measure.{name}.lengths": max(table.lengths)
        for name, table in measure
        if isinstance(table, PerplexityMeasure | RetrievalMeasure | ContextMeasure) and table.lengths
    }
    if (prompts := measure.prompts) is not None:
        lengths[f"measure.prompts.lengths, with {LONGEST_ANSWER} tokens for an answer"] = max(prompts.lengths) + LONGEST_ANSWER
    short = measure.interventions
    return lengths if short is None else lengths | {"measure.interventions.length": short.length}


def _too_long(settings: Measured, longest: int, key: str) -> Iterator[str]:
    """Says so where the positions of a model end before the longest text that it is measured on."""
    end, why = settings.model.longest(settings.data.length)
    if longest > end:
        yield f"{key}: {why} at {end:.0f} tokens: nothing is measured at {longest}"


def _too_short(settings: Measured) -> Iterator[str]:
    """Says so where a text ends before what is measured of each of its layers begins."""
    measure, trained = settings.measure, settings.data.length
    explained = {"data.length": trained} if measure.ablation is not None else {}
    if measure.context is not None:
        explained |= {"measure.context.lengths": min(measure.context.lengths or (trained,))}
    perplexity = {} if measure.perplexity is None else {"measure.perplexity.lengths": min(measure.perplexity.lengths)}
    for key, shortest in explained.items():
        if shortest <= START:
            yield f"{key}: norms and scores count from token {START + 1} on, and a text has {shortest}; take longer texts"
    for key, shortest in (explained | perplexity).items():
        if shortest < measure.sink.token:
            yield f"measure.sink.token = {measure.sink.token} is none of the {shortest} tokens of {key}; lower it"


def _perplexity_problems(settings: Measured, measure: PerplexityMeasure) -> Iterator[str]:
    shortest, model = min(measure.lengths), settings.model
    if measure.last > shortest:
        yield f"measure.perplexity.last = {measure.last} is more than the {shortest} tokens of a window"
    if measure.stride is not None and measure.stride >= shortest:
        yield (
            f"measure.perplexity.stride = {measure.stride} is not below the {shortest} tokens of a window: leave it out for "
            "windows that do not overlap"
        )
    rotating = [position for position in model.positions if isinstance(position, Rotating)]
    for position, extension in itertools.product(rotating, measure.extensions):
        yield from extension_of(extension, 1.0).misfits(position.base, position.spectrum(model.attention_heads))


def _transduction_problems(settings: Measured, measure: TransductionMeasure, data: TransductionData) -> Iterator[str]:
    largest = max(measure.sizes)
    yield from _too_long(settings, 2 * data.half(max(largest, data.size)), "measure.transduction.sizes")
    if data.task == "numbers" and largest > MOST_DIGITS:
        yield f"measure.transduction.sizes: numbers have at most {MOST_DIGITS} digits, not {largest}"


def _grid_problems(settings: Measured, measure: GridMeasure | None, data: GridData) -> Iterator[str]:
    grid = settings.model.rotation_layout.grid
    if grid and grid != data.sizes[1:]:
        yield f"model.position.grid = {list(grid)}: that of data.sizes = {list(data.sizes)} is {list(data.sizes[1:])}"
    for factors in measure.factors if measure is not None else ():
        if len(factors) != len(data.sizes):
            yield f"measure.grid.factors: {list(factors)} are not those of {len(data.sizes)} axes"
        else:
            yield from _too_long(settings, data.length * math.prod(factors), "measure.grid.factors")


def _recall_problems(position: Position, measure: RecallMeasure, data: MixedData) -> Iterator[str]:
    lengths = measure.lengths
    if not isinstance(position, Rope):
        yield f"model.position.kind = {position.kind!r}: [measure.recall] is about the base of RoPE"
    if data.length not in lengths:
        yield f"measure.recall.lengths = {list(lengths)} lacks data.length = {data.length}, what is trained on"
    if measure.last > min(lengths):
        yield f"measure.recall.last = {measure.last} is more than the {min(lengths)} tokens of a window"
    yield from data.lacks_keys(max(lengths))


def _streaming_problems(model: ModelConfig, data: TextData, measure: StreamingMeasure) -> Iterator[str]:
    cache = measure.cache or data.length
    for name, position in zip(("position", "window_position"), model.positions, strict=False):
        if not isinstance(position, Rope | Alibi | Nope):
            yield f'model.{name}.kind = "{position.kind}" cannot be streamed: take "rope", "alibi" or "nope"'
    if model.rotation_layout.grid or model.position.table_per != "sequence":
        yield "a stream has no grid, and one table for all of its tokens: leave out grid and scaling.per"
    if data.bos in ("random", "document"):
        yield f'data.bos = "{data.bos}": a stream has one first token; take "fixed" or "absent"'
    if (most := max(*measure.initial_tokens, *measure.text_positions, 0)) >= cache:
        yield f"{most} initial tokens fill a cache of {cache}: keep fewer, or raise measure.streaming.cache"
    if measure.stride >= cache:
        yield f"measure.streaming.stride = {measure.stride} is not below the {cache} tokens of a window"
    if not cache < measure.full_attention <= measure.tokens:
        yield (
            f"measure.streaming.full_attention = {measure.full_attention}: full attention reads more than the {cache} tokens "
            f"of a cache, at most the {measure.tokens} of the stream"
        )
