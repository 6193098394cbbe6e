"""Our training and encoding against the libraries tokenizers and tiktoken: equal merges and equal ids."""

import json
import random
import unicodedata
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from leadline.experiments.data.text.corpus import stdlib_documents
from leadline.tokenization.bpe.tokenizer import BpeTokenizer, train_bpe
from leadline.tokenization.bpe.training import alphabet_of, merge_steps, train_merges
from leadline.tokenization.character import train_characters
from leadline.tokenization.formats.fast import FastTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.published import from_huggingface
from leadline.tokenization.formats.tiktoken import RankTokenizer
from leadline.tokenization.pretokenization import COVERING, PATTERNS
from leadline.tokenization.tokenizer import Tokenizer as Tokenized
from leadline.tokenization.unigram.training import train_unigram
from leadline.tokenization.word import train_words
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer
from leadline.tokenization.wordpiece.training import merge_steps as wordpiece_steps
from leadline.tokenization.wordpiece.training import train_wordpiece
from leadline.tokenization.words import word_counts

pytestmark = pytest.mark.oracle

SPECIALS = ["<pad>", "<bos>", "<eos>"]
# The end of a word as one character, which their alphabet too has after all others.
LAST = "\U0010ffff"
WORDS = st.dictionaries(st.text("abc", min_size=1, max_size=20), st.integers(1, 9), min_size=1, max_size=10)


@pytest.fixture(scope="module")
def documents() -> list[str]:
    """Every sixth document of the standard library, 2 MB."""
    return [document.text.decode() for document in list(stdlib_documents())[::6]]


@pytest.fixture(scope="module")
def mixed() -> list[str]:
    """Random characters that both Unicode versions know, from ASCII alone to all up to U+2FFF."""
    generator = random.Random(0)
    known = [chr(i) for i in range(0x3000) if unicodedata.category(chr(i)) not in ("Cn", "Cs")]
    return ["".join(generator.choices(known[:size], k=400)) for size in (128, 256, 1500, len(known)) for _ in range(20)]


