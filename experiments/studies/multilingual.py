"""What oversampling languages with little text does to the tokens that they take, by the size of the vocabulary."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from experiments.config.base import Frozen
from experiments.config.study import MultilingualStudy
from experiments.errors import UserError
from experiments.evidence import Claim, Evidence
from experiments.identity import Origin
from experiments.interrupt import Interruption
from experiments.measure.cost import gini, relative
from experiments.progress import Progress
from experiments.publish.figures import Band, Drawing
from experiments.publish.panels import line_panels
from experiments.publish.summary import arms, cell, provenance, values
from experiments.publish.table import Table
from experiments.record import Measurement, Record, StoredRecord
from experiments.studies.exact import Found, Job, run_exact
from experiments.studies.tokens import LANGUAGES, costs, digest, languages, texts_of
from tokenization.bpe import train_on_pieces
from tokenization.words import word_counts

STUDY = "multilingual"
QUESTION = "Does oversampling languages with little text, or a larger vocabulary, make tokens fairer?"
# The largest language counts this often; the others, being rounded to whole numbers, at least once.
LARGEST = 2**16


class MultilingualArm(Frozen):
    """What decides the numbers of one tokenizer, beside the texts."""

    vocabulary: int
    exponent: float
    halving: float
    pattern: str
    reference: str


def run_multilingual(
    study: MultilingualStudy, results: Path, origin: Origin, progress: Progress, interruption: Interruption
) -> tuple[dict[tuple[str, str], str], int]:
    """Records each tokenizer that has no record yet; the hash of each arm, and how many were found.

    Raises UserError for texts that cannot be read, and a vocabulary that they cannot fill.
    """
    texts = texts_of(study.texts, study.reference)
    jobs = []
    for arm in arms_of(study):
        job = partial(_found, arm, texts)
        jobs.append(Job(arm_name(arm.exponent, arm.vocabulary), arm, job, digest(texts)))
    return run_exact(STUDY, jobs, results, origin, progress, interruption)


def arms_of(study: MultilingualStudy) -> list[MultilingualArm]:
    """Every exponent with every vocabulary."""
    fixed = {"halving": study.halving, "pattern": study.pattern, "reference": study.reference}
    return [
        MultilingualArm(vocabulary=size, exponent=exponent, **fixed)
        for exponent in sorted(set(study.exponents), reverse=True)
        for size in sorted(set(study.vocabularies))
    ]


def arm_name(exponent: float, vocabulary: int) -> str:
    return f"exponent_{exponent:g}_{vocabulary}"


def divided(text: str) -> tuple[str, str]:
    """Every other line to train on, the rest to count: both have all parts of the text."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[::2]), "".join(lines[1::2])


def shares(count: int, halving: float, exponent: float) -> np.ndarray:
    """Of each language in training: q_i ∝ halving^-i, and p_i ∝ q_i^exponent (Conneau et al. 2020, arXiv:1911.02116)."""
    p = np.power(np.power(halving, -np.arange(count, dtype=np.float64)), exponent)
    return p / p.sum()


def weighted_pieces(texts: Mapping[str, str], p: np.ndarray, pattern: str) -> Counter[str]:
    """How often each piece occurs where each text has its share of the bytes."""
    weights = p / np.array([len(text.encode()) for text in texts.values()])
    times = np.maximum(1, np.rint(weights / weights.max() * LARGEST)).astype(int)
    counted: Counter[str] = Counter()
    for text, factor in zip(texts.values(), times.tolist(), strict=True):
        for piece, count in word_counts([text], pattern).items():
            counted[piece] += count * factor
    return counted


def _found(arm: MultilingualArm, texts: Mapping[str, str]) -> Found:
    halves = {language: divided(text) for language, text in texts.items()}
    p = shares(len(texts), arm.halving, arm.exponent)
    pieces = weighted_pieces({language: half[0] for language, half in halves.items()}, p, arm.pattern)
    try:
        tokenizer = train_on_pieces(pieces, arm.vocabulary, pattern=arm.pattern)
    except ValueError as error:
        raise UserError(f"vocabularies: {arm.vocabulary}: {error}") from error
    found = costs(tokenizer, {language: half[1] for language, half in halves.items()})
    premium = relative(found, arm.reference)
    numbers: dict[str, tuple[float, str]] = {
        "gini": (gini(premium), "1"),
        "most": (max(premium.values()) / min(premium.values()), "1"),
        "total": (sum(own.tokens for own in found.values()), "tokens"),
    }
    for language, own in found.items():
        numbers |= {f"relative.{language}": (premium[language], "1"), f"tokens.{language}": (own.tokens, "tokens")}
    data = {"name": "parallel texts", "digest": digest(texts), "languages": list(texts), "tokenizer": tokenizer.digest()}
    return Found({name: Measurement(value=value, unit=unit) for name, (value, unit) in numbers.items()}, data)


