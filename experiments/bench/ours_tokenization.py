"""leadline's own training and encoding."""

import json
import shutil
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.bench.texts import documents, pieces, texts
from experiments.bench.worker import Prepared, scratch
from experiments.config.tokenizer import Bpe
from experiments.data.corpus import split
from experiments.data.tokens import token_files
from experiments.data.trained import trained_tokenizer
from tokenization.bpe import BpeTokenizer, train_bpe
from tokenization.fast import FastTokenizer, quickest
from tokenization.sentencepiece_model import SentencePieceTokenizer
from tokenization.tokenizer import Tokenizer
from tokenization.unigram import UnigramTokenizer


def train(vocabulary: int, size: int) -> Prepared:
    """Of BPE over bytes. The value is a checksum of the merges."""
    found = texts(size)
    return Prepared(lambda: train_bpe(found, vocabulary), often=False, more=lambda trained: {"value": checksum(trained.merges)})


def encode_corpus(vocabulary: int, size: int) -> Prepared:
    """All of it, as a study does. The value is the sum of the ids."""
    found, tokenizer, folder = split(documents(size)), quickest(bpe(vocabulary, size)), scratch() / "ours"

    def work() -> int:
        shutil.rmtree(folder, ignore_errors=True)
        files = token_files(found, tokenizer, folder)
        return int(files.train.sum(dtype=np.int64) + files.held_out.sum(dtype=np.int64))

    return Prepared(work, often=False, more=lambda total: {"value": total})


def encode_bpe(vocabulary: int, size: int, length: int, count: int, transparent: bool) -> Prepared:
    """One text after another. The value is the number of ids."""
    return one_by_one(_encoder(bpe(vocabulary, size), transparent), pieces(texts(size), length, count))


def encode_unigram(vocabulary: int, size: int, length: int, count: int, transparent: bool) -> Prepared:
    """Likewise."""
    return one_by_one(_encoder(unigram(vocabulary, size), transparent), pieces(texts(size), length, count))


def one_by_one(encode: Callable[[str], Any], given: Sequence[str]) -> Prepared:
    """A call a text; what it returns has as many entries as there are ids."""
    ids = sum(len(encode(text)) for text in given)
    return Prepared(lambda: [encode(text) for text in given], {"value": ids})


def bpe(vocabulary: int, size: int) -> BpeTokenizer:
    """The tokenizer of a corpus, trained by the first contestant that asks for it."""
    found = trained_tokenizer(Bpe(vocabulary=vocabulary, pattern="gpt2"), [documents(size)], scratch())
    found = found.wrapped if isinstance(found, FastTokenizer) else found
    if not isinstance(found, BpeTokenizer):
        raise TypeError(f"{found.name} is not BPE")
    return found


def unigram(vocabulary: int, size: int) -> UnigramTokenizer:
    """That of sentencepiece's own model, behind our segmentation."""
    return SentencePieceTokenizer.from_file(scratch() / sentencepiece_model(vocabulary, size)).unigram()


def sentencepiece_model(vocabulary: int, size: int) -> str:
    """A file of the shared folder: a unigram model that leaves text as it is, trained by the first that asks for it."""
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
    """Of pairs of ids in their order."""
    return zlib.crc32(json.dumps([list(pair) for pair in merges]).encode())


def _encoder(tokenizer: Tokenizer, transparent: bool) -> Callable[[str], Any]:
    return (tokenizer if transparent else quickest(tokenizer)).encode
