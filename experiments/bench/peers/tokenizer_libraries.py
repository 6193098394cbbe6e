"""The libraries tokenizers, tiktoken and sentencepiece, as their users call them."""

import json

import numpy as np
import sentencepiece
import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from leadline.experiments.bench.cases import tokenization as bench
from leadline.experiments.bench.worker import Prepared, scratch
from leadline.tokenization import tokenizer as ours
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.pretokenization import PATTERNS

SPECIALS = ["<pad>", "<bos>", "<eos>"]


def train(vocabulary: int, size: int) -> Prepared:
    """Trains byte-level BPE with leadline's specials. The value is a checksum of the merges."""
    corpus = bench.texts(size)

    def work() -> Tokenizer:
        tokenizer = Tokenizer(models.BPE())
        cutting = pre_tokenizers.Split(Regex(PATTERNS["gpt2"]), "isolated")
        bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cutting, bytes_of])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        settings = {"initial_alphabet": alphabet, "special_tokens": SPECIALS, "show_progress": False}
        tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=vocabulary, **settings))
        return tokenizer

    return Prepared(work, often=False, more=lambda tokenizer: {"value": bench.checksum(_merges(tokenizer))})


def encode_corpus(vocabulary: int, size: int) -> Prepared:
    """Encodes a corpus in one batch, from bytes to a file. The value is the sum of the ids."""
    corpus, tokenizer = bench.documents(size), bench.bpe(vocabulary, size)
    fast, eos, path = library(tokenizer), np.array([tokenizer.specials.eos], "<u2"), scratch() / "theirs"

    def work() -> int:
        path.unlink(missing_ok=True)
        encoded = fast.encode_batch_fast([document.text.decode() for document in corpus], add_special_tokens=False)
        with path.open("wb") as file:
            for encoding in encoded:
                file.write(np.array(encoding.ids, "<u2").tobytes())
                file.write(eos.tobytes())
        return int(np.fromfile(path, "<u2").sum(dtype=np.int64))

    return Prepared(work, often=False, more=lambda total: {"value": total})


def encode(kind: str, vocabulary: int, size: int, length: int, count: int) -> Prepared:
    """Encodes texts one by one, as do the functions below. The value is the number of ids."""
    fast = library(bench.TOKENIZERS[kind](vocabulary, size))
    return bench.one_by_one(lambda text: fast.encode(text, add_special_tokens=False).ids, size, length, count)


def encode_sentencepiece(vocabulary: int, size: int, length: int, count: int) -> Prepared:
    model = str(scratch() / bench.sentencepiece_model(vocabulary, size))
    return bench.one_by_one(sentencepiece.SentencePieceProcessor(model_file=model).encode, size, length, count)


def encode_ranks(vocabulary: int, size: int, length: int, count: int) -> Prepared:
    """tiktoken, whose ranks are the pieces of the same tokenizer in the order of their ids."""
    tokenizer = bench.bpe(vocabulary, size)
    spelled = [tokenizer.token_bytes(i) for i in range(len(tokenizer.specials.ids()), tokenizer.vocabulary_size)]
    ranks = {piece: rank for rank, piece in enumerate(spelled)}
    encoding = tiktoken.Encoding("bench", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={})
    return bench.one_by_one(encoding.encode_ordinary, size, length, count)


def library(tokenizer: ours.Tokenizer) -> Tokenizer:
    """The library's tokenizer, read from leadline's tokenizer.json."""
    fast = Tokenizer.from_str(to_huggingface(tokenizer).to_str())
    fast.encode_special_tokens = True
    return fast


def _merges(tokenizer: Tokenizer) -> list[tuple[int, int]]:
    model = json.loads(tokenizer.to_str())["model"]
    return [(model["vocab"][left], model["vocab"][right]) for left, right in model["merges"]]
