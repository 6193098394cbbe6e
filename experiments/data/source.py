"""Where a step's tokens come from: a stretch of text, or a task that the device draws for itself.

A source splits the work in two: `inputs(seed, step, batch)` on the host, small arrays that depend on nothing else;
`sample(inputs, shared, batch)` inside the compiled step, the rows that they stand for. `shared` are arrays that every member's
`sample` gets, `described` is name, digest, documents and tokens of both sides for the record, and `tokenizer` is what gives
text its ids, None for a task that draws its own.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from leadline.experiments.config.data import (
    BackcopyData,
    Data,
    GridData,
    MixedData,
    Mixture,
    MixturePart,
    RetrievalData,
    TextData,
    TransductionData,
)
from leadline.experiments.config.measured import Measured
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.tokenizer import Bpe, PublishedSource, TokenizerConfig, WordPiece
from leadline.experiments.data import grid, transduction
from leadline.experiments.data.backcopy import BackcopySource, make_task
from leadline.experiments.data.grid import GridSource
from leadline.experiments.data.recall import MixedSource, recall_task
from leadline.experiments.data.retrieval.source import RetrievalSource
from leadline.experiments.data.retrieval.vocabulary import vocabulary_of
from leadline.experiments.data.text.batches import bos_of, first_tokens
from leadline.experiments.data.text.corpus import Document, documents_named, text_documents
from leadline.experiments.data.text.encoding import Begun
from leadline.experiments.data.text.held_out import documents_of
from leadline.experiments.data.text.sampled import sampled_encoder
from leadline.experiments.data.text.source import TextSource, WeightedText, listed, shares_of
from leadline.experiments.data.text.split import Split, corpus_digest, split
from leadline.experiments.data.text.tokenizers import published_tokenizer, trained_tokenizer
from leadline.experiments.data.text.tokens import Report, end_of_document, token_files
from leadline.experiments.data.transduction import TransductionSource
from leadline.experiments.runtime.errors import UserError
from leadline.model.decoder import DecoderConfig
from leadline.tokenization.base import SPECIALS
from leadline.tokenization.bpe.tokenizer import specials_of
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.fast import FastTokenizer
from leadline.tokenization.formats.published import PublishedTokenizer
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.wordpiece.tokenizer import WORDPIECE_SPECIALS

CACHE = ".cache"  # of a results folder: tokens and tokenizers
Source = TextSource | BackcopySource | RetrievalSource | MixedSource | TransductionSource | GridSource


def open_source(data: Data, cache: Path, report: Report | None = None, tokenizer: Tokenizer | None = None) -> Source:
    """Reads the corpus and its tokens, or draws the task.

    Args:
        data: the configuration.
        cache: a folder, from which tokens are read if it has them, and into which they are written if not.
        report: called with the progress of encoding (`token_files`).
        tokenizer: of the text, for weights that were trained with it on another one; None: as `data` has it.

    Raises:
        UserError: for a corpus that cannot be read, divided or encoded.
    """
    size = vocabulary_size(data)
    if isinstance(data, RetrievalData):
        return RetrievalSource(data)
    if isinstance(data, TransductionData):
        return TransductionSource(data)
    if isinstance(data, GridData):
        return GridSource(data)
    if isinstance(data, BackcopyData):
        return BackcopySource(data, size, make_task(data.vocabulary, data.triggers, data.task_seed, data.zipf))
    return _open_text(data, size, cache, report, tokenizer)


def _open_text(
    data: TextData | MixedData, size: int, cache: Path, report: Report | None, given: Tokenizer | None
) -> TextSource | MixedSource:
    corpora = data.corpus.parts if isinstance(data.corpus, Mixture) else (MixturePart(corpus=data.corpus, weight=1.0),)
    shares = shares_of([part.weight for part in corpora])
    # All of them are read before any is encoded: what is missing is said at once.
    sides = [_sides(part.corpus, data, alone=len(corpora) == 1) for part in corpora]
    tokenizer = given or _tokenizer_of(data, sides, cache)
    encoder = Begun(tokenizer, bos_of(tokenizer)) if isinstance(data, TextData) and data.bos == "document" else tokenizer
    sampled = None if isinstance(data, MixedData) else sampled_encoder(data.tokenizer, tokenizer)
    # Tokenizers in Python keep to one core, so they encode in several processes; text is cut at random in Python alone.
    in_processes = not isinstance(tokenizer, ByteTokenizer | FastTokenizer | PublishedTokenizer)
    write = partial(token_files, folder=cache, report=report)
    files = tuple(write(part, encoder, in_processes=in_processes) for part in sides)
    if sampled is not None:  # held-out text is never cut at random
        trained = [write(part, sampled, in_processes=True) for part in sides]
        files = tuple(replace(plain, train=cut.train, digest=cut.digest) for plain, cut in zip(files, trained, strict=True))
    eos = end_of_document(tokenizer)
    documents = tuple(documents_of(part.held_out, ids.held_out, eos) for part, ids in zip(sides, files, strict=True))
    names = tuple(str(listed(part.corpus)) for part in corpora)
    first = first_tokens("absent" if isinstance(data, MixedData) else data.bos, tokenizer)
    text = WeightedText(files, documents, names, shares, first)
    return MixedSource(data, size, text) if isinstance(data, MixedData) else TextSource(data, size, text, tokenizer)


def _tokenizer_of(data: TextData | MixedData, sides: Sequence[Split], cache: Path) -> Tokenizer:
    if isinstance(data, MixedData) or data.tokenizer is None:
        return ByteTokenizer()
    if isinstance(data.tokenizer, PublishedSource):
        return published_tokenizer(data.tokenizer)
    return trained_tokenizer(data.tokenizer, [part.train for part in sides], cache)


def held_out_source(data: TextData, tokenizer: Tokenizer, vocabulary: int) -> tuple[TextSource, str]:
    """A source of held-out text alone, for a model that was not trained here, and the digest of that text.

    It is the held-out part of the standard library, or the whole of any other corpus.

    Args:
        data: says which corpus, and what begins a window.
        tokenizer: of the model.
        vocabulary: ids that the model knows.

    Raises:
        UserError: for a corpus that cannot be read.
    """
    if isinstance(data.corpus, Mixture):
        raise UserError("data.corpus: a model is measured on one corpus at a time, not on a mixture")
    documents = documents_named(data.corpus, data.hub_documents)
    texts = list(documents if isinstance(data.corpus, tuple) else split(documents, data.held_out).held_out)
    return _of_documents(data, texts, tokenizer, vocabulary), corpus_digest(texts)


def source_of_corpus(data: TextData, corpus: tuple[str, ...], tokenizer: Tokenizer) -> TextSource:
    """A source whose held-out text is the whole of a corpus. Nothing can be trained on it.

    Args:
        data: the configuration of the training data, which says what begins a window.
        corpus: files, folders and data sets.
        tokenizer: of the model.

    Raises:
        UserError: for a corpus that cannot be read.
    """
    return _of_documents(data, list(text_documents(corpus, data.hub_documents)), tokenizer, vocabulary_size(data))


def _of_documents(data: TextData, texts: list[Document], tokenizer: Tokenizer, vocabulary: int) -> TextSource:
    eos = np.array([end_of_document(tokenizer)])
    encoder = Begun(tokenizer, bos_of(tokenizer)) if data.bos == "document" else tokenizer
    ids = [np.concatenate([tokens, eos]) for tokens in encoder.encode_batch([text.text for text in texts])]
    documents = documents_of(texts, np.concatenate(ids).astype(np.uint32), int(eos[0]))
    name = str(listed(data.corpus)) if isinstance(data.corpus, str | tuple) else ""
    text = WeightedText((), (documents,), (name,), shares_of([1.0]), first_tokens(data.bos, tokenizer))
    return TextSource(data, vocabulary, text, tokenizer)


def _sides(corpus: str | tuple[str, ...], data: TextData | MixedData, *, alone: bool) -> Split:
    """The sides of one part. UserError where they cannot be read or divided, or no window fits into what is trained on."""
    try:
        documents = documents_named(corpus, data.hub_documents)
        sides = split(documents, data.held_out)
        tokens = sides.train.bytes + len(sides.train)  # bytes, and EOS
        if data.length >= tokens:  # before any of it is written
            raise UserError(
                f"data.length = {data.length}: a window and its last target take {data.length + 1} tokens, and the training "
                f"text has {tokens}; shorten it or add text"
            )
    except UserError as error:
        if alone:
            raise
        raise UserError(f"{listed(corpus)}, a part of the mixture: {error}") from error
    return sides


def with_vocabulary(data: Data) -> Data:
    """The data with the vocabulary of a published tokenizer filled in, so that nobody has to open it to know its size.

    Raises:
        UserError: for a tokenizer that cannot be read.
    """
    match data:
        case TextData(tokenizer=PublishedSource(vocabulary=None) as published):
            filled = published.model_copy(update={"vocabulary": vocabulary_size(data)})
            return data.model_copy(update={"tokenizer": filled})
    return data


def structure_of(settings: Measured) -> DecoderConfig:
    """The structure of a model with the ids of its data, known without reading any of them."""
    end = document_end(settings.data) if settings.model.document_mask else None
    return decoder_config(settings.model, vocabulary_size(settings.data), settings.data.length, end)


def document_end(data: Data) -> int | None:
    """The id of EOS, which ends each document; None for data without documents."""
    if not isinstance(data, TextData):
        return None
    match data.tokenizer:
        case None:
            return ByteTokenizer().specials.eos
        case PublishedSource() as source:
            return published_tokenizer(source).specials.eos
        case Bpe(alphabet=unit):
            return specials_of(unit).eos
        case WordPiece():
            return WORDPIECE_SPECIALS.eos
        case _:
            return SPECIALS.eos


def vocabulary_size(data: Data) -> int:
    """Ids that a model of this data needs, known without reading any data."""
    match data:
        case BackcopyData():
            return data.vocabulary + 1  # and BOS
        case RetrievalData():
            return vocabulary_of(data).size
        case TransductionData():
            return transduction.vocabulary_size(data)
        case GridData():
            return grid.vocabulary_size(data)
        case MixedData():
            return ByteTokenizer().vocabulary_size + recall_task(data).size
        case TextData(tokenizer=tokenizer):
            return _text_vocabulary(tokenizer)


def _text_vocabulary(tokenizer: TokenizerConfig | None) -> int:
    if tokenizer is None:
        return ByteTokenizer().vocabulary_size
    if isinstance(tokenizer, PublishedSource):
        return tokenizer.vocabulary or published_tokenizer(tokenizer).vocabulary_size
    return tokenizer.vocabulary
