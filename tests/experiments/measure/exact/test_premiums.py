"""Premiums as products, by hand and of real texts."""

from math import prod
from pathlib import Path

import pytest

from leadline.experiments.config.exact import Tokens
from leadline.experiments.measure.exact import tokens
from leadline.experiments.measure.exact.premiums import Stages, factors, stages, word_count
from leadline.experiments.records.measurement import reading
from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.published import from_huggingface
from leadline.tokenization.formats.rank_files import load_ranks
from tests.experiments.measure.exact.jobs import points_of

FACTORS = ("premium_characters", "premium_script", "premium_words", "premium_merges", "premium_spaces")


def test_the_factors_by_hand() -> None:
    computed = factors(Stages(10, 30, 3, 12, 15), Stages(20, 20, 4, 4, 5))
    assert computed == pytest.approx(
        {
            "premium": 3,
            "premium_characters": 0.5,
            "premium_script": 3,
            "premium_words": 0.5,
            "premium_merges": 4,
            "premium_spaces": 1,
        }
    )


def test_a_text_after_each_step(ranks: Path) -> None:
    """Each space and each half of a letter is a token; a wide space is three."""
    toy = load_ranks(ranks / "toy.tiktoken")
    assert stages(toy, "the the  é") == Stages(characters=10, bytes=11, words=4, visible=4, tokens=7)
    assert stages(toy, "a\u3000") == Stages(characters=2, bytes=4, words=2, visible=4, tokens=4)
    assert stages(ByteTokenizer(), "a b") == Stages(characters=3, bytes=3, words=3, visible=2, tokens=3)


def test_words_of_each_kind_of_tokenizer() -> None:
    """A trained one, and the same one as the library reads it."""
    trained = train_bpe(["the cat sat on the mat"], 270, pattern="gpt2")
    published = from_huggingface(to_huggingface(trained).to_str())
    text = "the cats are  1234 é"
    assert word_count(trained, text) == word_count(published, text) == len(["the", " cats", " are", " ", " 1234", " é"])
    assert word_count(ByteTokenizer(), text) is None


def test_the_product_is_the_premium_of_every_language(ranks: Path) -> None:
    exact = Tokens(tokenizers={"toy": "tiktoken:toy"}, ranks=str(ranks), premiums=True, speed_documents=0)
    counted, decomposed = points_of(tokens.jobs(exact)).values()
    languages = {dict(key.dims)["language"] for key in decomposed}
    assert len(languages) == 12
    for language in languages:
        premium = decomposed[reading("premium", language=language)]
        assert premium == pytest.approx(prod(float(decomposed[reading(name, language=language)]) for name in FACTORS))
        assert premium == counted[reading("relative_tokens", language=language)]
