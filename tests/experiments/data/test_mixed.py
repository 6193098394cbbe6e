"""Batches of text and recall: which rows are what, and what each half weighs."""

from pathlib import Path

import jax
import numpy as np
import pytest

from experiments.config.data import MixedData, TextData
from experiments.data.mixed import MixedSource, recall_task
from experiments.data.sample import Sample
from experiments.data.source import TextSource, open_source, vocabulary_size
from experiments.measure.perplexity import mean_loss
from tokenization.byte import ByteTokenizer

BATCH, LENGTH = 6, 16


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "book.txt"
    path.write_text("".join(f"Line {i}, whose cube is {i**3}.\n" for i in range(80)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def source(corpus: Path) -> MixedSource:
    data = MixedData(corpus=(str(corpus),), length=LENGTH, held_out=0.3, keys=16, values=2)
    opened = open_source(data, corpus.parent / "cache")
    assert isinstance(opened, MixedSource)
    return opened


def _batch(source: MixedSource, seed: int, step: int) -> Sample:
    return jax.device_get(jax.jit(source.sample, static_argnums=2)(source.inputs(seed, step, BATCH), None, BATCH))


def test_the_first_half_is_the_text_of_the_corpus(source: MixedSource, corpus: Path) -> None:
    batch = _batch(source, 1, 4)
    alone = open_source(TextData(corpus=(str(corpus),), length=LENGTH, held_out=0.3), corpus.parent / "cache")
    assert isinstance(alone, TextSource)
    np.testing.assert_array_equal(batch.tokens[:3], alone.inputs(1, 4, 3))
    assert batch.tokens[:3].max() < ByteTokenizer().vocabulary_size <= batch.tokens[3:].min()
    assert batch.tokens.shape == (BATCH, LENGTH + 1)
    assert (np.asarray(batch.evidence)[:3] == -1).all()


def test_ids_fill_the_vocabulary(source: MixedSource) -> None:
    assert source.vocabulary == vocabulary_size(source.data) == ByteTokenizer().vocabulary_size + 16 * 3 + 1
    assert _batch(source, 0, 0).tokens.max() == source.vocabulary - 1 == recall_task(source.data).marker


def test_the_loss_is_the_mean_of_both_halves(source: MixedSource) -> None:
    batch = _batch(source, 0, 0)
    losses = np.random.default_rng(0).uniform(size=(BATCH, LENGTH)).astype(np.float32)
    asked = np.asarray(batch.evidence) >= 0
    assert asked[3:].any()
    expected = (losses[:3].mean() + losses[asked].mean()) / 2
    np.testing.assert_allclose(mean_loss(jax.numpy.asarray(losses), jax.numpy.asarray(batch.weights)), expected, rtol=1e-5)


def test_a_batch_is_a_function_of_seed_and_step(source: MixedSource) -> None:
    first = _batch(source, 2, 7)
    jax.tree.map(np.testing.assert_array_equal, _batch(source, 2, 7), first)
    for other in (_batch(source, 2, 8), _batch(source, 3, 7)):
        assert not np.array_equal(other.tokens[:3], first.tokens[:3])
        assert not np.array_equal(other.tokens[3:], first.tokens[3:])


def test_what_is_held_out_is_the_same_for_all(source: MixedSource) -> None:
    rows = source.held_out_recall(LENGTH, 5)
    np.testing.assert_array_equal(source.held_out_recall(LENGTH, 5).tokens, rows.tokens)
    assert not np.array_equal(_batch(source, 0, 0).tokens[3:], rows.tokens[:3])
    assert source.held_out_text(8, 40).shape == (5, 9)


def test_a_row_with_too_few_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="keys = 16: a row of 64 tokens may need 32"):
        MixedData(length=64, keys=16)
