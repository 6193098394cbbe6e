"""Training BPE, encoding a corpus and encoding single texts, beside the libraries.

Values are checksums of merges and of ids, which must be equal before anything is timed.
"""

import itertools
import json
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from leadline.experiments.bench.contest import Benchmark, Case, ours, peer
from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.config.tokenizer import Bpe
from leadline.experiments.data.text.corpus import Document, stdlib_documents
from leadline.experiments.data.text.split import split
from leadline.experiments.data.text.tokenizers import trained_tokenizer
from leadline.experiments.data.text.tokens import token_files
from leadline.tokenization.bpe.tokenizer import BpeTokenizer, train_bpe
from leadline.tokenization.formats.fast import FastTokenizer, accelerate
from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.tokenizer import Tokenizer

CORPUS = 10_000_000  # bytes
TRAINED = (1_000, 8_000, 32_000)
VOCABULARY = 8_000
# Bytes that the library trains a unigram model on, which takes long; and the texts that are encoded one by one.
UNIGRAM_CORPUS = 2_000_000
LENGTH, COUNT = 2_000, 200
TRAINING = 1 / 1.5  # leadline may take 1.5 times as long
ENCODING = 0.9  # and 11 % longer


def train(vocabulary: int, size: int) -> Prepared:
    """Trains byte-level BPE. The value is a checksum of the merges."""
    corpus = texts(size)
    return Prepared(
        lambda: train_bpe(corpus, vocabulary), often=False, more=lambda trained: {"value": checksum(trained.merges)}
    )


def encode_corpus(vocabulary: int, size: int) -> Prepared:
    """Encodes a corpus into files, as a study does. The value is the sum of the ids."""
    corpus, tokenizer, folder = split(documents(size)), accelerate(bpe(vocabulary, size)), scratch() / "ours"

    def work() -> int:
        shutil.rmtree(folder, ignore_errors=True)
        files = token_files(corpus, tokenizer, folder)
        return int(files.train.sum(dtype=np.int64) + files.held_out.sum(dtype=np.int64))

    return Prepared(work, often=False, more=lambda total: {"value": total})


def encode(kind: str, vocabulary: int, size: int, length: int, count: int, transparent: bool) -> Prepared:
    """Encodes texts one by one, by "BPE" or "unigram". The value is the number of ids."""
    tokenizer = TOKENIZERS[kind](vocabulary, size)
    return one_by_one((tokenizer if transparent else accelerate(tokenizer)).encode, size, length, count)


def one_by_one(encode: Callable[[str], Any], size: int, length: int, count: int) -> Prepared:
    """One call for each piece of a text. `encode` returns as many entries as there are ids."""
    parts = pieces(texts(size), length, count)
    ids = sum(len(encode(part)) for part in parts)
    return Prepared(lambda: [encode(part) for part in parts], {"value": ids})


def documents(size: int) -> list[Document]:
    """The first documents of the standard library that together have at least `size` bytes."""
    every = list(stdlib_documents())
    ends = itertools.accumulate(len(document.text) for document in every)
    return every[: 1 + next((i for i, end in enumerate(ends) if end >= size), len(every))]


def texts(size: int) -> list[str]:
    """The same documents as strings."""
    return [document.text.decode() for document in documents(size)]


def pieces(texts: Sequence[str], length: int, count: int) -> list[str]:
    """The first `length` characters of the first `count` texts that are that long."""
    return [text[:length] for text in texts if len(text) >= length][:count]


def bpe(vocabulary: int, size: int) -> BpeTokenizer:
    """BPE of a corpus, trained by the first contestant that needs it."""
    tokenizer = trained_tokenizer(Bpe(vocabulary=vocabulary, pattern="gpt2"), [documents(size)], scratch())
    tokenizer = tokenizer.wrapped if isinstance(tokenizer, FastTokenizer) else tokenizer
    if not isinstance(tokenizer, BpeTokenizer):
        raise TypeError(f"{tokenizer.name} is not BPE")
    return tokenizer


def unigram(vocabulary: int, size: int) -> Tokenizer:
    """The unigram model that sentencepiece trained, with leadline's segmentation."""
    return SentencePieceTokenizer.from_file(scratch() / sentencepiece_model(vocabulary, size)).unigram()


TOKENIZERS: Mapping[str, Callable[[int, int], Tokenizer]] = {"BPE": bpe, "unigram": unigram}


def sentencepiece_model(vocabulary: int, size: int) -> str:
    """The file name of a unigram model without normalization, trained by the first contestant that needs it."""
    import sentencepiece

    name = f"unigram-{vocabulary}-{size}.model"
    if not (scratch() / name).exists():
        settings: dict[str, Any] = {"model_type": "unigram", "vocab_size": vocabulary, "byte_fallback": True}
        settings |= {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "minloglevel": 2}
        settings |= {f"{special}_id": number for number, special in enumerate(("pad", "unk", "bos", "eos"))}
        sentences = (line for text in texts(size) for line in text.splitlines() if line)
        prefix = str(scratch() / name.removesuffix(".model"))
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=sentences, model_prefix=prefix, **settings)
    return name


def checksum(merges: Sequence[tuple[int, int]]) -> int:
    """CRC-32 of pairs of ids."""
    return zlib.crc32(json.dumps([list(pair) for pair in merges]).encode())


def _case(title: str, prepare: Callable[..., Prepared], vocabulary: int, target: float) -> Case:
    settings = {"vocabulary": vocabulary, "size": CORPUS}
    contestants = ours(prepare, settings), peer("tokenizers", f"tokenizer_libraries:{prepare.__name__}", settings)
    title = f"{title}, {CORPUS // 1_000_000} MB"
    return Case(title, contestants, targets={"tokenizers": target}, tolerance=0.0)


def _texts(kind: str, corpus: int, specialist: str, entry: str) -> Case:
    """Texts one by one. `specialist` is the library for this kind of tokenizer besides `tokenizers`."""
    settings = {"vocabulary": VOCABULARY, "size": corpus, "length": LENGTH, "count": COUNT}
    contestants = (
        ours(encode, {**settings, "kind": kind, "transparent": False}),
        ours(encode, {**settings, "kind": kind, "transparent": True}, "leadline, transparent"),
        peer("tokenizers", "tokenizer_libraries:encode", {**settings, "kind": kind}),
        peer(specialist, f"tokenizer_libraries:{entry}", settings),
    )
    return Case(f"{COUNT} single texts of {LENGTH} characters, {kind} of {VOCABULARY}", contestants, tolerance=0.0)


TOKENIZATION = Benchmark(
    "tokenization",
    "How long do training and encoding take beside the libraries?",
    (
        *(_case(f"BPE training, {vocabulary} ids", train, vocabulary, TRAINING) for vocabulary in TRAINED),
        _case(f"a corpus to ids, BPE of {VOCABULARY}", encode_corpus, VOCABULARY, ENCODING),
        _texts("BPE", CORPUS, "tiktoken", "encode_ranks"),
        _texts("unigram", UNIGRAM_CORPUS, "sentencepiece", "encode_sentencepiece"),
    ),
    (
        "training: from text to merges, with pre-tokenization by GPT-2's pattern; the merges are equal",
        "a corpus: from UTF-8 to a file of 16-bit ids with EOS after each document; leadline also splits it, syncs the "
        "file and verifies what it wrote",
        "single texts: one call for each text; leadline is what a study uses, the transparent form is its Python code",
    ),
)
