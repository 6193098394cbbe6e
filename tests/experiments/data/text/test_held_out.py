"""Held-out windows: drawn from all documents or from a stream, with which targets count and whose they are."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.data import TextData
from leadline.experiments.config.tokenizer import Bpe
from leadline.experiments.data.source import open_source
from leadline.experiments.data.text import held_out
from leadline.experiments.data.text.batches import first_tokens
from leadline.experiments.data.text.corpus import Document
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.runtime.errors import UserError
from tests.experiments.data.corpora import write_corpus

EOS, BOS = 0, np.array([255], np.int32)
NONE = np.empty(0, np.int32)


def _documents(sizes: Sequence[int]) -> held_out.Documents:
    """Every id but EOS tells its place."""
    texts = [Document(f"{i}.py" if i % 2 else f"{i}.txt", b"x" * size) for i, size in enumerate(sizes)]
    ids = np.arange(1, 1 + sum(sizes) + len(sizes), dtype=np.uint32)
    ids[np.cumsum(np.array(sizes) + 1) - 1] = EOS
    return held_out.documents_of(texts, ids, EOS)


def test_groups_have_equal_text_where_a_large_document_is_as_long_as_many_small_ones() -> None:
    sizes = [*[10] * 75, 100, *[10] * 75]
    np.testing.assert_array_equal(np.bincount(_documents(sizes).groups(), sizes), [100] * held_out.GROUPS)


@pytest.mark.parametrize(("first", "size"), [(NONE, 10), (BOS, 9)])
def test_windows_do_not_overlap_and_know_their_documents(first: np.ndarray, size: int) -> None:
    documents = _documents([20, 3, 0, 60, 100])
    text = held_out.held_out_windows(documents, 9, 1000, first)
    assert len(text.windows) == held_out.slot_count(documents, 9, first) == len(documents.ids) // size
    inside = text.windows[:, -size:]
    begins = np.sort(inside.min(axis=1, where=inside != EOS, initial=10**6)).astype(int)
    assert (np.diff(begins) >= size - 1).all()
    numbers = np.searchsorted(documents.ends, np.arange(len(documents.ids)), "right")
    known = text.windows[:, 1:] != EOS  # any other id tells its place
    np.testing.assert_array_equal(numbers[text.windows[:, 1:][known] - 1], text.documents[known])
    assert text.counted.all()
    assert (text.windows[:, 0] == BOS).all() or not len(first)


def test_a_token_that_ends_a_document_belongs_to_it() -> None:
    text = held_out.held_out_windows(_documents([2, 1, 0, 5]), 11, 1, NONE)
    np.testing.assert_array_equal(text.documents, [[0, 0, 1, 1, 2, 3, 3, 3, 3, 3, 3]])


@pytest.mark.parametrize("first", [NONE, BOS])
def test_with_a_stride_every_target_counts_once_after_its_context(first: np.ndarray) -> None:
    documents = _documents([300])
    text = held_out.held_out_windows(documents, 12, 10_000, first, stride=5)
    assert (text.counted.sum(axis=1) == 5).all()
    assert text.counted[:, -5:].all()
    counted = np.sort(text.windows[:, 1:][text.counted])
    np.testing.assert_array_equal(counted, np.arange(counted[0], counted[0] + 5 * len(text.windows)))


def test_a_draw_depends_on_the_text_alone_and_is_spread_over_it() -> None:
    documents = _documents([99] * 100)
    text = held_out.held_out_windows(documents, 9, 100, NONE)
    np.testing.assert_array_equal(held_out.held_out_windows(documents, 9, 100, NONE).windows, text.windows)
    assert 50 < text.document_count < 80  # 100 (1 - 1/e) of 100 documents
    # Recorded runs can be repeated only while this order stays.
    assert held_out.held_out_windows(_documents([999]), 9, 6, NONE).windows[:, 0].tolist() == [591, 441, 301, 71, 611, 531]


def test_a_giant_document_does_not_take_the_draw() -> None:
    documents = _documents([100_000, *[40] * 50])
    text = held_out.held_out_windows(documents, 9, 60, NONE)
    begin = text.documents[:, 0]
    assert len(np.unique(begin)) >= 30
    assert np.bincount(begin).max() <= 2  # 60 windows / 30 documents
    few = held_out.held_out_windows(_documents([100_000, *[40] * 3]), 9, 60, NONE)  # what is missing is taken from the giant
    assert len(few.windows) == 60
    assert set(few.documents.ravel().tolist()) == {0, 1, 2, 3}


def test_random_first_tokens_belong_to_the_window() -> None:
    candidates = np.arange(1000, 2000, dtype=np.int32)
    documents = _documents([5000])
    few, many = (held_out.held_out_windows(documents, 9, count, candidates).windows for count in (555, 10_000))
    assert len(np.unique(many[:, 0])) > 300
    assert {tuple(row) for row in few.tolist()} == {tuple(row) for row in many.tolist()}


def test_code_and_prose_are_told_apart() -> None:
    domains = held_out.by_domain([_documents([3, 2, 4]), _documents([1])])
    assert domains["prose"].ids.tolist() == [1, 2, 3, EOS, 8, 9, 10, 11, EOS, 1, EOS]
    assert domains["code"].ids.tolist() == [5, 6, EOS]
    assert set(held_out.by_domain([_documents([3])])) == {"prose"}


@pytest.mark.parametrize("first", [NONE, BOS], ids=["absent", "fixed"])
def test_windows_of_a_shorter_length_end_at_the_same_targets(first: np.ndarray) -> None:
    longer = held_out.held_out_windows(_documents([148, 148]), 32, 5, first)
    shorter = longer.ending(8)
    np.testing.assert_array_equal(shorter.windows[:, -8:], longer.windows[:, -8:])
    np.testing.assert_array_equal(shorter.documents, longer.documents[:, -8:])
    assert (shorter.windows.shape, shorter.counted.shape) == ((5, 9), (5, 8))
    np.testing.assert_array_equal(shorter.windows[:, 0] == BOS, np.full(5, bool(len(first))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("texts"), 60, lines=4)


def _opened(folder: Path, **settings: object) -> TextSource:
    data = TextData.model_validate({"corpus": (str(folder),), "length": 16, "held_out": 0.4} | settings)
    source = open_source(data, folder / "cache")
    assert isinstance(source, TextSource)
    return source


@pytest.fixture(scope="module")
def of_bytes(folder: Path) -> TextSource:
    return _opened(folder)


@pytest.fixture(scope="module", params=["bytes", "bpe"])
def source(request: pytest.FixtureRequest, folder: Path, of_bytes: TextSource) -> TextSource:
    return of_bytes if request.param == "bytes" else _opened(folder, tokenizer=Bpe(vocabulary=300))


def _with_first(source: TextSource, bos: str) -> TextSource:
    data = source.data.model_copy(update={"bos": bos})
    return replace(source, data=data, text=replace(source.text, first=first_tokens(data.bos, source.tokenizer)))


def test_windows_of_both_domains_are_as_many(of_bytes: TextSource) -> None:
    source = _with_first(of_bytes, "fixed")
    windows = source.by_domain(16, 5)
    assert {name: text.windows.shape for name, text in windows.items()} == {"code": (5, 17), "prose": (5, 17)}
    for name, word in (("code", b"value_"), ("prose", b"says that")):
        assert {int(row[0]) for row in windows[name].windows} == {257}
        assert word in bytes(held_out.by_domain(source.text.documents)[name].ids[:64].astype(np.uint8))
    assert source.by_domain(10**6, 5) == {}


@pytest.mark.parametrize("bos", ["absent", "fixed"])
def test_a_stream_is_whole_documents_in_another_order(of_bytes: TextSource, bos: str) -> None:
    source = _with_first(of_bytes, bos)
    stream = source.stream(3000)
    (window,) = stream.windows
    assert (window.shape, window.dtype) == ((3001,), np.int32)
    text = window[1:] if bos == "fixed" else window
    assert (window[0] == 257) == (bos == "fixed")
    (documents,) = source.text.documents
    whole = [documents.tokens_of(number).tolist() for number in range(len(documents))]
    pieces = np.split(text, np.flatnonzero(text == 258) + 1)
    assert len(pieces) == stream.document_count
    numbers = [whole.index(piece.tolist()) for piece in pieces[:-1]]
    # EOS belongs to the document that it ends.
    np.testing.assert_array_equal(stream.documents[0, window[1:] == 258], numbers)
    np.testing.assert_array_equal(stream.groups, documents.groups()[stream.documents])
    assert stream.counted.all()
    assert len(set(numbers)) == len(numbers)
    assert numbers != sorted(numbers)
    with pytest.raises(UserError, match=r"a stream of 1000000 tokens takes more held-out text than the \d+ tokens there are"):
        source.stream(10**6)


@pytest.mark.parametrize("bos", ["absent", "fixed"])
def test_every_tokenizer_gets_the_same_bytes(source: TextSource, of_bytes: TextSource, bos: str) -> None:
    source = _with_first(source, bos)
    text, plain = source.held_out_bytes(2000), of_bytes.held_out_bytes(2000)
    targets, expected_targets = (held_out.windows[:, 1:][held_out.counted] for held_out in (text, plain))
    expected = bytes(expected_targets[expected_targets < 256].astype(np.uint8))
    eos = source.tokenizer.specials.eos
    assert b"".join(source.tokenizer.token_bytes(int(token)) for token in targets if token != eos) == expected
    assert 2000 <= len(expected) < 2200
    assert text.document_count == (targets == eos).sum() == plain.document_count
    if bos == "absent":
        flat = np.concatenate([text.windows[:1, 0], text.windows[:, 1:].ravel()])
        np.testing.assert_array_equal(flat[:-1], text.windows[:, :-1].ravel())
    assert source.held_out_bytes(10**9).counted.sum() == source.described["held_out_tokens"]


TOKENS, LENGTH = 1000, 32
TEXT = np.arange(TOKENS + 1, dtype=np.int32)
EDGES = np.array([0, *(2 ** np.arange(2, 10)), TOKENS])  # of octaves


@pytest.mark.parametrize("stride", [1, 7, 16])
def test_windows_are_of_the_stream_and_count_no_token_twice(stride: int) -> None:
    recomputed = held_out.recomputed_windows(TEXT, EDGES, LENGTH, stride, 48, keep_first=False)
    np.testing.assert_array_equal(recomputed.windows[:, :-1], recomputed.places)
    np.testing.assert_array_equal(recomputed.windows[:, 1:], recomputed.places + 1)
    counted = recomputed.places[recomputed.counted]
    assert len(np.unique(counted)) == len(counted)
    np.testing.assert_array_equal(np.sort(counted)[:LENGTH], np.arange(LENGTH))
    by_bin = np.histogram(counted, EDGES)[0]
    later = EDGES[:-1] >= LENGTH
    assert by_bin[later].max() <= 48 + stride  # a segment may reach into the next bin
    assert by_bin[later].min() > 0


def test_a_sample_that_may_be_all_is_all() -> None:
    windows = held_out.recomputed_windows(TEXT, EDGES, LENGTH, 8, TOKENS, keep_first=False)
    np.testing.assert_array_equal(np.sort(windows.places[windows.counted]), np.arange(TOKENS))


def test_a_token_that_every_text_begins_with_begins_every_window() -> None:
    text = TEXT.copy()
    text[0] = -1
    recomputed = held_out.recomputed_windows(text, EDGES, LENGTH, 8, 48, keep_first=True)
    assert (recomputed.windows[:, 0] == -1).all()
    np.testing.assert_array_equal(recomputed.windows[1:, 1:-1], recomputed.places[1:, 1:])
