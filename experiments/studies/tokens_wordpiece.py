"""WordPiece by either criterion on one text: what the pieces of each cost other text, and how likely they make their own."""

from collections.abc import Sequence
from functools import partial
from itertools import islice

import numpy as np

from experiments.config.base import Frozen
from experiments.config.study import WordPieceComparison
from experiments.data.corpus import Corpus, Document, corpus_digest
from experiments.errors import UserError
from experiments.evidence import Evidence
from experiments.measure.cost import Cost, cost
from experiments.publish.summary import cell, values
from experiments.publish.table import Table
from experiments.record import Measurement, Record
from experiments.studies.exact import Found, Job
from tokenization.tokenizer import Tokenizer
from tokenization.wordpiece_training import Criterion, train_wordpiece

# Arms: the criteria, and the second with the bound that `train_wordpiece` tells of. Heading, criterion, least count of a pair.
FREQUENCY, LIKELIHOOD = "wordpiece_frequency", "wordpiece_likelihood"
WAYS: dict[str, tuple[str, Criterion, int]] = {
    FREQUENCY: ("frequency", "frequency", 1),
    LIKELIHOOD: ("likelihood", "likelihood", 1),
    f"{LIKELIHOOD}_5": ("likelihood, of pairs that occur 5 times", "likelihood", 5),
}
_COLUMNS = {"tokens": 0, "bytes_per_token": 2, "unknown": 6, "used": 3, "bits_per_byte": 3}


class WordPieceArm(Frozen):
    """What decides the numbers of one criterion, beside the digest of the texts."""

    criterion: Criterion
    minimum_count: int
    vocabularies: tuple[int, ...]


def wordpiece_jobs(cfg: WordPieceComparison, corpus: Corpus) -> list[Job]:
    """A job a criterion: every n-th document of the corpus to train on, and as many between them to count."""
    train, held_out = (list(islice(corpus, first, None, cfg.every)) for first in (0, cfg.every // 2))
    digest = corpus_digest([*train, *held_out])
    sizes = tuple(sorted(set(cfg.vocabularies)))
    jobs = []
    for name, (_, criterion, least) in WAYS.items():
        arm = WordPieceArm(criterion=criterion, minimum_count=least, vocabularies=sizes)
        jobs.append(Job(name, arm, partial(_found, arm, train, held_out, digest), digest))
    return jobs


def _found(arm: WordPieceArm, train: Sequence[Document], held_out: Sequence[Document], digest: str) -> Found:
    """All vocabularies are the first pieces of the largest."""
    texts, others = ([document.text.decode() for document in side] for side in (train, held_out))
    numbers: dict[str, Measurement] = {}
    try:
        trained = train_wordpiece(texts, arm.vocabularies[-1], arm.criterion, minimum_count=arm.minimum_count)
        for size in arm.vocabularies:
            numbers |= _measured(trained.tokenizer(size), texts, others)
    except ValueError as error:
        raise UserError(f"wordpiece.vocabularies: {error}") from error
    train_bytes, held_out_bytes = (sum(len(document.text) for document in side) for side in (train, held_out))
    return Found(numbers, {"name": "stdlib", "digest": digest, "train_bytes": train_bytes, "held_out_bytes": held_out_bytes})


def _measured(tokenizer: Tokenizer, train: Sequence[str], held_out: Sequence[str]) -> dict[str, Measurement]:
    size = tokenizer.vocabulary_size
    counts = [cost(tokenizer, text) for text in held_out]
    whole = Cost(*(sum(getattr(one, name) for one in counts) for name in ("tokens", "bytes", "characters", "unknown")))
    used = np.unique(np.concatenate(tokenizer.encode_batch(held_out)))
    found = {
        "tokens": (whole.tokens, "tokens"),
        "bytes_per_token": (whole.bytes_per_token, "bytes"),
        "unknown": (whole.unknown / whole.tokens, "1"),
        "used": (len(used) / size, "1"),
        "bits_per_byte": (unigram_bits(tokenizer, train), "bits"),
    }
    return {f"{name}.{size}": Measurement(value=value, unit=unit) for name, (value, unit) in found.items()}


def unigram_bits(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """-sum_t n_t log2(n_t / n) over the bytes of the texts: independent tokens, each as probable as it is frequent in them."""
    counts = np.bincount(np.concatenate(tokenizer.encode_batch(texts)))
    counts = counts[counts > 0]
    return float(-np.sum(counts * np.log2(counts / counts.sum())) / sum(len(text.encode()) for text in texts))


def wordpiece_table(records: Sequence[Record]) -> Table:
    """Every criterion with every vocabulary."""
    rows = tuple(
        (heading, str(size), *(cell(records, arm, f"{name}.{size}", digits) for name, digits in _COLUMNS.items()))
        for arm, (heading, _, _) in WAYS.items()
        for size in wordpiece_sizes(records)
        if values(records, arm, f"tokens.{size}")
    )
    columns = ("pairs by", "ids", "tokens", "bytes / token", "UNK / tokens", "ids used", "bits / byte, training")
    note = (
        "documents of Python's standard library, other ones counted than trained on; white space is no token; ids used: share "
        "of the ids that occur in the text counted; bits / byte: of the text trained on, its tokens independent and as "
        "probable as they are frequent"
    )
    return Table("WordPiece by its criterion", "tokens_wordpiece", columns, rows, (note,))


def wordpiece_sizes(records: Sequence[Record]) -> list[int]:
    """The vocabularies that any criterion was trained to."""
    names = {name for record in records if record.arm in WAYS for name in record.measurements if name.startswith("tokens.")}
    return sorted(int(name.partition(".")[2]) for name in names)


def more_likely(records: Sequence[Record]) -> Evidence | None:
    """How many bits a byte fewer the training text takes by likelihood than by frequency; a margin a vocabulary.

    The score is the gain of one occurrence of a pair. What a step gains is about count(ab) times its logarithm.
    """
    found = {}
    for size in wordpiece_sizes(records):
        frequent, likely = (values(records, arm, f"bits_per_byte.{size}") for arm in (FREQUENCY, LIKELIHOOD))
        if frequent and likely:
            found[size] = (frequent[0], likely[0])
    if not found:
        return None
    figures = "bits/byte by likelihood and by frequency: " + ", ".join(
        f"{likely:.2f} and {frequent:.2f} ({size} ids)" for size, (frequent, likely) in found.items()
    )
    return Evidence(figures, tuple(frequent - likely for frequent, likely in found.values()), exact=True)
