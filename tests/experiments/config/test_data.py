"""Corpora and mixtures as a configuration writes them."""

from pathlib import Path

import pytest

from leadline.experiments.config.data import Mixture, TextData
from tests.experiments.configured import EXTRAPOLATION, complaint_of, configured_arms


def test_corpus_that_is_no_list_names_the_key_as_it_is_written(tmp_path: Path) -> None:
    message = complaint_of(tmp_path, EXTRAPOLATION, "data.corpus=book.txt")
    assert message.startswith(f"{tmp_path / 'study.toml'}: data.corpus: 'book.txt' is neither ")
    assert "stdlib" in message


MIXTURE = """data.corpus={ kind = "mixture", parts = [
    { corpus = ["code/", "more.txt"], weight = 3 }, { corpus = "stdlib", weight = 0.5 }
] }"""


def test_a_mixture_is_corpora_with_weights(tmp_path: Path) -> None:
    (arm,) = configured_arms(tmp_path, EXTRAPOLATION, MIXTURE)
    assert isinstance(arm.data, TextData)
    assert isinstance(arm.data.corpus, Mixture)
    assert [(part.corpus, part.weight) for part in arm.data.corpus.parts] == [(("code/", "more.txt"), 3.0), ("stdlib", 0.5)]


def test_an_arm_may_have_a_mixture_or_none(tmp_path: Path) -> None:
    mixed, plain = configured_arms(tmp_path, EXTRAPOLATION, f"arms.mixed.{MIXTURE}", "arms.plain.data.corpus=['book.txt']")
    assert isinstance(mixed.data, TextData)
    assert isinstance(mixed.data.corpus, Mixture)
    assert isinstance(plain.data, TextData)
    assert plain.data.corpus == ("book.txt",)


@pytest.mark.parametrize(
    ("mixture", "complaint"),
    [
        ("{ parts = [{ corpus = ['a'], weight = 0 }] }", "data.corpus.parts.0.weight = 0: should be greater than 0"),
        ("{ parts = [{ corpus = ['a'], weight = -1.0 }] }", "data.corpus.parts.0.weight = -1.0: should be greater than 0"),
        ("{ parts = [{ corpus = ['a'], weigth = 1.0 }] }", "data.corpus.parts.0.weight: this key is required"),
        (
            "{ parts = [{ corpus = ['a'], weight = 1.0, x = 1 }] }",
            "data.corpus.parts.0.x: unknown key; valid here: corpus, weight",
        ),
        ("{ parts = [{ corpus = 'a', weight = 1.0 }] }", "data.corpus.parts.0.corpus: 'a' is neither "),
        ("{ parts = [] }", "data.corpus.parts = []: "),
        ("{ part = [] }", "data.corpus.parts: this key is required"),
    ],
)
def test_what_is_wrong_in_a_mixture_is_named(tmp_path: Path, mixture: str, complaint: str) -> None:
    assert complaint in complaint_of(tmp_path, EXTRAPOLATION, f"data.corpus={mixture}")