def table(records: Sequence[Record]) -> Table:
    """The fairness of every tokenizer."""
    known = languages(records)
    ordered = sorted(records, key=lambda record: (-_number(record, "exponent"), _number(record, "vocabulary")))
    names = arms(records, [record.arm for record in ordered])
    of = {record.arm: record for record in records}
    rows = tuple(
        (
            f"{_number(of[arm], 'exponent'):g}",
            f"{_number(of[arm], 'vocabulary'):g}",
            *(cell(records, arm, name, digits) for name, digits in (("gini", 3), ("most", 2), ("total", 0))),
            *(cell(records, arm, f"relative.{language}", 2) for language in known),
        )
        for arm in names
    )
    columns = ("exponent", "ids", "Gini", "most / least", "tokens in all", *(LANGUAGES.get(one, one) for one in known))
    note = (
        "byte-level BPE trained on every other line, tokens of the other lines relative to the reference language; shares of "
        "the languages in training, in the order of the columns: each half of the one before, to the power of the exponent"
    )
    return Table("Fairness by oversampling and vocabulary", STUDY, columns, rows, (*provenance(records), note))


def multilingual_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Gini's coefficient and the tokens in all by the size of the vocabulary, a line an exponent."""
    records = [entry.record for entry in stored]
    panels = {}
    for name, heading in (("gini", "Gini's coefficient of the languages' tokens"), ("total", "tokens in all")):
        lines: dict[float, dict[float, float]] = {}
        for record in records:
            found = values([record], record.arm, name)
            lines.setdefault(_number(record, "exponent"), {})[_number(record, "vocabulary")] = found[0]
        panels[heading] = [
            Band(f"exponent {exponent:g}", np.array(sorted(own)), np.array([[own[size] for size in sorted(own)]]))
            for exponent, own in sorted(lines.items(), reverse=True)
        ]
    sizes = sorted({float(x) for bands in panels.values() for band in bands for x in band.x})
    caption = "How fair tokens are, and how many, by the exponent of the languages' shares in training and the vocabulary"
    return [line_panels("multilingual_fairness", caption, panels, xlabel="ids", shared=False, ticks=sizes, columns=2)]


def _number(record: Record, key: str) -> float:
    return float(str(record.config[key]))


def _rise(name: Callable[[Record], str], digits: int, sign: int) -> Callable[[Sequence[Record]], Evidence | None]:
    """How a measurement rises (sign 1) or falls (-1) from the largest exponent to the smallest, for every vocabulary."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        by_size: dict[float, dict[float, float]] = {}
        for record in records:
            found = values([record], record.arm, name(record))
            by_size.setdefault(_number(record, "vocabulary"), {})[_number(record, "exponent")] = found[0]
        pairs = {size: (own[max(own)], own[min(own)]) for size, own in sorted(by_size.items()) if len(own) > 1}
        if not pairs:
            return None
        figures = (f"{size:g} ids: {before:.{digits}f} → {even:.{digits}f}" for size, (before, even) in pairs.items())
        return Evidence("; ".join(figures), tuple(sign * (even - before) for before, even in pairs.values()), exact=True)

    return evidence


_CONNEAU = "Conneau et al. 2020, arXiv:1911.02116 (XLM-R)"
MULTILINGUAL = (
    Claim(
        "oversampling-fairer",
        "Even shares of the languages make tokens fairer than shares as they are, at every size of the vocabulary (Gini)",
        _CONNEAU,
        "an exponent of 0.3 raises the share of languages with little text",
        STUDY,
        _rise(lambda record: "gini", 3, -1),  # noqa: ARG005
    ),
    Claim(
        "oversampling-cost",
        "The language with most text pays for it in tokens",
        _CONNEAU,
        "languages with much text lose capacity",
        STUDY,
        _rise(lambda record: f"tokens.{record.config['reference']}", 0, 1),
    ),
)
