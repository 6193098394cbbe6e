"""Bits of the same bytes, whatever they are cut into."""

import math
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from leadline.experiments.config.measure import Measure, VocabularyMeasure
from leadline.experiments.config.tokenizer import Words
from leadline.experiments.measure.kinds.registry import final_points
from leadline.experiments.records.measurement import reading
from leadline.model.mesh import make_mesh
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
