"""Ties the studies to the ledger and the page: the one place that knows all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.claims import claims_table, ledger_table, verdicts, verdicts_table
from experiments.publish.figures import Drawing
from experiments.publish.page import Published, Section, publish
from experiments.publish.summary import current
from experiments.publish.table import Table
from experiments.record import Record, StoredRecord, read_records
from experiments.studies import (
    base_vs_length,
    depth,
    extrapolation,
    extrapolation_encodings,
    gate_position,
    multilingual,
    precision,
    retrieval,
    rope_base,
    sinks,
    sinks_backcopy,
    sinks_lm,
    stability,
    streaming,
    tokens,
    tokens_wordpiece,
    vocabulary,
)
from experiments.studies.anatomy_drawings import (
    backcopy_drawings,
    depth_drawings,
    gate_drawings,
    sinks_lm_drawings,
    stability_drawings,
)
from experiments.studies.base_length_drawings import base_length_drawings
from experiments.studies.drawings import sink_drawings
from experiments.studies.extrapolation_drawings import encodings_drawings, extrapolation_drawings
from experiments.studies.retrieval_drawings import retrieval_drawings
from experiments.studies.rope_base_drawings import rope_base_drawings
from experiments.studies.streaming_drawings import streaming_drawings
from experiments.studies.tokens_drawings import tokens_drawings


@dataclass(frozen=True)
class Study:
    """How the records of one study become a section of the page; tables after the first are left out while empty."""

    name: str
    question: str
    tables: tuple[Callable[[Sequence[Record]], Table], ...]
    drawings: Callable[[Sequence[StoredRecord]], list[Drawing]]


STUDIES = (
    Study(sinks.STUDY, sinks.QUESTION, (sinks.table, sinks.cost_table), sink_drawings),
    Study(
        extrapolation.STUDY,
        extrapolation.QUESTION,
        (extrapolation.table, extrapolation.sink_table),
        extrapolation_drawings,
    ),
    Study(
        extrapolation_encodings.STUDY,
        extrapolation_encodings.QUESTION,
        (
            extrapolation_encodings.table,
            extrapolation_encodings.extensions_table,
            extrapolation_encodings.tuned_table,
            extrapolation_encodings.sink_table,
        ),
        encodings_drawings,
    ),
    Study(
        rope_base.STUDY,
        rope_base.QUESTION,
        (rope_base.table, rope_base.heads_table, rope_base.growth_table, rope_base.men_table),
        rope_base_drawings,
    ),
    Study(
        base_vs_length.STUDY,
        base_vs_length.QUESTION,
        (base_vs_length.table, base_vs_length.length_table),
        base_length_drawings,
    ),
    Study(retrieval.STUDY, retrieval.QUESTION, (retrieval.table, retrieval.depth_table), retrieval_drawings),
    Study(streaming.STUDY, streaming.QUESTION, (streaming.table,), streaming_drawings),
    Study(
        sinks_backcopy.STUDY,
        sinks_backcopy.QUESTION,
        (
            sinks_backcopy.table,
            sinks_backcopy.without_table,
            sinks_backcopy.changes_table,
            sinks_backcopy.layers_table,
        ),
        backcopy_drawings,
    ),
    Study(sinks_lm.STUDY, sinks_lm.QUESTION, (sinks_lm.table, sinks_lm.anatomy_table), sinks_lm_drawings),
    Study(gate_position.STUDY, gate_position.QUESTION, (gate_position.table,), gate_drawings),
    Study(depth.STUDY, depth.QUESTION, (depth.table,), depth_drawings),
    Study(stability.STUDY, stability.QUESTION, (stability.table,), stability_drawings),
    Study(
        tokens.STUDY,
        tokens.QUESTION,
        (tokens.table, tokens.size_table, tokens.probe_table, tokens.speed_table, tokens_wordpiece.wordpiece_table),
        tokens_drawings,
    ),
    Study(vocabulary.STUDY, vocabulary.QUESTION, (vocabulary.table,), vocabulary.vocabulary_drawings),
    Study(multilingual.STUDY, multilingual.QUESTION, (multilingual.table,), multilingual.multilingual_drawings),
    Study(precision.STUDY, precision.QUESTION, (precision.table,), lambda stored: []),  # noqa: ARG005
)


def sections(stored: Sequence[StoredRecord]) -> list[Section]:
    """One section a study that has records, in the order of `STUDIES`."""
    shown = []
    for study in STUDIES:
        own = [entry for entry in stored if entry.record.study == study.name]
        if own:
            records = [entry.record for entry in own]
            first, *others = (table(records) for table in study.tables)
            tables = (first, *(table for table in others if table.rows))
            shown.append(Section(study.name, study.question, tables, tuple(study.drawings(own))))
    return shown


def publish_all(results: Path, hashes: Mapping[tuple[str, str], str] | None = None) -> Published:
    """Rebuilds page, tables, figures and verdicts of a results folder from its records.

    Args:
        results: the folder of the records.
        hashes: (study, arm) -> hash, where an arm was recorded with more than one configuration and the one that was
            asked for is not the last; without it the last recorded one is shown, and the page names the others.

    Raises:
        UserError: if a record cannot be read or the folder cannot be written.
    """
    stored, notes = current(read_records(results), hashes)
    records = [entry.record for entry in stored]
    judged = verdicts(records)
    return publish(
        results,
        sections(stored),
        judged,
        records,
        extra_tables=(ledger_table(judged), claims_table(judged), verdicts_table(judged)),
        notes=tuple(notes),
    )
