"""Jobs that train tokenizers: WordPiece by its criterion, and shares of languages in training."""

from itertools import islice

import numpy as np
import pytest

from leadline.experiments.config.exact import Multilingual, WordPieceComparison
from leadline.experiments.data.text.corpus import stdlib_documents
from leadline.experiments.measure.exact.job import Job
from leadline.experiments.measure.exact.training import (
    WAYS,
    divided,
    jobs,
    shares,
    unigram_bits,
    weighted_pieces,
    wordpiece_jobs,
)
from leadline.experiments.records.measurement import Point, reading
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.wordpiece.training import train_wordpiece


def points_of(jobs: list[Job]) -> dict[str, Point]:
    return {job.name: job.compute({}, lambda done, steps: None).point for job in jobs}  # noqa: ARG005


def test_wordpiece_by_each_criterion() -> None:
    """Each vocabulary is the first pieces of the largest, which is trained once."""
    exact = WordPieceComparison(vocabularies=(250, 200), every=400)
    jobs = wordpiece_jobs(exact, stdlib_documents())
    assert {job.settings.model_dump()["criterion"] for job in jobs} == {"frequency", "ratio", "likelihood_gain"}
    points = points_of(jobs)
    assert list(points) == [name for name, *_ in WAYS]
    texts, others = (
        [document.text.decode() for document in islice(stdlib_documents(), first, None, 400)] for first in (0, 200)
    )
    tokenizer = train_wordpiece(texts, 200, "frequency").tokenizer()
    ids = np.concatenate([tokenizer.encode(text) for text in others])
    expected = {
        "tokens": len(ids),
        "used_share": len(set(ids.tolist())) / 200,
        "unknown_share": np.mean(ids == tokenizer.specials.unk),
        "bytes_per_token": sum(len(text.encode()) for text in others) / len(ids),
        "unigram_bits": unigram_bits(tokenizer, texts),
    }
    frequency = points["wordpiece_frequency"]
    assert {name: float(frequency[reading(name, vocabulary=200)]) for name in expected} == pytest.approx(expected)
    assert all(reading("tokens", vocabulary=size) in point for size in (200, 250) for point in points.values())


def test_a_wordpiece_vocabulary_that_the_text_cannot_fill() -> None:
    exact = WordPieceComparison(vocabularies=(90_000,), every=400)
    with pytest.raises(UserError, match=r"wordpiece\.vocabularies: this training gives vocabularies of"):
        points_of(wordpiece_jobs(exact, stdlib_documents())[:1])


def test_bits_of_independent_tokens() -> None:
    """Of four bytes, two are a: 1/2, 1/4, 1/4."""
    assert unigram_bits(ByteTokenizer(), ["ab", "ac"]) == pytest.approx(1.5)


def test_shares_of_languages() -> None:
    np.testing.assert_allclose(shares(3, 2.0, 1.0), np.array([4, 2, 1]) / 7)
    np.testing.assert_allclose(shares(3, 2.0, 0.0), np.full(3, 1 / 3))
    np.testing.assert_allclose(shares(2, 4.0, 0.5), np.array([2, 1]) / 3)


def test_pieces_count_by_the_share_of_their_bytes() -> None:
    """Two texts of equal shares, one of twice the bytes: each of its pieces counts half."""
    counted = weighted_pieces({"a": "xx xx", "b": "yy yy zz zzz"}, np.array([0.5, 0.5]), "whitespace")
    assert counted["xx"] / counted["yy"] == pytest.approx(12 / 5, rel=1e-3)


def test_lines_are_divided() -> None:
    assert divided("a\nb\nc\n") == ("a\nc\n", "b\n")


def test_even_shares_are_fairer_and_cost_the_largest_language_tokens() -> None:
    points = points_of(jobs(Multilingual(vocabularies=(320, 640), exponents=(0.0, 1.0))))
    assert list(points) == ["exponent_1_320", "exponent_1_640", "exponent_0_320", "exponent_0_640"]
    for size in (320, 640):
        uneven, even = points[f"exponent_1_{size}"], points[f"exponent_0_{size}"]
        assert even[reading("gini")] < uneven[reading("gini")]
        english = reading("tokens", language="eng")
        assert even[english] > uneven[english]
        by_language = [array for key, array in even.items() if key.quantity == "tokens" and key.dims]
        assert even[reading("tokens")] == sum(by_language)


def test_a_vocabulary_that_the_texts_cannot_fill() -> None:
    with pytest.raises(UserError, match="vocabularies: 9000: the corpus"):
        points_of(jobs(Multilingual(vocabularies=(9000,), exponents=(0.0,))))
