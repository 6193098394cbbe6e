"""Jobs of tokenizers: counts by hand, WordPiece by its criterion, and shares of languages in training."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.exact import Multilingual, Tokens, WordPieceComparison
from leadline.experiments.data.text.corpus import stdlib_documents
from leadline.experiments.measure.cost import Cost
from leadline.experiments.measure.exact import multilingual, tokens, wordpiece
from leadline.experiments.measure.exact.job import Job
from leadline.experiments.measure.exact.multilingual import divided, shares, weighted_pieces
from leadline.experiments.measure.exact.premiums import premium_point
from leadline.experiments.measure.exact.texts import LANGUAGES, texts_of
from leadline.experiments.measure.exact.token_report import probed, report
from leadline.experiments.measure.exact.wordpiece import WAYS, unigram_bits
from leadline.experiments.records.measurement import Point, reading
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.wordpiece.training import train_wordpiece


def points_of(jobs: list[Job]) -> dict[str, Point]:
    return {job.name: job.compute({}, lambda done, steps: None).point for job in jobs}  # noqa: ARG005


def test_every_tokenizer_is_counted(ranks: Path) -> None:
    exact = Tokens(tokenizers={"byte": "byte", "toy": "tiktoken:toy"}, ranks=str(ranks), speed_documents=1)
    byte, toy = points_of(tokens.jobs(exact)).values()
    english = texts_of("embedded", "eng")["eng"]
    assert byte[reading("tokens", language="eng")] == len(english.encode())
    assert toy[reading("tokens", language="eng")] == len(english.encode()) - english.count("th") - english.count("the")
    assert byte[reading("tokens", probe="12,345,678")] == 10
    assert (byte[reading("unknown_share", language="eng")], byte[reading("vocabulary_size")]) == (0, 259)
    speeds = [key for key in toy if key.quantity == "encoding_speed"]
    assert len(speeds) == 9
    assert not any(key.quantity == "encoding_speed" for key in byte)


def test_most_over_least_is_the_ratio_of_the_extremes() -> None:
    point = premium_point({"eng": Cost(10, 1, 1, 0), "cmn": Cost(8, 1, 1, 0), "mya": Cost(40, 1, 1, 0)}, "eng")
    assert point[reading("largest_premium")] == 4
    assert point[reading("smallest_premium")] == 0.8
    assert point[reading("premium_ratio")] == 5
    assert point[reading("relative_tokens", language="cmn")] == 0.8


def test_languages_stand_in_their_order(tmp_path: Path) -> None:
    for language in ("tlh", "eng", "spa"):
        (tmp_path / f"{language}.txt").write_text("text\n")
    assert list(texts_of([tmp_path], "tlh")) == ["eng", "spa", "tlh"]
    assert list(texts_of("embedded", "eng")) == list(LANGUAGES)
    with pytest.raises(UserError, match="reference = 'fra' is none of the texts: eng, spa, tlh"):
        texts_of([tmp_path], "fra")


def test_a_report_has_a_row_a_text_and_tokenizer() -> None:
    rows = report([ByteTokenizer()], {"eng": "ab", "deu": "äbc"}, "eng", 100, 5.0)
    assert rows[1] == {
        "tokenizer": "byte",
        "language": "German",
        "tokens": 4,
        "relative": 2.0,
        "bytes/token": 1.0,
        "characters/token": 0.75,
        "of 100 tokens": 50,
        "cost": pytest.approx(2e-5),
    }


def test_probes_show_where_tokens_end() -> None:
    rows = {row["text"]: row for row in probed([ByteTokenizer()])}
    assert rows["12,345,678"]["tokens"] == 10
    assert rows["12,345,678"]["pieces"] == "'1' '2' ',' '3' '4' '5' ',' '6' '7' '8'"
    assert str(rows["a family of emoji"]["pieces"]).startswith(r"'\xf0' '\x9f'")


def test_wordpiece_by_each_criterion() -> None:
    """Each vocabulary is the first pieces of the largest, which is trained once."""
    exact = WordPieceComparison(vocabularies=(250, 200), every=400)
    jobs = wordpiece.wordpiece_jobs(exact, stdlib_documents())
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
        points_of(wordpiece.wordpiece_jobs(exact, stdlib_documents())[:1])


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
    points = points_of(multilingual.jobs(Multilingual(vocabularies=(320, 640), exponents=(0.0, 1.0))))
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
        points_of(multilingual.jobs(Multilingual(vocabularies=(9000,), exponents=(0.0,))))


def test_a_record_of_texts_says_what_they_are() -> None:
    (job,) = tokens.jobs(Tokens(tokenizers={"byte": "byte"}, speed_documents=0))
    data = job.compute({}, lambda done, steps: None).data  # noqa: ARG005
    assert json.loads(json.dumps(data))["digest"] == job.data_digest
    assert data["normalization"]
