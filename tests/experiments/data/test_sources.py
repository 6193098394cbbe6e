"""What every source of training steps promises, whatever its data."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from leadline.experiments.config.data import (
    BackcopyData,
    Data,
    GridData,
    MixedData,
    Mixture,
    MixturePart,
    RetrievalData,
    TextData,
    TransductionData,
)
from leadline.experiments.config.tokenizer import Bpe, PublishedSource
from leadline.experiments.data.backcopy import BackcopySource
from leadline.experiments.data.grid import GridSource
from leadline.experiments.data.recall import recall_task
from leadline.experiments.data.retrieval.source import RetrievalSource
from leadline.experiments.data.sample import Sample
from leadline.experiments.data.source import open_source, vocabulary_size, with_vocabulary
from leadline.experiments.data.transduction import TransductionSource
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.published import load_published
from tests.experiments.data.corpora import write_corpus

BATCH, LENGTH = 6, 24
FILES = ("BOOKS",)  # stands for a folder of text
DATA: dict[str, Data] = {
    "text": TextData(corpus=FILES, length=LENGTH, held_out=0.3),
    "text with BOS": TextData(corpus=FILES, length=LENGTH, held_out=0.3, bos="fixed"),
    "text with BOS in each document": TextData(corpus=FILES, length=LENGTH, held_out=0.3, bos="document"),
    "text with random tokens": TextData(corpus=FILES, length=LENGTH, held_out=0.3, bos="random"),
    "text by BPE": TextData(corpus=FILES, length=LENGTH, held_out=0.3, tokenizer=Bpe(vocabulary=280)),
    "a mixture": TextData(corpus=Mixture(parts=(MixturePart(corpus=FILES, weight=1.0),) * 2), length=LENGTH, held_out=0.3),
    "backcopy": BackcopyData(vocabulary=12, length=LENGTH),
    "backcopy without BOS": BackcopyData(vocabulary=12, length=LENGTH, bos="absent"),
    "retrieval": RetrievalData(tasks=("copy", "key_value"), length=LENGTH, keys=16, values=10, values_per_key=2),
    "mixed": MixedData(corpus=FILES, length=LENGTH, held_out=0.3, keys=16, values=2),
    "transduction": TransductionData(task="reverse", size=10),
    "grid": GridData(sizes=(4, 6)),
}


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("books"), 60, lines=8, code=False)


def _open(name: str, books: Path) -> Any:
    settings = json.loads(DATA[name].model_dump_json().replace(FILES[0], str(books)))
    return open_source(type(DATA[name]).model_validate(settings), books / "cache")


@pytest.fixture(scope="module", params=DATA)
def source(request: pytest.FixtureRequest, books: Path) -> Any:
    return _open(request.param, books)


@pytest.fixture(scope="module")
def batches(source: Any) -> list[Sample]:
    """Of three steps, and the first again."""
    draw = jax.jit(source.sample, static_argnums=2)
    steps = [(1, 4), (1, 5), (2, 4), (1, 4)]
    return [jax.device_get(draw(source.inputs(*step, BATCH), source.shared, BATCH)) for step in steps]


def test_a_batch_is_a_function_of_seed_and_step(batches: list[Sample]) -> None:
    jax.tree.map(np.testing.assert_array_equal, batches[3], batches[0])
    assert len({sample.tokens.tobytes() for sample in batches}) == 3


def test_rows_have_the_length_and_the_ids_of_the_data(source: Any, batches: list[Sample]) -> None:
    assert source.vocabulary == vocabulary_size(source.data)
    for sample in batches:
        tokens = np.asarray(sample.tokens)
        assert (tokens.shape, tokens.dtype) == ((BATCH, LENGTH + 1), np.int32)
        assert 0 <= tokens.min() <= tokens.max() < source.vocabulary
        for of_targets in (sample.weights, sample.evidence):
            assert of_targets is None or of_targets.shape == (BATCH, LENGTH)
        if sample.evidence is not None:
            assert (np.asarray(sample.evidence) <= np.arange(LENGTH)).all()


def test_bos_stands_after_every_end_of_a_document_and_nowhere_else(books: Path) -> None:
    rows = _open("text with BOS in each document", books).text.held_out(200, 20).windows
    ends, begins = rows[:, :-1] == 258, rows[:, 1:] == 257
    np.testing.assert_array_equal(ends, begins)
    assert ends.any()


def _held_out(source: Any) -> np.ndarray:
    match source:
        case BackcopySource():
            return np.asarray(source.held_out(BATCH))
        case RetrievalSource() | TransductionSource() | GridSource():
            return np.asarray(source.held_out(BATCH).tokens)
        case _:
            return source.text.held_out(LENGTH, 30).windows


def test_what_is_held_out_is_the_same_for_all_and_no_training_row(source: Any, batches: list[Sample]) -> None:
    rows = _held_out(source)
    np.testing.assert_array_equal(_held_out(source), rows)
    assert rows.shape[1] == LENGTH + 1
    trained = np.concatenate([np.asarray(sample.tokens) for sample in batches])
    assert not {row.tobytes() for row in rows.astype(np.int32)} & {row.tobytes() for row in trained}


def test_the_record_says_what_the_data_are(source: Any) -> None:
    described = json.loads(json.dumps(source.described))
    assert {"name", "digest"} <= described.keys()
    assert (described["digest"] is None) == (source.tokenizer is None)
    if source.tokenizer is not None:
        assert described["tokenizer_digest"] == source.tokenizer.digest()
        assert described["train_documents"] + described["held_out_documents"] in (60, 120)
        assert described["train_tokens"] > described["held_out_tokens"] > 1000


def test_text_is_read_with_a_published_tokenizer_as_with_the_one_that_it_was_written_from(books: Path) -> None:
    trained = _open("text by BPE", books)
    file = books / "tokenizer.json"
    file.write_text(to_huggingface(trained.tokenizer.wrapped).to_str())
    data = trained.data.model_copy(update={"tokenizer": PublishedSource(source=str(file))})
    sized = with_vocabulary(data)
    assert sized == data.model_copy(update={"tokenizer": PublishedSource(source=str(file), vocabulary=280)})
    assert vocabulary_size(data) == vocabulary_size(with_vocabulary(sized)) == 280
    source = open_source(sized, books / "cache")
    np.testing.assert_array_equal(source.inputs(1, 4, BATCH), trained.inputs(1, 4, BATCH))
    assert source.described["tokenizer_digest"] == load_published(file).digest()
    small = data.model_copy(update={"tokenizer": PublishedSource(source=str(file), vocabulary=279)})
    with pytest.raises(UserError, match=r"data\.tokenizer\.vocabulary = 279: .*tokenizer\.json has 280 ids"):
        open_source(small, books / "cache")


def test_half_of_a_mixed_batch_is_text_and_half_recall_and_so_is_its_loss(books: Path) -> None:
    mixed, text = _open("mixed", books), _open("text", books)
    batch = jax.device_get(jax.jit(mixed.sample, static_argnums=2)(mixed.inputs(1, 4, BATCH), None, BATCH))
    half = BATCH // 2
    np.testing.assert_array_equal(batch.tokens[:half], text.inputs(1, 4, half))
    assert batch.tokens[:half].max() < ByteTokenizer().vocabulary_size <= batch.tokens[half:].min()
    assert batch.tokens.max() == mixed.vocabulary - 1 == recall_task(mixed.data).marker
    is_answer = np.asarray(batch.evidence) >= 0
    assert (is_answer.any(axis=1) == (np.arange(BATCH) >= half)).all()
    losses = np.random.default_rng(0).uniform(size=(BATCH, LENGTH)).astype(np.float32)
    expected = (losses[:half].mean() + losses[is_answer].mean()) / 2
    np.testing.assert_allclose(mean_loss(jax.numpy.asarray(losses), jax.numpy.asarray(batch.weights)), expected, rtol=1e-5)
    rows = mixed.held_out_recall(LENGTH, half)
    jax.tree.map(np.testing.assert_array_equal, mixed.held_out_recall(LENGTH, half), rows)
    assert not np.array_equal(batch.tokens[half:], rows.tokens)
