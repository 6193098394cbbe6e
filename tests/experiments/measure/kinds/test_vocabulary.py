"""Bits of the same bytes, whatever they are cut into."""

import math
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

from leadline.experiments.config.measure import Measure, VocabularyMeasure
from leadline.experiments.config.tokenizer import Words
from leadline.experiments.measure.kinds.registry import final_points
from leadline.experiments.measure.kinds.vocabulary import bits_per_byte, rare_shares, token_sizes, unknown_share
from leadline.experiments.records.measurement import reading
from leadline.model.mesh import make_mesh
from leadline.tokenization.byte import ByteTokenizer
from tests.experiments.measure.kinds.conftest import Measured
from tests.experiments.measure.kinds.toys import arm, models_of, source_of

pytestmark = pytest.mark.usefixtures("in_use")


def test_bytes_have_a_bit_for_each_of_their_nats_over_ln_2(measured: Callable[[str], Measured]) -> None:
    _, (point, *_) = measured("text")
    assert point[reading("vocabulary_size")] == 259
    assert point[reading("bytes_per_token")] == pytest.approx(1, abs=0.05)  # EOS has no bytes
    assert 5 < point[reading("bits_per_byte")] < 20
    assert 0 < point[reading("embedding_share")] < 1
    for domain in ("code", "prose"):
        assert point[reading("unknown_share", domain=domain)] == 0


def test_words_have_unknown_ones_and_no_bits(folder: Path) -> None:
    source = source_of("text", folder, tokenizer=Words(vocabulary=20))
    words = arm("words", "text", data=source.data, measure=Measure(windows=4, vocabulary=VocabularyMeasure(bytes=100)))
    with jax.set_mesh(make_mesh()):
        models = models_of([words], source, (1,))
    (point,) = final_points(models)
    assert math.isnan(point[reading("bits_per_byte")])
    assert point[reading("unknown_share", domain="prose")] > 0.1
    assert point[reading("bytes_per_token")] > 1


def test_bits_and_bytes_by_hand() -> None:
    assert token_sizes(ByteTokenizer(), 300).tolist() == [1] * 256 + [0] * 44  # specials, and ids beyond
    assert bits_per_byte(np.full((1, 2), math.log(2)), np.array([[1.0, 2.0]])) == pytest.approx(2 / 3)
    assert bits_per_byte(np.full((1, 2), math.log(2)), np.array([[1.0, 0.0]])) == pytest.approx(2)  # EOS has no byte


def test_rare_and_unknown_by_hand() -> None:
    """Id 0 is seen ten times, id 1 nine times, id 2 never."""
    assert rare_shares(np.array([10, 9, 0]), np.array([3, 1, 0])) == (pytest.approx(2 / 3), 0.25)
    assert unknown_share(np.array([1, 5, 1, 6], np.int32), 1) == 0.5
    assert unknown_share(np.array([1, 5, 1, 6], np.int32), None) == 0