def trained(texts: list[str], size: int, pre_tokenizer: object, alphabet: list[str], specials: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def byte_level(texts: list[str], size: int, pattern: str) -> Tokenizer:
    cutting = pre_tokenizers.Split(Regex(PATTERNS[pattern]), "isolated")
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return trained(texts, size, pre_tokenizers.Sequence([cutting, bytes_of]), pre_tokenizers.ByteLevel.alphabet(), SPECIALS)


def merges_of(tokenizer: Tokenizer) -> list[tuple[int, int]]:
    model = json.loads(tokenizer.to_str())["model"]
    return [(model["vocab"][left], model["vocab"][right]) for left, right in model["merges"]]


@pytest.mark.parametrize("pattern", [pytest.param("gpt2", marks=pytest.mark.slow), "gpt4"])
def test_merges_of_bytes(documents: list[str], pattern: str) -> None:
    tokenizer = train_bpe(documents, 16_000, pattern=pattern)
    for size in (1000, 16_000):
        assert list(tokenizer.shortened(size).merges) == merges_of(byte_level(documents, size, pattern))


def test_a_file_that_the_library_trained_is_ours(documents: list[str]) -> None:
    theirs, ours = from_huggingface(byte_level(documents[:50], 2000, "gpt2").to_str()), train_bpe(documents[:50], 2000)
    assert [theirs.token_bytes(token) for token in range(2000)] == list(ours.table)
    assert theirs.encode(documents[50]).tolist() == ours.encode(documents[50]).tolist()


def test_merges_of_characters(documents: list[str]) -> None:
    """The library's own suffix is part of the last character, and the ids of such characters change from run to run."""
    words = word_counts(documents[:50], "whitespace")
    texts = [" ".join(f"{word}{LAST}" for word in documents[i].split()) for i in range(50)]
    size = len(alphabet_of(words, "characters")) + 2000
    theirs = trained(texts, size, pre_tokenizers.WhitespaceSplit(), [], [])
    assert [step.pair for step in train_merges(words, size, "characters")] == merges_of(theirs)


@given(WORDS)
def test_merges_of_words_with_many_ties(words: dict[str, int]) -> None:
    texts = [" ".join([word] * count) for word, count in words.items()]
    theirs = trained(texts, 10_000, pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel.alphabet(), [])
    assert [step.pair for step in merge_steps(words, "bytes")] == merges_of(theirs)


@pytest.mark.parametrize("pattern", sorted(COVERING))
def test_ids_of_bytes(documents: list[str], mixed: list[str], pattern: str) -> None:
    tokenizer = train_bpe(documents[:50], 3000, pattern=pattern)
    compare(tokenizer, documents[::4] + mixed)


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_ids_of_characters_words_and_pieces(documents: list[str], mixed: list[str], pattern: str) -> None:
    """Of texts as they are, and by the same vocabularies of normalized ones."""
    some = [text[:20_000] for text in documents[:4]]
    texts = some + mixed
    tokenizers: list[Any] = [
        replace(train_words(some, 1000, pattern=pattern), single_digits=True),
        train_wordpiece(some, 1000, "frequency", pattern=pattern).tokenizer(),
        train_unigram(some, 1000, pattern=pattern, byte_fallback=True),
    ]
    if pattern not in COVERING:
        tokenizers.append(train_bpe(some, 1000, unit="characters", pattern=pattern, single_digits=True))
    for tokenizer in tokenizers:
        compare(tokenizer, texts)
        compare(replace(tokenizer, normalization=("nfkc", "lower", "spaces")), texts)


def test_ids_without_a_pattern(documents: list[str], mixed: list[str]) -> None:
    some = [text[:20_000] for text in documents[:20]]
    cut = train_unigram(some[:8], 1000, escape=True, dummy_prefix=True)
    for tokenizer in (replace(cut, pattern=None), train_characters(some)):
        compare(tokenizer, some + mixed)


def compare(tokenizer: Tokenized, texts: list[str]) -> None:
    fast = FastTokenizer(tokenizer)
    for ids, expected in zip(tokenizer.encode_batch(texts), fast.encode_batch(texts), strict=True):
        np.testing.assert_array_equal(ids, expected)
    if not tokenizer.definition()["normalization"]:
        assert to_huggingface(tokenizer).encode(texts[0]).ids == tokenizer.encode(texts[0]).tolist()


def by_ranks(tokenizer: BpeTokenizer) -> tuple[tiktoken.Encoding, RankTokenizer]:
    """The vocabulary of a list of merges as ranks, theirs and ours."""
    ranks = {piece: rank for rank, piece in enumerate(tokenizer.table[3:])}
    theirs = tiktoken.Encoding("toy", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={})
    return theirs, RankTokenizer("toy", "gpt2", ranks)


def test_a_list_of_merges_and_ranks_are_two_rules() -> None:
    """Merges (b, c), (a, b), (ab, c): the list makes a|bc of abc, the ranks abc, in the libraries as here."""
    letter = {c: 3 + i for i, c in enumerate(map(chr, range(33, 127)))}
    tokenizer = BpeTokenizer(((letter["b"], letter["c"]), (letter["a"], letter["b"]), (260, letter["c"])))
    theirs, ours = by_ranks(tokenizer)
    assert to_huggingface(tokenizer).encode("abc").ids == tokenizer.encode("abc").tolist() == [letter["a"], 259]
    assert theirs.encode_ordinary("abc") == ours.encode("abc").tolist() == [258]


def test_ranks_of_a_trained_vocabulary_give_the_ids_of_its_merges(documents: list[str]) -> None:
    tokenizer = train_bpe(documents[:50], 3000)
    theirs, _ = by_ranks(tokenizer)
    for text in documents[50:80]:
        assert [i + 3 for i in theirs.encode_ordinary(text)] == tokenizer.encode(text).tolist()


HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
PIECES = st.lists(st.tuples(st.booleans(), st.text("abcé😀", min_size=1, max_size=4)), min_size=1, max_size=30, unique=True)


@given(PIECES, st.text("abcé😀 ", max_size=40), st.integers(1, 10))
def test_ids_and_places_of_any_vocabulary_of_wordpiece(pieces: list, text: str, longest: int) -> None:
    """Every special has a name that no text holds."""
    ours = WordPieceTokenizer(tuple("##" * inside + piece for inside, piece in pieces), "whitespace", longest_word=longest)
    names = [*(f"[{name}]" for name in ours.specials.named()), *ours.pieces]
    vocabulary = {name: i for i, name in enumerate(names)}
    theirs = Tokenizer(models.WordPiece(vocabulary, unk_token="[unk]", max_input_chars_per_word=longest))
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    expected, (ids, places) = theirs.encode(text), ours.encode_with_offsets(text)
    assert ids.tolist() == expected.ids
    assert [text.encode()[a:b].decode() for a, b in places] == [text[a:b] for a, b in expected.offsets]


def test_their_trainer_of_wordpiece_goes_by_frequency() -> None:
    """Its first step is ours by frequency, and not ours by the ratio."""
    theirs = Tokenizer(models.WordPiece(unk_token="[unk]"))
    trainer = trainers.WordPieceTrainer(vocab_size=12, show_progress=False)  # 7 characters, 4 with ##, and one step
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs.train_from_iterator([" ".join([word] * count) for word, count in HUGS.items()], trainer)
    vocabulary = theirs.get_vocab()
    assert next(wordpiece_steps(HUGS, "frequency")).piece in vocabulary
    assert next(wordpiece_steps(HUGS, "ratio")).piece not in vocabulary


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_gives_every_segmentation_as_often_as_in_tokenizers(rate: float) -> None:
    ours = train_bpe(["abcabc abcab bcabca cabc abab"] * 3, 3 + 256 + 8)
    definition = json.loads(to_huggingface(ours).to_str())
    definition["model"]["dropout"] = rate
    theirs, generator = Tokenizer.from_str(json.dumps(definition)), np.random.default_rng(0)
    drawn = [
        Counter(tuple(ours.encode_dropped("abcabcab", rate, generator).tolist()) for _ in range(5000)),
        Counter(tuple(theirs.encode("abcabcab").ids) for _ in range(5000)),
    ]
    often = [ids for ids in drawn[0] | drawn[1] if drawn[0][ids] + drawn[1][ids] >= 20]
    assert len(often) > 3
    assert chi2_contingency([[counts[ids] for ids in often] for counts in drawn]).pvalue > 1e-5
