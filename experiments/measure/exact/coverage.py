"""How much of a text its most frequent words or characters cover: a job for each text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import regex
from jaxtyping import Float64

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Coverage
from leadline.experiments.data.text.corpus import Document, stdlib_documents, text_documents
from leadline.experiments.data.text.split import corpus_digest
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.measure.exact.training import divided
from leadline.experiments.records.measurement import Point, scalars
from leadline.experiments.runtime.errors import UserError

# Words are runs of letters, with an apostrophe between letters too; characters are those of Chinese writing alone.
UNITS = {"words": r"\p{L}+(?:['\u2019]\p{L}+)*", "characters": r"\p{Han}"}


class CoverageSettings(Frozen):
    """What decides the numbers of one text, besides the text."""

    kind: Literal["coverage"] = "coverage"
    unit: str
    sizes: tuple[int, ...]


def jobs(exact: Coverage) -> list[Job]:
    """A job for each text whose files are given.

    Raises:
        UserError: for files that cannot be read, and a text without a unit.
    """
    planned, sizes = [], tuple(sorted(set(exact.sizes)))
    for name, text in exact.texts.items():
        if text.files is None:
            continue
        documents = list(stdlib_documents() if isinstance(text.files, str) else text_documents(text.files))
        settings, digest = CoverageSettings(unit=text.unit, sizes=sizes), corpus_digest(documents)
        files = text.files if isinstance(text.files, str) else [Path(file).name for file in text.files]
        data = {"name": files, "digest": digest, "documents": len(documents)}
        compute = independent(_covered, f"texts.{name}", settings, documents, data)
        planned.append(Job(name, text.label, settings, compute, digest))
    return planned


def unit_counts(text: str, unit: str) -> Counter[str]:
    """How often each word, in lower case, or each character occurs."""
    return Counter(regex.findall(UNITS[unit], text.lower()))


def coverage(ranked: Counter[str], counted: Counter[str], sizes: Sequence[int]) -> Float64[np.ndarray, " sizes"]:
    """Σ_{r ≤ N} c(u_r) / Σ_u c(u): the share of running units u that are among the N most frequent, for each N of `sizes`.

    Args:
        ranked: Counts of units that decide their ranks r; of equal counts the first in the order of code points is first.
        counted: Counts c of the text that is covered.
        sizes: Each N; one above the number of units covers as many as there are.
    """
    order = sorted(ranked, key=lambda unit: (-ranked[unit], unit))
    covered = np.cumsum([0, *(counted[unit] for unit in order)], dtype=np.float64)
    return covered[np.minimum(sizes, len(order))] / counted.total()


def _covered(name: str, settings: CoverageSettings, documents: Sequence[Document], data: Mapping[str, object]) -> Computed:
    text = "\n".join(document.text.decode() for document in documents)
    whole, ranked, counted = (unit_counts(part, settings.unit) for part in (text, *divided(text)))
    if not (ranked and counted):
        raise UserError(f"{name}: there are no {settings.unit} in every other line of it; name a longer text")
    point: Point = scalars({"distinct_units": len(whole), "running_units": whole.total()})
    of_itself, of_the_rest = coverage(whole, whole, settings.sizes), coverage(ranked, counted, settings.sizes)
    for size, share, held_out in zip(settings.sizes, of_itself, of_the_rest, strict=True):
        point |= scalars({"coverage": share, "held_out_coverage": held_out}, vocabulary=size)
    return Computed(point, data)
