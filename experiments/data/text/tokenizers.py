"""Tokenizers as a command line or a configuration names them: opened, or trained and kept in a folder."""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from leadline.experiments.config.tokenizer import Bpe, Characters, TokenizerConfig, Unigram, WordPiece, Words
from leadline.experiments.data.text.corpus import Document, stdlib_documents, text_documents
from leadline.experiments.data.text.split import corpus_digest
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.bpe.training import merge_steps
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import train_characters
from leadline.tokenization.formats.fast import accelerate
from leadline.tokenization.formats.huggingface import from_huggingface
from leadline.tokenization.formats.rank_files import load_ranks, named_ranks
from leadline.tokenization.formats.saving import load, save
from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import train_unigram, training_rounds
from leadline.tokenization.word import train_words
from leadline.tokenization.wordpiece.training import merge_steps as wordpiece_merge_steps
from leadline.tokenization.wordpiece.training import train_wordpiece
from leadline.tokenization.words import word_counts

# Raised when the same configuration and text would give another tokenizer than before.
TRAINED = 1
TIKTOKEN = "tiktoken:"
WAYS = (
    "byte, tiktoken:NAME (as in tiktoken:cl100k_base), a rank file (.tiktoken, its pattern and specials in a .json beside it), "
    "a SentencePiece model (.model), a tokenizer.json, or a folder that leadline saved"
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
            return load(path)
        match path.suffix:
            case ".tiktoken":
                return load_ranks(path)
            case ".model":
                return SentencePieceTokenizer.from_file(path)
            case ".json":
                return from_huggingface(path.read_text(encoding="utf-8"))
            case _:
                raise ValueError(f"{spec}: no tokenizer has this suffix; name {WAYS}")
    except ValueError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or spec}: cannot be read ({error.strerror or error})") from error


def configured(kind: str, vocabulary: int, settings: Mapping[str, object]) -> TokenizerConfig:
    """The configuration of a kind and its settings.

    Raises:
        UserError: naming the setting that is wrong.
    """
    try:
        return TypeAdapter(TokenizerConfig).validate_python({"kind": kind, "vocabulary": vocabulary, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "kind"
        value = kind if where == "kind" else first.get("input")
        raise UserError(f"{where} = {value!r}: {first['msg']}") from error


def _settings(words: Sequence[str]) -> dict[str, object]:
    """The settings of KEY=VALUE words."""
    return {key: _value(text) for key, _, text in (word.partition("=") for word in words)}


def _value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string


def trained_tokenizer(cfg: TokenizerConfig, corpora: Sequence[Iterable[Document]], cache: Path) -> Tokenizer:
    """The tokenizer of a configuration, trained on these corpora, from `cache` if it holds it and kept there if not.

    It is returned in its `accelerate`d form, which has the same ids and digest; the cache keeps the definition alone.

    Raises:
        UserError: when the text has too little for the vocabulary, and when the folder cannot be written.
    """
    parts = [TRAINED, cfg.model_dump(), corpus_digest(chain.from_iterable(corpora))]
    folder = cache / f"tokenizer-{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]}"
    try:
        return accelerate(load(folder))
    except (ValueError, RecursionError):
        pass  # absent or damaged: it is trained and written again
    try:
        tokenizer = train_tokenizer(cfg, (document.text.decode("utf-8") for document in chain.from_iterable(corpora)))
        save(tokenizer, folder)
    except ValueError as error:
        raise UserError(f"data.tokenizer: {error}") from error
    except OSError as error:
        raise UserError(f"{folder}: the tokenizer cannot be written ({error.strerror}); choose another folder") from error
    return accelerate(tokenizer)


def train_tokenizer(cfg: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer of a configuration, trained on texts.

    Raises:
        ValueError: for a vocabulary that the texts cannot fill.
    """
    settings = cfg.model_dump(exclude={"kind", "vocabulary", "alphabet"})
    match cfg:
        case Words():
            return train_words(texts, cfg.vocabulary, **settings)
        case Characters():
            return train_characters(texts, cfg.vocabulary, **settings)
        case Bpe():
            return train_bpe(texts, cfg.vocabulary, unit=cfg.alphabet, **settings)
        case WordPiece():
            return train_wordpiece(texts, cfg.vocabulary, minimum_count=2, **settings).tokenizer()
        case Unigram():
            return train_unigram(texts, cfg.vocabulary, **settings).tokenizer


def train_and_save(
    folder: Path, paths: Sequence[Path], kind: str, vocabulary: int, settings: Sequence[str]
) -> dict[str, str | int | bool]:
    """Trains on files, or on the standard library's sources, saves into the folder, and describes the tokenizer.

    Raises:
        UserError: for settings, files or a folder that cannot be used.
    """
    cfg = configured(kind, vocabulary, _settings(settings))
    try:
        tokenizer = train_tokenizer(cfg, _texts(paths))
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


def traced(
    paths: Sequence[Path], text: str | None, kind: str, vocabulary: int | None, steps: int, settings: Sequence[str]
) -> list[dict[str, str | int | float]]:
    """One row per step of training, at most `steps`; each is named by its columns.

    Raises:
        UserError: for settings or files that cannot be used, and text in which no step is possible.
    """
    cfg = configured(kind, vocabulary or 2**16, _settings(settings))
    texts = _texts(paths) if text is None else [text]
    try:
        rows = list(islice(_steps(cfg, texts), steps))
    except ValueError as error:
        raise UserError(str(error)) from error
    if not rows:
        raise UserError("there is nothing to merge in this text; give more of it")
    return rows


def _texts(paths: Sequence[Path]) -> Iterator[str]:
    """The texts of files; those of the standard library where none is named."""
    return (document.text.decode() for document in (text_documents(paths) if paths else stdlib_documents()))


def _steps(cfg: TokenizerConfig, texts: Iterable[str]) -> Iterator[dict[str, str | float]]:
    match cfg:
        case Bpe():
            words = word_counts(texts, cfg.pattern, single_digits=cfg.single_digits, normalization=cfg.normalization)
            for number, step in enumerate(merge_steps(words, cfg.alphabet), start=1):
                left, right = (part if isinstance(part, str) else part.decode(errors="replace") for part in step.parts)
                pair = {"step": number, "left": repr(left), "right": repr(right), "count": step.count}
                yield pair | {"tokens": step.tokens, "tokens/word": step.tokens_per_word}
        case WordPiece():
            words = word_counts(texts, cfg.pattern, normalization=cfg.normalization)
            for number, merge in enumerate(wordpiece_merge_steps(words, cfg.criterion), start=1):
                pair = {"step": number, "left": repr(merge.left), "right": repr(merge.right), "count": merge.count}
                yield pair | {"score": float(merge.score)}
        case Unigram():
            empty = UnigramTokenizer((), (), **cfg.model_dump(include={"byte_fallback", "pattern", "normalization"}))
            words = Counter(word for text in texts for word in empty.words(text))
            rounds = training_rounds(words, cfg.vocabulary - empty.vocabulary_size, seed_size=10 * cfg.vocabulary)
            for number, state in enumerate(rounds, start=1):
                pieces = {"round": number, "pieces": len(state.pieces)}
                yield pieces | {"log likelihood": state.log_likelihood, "tokens": state.tokens}
        case _:
            raise ValueError(f"kind = {cfg.kind!r}: only bpe, wordpiece and unigram are trained in steps")
