"""Tokenizers that are trained on a corpus: once for each configuration and text, then kept in a folder."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from leadline.experiments.config.tokenizer import Bpe, Characters, TokenizerConfig, Unigram, WordPiece, Words
from leadline.experiments.data.text.corpus import Document
from leadline.experiments.data.text.split import corpus_digest
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.character import train_characters
from leadline.tokenization.formats.fast import accelerate
from leadline.tokenization.formats.saving import load, save
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.training import train_unigram
from leadline.tokenization.word import train_words
from leadline.tokenization.wordpiece.training import train_wordpiece

# Raised when the same configuration and text would give another tokenizer than before.
TRAINED = 1


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
