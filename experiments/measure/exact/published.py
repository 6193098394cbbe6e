"""A published model through the measurements of trained ones: a job for each table of [exact.measure], for perplexity one for
each length and extension."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import jax

from leadline.experiments.config.base import Frozen, validated
from leadline.experiments.config.data import TextData
from leadline.experiments.config.exact import PublishedStudy
from leadline.experiments.config.measure import Measure, PerplexityMeasure
from leadline.experiments.config.measured import Measured
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import Extension
from leadline.experiments.data.source import held_out_source
from leadline.experiments.data.text.source import TextSource, listed
from leadline.experiments.measure import bound
from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.exact.job import Computed, Job, Tell
from leadline.experiments.measure.kinds.perplexity import perplexity_at
from leadline.experiments.measure.kinds.registry import FINALS, check_data
from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.load import PublishedModel, load, plan
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.published.tokenizer import published_text
from leadline.experiments.records.measurement import Point, scalars
from leadline.experiments.runtime.errors import UserError
from leadline.model.base_bound.bound import bound_of
from leadline.model.mesh import make_mesh
from leadline.model.positions.frequencies import inverse_frequencies

# The text of the tables that read no corpus.
WRITTEN = {"prompts": "prompts that are made from templates", "languages": "parallel texts of the study"}


class PublishedSettings(Frozen):
    """What decides the numbers of one job, besides the text."""

    kind: Literal["published"] = "published"
    model: str  # its name
    weights: str  # SHA-256 of its files
    architecture: ModelConfig
    data: TextData
    table: str  # of [exact.measure]
    measure: Measure  # that table alone
    length: int | None = None  # of perplexity [tokens]
    extension: Extension | None = None  # of the context; None is the model as it was trained


@dataclass(frozen=True)
class Subject:
    """A published model, whose weights are loaded when the first job needs them, and stay for the others."""

    exact: PublishedStudy
    checkpoint: Checkpoint
    source: TextSource
    digest: str  # of the text

    @property
    def parameters(self) -> int:
        """Numbers in the checkpoint."""
        return sum(math.prod(entry.shape) for entry in self.checkpoint.entries.values())

    @property
    def text(self) -> dict[str, object]:
        """What a record says of the text."""
        documents = self.source.text.documents[0]
        name = listed(self.exact.corpus)
        counts = {"held_out_documents": len(documents), "held_out_tokens": len(documents.ids)}
        return {**self.described(name), **counts}

    def described(self, name: object) -> dict[str, object]:
        """What a record says of text by this name. The digest is that of the corpus, for all jobs of a model alike."""
        return {"name": name, "digest": self.digest, "tokenizer": self.source.tokenizer.name}

    @cached_property
    def model(self) -> PublishedModel:
        """The model on the devices of the mesh that is set."""
        return load(self.checkpoint, self.exact.compute_dtype)

    def models(self, tell: Tell) -> Models:
        """The model as the functions of leadline.experiments.measure.kinds take it."""
        measured = Measured(model=self.model.model, data=self.source.data, measure=self.exact.measure)
        return Models([measured], [self.model.params], self.source, self.model.cfg, [], tell)


def jobs(exact: PublishedStudy) -> list[Job]:
    """The jobs of a published model.

    Raises:
        UserError: for a model or a corpus that cannot be read, or does not suffice for what is measured.
    """
    checkpoint = open_checkpoint(exact.model)
    _, model, context, *_ = plan(checkpoint, exact.compute_dtype)
    tokenizer = published_text(checkpoint).tokenizer
    if tokenizer is None:
        raise UserError(f"{checkpoint.name}: its files hold no tokenizer, so that it reads no text; add tokenizer.json")
    data = TextData(corpus=exact.corpus, length=context, bos=exact.bos)
    source, digest = held_out_source(data, tokenizer, int(checkpoint.config["vocab_size"]))
    check_data(source, validated(Measured, {"model": model, "data": source.data, "measure": exact.measure}, checkpoint.name))
    subject = Subject(exact, checkpoint, source, digest)
    common = {
        "model": checkpoint.name,
        "weights": checkpoint.digest(),
        "architecture": model,
        "data": source.data,
    }
    planned = []
    for name, label, settings, measured in _parts(exact.measure, context):
        compute = partial(_computed, subject, str(settings["table"]), measured)
        of_job = PublishedSettings.model_validate({**common, **settings})
        planned.append(Job(name, f"{checkpoint.name}, {label}", of_job, compute, digest))
    if exact.base_bound and isinstance(model.position, Rope):
        settings = PublishedSettings.model_validate({**common, "table": "base_bound", "measure": Measure()})
        planned.append(
            Job(
                "base_bound",
                f"{checkpoint.name}, base bound",
                settings,
                partial(_base_bound, subject, settings, model.position),
            )
        )
    return planned


def _parts(measure: Measure, context: int) -> Iterator[tuple[str, str, dict[str, object], Callable[[Models], list[Point]]]]:
    """Name, label, settings and measurement of each job that needs the weights."""
    for table, final in FINALS.items():
        settings = getattr(measure, table)
        if settings is None:
            continue
        alone = {"sink": measure.sink.model_dump(), table: settings.model_dump()}
        common = {"table": table, "measure": Measure.model_validate(alone)}
        if not isinstance(settings, PerplexityMeasure):
            yield table, table.replace("_", " "), common, _measuring(final, settings)
            continue
        for length in settings.lengths:
            # Within the context there is nothing to extend.
            for extension in (None, *(settings.extensions if length > context else ())):
                name = f"{table}-{length}" + (f"-{extension}" if extension else "")
                label = f"{table} at {length:,} tokens" + (f", {extension}" if extension else "")
                of_text = {**common, "length": length, "extension": extension}
                yield name, label, of_text, partial(perplexity_at, settings=settings, length=length, extensions=((extension,),))


def _measuring(final: Callable[[Models, Any], list[Point]], settings: Frozen) -> Callable[[Models], list[Point]]:
    return lambda models: final(models, settings)


def _computed(
    subject: Subject,
    table: str,
    measured: Callable[[Models], list[Point]],
    points: Mapping[str, Point],  # noqa: ARG001
    tell: Tell,
) -> Computed:
    with jax.set_mesh(make_mesh()):
        (point,) = measured(subject.models(tell))
    data = subject.described(WRITTEN[table]) if table in WRITTEN else subject.text
    return Computed(point, data, subject.parameters)


def _base_bound(
    subject: Subject,
    settings: PublishedSettings,
    position: Rope,
    points: Mapping[str, Point],  # noqa: ARG001
    tell: Tell,
) -> Computed:
    """The smallest base for the context of the model (Men et al. 2024), and the distances at which its own base fails."""
    context = settings.data.length
    size = position.spectrum(settings.architecture.attention_heads)
    bases = bound.search(bound.start(size, context, 1), context, False, lambda length: tell(length, context))
    infimum, largest, _ = bound_of(bases)
    result = bound.negative_distances(inverse_frequencies(size, position.base), context)
    numbers = {"smallest_base": infimum, "largest_infeasible_base": largest, "printed_base": position.base}
    return Computed(scalars(numbers | result.numbers()), parameters=subject.parameters)
