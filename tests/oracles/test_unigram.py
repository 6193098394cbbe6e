"""Unigram segmentation and training against the libraries sentencepiece and tokenizers."""

import functools
import json
from collections import Counter
from math import exp

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from leadline.experiments.data.text.corpus import stdlib_documents
from leadline.tokenization.pretokenization import PATTERNS
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import train_unigram
from leadline.tokenization.words import word_counts
from tests.oracles import library_unigram
from tests.tokenization.sentencepiece_models import BYTEWISE, PLAIN, tokenizer_of, trained_bytes

pytestmark = pytest.mark.oracle

# The documentation strings of numpy: English that is installed with it.
TEXTS = [line for name in sorted(dir(np)) for line in (getattr(np, name).__doc__ or "").splitlines() if line.strip()][:6000]
FLOAT32 = 1e-5  # the library adds scores in float32
IDS = {name: i for name, i in BYTEWISE.items() if name.endswith("_id")}
MODELS = {"plain": (600, IDS), "bytewise": (800, BYTEWISE | {"add_dummy_prefix": False})}
EACH = pytest.mark.parametrize("name", MODELS)


@functools.cache
def both(name: str) -> tuple[UnigramTokenizer, sentencepiece.SentencePieceProcessor]:
    """Ours and theirs, of a model that leaves text as it is."""
    size, options = MODELS[name]
    model = trained_bytes(TEXTS, size, **PLAIN, **options)
    return tokenizer_of(model).unigram(), sentencepiece.SentencePieceProcessor(model_proto=model)


def assert_same(ours, theirs):
    """Equal ids; or the same ones in another order, for rounding decides between these."""
    assert ours == theirs or Counter(ours) == Counter(theirs)


@EACH
def test_ids_of_lines_and_what_comes_back(name):
    ours, theirs = both(name)
    for text in TEXTS[:2000]:
        ids = theirs.encode(text)
        assert_same(ours.encode(text).tolist(), ids)
        assert name == "plain" or ours.decode(ids).decode() == theirs.decode(ids) == text


@EACH
@settings(max_examples=200)
@given(text=st.text("aeinrst ▁.\n?é€", max_size=40))
def test_ids_of_random_texts(name, text):
    ours, theirs = both(name)
    assert_same(ours.encode(text).tolist(), theirs.encode(text))


def test_n_best_lists():
    """Scores in their order, and the segmentations too where the next one's is not the same."""
    ours, plain = both("plain")
    for text in TEXTS[:100]:
        theirs = plain.nbest_encode(text, nbest_size=8, return_type="proto").nbests
        best = ours.n_best(text, 8)
        scores = [score for _, score in best]
        np.testing.assert_allclose(scores, [segmentation.score for segmentation in theirs], rtol=FLOAT32)
        for i, (ids, score) in enumerate(best):
            if sum(abs(score - other) < 1e-3 for other in scores) == 1 and i < len(best) - 1:
                assert ids.tolist() == [piece.id for piece in theirs[i].pieces]


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_samples_are_distributed_alike(alpha):
    """Both against all segmentations of a word, which are the n best of a great n."""
    (ours, plain), text, draws = both("plain"), "returns", 5000
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
    theirs = tokenizer_of(trained_bytes(texts, 1000, character_coverage=1.0, **PLAIN, **IDS)).unigram()
    ours = train_unigram(texts, 1000, escape=True, dummy_prefix=True)
    of_ours, of_theirs = (sum(tokenizer.log_likelihood(text) for text in held_out) for tokenizer in (ours, theirs))
    assert ours.vocabulary_size == theirs.vocabulary_size
    assert of_ours > of_theirs


@functools.cache
def documents() -> tuple[str, ...]:
    """Every twentieth document of the standard library, half a megabyte."""
    return tuple(document.text.decode() for document in list(stdlib_documents())[::20])


def vocabulary_of_tokenizers(texts: tuple[str, ...], size: int) -> dict[str, float]:
    """The pieces of the library `tokenizers` and their scores, which pre-tokenizes by GPT-4's pattern."""
    theirs = Tokenizer(models.Unigram())
    theirs.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERNS["gpt4"]), "isolated")
    unk = {"unk_token": "<unk>", "special_tokens": ["<unk>"]}
    theirs.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=size + 1, show_progress=False, **unk))
    return dict(json.loads(theirs.to_str())["model"]["vocab"][1:])


def test_the_rules_of_the_library_give_its_pieces_and_its_scores():
    """So what `training` says of the library is all that there is between it and us."""
    theirs = vocabulary_of_tokenizers(documents()[::2], 1500)
    ours = library_unigram.trained(word_counts(documents()[::2], "gpt4"), 1500)
    assert ours.keys() == theirs.keys()
    np.testing.assert_allclose([ours[piece] for piece in theirs], list(theirs.values()), atol=1e-8)  # their digamma is a series


def test_our_rules_take_fewer_tokens_and_fewer_bits():
    """Of documents that were not trained on, with two thirds of the pieces in common at most."""
    theirs = vocabulary_of_tokenizers(documents()[::2], 1500)
    ours = train_unigram(documents()[::2], 1504, pattern="gpt4")
    library = UnigramTokenizer(tuple(theirs), tuple(theirs.values()), pattern="gpt4")
    assert len(ours.pieces) == len(theirs) == 1500
    assert len(set(ours.pieces) & set(theirs)) < 1000
    others = documents()[1::4]
    assert sum(map(len, ours.encode_batch(others))) < 0.97 * sum(map(len, library.encode_batch(others)))
    assert sum(map(ours.log_likelihood, others)) > sum(map(library.log_likelihood, others))
