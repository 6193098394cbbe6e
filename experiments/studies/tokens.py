"""What tokenizers cost languages, numbers, names, white space and code."""

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path

from experiments.config.base import Frozen
from experiments.config.study import TokensStudy
from experiments.data.corpus import stdlib_documents
from experiments.data.parallel import embedded, parallel_texts
from experiments.errors import UserError
from experiments.identity import Origin
from experiments.interrupt import Interruption
from experiments.measure.cost import Cost, cost, effective_context, gini, relative
from experiments.measure.speed import ROUNDS, megabytes_per_second
from experiments.progress import Progress
from experiments.publish.summary import arms, cell, provenance, statistic, values
from experiments.publish.table import MISSING, Table
from experiments.record import Measurement, Record
from experiments.studies.exact import Found, Job, run_exact
from experiments.studies.tokens_wordpiece import wordpiece_jobs
from experiments.tokenizers import open_tokenizer
from tokenization.pretokenization import cut
from tokenization.ranks import RankTokenizer, rank_ids
from tokenization.tokenizer import Tokenizer

STUDY = "tokens"
QUESTION = "How many tokens does the same text take in each language, and what do numbers, names, white space and code take?"

LANGUAGES = {
    "eng": "English",
    "spa": "Spanish",
    "fra": "French",
    "deu": "German",
    "rus": "Russian",
    "cmn_hans": "Chinese",
    "jpn": "Japanese",
    "kor": "Korean",
    "tha": "Thai",
    "hin": "Hindi",
    "amh": "Amharic",
    "mya": "Burmese",
}
# What texts are made of besides words; each is counted by itself.
PROBES = {
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


class TokensArm(Frozen):
    """What decides the numbers of one tokenizer, beside its own digest and that of the texts."""

    tokenizer: str  # the digest
    reference: str
    window: int


def run_tokens(
    study: TokensStudy, results: Path, origin: Origin, progress: Progress, interruption: Interruption
) -> tuple[dict[tuple[str, str], str], int]:
    """Records what each tokenizer that has no record yet costs; the hash of each arm, and how many were found.

    Raises UserError for texts or tokenizers that cannot be read.
    """
    texts = texts_of(study.texts, study.reference)
    ranks = None if study.ranks is None else Path(study.ranks)
    jobs = []
    for name, spec in study.tokenizers.items():
        tokenizer = open_tokenizer(spec, ranks)
        arm = TokensArm(tokenizer=tokenizer.digest(), reference=study.reference, window=study.window)
        jobs.append(Job(name, arm, partial(_found, tokenizer, texts, study), digest(texts)))
    if study.wordpiece is not None:
        jobs += wordpiece_jobs(study.wordpiece, stdlib_documents())
    return run_exact(STUDY, jobs, results, origin, progress, interruption)


def texts_of(paths: str | Sequence[str | Path], reference: str) -> dict[str, str]:
    """Parallel texts, the known languages in their order. UserError where the reference is none of them."""
    texts = embedded() if isinstance(paths, str) else parallel_texts(paths)
    if reference not in texts:
        raise UserError(f"reference = {reference!r} is none of the texts: {', '.join(texts)}")
    known = [language for language in LANGUAGES if language in texts]
    return {language: texts[language] for language in [*known, *sorted(set(texts) - set(known))]}


def digest(texts: Mapping[str, str]) -> str:
    """SHA-256 of the languages and their texts."""
    return sha256("\0".join(part for item in sorted(texts.items()) for part in item).encode()).hexdigest()


def costs(tokenizer: Tokenizer, texts: Mapping[str, str]) -> dict[str, Cost]:
    """The cost of each text. UserError, naming the text, for one that cannot be encoded."""
    found = {}
    for language, text in texts.items():
        try:
            found[language] = cost(tokenizer, text)
        except ValueError as error:
            raise UserError(f"{language}: {error}") from error
    return found


def report(
    tokenizers: Sequence[Tokenizer], texts: Mapping[str, str], reference: str, window: int, price: float | None
) -> list[dict[str, str | float]]:
    """A row for every text and tokenizer, as `leadline tokens` prints it; `price` is that of a million tokens.

    Raises UserError for a text that cannot be encoded.
    """
    rows = []
    for tokenizer in tokenizers:
        found = costs(tokenizer, texts)
        premium = relative(found, reference)
        for language, own in found.items():
            row = {
                "tokenizer": tokenizer.name,
                "language": LANGUAGES.get(language, language),
                "tokens": own.tokens,
                "relative": premium[language],
                "bytes/token": own.bytes_per_token,
                "characters/token": own.characters_per_token,
                f"of {window} tokens": round(effective_context(window, premium[language])),
            }
            rows.append(row if price is None else row | {"cost": own.tokens * price / 1e6})
    return rows


def probed(tokenizers: Sequence[Tokenizer]) -> list[dict[str, str | float]]:
    """A row for every probe and tokenizer: its tokens, and where they end."""
    return [
        {"text": name, "tokenizer": tokenizer.name, "tokens": len(ids), "pieces": _pieces(tokenizer, ids.tolist())}
        for name, text in PROBES.items()
        for tokenizer in tokenizers
        for ids in (tokenizer.encode(text),)
    ]


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """As Python writes bytes, for a token may end inside a character; text as it is."""
    found = []
    for i in ids:
        piece = tokenizer.token_bytes(i)
        try:
            found.append(repr(piece.decode()))
        except UnicodeDecodeError:
            found.append(repr(piece)[1:])
    return " ".join(found)


def _found(tokenizer: Tokenizer, texts: Mapping[str, str], study: TokensStudy) -> Found:
    found = costs(tokenizer, texts)
    premium = relative(found, study.reference)
    numbers: dict[str, tuple[float, str]] = {
        "vocabulary": (tokenizer.vocabulary_size, "ids"),
        "gini": (gini(premium), "1"),
        "most": (max(premium.values()), "1"),
    }
    for language, own in found.items():
        numbers |= {
            f"tokens.{language}": (own.tokens, "tokens"),
            f"relative.{language}": (premium[language], "1"),
            f"bytes_per_token.{language}": (own.bytes_per_token, "bytes"),
            f"characters_per_token.{language}": (own.characters_per_token, "characters"),
            f"context.{language}": (effective_context(study.window, premium[language]), "tokens"),
            f"unknown.{language}": (own.unknown / own.tokens, "1"),
        }
    if isinstance(tokenizer, RankTokenizer) and study.speed_documents:
        for way, rounds in _speeds(tokenizer, study.speed_documents).items():
            numbers |= {f"speed.{way}.{i}": (value, "MB/s") for i, value in enumerate(rounds)}
    numbers |= {f"probe.{name}": (len(tokenizer.encode(text)), "tokens") for name, text in PROBES.items()}
    data = {"name": "parallel texts", "digest": digest(texts), "languages": list(texts), "lossless": tokenizer.lossless}
    return Found({name: Measurement(value=value, unit=unit) for name, (value, unit) in numbers.items()}, data)


def _speeds(tokenizer: RankTokenizer, documents: int) -> dict[str, list[float]]:
    """Of the library, and of the same algorithm in Python, with the words of a document kept and without."""

    def plain(text: str) -> list[list[int]]:
        return [rank_ids(piece.encode(), tokenizer.ranks) for piece in cut(text, tokenizer.pattern)]

    def kept(text: str) -> list[list[int]]:
        pieces = cut(text, tokenizer.pattern)
        known = {piece: rank_ids(piece.encode(), tokenizer.ranks) for piece in set(pieces)}
        return [known[piece] for piece in pieces]

    texts = [one.text.decode() for one in islice(stdlib_documents(), documents)]
    return megabytes_per_second({"tiktoken": tokenizer.encode, "python": plain, "python_kept": kept}, texts)


def languages(records: Sequence[Record]) -> list[str]:
    """Those that any record has, the known ones in their order."""
    names = [name.partition(".")[2] for record in records for name in record.measurements if name.startswith("relative.")]
    return [*(one for one in LANGUAGES if one in names), *sorted(set(names) - set(LANGUAGES))]


def tokenizers(records: Sequence[Record]) -> list[str]:
    """Those that have a record of parallel texts, by the size of their vocabularies."""
    sizes = {name: values(records, name, "vocabulary") for name in arms(records, ())}
    return sorted((name for name, size in sizes.items() if size), key=lambda name: sizes[name])


# OpenAI's cl100k_base, as blogs and courses repeat them.
PUBLISHED = {"spa": "1.2", "cmn_hans": "1.5", "jpn": "1.8", "kor": "1.5 to 2.5", "mya": "4.0"}


def table(records: Sequence[Record]) -> Table:
    """Tokens relative to the reference, a column a tokenizer."""
    names = tokenizers(records)
    rows = [
        (
            LANGUAGES.get(language, language),
            *(cell(records, name, f"relative.{language}", 2) for name in names),
            PUBLISHED.get(language, MISSING),
        )
        for language in languages(records)
    ]
    for name, heading in (("gini", "Gini's coefficient"), ("most", "most / least")):
        rows.append((heading, *(cell(records, one, name, 2) for one in names), MISSING))
    reference = sorted({str(record.config["reference"]) for record in records if "reference" in record.config})
    note = (
        f"tokens of a parallel text over those of the text in {', '.join(LANGUAGES.get(one, one) for one in reference)}; "
        "published: of cl100k_base (GPT-4)"
    )
    return Table("Tokens by language", STUDY, ("language", *names, "published"), tuple(rows), (*provenance(records), note))


def size_table(records: Sequence[Record]) -> Table:
    """Bytes and characters of a token, and what is left of a window."""
    names = tokenizers(records)
    rows = []
    for language in languages(records):
        for name in names:
            own = (
                cell(records, name, f"tokens.{language}", 0),
                *(cell(records, name, f"{one}.{language}", 2) for one in ("bytes_per_token", "characters_per_token")),
                cell(records, name, f"context.{language}", 0),
            )
            rows.append((LANGUAGES.get(language, language), name, *own))
    columns = ("language", "tokenizer", "tokens", "bytes / token", "characters / token", "effective context")
    windows = sorted({str(record.config["window"]) for record in records if "window" in record.config})
    note = (
        f"effective context: tokens of the reference language whose content fits into a window of {', '.join(windows)} tokens"
    )
    return Table("Sizes of tokens by language", f"{STUDY}_sizes", columns, tuple(rows), (note,))


def probe_table(records: Sequence[Record]) -> Table:
    """Tokens of what is no prose."""
    names = tokenizers(records)
    rows = tuple((name, *(cell(records, one, f"probe.{name}", 0) for one in names)) for name in PROBES)
    return Table("Tokens of numbers, names, space and code", f"{STUDY}_probes", ("text", *names), rows)


def speed_table(records: Sequence[Record]) -> Table:
    """How fast vocabularies of ranks are encoded."""
    ways = {"tiktoken": "tiktoken", "python": "Python", "python_kept": "Python, words of a document kept"}
    rows = tuple(
        (name, *(statistic(speeds(records, name, way), 2) or MISSING for way in ways))
        for name in tokenizers(records)
        if speeds(records, name, "tiktoken")
    )
    note = "10^6 bytes a second, document by document, one thread; mean and deviation of three rounds in which all take turns"
    return Table("Speed of encoding", f"{STUDY}_speed", ("tokenizer", *ways.values()), rows, (note,))


def speeds(records: Sequence[Record], tokenizer: str, way: str) -> list[float]:
    """Of one tokenizer and way, round by round."""
    return [value for i in range(ROUNDS) for value in values(records, tokenizer, f"speed.{way}.{i}")]


def relative_cost(records: Sequence[Record], tokenizer: str, language: str) -> float | None:
    """Of one tokenizer and language; None where there is no record."""
    found = values(records, tokenizer, f"relative.{language}")
    return found[0] if found else None
