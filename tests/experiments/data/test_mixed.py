"""Batches of text and recall: which rows are what, and what each half weighs."""

from pathlib import Path

import jax
import numpy as np
import pytest

from leadline.experiments.config.data import MixedData, TextData
from leadline.experiments.data.mixed import MixedSource, recall_task
from leadline.experiments.data.sample import Sample
from leadline.experiments.data.source import TextSource, open_source, vocabulary_size
from leadline.experiments.measure.perplexity import mean_loss
from leadline.tokenization.byte import ByteTokenizer

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


@pytest.fixture(scope="module")
def batch(source: MixedSource) -> Sample:
    return jax.device_get(jax.jit(source.sample, static_argnums=2)(source.inputs(1, 4, BATCH), None, BATCH))


def test_the_first_half_is_the_text_of_the_corpus(batch: Sample, corpus: Path) -> None:
    alone = open_source(TextData(corpus=(str(corpus),), length=LENGTH, held_out=0.3), corpus.parent / "cache")
    assert isinstance(alone, TextSource)
    np.testing.assert_array_equal(batch.tokens[:3], alone.inputs(1, 4, 3))
    assert batch.tokens[:3].max() < ByteTokenizer().vocabulary_size <= batch.tokens[3:].min()
    assert batch.tokens.shape == (BATCH, LENGTH + 1)
    assert (np.asarray(batch.evidence)[:3] == -1).all()


def test_ids_fill_the_vocabulary(source: MixedSource, batch: Sample) -> None:
    assert source.vocabulary == vocabulary_size(source.data) == ByteTokenizer().vocabulary_size + 16 * 3 + 1
    assert batch.tokens.max() == source.vocabulary - 1 == recall_task(source.data).marker


def test_the_loss_is_the_mean_of_both_halves(batch: Sample) -> None:
    losses = np.random.default_rng(0).uniform(size=(BATCH, LENGTH)).astype(np.float32)
    asked = np.asarray(batch.evidence) >= 0
    assert asked[3:].any()
    expected = (losses[:3].mean() + losses[asked].mean()) / 2
    np.testing.assert_allclose(mean_loss(jax.numpy.asarray(losses), jax.numpy.asarray(batch.weights)), expected, rtol=1e-5)


def test_held_out_recall_is_no_recall_of_training(source: MixedSource, batch: Sample) -> None:
    rows = source.held_out_recall(LENGTH, 3)
    jax.tree.map(np.testing.assert_array_equal, source.held_out_recall(LENGTH, 3), rows)
    assert not np.array_equal(batch.tokens[3:], rows.tokens)


def test_a_row_with_too_few_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="keys = 16: a row of 64 tokens may need 32"):
        MixedData(length=64, keys=16)
