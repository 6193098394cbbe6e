"""Jobs of tokenizers and of those that they train, and counts by hand."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.exact import Multilingual, TokenizerComparison, Tokens
from leadline.experiments.data.text.corpus import Corpus, Document, stdlib_documents
from leadline.experiments.measure.exact import tokens, training
from leadline.experiments.measure.exact.job import Job
from leadline.experiments.measure.exact.texts import LANGUAGES, Cost, cost, premium_point, texts_of
from leadline.experiments.measure.exact.tokens import megabytes_per_second, probed, report
from leadline.experiments.measure.exact.training import divided, unigram_bits, weighted_pieces
from leadline.experiments.records.measurement import reading
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.wordpiece.training import train_wordpiece
from tests.experiments.measure.exact.jobs import points_of


def test_every_tokenizer_is_counted(ranks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "stdlib_documents", lambda: iter([Document("a", b"the cat sat on the mat")]))
    exact = Tokens(tokenizers={"byte": "byte", "toy": "tiktoken:toy"}, ranks=str(ranks), speed_documents=1)
    byte, toy = points_of(tokens.jobs(exact)).values()
    english = texts_of("embedded", "eng")["eng"]
    assert byte[reading("tokens", language="eng")] == len(english.encode())
    assert toy[reading("tokens", language="eng")] == len(english.encode()) - english.count("th") - english.count("the")
    assert byte[reading("tokens", probe="12,345,678")] == 10
    assert (byte[reading("first_token_bytes", probe="12345")], toy[reading("first_token_bytes", probe="12345")]) == (1, 1)
    assert (byte[reading("unknown_share", language="eng")], byte[reading("vocabulary_size")]) == (0, 259)
    speeds = [key for key in toy if key.quantity == "encoding_speed"]
    assert len(speeds) == 9
    assert not any(key.quantity == "encoding_speed" for key in byte)


def test_published_tokenizers_are_counted_where_their_folder_is_given(tmp_path: Path) -> None:
    english = texts_of("embedded", "eng")["eng"]
    trained = train_bpe([english], 270)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tokenizer.json").write_text(to_huggingface(trained).to_str())
    exact = {"tokenizers": {"byte": "byte"}, "published": ("mine",)}
    assert list(points_of(tokens.jobs(Tokens.model_validate(exact)))) == ["byte"]
    points = points_of(tokens.jobs(Tokens.model_validate(exact | {"published_in": str(tmp_path)})))
    assert list(points) == ["byte", "mine"]
    assert points["mine"][reading("tokens", language="eng")] == len(trained.encode(english))
    with pytest.raises(UserError, match=r"gone/tokenizer\.json"):
        tokens.jobs(Tokens.model_validate(exact | {"published": ("gone",), "published_in": str(tmp_path)}))


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
    rows = report({"byte": ByteTokenizer()}, {"eng": "ab", "deu": "äbc"}, "eng", 100, 5.0)
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
    rows = {row["text"]: row for row in probed({"byte": ByteTokenizer()})}
    assert rows["12,345,678"]["tokens"] == 10
    assert rows["12,345,678"]["pieces"] == "'1' '2' ',' '3' '4' '5' ',' '6' '7' '8'"
    assert str(rows["a family of emoji"]["pieces"]).startswith(r"'\xf0' '\x9f'")


def test_a_text_in_three_sizes() -> None:
    size = cost(ByteTokenizer(), "né")
    assert size == Cost(tokens=3, bytes=3, characters=2, unknown=0)
    assert (size.bytes_per_token, size.characters_per_token) == (1, pytest.approx(2 / 3))


def test_ways_take_turns() -> None:
    now, order = [0.0], []
    durations = {"fast": iter([0.001, 0.001, 0.009]), "slow": iter([0.004, 0.002, 0.004])}

    def encode_as(name: str, text: str) -> None:
        order.append((name, len(text)))
        now[0] += next(durations[name])

    ways = {name: lambda text, name=name: encode_as(name, text) for name in durations}
    speeds = megabytes_per_second(ways, ["x" * 1000], clock=lambda: now[0])
    assert speeds == {"fast": pytest.approx([1, 1, 1 / 9]), "slow": pytest.approx([0.25, 0.5, 0.25])}
    assert order == [("fast", 1000), ("slow", 1000)] * 3


def test_wordpiece_by_each_criterion() -> None:
    """Each vocabulary is the first pieces of the largest, which is trained once."""
    exact = TokenizerComparison(vocabularies=(250, 200), every=400)
    jobs = training.wordpiece_jobs(exact, stdlib_documents())
    assert {job.settings.model_dump()["criterion"] for job in jobs} == {"frequency", "ratio", "likelihood_gain"}
    points = points_of(jobs)
    assert list(points) == [name for name, *_ in training.WAYS]
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


def test_bpe_without_pretokenization_merges_across_words() -> None:
    texts = (b"of the of the of the\n" * 9, b"of the sea") * 2
    corpus = Corpus((lambda: ((str(number), text) for number, text in enumerate(texts)),))
    exact = TokenizerComparison(vocabularies=(262, 260), every=2)
    words, whole = points_of(training.bpe_jobs(exact, corpus)).values()
    by_words, by_whole = (train_bpe([texts[0]] * 2, 262, pattern=pattern) for _, _, pattern in training.PATTERNS)
    for point, tokenizer in ((words, by_words), (whole, by_whole)):
        for size in (260, 262):
            count = 2 * len(tokenizer.shortened(size).encode(b"of the sea"))
            assert point[reading("tokens", vocabulary=size)] == count
            assert point[reading("bytes_per_token", vocabulary=size)] == 20 / count
    spaced = [sum(b" " in piece[1:] for piece in tokenizer.table) for tokenizer in (by_words, by_whole)]
    assert spaced[0] == 0 < spaced[1]
    assert reading("unknown_share", vocabulary=260) not in words


WORDPIECE = TokenizerComparison(vocabularies=(90_000,), every=400)
BPE = TokenizerComparison(vocabularies=(2**17,), every=800)
MULTILINGUAL = Multilingual(vocabularies=(9000,), exponents=(0.0,))


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (lambda: training.wordpiece_jobs(WORDPIECE, stdlib_documents()), r"wordpiece\.vocabularies: this training gives"),
        (lambda: training.bpe_jobs(BPE, stdlib_documents()), r"bpe\.vocabularies: the corpus has"),
        (lambda: training.jobs(MULTILINGUAL), "exact: 9000 ids by pattern .*: the corpus"),
        (lambda: training.jobs(MULTILINGUAL.model_copy(update={"pattern": "("})), r"exact: 9000 ids by pattern '\('"),
    ],
)
def test_a_vocabulary_that_cannot_be_trained_is_said(jobs: Callable[[], list[Job]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        points_of(jobs()[:1])


def test_pieces_count_by_the_share_of_their_bytes() -> None:
    """Two texts of equal shares, one of twice the bytes: each of its pieces counts half."""
    counted = weighted_pieces({"a": "xx xx", "b": "yy yy zz zzz"}, np.array([0.5, 0.5]), "whitespace")
    assert counted["xx"] / counted["yy"] == pytest.approx(12 / 5, rel=1e-3)


def test_lines_are_divided() -> None:
    assert divided("a\nb\nc\n") == ("a\nc\n", "b\n")
