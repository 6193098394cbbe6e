"""What a vocabulary costs and gives: bytes a token, weights of the embedding, rare ids, and bits per byte at equal compute."""

from collections.abc import Sequence

import numpy as np

from experiments.evidence import Claim, Evidence, by_seed
from experiments.publish.figures import Band, Drawing
from experiments.publish.panels import line_panels
from experiments.publish.summary import arms, cell, statistic, trained_notes, values
from experiments.publish.table import MISSING, Cell, Table
from experiments.record import Record, StoredRecord

STUDY = "vocabulary"
QUESTION = "Which vocabulary gives the fewest bits per byte at equal compute, and what does a larger one cost?"

_LEARNED = (("bits_per_byte", "bits per byte", 3), ("loss", "loss (nats / token)", 3))
# The same for every seed.
_GIVEN = (
    ("vocabulary", "ids", 0),
    ("bytes_per_token", "bytes / token", 2),
    ("rare_ids", "rare ids", 3),
    ("rare_tokens", "rare tokens", 4),
    ("unknown_code", "UNK in code", 3),
    ("unknown_prose", "UNK in prose", 3),
)


def ordered(records: Sequence[Record]) -> list[str]:
    """The arms by the size of their vocabularies, then by name."""
    return sorted(arms(records, ()), key=lambda arm: (min(values(records, arm, "vocabulary"), default=0.0), arm))


def embedding_share(records: Sequence[Record], arm: str) -> Cell:
    """The embedding's share of all weights."""
    own = [
        found / record.parameters
        for record in records
        if record.arm == arm and (found := record.measurements["embedding_weights"].value) is not None
    ]
    return statistic(own[:1]) or MISSING


def table(records: Sequence[Record]) -> Table:
    """Every vocabulary."""
    rows = tuple(
        (
            arm,
            *(cell(records, arm, name, digits) for name, _, digits in _LEARNED),
            *(statistic(values(records, arm, name)[:1], digits) or MISSING for name, _, digits in _GIVEN),
            embedding_share(records, arm),
            statistic([record.flops / 1e12 for record in records if record.arm == arm][:1], 2) or MISSING,
        )
        for arm in ordered(records)
    )
    columns = ("tokenizer", *(heading for _, heading, _ in (*_LEARNED, *_GIVEN)), "embedding share", "10^12 FLOPs")
    note = (
        "bits per byte of the same held-out bytes, left out where the tokenizer loses text; rare: seen fewer than 10 times in "
        "training, as a share of the vocabulary and of held-out tokens"
    )
    return Table("Vocabularies at equal compute", STUDY, columns, rows, (*trained_notes(records), note))


def families(records: Sequence[Record]) -> dict[str, list[str]]:
    """Arms that differ in size alone, from small to large: FAMILY_SIZE by name."""
    found: dict[str, list[str]] = {}
    for arm in ordered(records):
        family, _, size = arm.rpartition("_")
        if size.isdigit() and values(records, arm, "bits_per_byte"):
            found.setdefault(family, []).append(arm)
    return found


def vocabulary_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Bits per byte by size, a line or a point a family; bytes by themselves are a line across."""
    records = [entry.record for entry in stored]
    bands = {
        family: (own, by_seed(records, [(arm, "bits_per_byte") for arm in own])) for family, own in families(records).items()
    }
    drawn = [
        Band(family, np.array([float(arm.rpartition("_")[2]) for arm in own]), np.array(list(rows.values())))
        for family, (own, rows) in bands.items()
        if rows
    ]
    if not drawn:
        return []
    sizes = sorted({float(x) for band in drawn for x in band.x})
    if found := values(records, "byte", "bits_per_byte"):
        drawn.append(Band("bytes", np.array([sizes[0], sizes[-1]]), np.array([[value] * 2 for value in found])))
    caption = "Bits per byte of held-out text by size of the vocabulary, at equal compute; mean and range of the seeds"
    panels = {"": drawn}
    return [line_panels("bits_per_byte", caption, panels, xlabel="ids", ylabel="bits per byte", ticks=sizes, columns=1)]


def _optimum(records: Sequence[Record]) -> Evidence | None:
    """By how much the smallest and the largest vocabulary of the largest family are above the best between them."""
    own = max(families(records).values(), key=len, default=[])
    if len(own) < 3:
        return None
    rows = by_seed(records, [(arm, "bits_per_byte") for arm in own])
    if not rows:
        return None
    figures = ", ".join(
        f"{arm} {np.mean(column):.3f}" for arm, column in zip(own, zip(*rows.values(), strict=True), strict=True)
    )
    margins = tuple(min(row[0], row[-1]) - min(row[1:-1]) for row in rows.values())
    return Evidence(figures, margins, exact=False)


def _shorter(records: Sequence[Record]) -> Evidence | None:
    """By how much the best vocabulary of every seed is below bytes."""
    own = [arm for family in families(records).values() for arm in family]
    rows = by_seed(records, [("byte", "bits_per_byte"), *((arm, "bits_per_byte") for arm in own)]) if own else {}
    if not rows:
        return None
    means = np.mean(list(rows.values()), axis=0)
    best = int(np.argmin(means[1:]))
    figures = f"bytes {means[0]:.3f}, {own[best]} {means[1 + best]:.3f}"
    return Evidence(figures, tuple(row[0] - row[1 + best] for row in rows.values()), exact=False)


VOCABULARY = (
    Claim(
        "tao-optimum",
        "At a given compute there is a best vocabulary: the smallest and the largest have more bits per byte than one between",
        "Tao et al. 2024, arXiv:2407.13623",
        "an optimal size for every budget, larger for larger models",
        STUDY,
        _optimum,
        "33M to 3B parameters",
    ),
    Claim(
        "tokens-pay",
        "At equal compute merged tokens have fewer bits per byte than bytes",
        "Xue et al. 2022, arXiv:2105.13626 (ByT5)",
        "bytes need more computation for the same text",
        STUDY,
        _shorter,
        "300M parameters and more",
    ),
)
