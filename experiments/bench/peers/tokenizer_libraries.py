"""The libraries tokenizers, tiktoken and sentencepiece, as their users call them."""

import json

import numpy as np
import sentencepiece
import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from experiments.bench.ours_tokenization import bpe, checksum, one_by_one, sentencepiece_model, unigram
from experiments.bench.texts import documents, pieces, texts
from experiments.bench.worker import Prepared, scratch
from tokenization import tokenizer as ours
from tokenization.huggingface import to_huggingface
from tokenization.pretokenization import PATTERNS

SPECIALS = ["<pad>", "<bos>", "<eos>"]


def train(vocabulary: int, size: int) -> Prepared:
    """BPE over bytes, with the specials that ours has. The value is a checksum of the merges."""
    found = texts(size)

    def work() -> Tokenizer:
        tokenizer = Tokenizer(models.BPE())
        cutting = pre_tokenizers.Split(Regex(PATTERNS["gpt2"]), "isolated")
        bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cutting, bytes_of])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        given = {"initial_alphabet": alphabet, "special_tokens": SPECIALS, "show_progress": False}
        tokenizer.train_from_iterator(found, trainers.BpeTrainer(vocab_size=vocabulary, **given))
        return tokenizer

    return Prepared(work, often=False, more=lambda tokenizer: {"value": checksum(_merges(tokenizer))})


def encode_corpus(vocabulary: int, size: int) -> Prepared:
    """In one batch, from bytes to a file. The value is the sum of the ids."""
    found, tokenizer = documents(size), bpe(vocabulary, size)
    fast, eos, path = library(tokenizer), np.array([tokenizer.specials.eos], "<u2"), scratch() / "theirs"

    def work() -> int:
        path.unlink(missing_ok=True)
        encoded = fast.encode_batch_fast([document.text.decode() for document in found], add_special_tokens=False)
        with path.open("wb") as file:
            for one in encoded:
                file.write(np.array(one.ids, "<u2").tobytes())
                file.write(eos.tobytes())
        return int(np.fromfile(path, "<u2").sum(dtype=np.int64))

    return Prepared(work, often=False, more=lambda total: {"value": total})


def encode_bpe(vocabulary: int, size: int, length: int, count: int) -> Prepared:
    """One text after another, as are all below. The value is the number of ids."""
    return _by_library(bpe(vocabulary, size), pieces(texts(size), length, count))


def encode_unigram(vocabulary: int, size: int, length: int, count: int) -> Prepared:
    return _by_library(unigram(vocabulary, size), pieces(texts(size), length, count))


def encode_sentencepiece(vocabulary: int, size: int, length: int, count: int) -> Prepared:
    model = str(scratch() / sentencepiece_model(vocabulary, size))
    return one_by_one(sentencepiece.SentencePieceProcessor(model_file=model).encode, pieces(texts(size), length, count))


def encode_ranks(vocabulary: int, size: int, length: int, count: int) -> Prepared:
    """The pieces of the same tokenizer in the order of their ids are ranks."""
    tokenizer = bpe(vocabulary, size)
    spelled = [tokenizer.token_bytes(i) for i in range(len(tokenizer.specials.ids()), tokenizer.vocabulary_size)]
    ranks = {piece: rank for rank, piece in enumerate(spelled)}
    found = tiktoken.Encoding("bench", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={})
    return one_by_one(found.encode_ordinary, pieces(texts(size), length, count))


def library(tokenizer: ours.Tokenizer) -> Tokenizer:
    """What the library reads from a tokenizer.json of ours."""
    found = Tokenizer.from_str(to_huggingface(tokenizer).to_str())
    found.encode_special_tokens = True
    return found


def _by_library(tokenizer: ours.Tokenizer, given: list[str]) -> Prepared:
    fast = library(tokenizer)
    return one_by_one(lambda text: fast.encode(text, add_special_tokens=False).ids, given)


def _merges(tokenizer: Tokenizer) -> list[tuple[int, int]]:
    model = json.loads(tokenizer.to_str())["model"]
    return [(model["vocab"][left], model["vocab"][right]) for left, right in model["merges"]]
