"""What tokenizers cost languages, numbers, names, white space and code, a job a tokenizer; and WordPiece by its criterion."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Tokens
from leadline.experiments.data.text.corpus import stdlib_documents
from leadline.experiments.data.text.parallel import described
from leadline.experiments.data.text.tokenizers import open_tokenizer
from leadline.experiments.measure.cost import costs
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.measure.exact.premiums import premium_point, size_point
from leadline.experiments.measure.exact.texts import texts_of
from leadline.experiments.measure.exact.wordpiece import wordpiece_jobs
from leadline.experiments.measure.speed import megabytes_per_second
from leadline.experiments.records.measurement import Point, reading
from leadline.tokenization.formats.tiktoken import RankTokenizer, rank_ids
from leadline.tokenization.pretokenization import pretokenize
from leadline.tokenization.tokenizer import Tokenizer

# What texts contain besides words, by the name of the dimension `probe`; each is counted by itself.
PROBES = {
    "12345": "12345",
    "12345678": "12345678",
    "12,345,678": "12,345,678",
    "3.14159265": "3.14159265",
    "Margaret Thornton": "Margaret Thornton",
    "Oluwaseun Adébáyò": "Oluwaseun Adébáyò",
    "Nguyễn Thị Minh Khai": "Nguyễn Thị Minh Khai",
    "16 spaces": " " * 16,
    "4 tabs": "\t" * 4,
    "a loop in Python": "for i in range(10):\n    if i % 2:\n        print(i)\n",
    "a family of emoji": "👩‍👩‍👧",
}


class TokensSettings(Frozen):
    """What decides the numbers of one tokenizer, besides the texts."""

    kind: Literal["tokens"] = "tokens"
    tokenizer: str  # its digest
    reference: str
    window: int
    speed_documents: int  # 0 where its speed is not measured


def jobs(exact: Tokens) -> list[Job]:
    """A job for each tokenizer, and one for each way to train WordPiece.

    Raises:
        UserError: for texts or tokenizers that cannot be read.
    """
    texts = texts_of(exact.texts, exact.reference)
    ranks = None if exact.ranks is None else Path(exact.ranks)
    planned = [_job(name, open_tokenizer(spec, ranks), texts, exact) for name, spec in exact.tokenizers.items()]
    return planned + ([] if exact.wordpiece is None else wordpiece_jobs(exact.wordpiece, stdlib_documents()))


def _job(name: str, tokenizer: Tokenizer, texts: Mapping[str, str], exact: Tokens) -> Job:
    settings = TokensSettings(
        tokenizer=tokenizer.digest(),
        reference=exact.reference,
        window=exact.window,
        speed_documents=exact.speed_documents if isinstance(tokenizer, RankTokenizer) else 0,
    )
    return Job(name, name, settings, independent(partial(_counted, tokenizer, texts, settings)), described(texts)["digest"])


def _counted(tokenizer: Tokenizer, texts: Mapping[str, str], settings: TokensSettings) -> Computed:
    by_language = costs(tokenizer, texts)
    point = premium_point(by_language, settings.reference) | size_point(by_language, settings.reference, settings.window)
    point[reading("vocabulary_size")] = np.asarray(tokenizer.vocabulary_size)
    point |= {reading("tokens", probe=name): np.asarray(len(tokenizer.encode(text))) for name, text in PROBES.items()}
    if isinstance(tokenizer, RankTokenizer) and settings.speed_documents:
        point |= _speeds(tokenizer, settings.speed_documents)
    return Computed(point, described(texts) | {"lossless": tokenizer.lossless})


def _speeds(tokenizer: RankTokenizer, documents: int) -> Point:
    """`encoding_speed` of tiktoken and of the same algorithm in Python, which in one way keeps the words of a document."""

    def plain(text: str) -> list[list[int]]:
        return [rank_ids(piece.encode(), tokenizer.ranks) for piece in pretokenize(text, tokenizer.pattern)]

    def cached(text: str) -> list[list[int]]:
        pieces = pretokenize(text, tokenizer.pattern)
        ids = {piece: rank_ids(piece.encode(), tokenizer.ranks) for piece in set(pieces)}
        return [ids[piece] for piece in pieces]

    texts = [document.text.decode() for document in islice(stdlib_documents(), documents)]
    speeds = megabytes_per_second({"tiktoken": tokenizer.encode, "python": plain, "python_cached": cached}, texts)
    return {
        reading("encoding_speed", way=way, round=number): np.asarray(speed)
        for way, rounds in speeds.items()
        for number, speed in enumerate(rounds, start=1)
    }
