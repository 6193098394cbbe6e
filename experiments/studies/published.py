"""Published models measured from the command line: a study of one model, made on the spot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.experiments.config.base import validated
from leadline.experiments.config.load import overridden
from leadline.experiments.config.study import Study
from leadline.experiments.measure.kinds.registry import FINALS
from leadline.experiments.published.load import configured
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.records.measurement import Measurement
from leadline.experiments.records.provenance import provenance
from leadline.experiments.records.store import read_records, write_study
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.lock import locked
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.studies.run import run_exact

# What a model without a configuration of its own is measured by, with the settings that have no default: a cache of so many
# tokens, and texts of these parts of the context.
CACHE = 256
PARTS = (32, 8, 1)


def measured_published(
    model: str,
    words: Sequence[str],
    corpus: Sequence[str],
    lengths: Sequence[int],
    only: Sequence[str],
    results: Path,
    progress: Progress,
) -> list[Measurement]:
    """Measures a published model, and records what is not on record yet.

    Args:
        model: as `PublishedStudy.model` has it.
        words: `key=value` of [exact], as in measure.inputs.sequences=50.
        corpus: files, folders and data sets; none: the held-out part of the standard library.
        lengths: at which perplexity is measured; none: parts of the context.
        only: tables of [exact.measure]; none: all.
        results: the folder of the records.
        progress: hears of every job.

    Raises:
        UserError: for a model, a setting or a text that cannot be.
        Interrupted: when asked to stop; what is recorded is kept.
    """
    study = _study(model, words, corpus, lengths, only)
    write_study(results, study)
    with Interruption(progress.note) as interruption, locked(results / study.study):
        digests, _ = run_exact(study, results, provenance(), progress, interruption)
    records = [stored.record for stored in read_records(results, study.study)[0]]
    current = [record for record in records if digests.get((study.study, record.arm)) == record.arm_hash]
    return [entry for record in current for entry in record.measurements]


def _study(model: str, words: Sequence[str], corpus: Sequence[str], lengths: Sequence[int], only: Sequence[str]) -> Study:
    """The study `measured_NAME`, of the tables that are wanted."""
    checkpoint = open_checkpoint(model)
    _, _, context = configured(checkpoint)
    tables: dict[str, Any] = {
        "inputs": {},
        "context": {},
        "interventions": {},
        "languages": {},
        "perplexity": {"lengths": list(lengths) or [context // part for part in PARTS], "windows": 4},
        "prompts": {},
        "streaming": {"tokens": 16 * CACHE, "cache": CACHE, "full_attention": 4 * CACHE},
    }
    if unknown := [name for name in only if name not in tables]:
        raise UserError(f"--only {unknown[0]}: choose among {', '.join(tables)}")
    measure = {name: table for name, table in tables.items() if name in (only or FINALS)}
    exact: dict[str, Any] = {"kind": "published", "model": model, "measure": measure}
    if corpus:
        exact["corpus"] = list(corpus)
    tree = {"study": f"measured_{checkpoint.name}", "title": checkpoint.name, "exact": overridden(exact, words)}
    return validated(Study, tree, model)
