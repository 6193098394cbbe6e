"""The study of one published model that the command line measures: settings by the model's context, name, tables."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leadline.experiments.config.base import nearest, validated
from leadline.experiments.config.data import TextData
from leadline.experiments.config.exact import PublishedStudy
from leadline.experiments.config.load import overridden
from leadline.experiments.config.measure import (
    LONGEST_ANSWER,
    InterventionsMeasure,
    Measure,
    PerplexityMeasure,
    PromptsMeasure,
    SinkRate,
)
from leadline.experiments.config.measured import Measured
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.paths import is_path
from leadline.experiments.config.position import Rope
from leadline.experiments.config.study import Study
from leadline.experiments.measure.kinds.registry import FINALS
from leadline.experiments.published.load import configured
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.studies.published_tables import BOUND, TABLES, specs_of

# Settings without a default, for a model that no configuration file describes: the tokens of the streaming cache, and the parts
# of the context that texts have as their lengths.
CACHE = 256
PARTS = (32, 8, 1)
SHORTEST_PROMPT = 256  # tokens, whatever the vocabulary: one token a byte


class Wanted(NamedTuple):
    """A request of the command line: a published model, and the measurements that are wanted of it."""

    model: str  # as `PublishedStudy.model` has it
    words: Sequence[str] = ()  # `key=value` of [exact], as in measure.inputs.sequences=50
    corpus: Sequence[str] = ()  # files, folders and data sets; none: the held-out part of the standard library
    lengths: Sequence[int] = ()  # at which perplexity is measured; none: parts of the context
    only: Sequence[str] = ()  # of `TABLES`; none: all that the model can be measured by


class Planned(NamedTuple):
    """A study of a published model, with a line for each table that the model cannot be measured by."""

    study: Study
    notes: tuple[str, ...]


def planned_study(wanted: Wanted) -> Planned:
    """The study `measured_NAME`, or `measured_NAME_on_TEXT`, of the tables that are wanted.

    What nobody named and the model cannot be measured by, as a stream without positions for it, is left out.

    Raises:
        UserError: for a model, a table or a setting that cannot be.
    """
    corpus = distinct_paths(wanted.corpus)
    wanted = wanted._replace(only=tuple(dict.fromkeys(wanted.only)))
    checkpoint = open_checkpoint(wanted.model)
    _, model, context = configured(checkpoint)
    names = _names(wanted, model)
    defaults = default_tables(context, wanted.lengths)
    exact: dict[str, Any] = {"kind": "published", "model": wanted.model, BOUND: BOUND in names}
    exact["measure"] = {name: table for name, table in defaults.items() if name in names}
    if context < SinkRate().length:
        exact["measure"]["sink"] = {"length": context}
    exact = overridden({**exact, **({"corpus": corpus} if corpus else {})}, wanted.words, "measure.windows=512")
    settings = validated(PublishedStudy, exact, checkpoint.name)
    unfit = _unfit(settings, model, context, checkpoint.name)
    for name, reason in unfit.items():
        if (
            name in wanted.only
            or (name == "perplexity" and wanted.lengths)
            or any(word.startswith(f"measure.{name}.") for word in wanted.words)
        ):
            raise UserError(reason)
    exact["measure"] = {name: table for name, table in exact["measure"].items() if name not in unfit}
    kept = validated(PublishedStudy, exact, checkpoint.name)
    tree = {
        "study": study_name(checkpoint.name, corpus),
        "title": f"{checkpoint.name}, measured",
        "command": command(wanted, corpus),
        "exact": exact,
        **specs_of(checkpoint.name, kept),
    }
    notes = tuple(f"{name} is left out: {reason}" for name, reason in unfit.items())
    return Planned(validated(Study, tree, checkpoint.name), notes)


def default_tables(context: int, lengths: Sequence[int] = ()) -> dict[str, dict[str, Any]]:
    """The settings of each table of [exact.measure] for a model of this context [tokens], perplexity at `lengths` if given."""
    cache = min(CACHE, context // 2)
    lengths = list(dict.fromkeys(lengths)) or sorted({max(1, context // part) for part in PARTS})
    prompt = min(*PromptsMeasure().lengths, context - LONGEST_ANSWER) if context > LONGEST_ANSWER else 1
    return {
        "inputs": {},
        "context": {},
        "streaming": {"tokens": 16 * cache, "cache": cache, "full_attention": min(4 * cache, context)},
        "interventions": {"length": min(InterventionsMeasure().length, context)},
        "perplexity": {"lengths": lengths, "windows": 4, "last": min(PerplexityMeasure(lengths=(1,)).last, *lengths)},
        "prompts": {"lengths": [prompt]},
        "languages": {},
    }


def _names(wanted: Wanted, model: ModelConfig) -> Sequence[str]:
    """The tables that are wanted. UserError for an unknown one, or what does not go with lengths, words or the model."""
    for name in wanted.only:
        if name not in TABLES:
            raise UserError(f"--only {name}: unknown{nearest(name, TABLES)}")
    for word in wanted.words:
        table = re.split(r"[.=]", word)[1] if word.startswith("measure.") else ""
        if wanted.only and table in TABLES and table not in wanted.only:
            raise UserError(f"{word}: --only {','.join(wanted.only)} leaves {table} out; add it there")
    if wanted.lengths and wanted.only and "perplexity" not in wanted.only:
        raise UserError(f"--lengths are those of perplexity, which --only {','.join(wanted.only)} leaves out; add it there")
    if BOUND in wanted.only and not isinstance(model.position, Rope):
        raise UserError(f"--only {BOUND}: positions of kind {model.position.kind!r} have no base")
    return wanted.only or TABLES


def _unfit(settings: PublishedStudy, model: ModelConfig, context: int, name: str) -> dict[str, str]:
    """The tables that a model cannot be measured by, and why."""
    reasons: dict[str, str] = {}
    data = TextData(corpus=settings.corpus, length=context, bos=settings.bos)
    for table in FINALS:
        if (of_table := getattr(settings.measure, table)) is None:
            continue
        try:
            alone = Measure.model_validate({"sink": settings.measure.sink, table: of_table})
            validated(Measured, {"model": model, "data": data, "measure": alone}, name)
        except UserError as error:
            reasons[table] = str(error)
    if settings.measure.prompts is not None and context < SHORTEST_PROMPT:
        reasons.setdefault("prompts", f"{name}: a context of {context} tokens may have no room for a prompt")
    return reasons


def distinct_paths(texts: Sequence[str]) -> list[str]:
    """The texts without those that are the same file or folder as one before."""
    places: Mapping[object, str] = {Path(text).resolve() if is_path(text) else text: text for text in reversed(texts)}
    return list(reversed(places.values()))


def study_name(model: str, corpus: Sequence[str]) -> str:
    """`measured_NAME`, with the texts if there are any, so that what is measured on one text hides no other."""
    stems = [Path(text).resolve().stem if is_path(text) else text for text in corpus]
    name = f"measured_{model}" + (f"_on_{'+'.join(stems)}" if stems else "")
    return re.sub(r"[^A-Za-z0-9_.=+-]", "-", name)


def command(wanted: Wanted, corpus: Sequence[str]) -> str:
    """The command that repeats a measurement. Models and texts in files are named without their folders."""
    here = Path(wanted.model).exists()
    words = ["leadline", "measure", Path(wanted.model).resolve().name if here else wanted.model, *wanted.words]
    words += [word for name in wanted.only for word in ("--only", name)]
    words += [word for text in corpus for word in ("--corpus", Path(text).resolve().name if is_path(text) else text)]
    words += ["--lengths", ",".join(map(str, wanted.lengths))] if wanted.lengths else []
    return shlex.join(words)
