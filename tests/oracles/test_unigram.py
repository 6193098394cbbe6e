"""Unigram segmentation and training against the sentencepiece library."""

import io
from base64 import b64encode
from collections import Counter

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import train_unigram

pytestmark = pytest.mark.oracle

# The documentation strings of numpy: English that is installed with it.
TEXTS = [line for name in sorted(dir(np)) for line in (getattr(np, name).__doc__ or "").splitlines() if line.strip()][:6000]
LETTERS = "aeinrst ▁.\n?é€"


def library(texts=TEXTS, **options) -> sentencepiece.SentencePieceProcessor:
    """A model that leaves text as it is, trained on the texts."""
    model = io.BytesIO()
    fixed = {"model_type": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "num_threads": 1, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=model, **fixed | ids | options)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def ours_of(theirs: sentencepiece.SentencePieceProcessor) -> UnigramTokenizer:
    return SentencePieceTokenizer(b64encode(theirs.serialized_model_proto()).decode()).unigram()


def assert_same(ours, theirs):
    """Equal ids; or the same ones in another order, for rounding decides between these."""
    assert ours == theirs or Counter(ours) == Counter(theirs)


@pytest.fixture(scope="module")
def plain() -> sentencepiece.SentencePieceProcessor:
    return library(vocab_size=600)


@pytest.fixture(scope="module")
def bytewise() -> sentencepiece.SentencePieceProcessor:
    return library(vocab_size=800, byte_fallback=True, add_dummy_prefix=False)


@pytest.mark.parametrize("model", ["plain", "bytewise"])
def test_ids_of_lines(model, request):
    theirs = request.getfixturevalue(model)
    ours = ours_of(theirs)
    for text in TEXTS[:2000]:
        assert_same(ours.encode(text).tolist(), theirs.encode(text))


@pytest.mark.parametrize("model", ["plain", "bytewise"])
def test_ids_of_random_texts(model, request):
    theirs = request.getfixturevalue(model)
    ours = ours_of(theirs)

    @settings(max_examples=200)
    @given(st.text(LETTERS, max_size=40))
    def check(text):
        assert_same(ours.encode(text).tolist(), theirs.encode(text))

    check()


def test_what_comes_back(bytewise):
    ours = ours_of(bytewise)
    for text in TEXTS[:500]:
        assert ours.decode(ours.encode(text)).decode() == bytewise.decode(bytewise.encode(text)) == text


def test_our_training_finds_the_likelier_vocabulary():
    """Of held-out lines, over all segmentations; theirs may be cut anywhere, ours only where the pattern allows."""
    texts, held_out = TEXTS[: len(TEXTS) * 4 // 5], TEXTS[len(TEXTS) * 4 // 5 :]
    theirs = ours_of(library(texts, vocab_size=1000, character_coverage=1.0))
    ours = train_unigram(texts, 1000, escape=True, dummy_prefix=True).tokenizer
    of_ours, of_theirs = (sum(tokenizer.log_likelihood(text) for text in held_out) for tokenizer in (ours, theirs))
    assert ours.vocabulary_size == theirs.vocabulary_size
    assert of_ours > of_theirs
