"""Unigram segmentation and training against the sentencepiece library."""

import io
from base64 import b64encode
from collections import Counter
from math import exp

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import train_unigram

pytestmark = pytest.mark.oracle

# The documentation strings of numpy: English that is installed with it.
TEXTS = [line for name in sorted(dir(np)) for line in (getattr(np, name).__doc__ or "").splitlines() if line.strip()][:6000]
FLOAT32 = 1e-5  # the library adds scores in float32
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


def test_n_best_lists(plain):
    """Scores in their order, and the segmentations too where the next one's is not the same."""
    ours = ours_of(plain)
    for text in TEXTS[:100]:
        theirs = plain.nbest_encode(text, nbest_size=8, return_type="proto").nbests
        best = ours.n_best(text, 8)
        np.testing.assert_allclose([score for _, score in best], [segmentation.score for segmentation in theirs], rtol=FLOAT32)
        scores = [score for _, score in best]
        for i, (ids, score) in enumerate(best):
            if sum(abs(score - other) < 1e-3 for other in scores) == 1 and i < len(best) - 1:
                assert ids.tolist() == [piece.id for piece in theirs[i].pieces]


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_samples_are_distributed_alike(plain, alpha):
    """Both against all segmentations of a word, which are the n best of a great n."""
    ours, text, draws = ours_of(plain), "returns", 5000
    every = ours.n_best(text, 10_000)
    weights = np.array([exp(alpha * score) for _, score in every])
    expected = weights / weights.sum() * draws
    likely = expected >= 5  # the others are one class, for the approximation of the test needs some of each
    generator = np.random.default_rng(0)
    sentencepiece.set_random_generator_seed(0)
    of_ours = Counter(tuple(ours.sample(text, generator, alpha).tolist()) for _ in range(draws))
    of_theirs = Counter(tuple(plain.encode(text, enable_sampling=True, nbest_size=-1, alpha=alpha)) for _ in range(draws))
    for drawn in (of_ours, of_theirs):
        counts = np.array([drawn[tuple(ids.tolist())] for ids, _ in every], np.float64)
        assert counts.sum() == draws
        grouped = [np.append(values[likely], values[~likely].sum()) for values in (counts, expected)]
        grouped = [values[: len(values) - likely.all()] for values in grouped]
        assert chisquare(*grouped).pvalue > 1e-3


def test_our_training_finds_the_likelier_vocabulary():
    """Of held-out lines, over all segmentations; theirs may be cut anywhere, ours only where the pattern allows."""
    texts, held_out = TEXTS[: len(TEXTS) * 4 // 5], TEXTS[len(TEXTS) * 4 // 5 :]
    theirs = ours_of(library(texts, vocab_size=1000, character_coverage=1.0))
    ours = train_unigram(texts, 1000, escape=True, dummy_prefix=True).tokenizer
    of_ours, of_theirs = (sum(tokenizer.log_likelihood(text) for text in held_out) for tokenizer in (ours, theirs))
    assert ours.vocabulary_size == theirs.vocabulary_size
    assert of_ours > of_theirs
