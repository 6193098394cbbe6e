"""Tokens of languages, numbers, names, white space and code, a job per tokenizer; WordPiece and BPE that are trained here."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Literal

import numpy as np

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Tokens
from leadline.experiments.data.text.corpus import stdlib_documents
from leadline.experiments.data.text.parallel import described
from leadline.experiments.data.text.tokenizers import open_tokenizer
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.measure.exact.premiums import premium_jobs
from leadline.experiments.measure.exact.texts import LANGUAGES, costs, language_point, relative, texts_of
from leadline.experiments.measure.exact.training import bpe_jobs, wordpiece_jobs
from leadline.experiments.records.measurement import Point, reading, scalars
from leadline.tokenization.formats.published import FILE
from leadline.tokenization.formats.tiktoken import RankTokenizer, rank_ids
from leadline.tokenization.tokenizer import Tokenizer

# What texts contain besides words, by the name of the dimension `probe`; each is counted by itself.
PROBES = {
    **{number: number for number in ("12345", "12345678", "12,345,678", "3.14159265")},
    **{name: name for name in ("Margaret Thornton", "Oluwaseun Adébáyò", "Nguyễn Thị Minh Khai")},
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
    """A job for each tokenizer, one for its premiums where they are asked for, and one for each way to train WordPiece and BPE.

    Raises:
        UserError: for texts or tokenizers that cannot be read.
    """
    texts = texts_of(exact.texts, exact.reference)
    ranks = None if exact.ranks is None else Path(exact.ranks)
    digest, planned = described(texts)["digest"], []
    folder = exact.published_in
    published = {} if folder is None else {name: str(Path(folder) / name / FILE) for name in exact.published}
    tokenizers = {name: open_tokenizer(spec, ranks) for name, spec in (exact.tokenizers | published).items()}
    for name, tokenizer in tokenizers.items():
        settings = TokensSettings(
            tokenizer=tokenizer.digest(),
            reference=exact.reference,
            window=exact.window,
            speed_documents=exact.speed_documents if isinstance(tokenizer, RankTokenizer) else 0,
        )
        planned.append(Job(name, name, settings, independent(_counted, tokenizer, texts, settings), digest))
    if exact.premiums:
        planned += premium_jobs(tokenizers, texts, exact.reference)
    if exact.wordpiece is not None:
        planned += wordpiece_jobs(exact.wordpiece, stdlib_documents())
    return planned if exact.bpe is None else planned + bpe_jobs(exact.bpe, stdlib_documents())


def _counted(tokenizer: Tokenizer, texts: Mapping[str, str], settings: TokensSettings) -> Computed:
    by_language = costs(tokenizer, texts)
    point = language_point(by_language, settings.reference, settings.window)
    point |= scalars({"vocabulary_size": tokenizer.vocabulary_size})
    for name, probe in PROBES.items():
        ids = tokenizer.encode(probe).tolist()
        first = len(tokenizer.token_bytes(ids[0])) if ids else None  # some tokenizers leave white space out
        point |= scalars({"tokens": len(ids), "first_token_bytes": first}, probe=name)
    if isinstance(tokenizer, RankTokenizer) and settings.speed_documents:
        point |= _speeds(tokenizer, settings.speed_documents)
    return Computed(point, described(texts) | {"lossless": tokenizer.lossless})


def _speeds(tokenizer: RankTokenizer, documents: int) -> Point:
    """`encoding_speed` of tiktoken and of the same algorithm in Python, which in one way keeps the words of a document."""

    def cached(text: str) -> list[list[int]]:
        pieces = tokenizer.words.cut(text)
        ids = {piece: rank_ids(piece.encode(), tokenizer.ranks) for piece in set(pieces)}
        return [ids[piece] for piece in pieces]

    texts = [document.text.decode() for document in islice(stdlib_documents(), documents)]
    speeds = megabytes_per_second(
        {"tiktoken": tokenizer.encode, "python": tokenizer.encode_in_python, "python_cached": cached}, texts
    )
    return {
        reading("encoding_speed", way=way, round=number): np.asarray(speed)
        for way, rounds in speeds.items()
        for number, speed in enumerate(rounds, start=1)
    }


ROUNDS = 3


def megabytes_per_second(
    ways: Mapping[str, Callable[[str], object]], texts: Sequence[str], clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """The speed of each way to encode, in 10^6 bytes of UTF-8 a second, once in each of ROUNDS rounds.

    The ways take turns within a round, so that a drift of the machine meets all of them. The texts are encoded one by one.

    Args:
        ways: functions that encode one text, by name.
        texts: what each of them encodes in each round.
        clock: gives seconds.

    Raises:
        ValueError: without a text.
    """
    size = sum(len(text.encode()) for text in texts) / 1e6
    if not size:
        raise ValueError("there is no text to encode; give some")
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, encode in ways.items():
            began = clock()
            for text in texts:
                encode(text)
            speeds[name].append(size / (clock() - began))
    return speeds


Row = dict[str, str | float]


def report(
    tokenizers: Mapping[str, Tokenizer], texts: Mapping[str, str], reference: str, window: int, price: float | None
) -> list[Row]:
    """A row for each tokenizer and text.

    Args:
        tokenizers: what encodes the texts, by the name that rows have.
        texts: parallel texts by language.
        reference: the language that the others are compared with.
        window: tokens of a context.
        price: of a million tokens; None leaves the column out.

    Raises:
        UserError: for a text that cannot be encoded.
    """
    rows = []
    for name, tokenizer in tokenizers.items():
        by_language = costs(tokenizer, texts)
        for language, premium in relative(by_language, reference).items():
            text = by_language[language]
            row: Row = {
                "tokenizer": name,
                "language": LANGUAGES.get(language, language),
                "tokens": text.tokens,
                "relative": premium,
                "bytes/token": text.bytes_per_token,
                "characters/token": text.characters_per_token,
                f"of {window} tokens": round(window / premium),
            }
            rows.append(row if price is None else row | {"cost": text.tokens * price / 1e6})
    return rows


def probed(tokenizers: Mapping[str, Tokenizer]) -> list[Row]:
    """A row for each probe and tokenizer: its tokens, and where they end."""
    rows: list[Row] = []
    for (probe, text), (name, tokenizer) in product(PROBES.items(), tokenizers.items()):
        ids = tokenizer.encode(text).tolist()
        pieces = " ".join(_shown(tokenizer.token_bytes(token)) for token in ids)
        rows.append({"text": probe, "tokenizer": name, "tokens": len(ids), "pieces": pieces})
    return rows


def _shown(piece: bytes) -> str:
    """A token as Python writes a string, or bytes where it ends inside a character."""
    try:
        return repr(piece.decode())
    except UnicodeDecodeError:
        return repr(piece)[1:]
