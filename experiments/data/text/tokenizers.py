"""Tokenizers as a command line or a configuration names them: opened, or trained and kept in a folder."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from leadline.experiments.config.load import overridden
from leadline.experiments.config.tokenizer import Bpe, Characters, PublishedSource, TrainedConfig, Unigram, WordPiece, Words
from leadline.experiments.data.text.corpus import Document, stdlib_documents, text_documents
from leadline.experiments.data.text.split import corpus_digest
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import train_characters
from leadline.tokenization.formats.fast import accelerate
from leadline.tokenization.formats.published import FILE, load_published
from leadline.tokenization.formats.rank_files import load_ranks, named_ranks
from leadline.tokenization.formats.saving import DEFINITION, MANIFEST, load, save
from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.training import train_unigram
from leadline.tokenization.word import train_words
from leadline.tokenization.wordpiece.training import train_wordpiece

# Raised when the same configuration and text would give another tokenizer than before.
TRAINED = 1
# Rarer pairs are no pieces of WordPiece: by its ratio two parts that occur once, and together, would come first.
MINIMUM_COUNT = 2
# What says how text is encoded, and nothing of how a tokenizer is trained.
SAMPLING = {"dropout", "sampling", "encodings"}
TIKTOKEN = "tiktoken:"
WAYS = (
    "byte, tiktoken:NAME (as in tiktoken:cl100k_base), a rank file (.tiktoken, its pattern and specials in a .json beside it), "
    "a SentencePiece model (.model), a tokenizer.json, or a folder with one or that leadline saved"
)


def open_tokenizer(spec: str, ranks: Path | None = None) -> Tokenizer:
    """The tokenizer that a word names, in one of the WAYS.

    Args:
        spec: the word.
        ranks: a folder of NAME.tiktoken and NAME.json for tiktoken:NAME; None: the package tiktoken downloads them.

    Raises:
        UserError: for a tokenizer that does not exist, is damaged or cannot be downloaded.
    """
    path = Path(spec)
    try:
        if spec == "byte":
            return ByteTokenizer()
        if spec.startswith(TIKTOKEN):
            name = spec.removeprefix(TIKTOKEN)
            return named_ranks(name) if ranks is None else load_ranks(ranks / f"{name}.tiktoken")
        if not path.exists():
            raise ValueError(f"{spec!r} is no tokenizer; name {WAYS}")
        if path.is_dir():
            return load_published(path) if (path / FILE).exists() else load(path)
        match path.suffix:
            case ".tiktoken":
                return load_ranks(path)
            case ".model":
                return SentencePieceTokenizer.from_file(path)
            case ".json":
                return load_published(path)
            case _:
                raise ValueError(f"{spec}: no tokenizer has this suffix; name {WAYS}")
    except ValueError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or spec}: cannot be read ({error.strerror or error})") from error


def configured(kind: str, vocabulary: int, settings: Mapping[str, object]) -> TrainedConfig:
    """The configuration of a kind and its settings, for training alone.

    Raises:
        UserError: naming the setting that is wrong, or that training does not read.
    """
    if idle := sorted(SAMPLING.intersection(settings)):
        raise UserError(f"settings of encoding, which training does not read: leave out {', '.join(idle)}")
    try:
        return TypeAdapter(TrainedConfig).validate_python({"kind": kind, "vocabulary": vocabulary, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "kind"
        value = kind if where == "kind" else first.get("input")
        raise UserError(f"{where} = {value!r}: {first['msg']}") from error


def settings_of(words: Sequence[str]) -> dict[str, object]:
    """The settings of KEY=VALUE words.

    Raises:
        UserError: for a word of another form, and for what an option of its own gives.
    """
    settings = overridden({}, words, "pattern=gpt2")
    for name in ("kind", "vocabulary"):
        if name in settings:
            raise UserError(f"--set {name}: give --{name} instead")
    return settings


def published_tokenizer(cfg: PublishedSource) -> Tokenizer:
    """The tokenizer of a configuration that is not trained.

    Raises:
        UserError: for a tokenizer that cannot be opened, or has more ids than `vocabulary`.
    """
    tokenizer = open_tokenizer(cfg.source)
    if cfg.vocabulary is not None and cfg.vocabulary < tokenizer.vocabulary_size:
        raise UserError(
            f"data.tokenizer.vocabulary = {cfg.vocabulary}: {cfg.source} has {tokenizer.vocabulary_size} ids; give as many"
        )
    return tokenizer


def trained_tokenizer(cfg: TrainedConfig, corpora: Sequence[Iterable[Document]], cache: Path) -> Tokenizer:
    """The tokenizer of a configuration, trained on these corpora, from `cache` if it holds it and kept there if not.

    It is returned in its `accelerate`d form, which has the same ids and digest; the cache keeps the definition alone.

    Raises:
        UserError: when the text has too little for the vocabulary, and when the folder cannot be written.
    """
    parts = [TRAINED, cfg.model_dump(exclude=SAMPLING), corpus_digest(chain.from_iterable(corpora))]
    folder = cache / f"tokenizer-{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]}"
    if (kept := _kept(folder)) is not None:
        return accelerate(kept)
    try:
        tokenizer = train_tokenizer(cfg, (document.text.decode("utf-8") for document in chain.from_iterable(corpora)))
    except ValueError as error:
        raise UserError(f"data.tokenizer: {error}") from error
    try:
        save(tokenizer, folder)
    except OSError as error:
        if _kept(folder) is None:  # no other process was quicker
            raise UserError(f"{folder}: the tokenizer cannot be written ({error.strerror}); choose another folder") from error
    return accelerate(tokenizer)


def _kept(folder: Path) -> Tokenizer | None:
    """The tokenizer of a folder; None where it is absent or damaged."""
    try:
        return load(folder)
    except (ValueError, RecursionError):
        return None


def train_tokenizer(cfg: TrainedConfig, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer of a configuration, trained on texts.

    Raises:
        ValueError: for a vocabulary that the texts cannot fill.
    """
    settings = cfg.model_dump(exclude={"kind", "vocabulary", "alphabet", *SAMPLING})
    match cfg:
        case Words():
            return train_words(texts, cfg.vocabulary, **settings)
        case Characters():
            return train_characters(texts, cfg.vocabulary, **settings)
        case Bpe():
            return train_bpe(texts, cfg.vocabulary, unit=cfg.alphabet, **settings)
        case WordPiece():
            return train_wordpiece(texts, cfg.vocabulary, minimum_count=MINIMUM_COUNT, **settings).tokenizer()
        case Unigram():
            return train_unigram(texts, cfg.vocabulary, **settings)


def train_and_save(
    folder: Path, paths: Sequence[Path], kind: str, vocabulary: int, settings: Sequence[str]
) -> dict[str, str | int | bool]:
    """Trains on files, or on the standard library's sources, saves into the folder, and describes the tokenizer.

    Raises:
        UserError: for settings, files or a folder that cannot be used, and a folder that holds a tokenizer.
    """
    cfg = configured(kind, vocabulary, settings_of(settings))
    try:
        if any((folder / name).exists() for name in (DEFINITION, MANIFEST, FILE)):
            raise UserError(f"{folder}: this folder holds a tokenizer; choose another folder, or remove this one")
        tokenizer = train_tokenizer(cfg, texts_of_files(paths))
        save(tokenizer, folder)
    except ValueError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
    return {
        "tokenizer": tokenizer.name,
        "ids": tokenizer.vocabulary_size,
        "lossless": tokenizer.lossless,
        "digest": tokenizer.digest(),
        "folder": str(folder),
    }


def texts_of_files(paths: Sequence[Path]) -> Iterator[str]:
    """The texts of files; those of the standard library where none is named."""
    return (document.text.decode() for document in (text_documents(paths) if paths else stdlib_documents()))
