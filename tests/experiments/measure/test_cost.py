"""Costs of texts, by hand."""

import pytest

from leadline.experiments.measure.cost import Cost, cost, costs, effective_context, gini, relative
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer


def test_a_text_in_three_sizes() -> None:
    size = cost(ByteTokenizer(), "né")
    assert size == Cost(tokens=3, bytes=3, characters=2, unknown=0)
    assert (size.bytes_per_token, size.characters_per_token) == (1, pytest.approx(2 / 3))
    assert size + size == Cost(tokens=6, bytes=6, characters=4, unknown=0)


def test_a_text_without_a_token_is_named() -> None:
    with pytest.raises(ValueError, match="the byte tokenizer finds no token"):
        cost(ByteTokenizer(), "")
    with pytest.raises(UserError, match="mya: the byte tokenizer finds no token"):
        costs(ByteTokenizer(), {"eng": "a", "mya": ""})


def test_premium_and_what_a_window_holds() -> None:
    sizes = {"eng": Cost(10, 40, 40, 0), "mya": Cost(40, 90, 30, 0)}
    premium = relative(sizes, "eng")
    assert premium == {"eng": 1.0, "mya": 4.0}
    assert effective_context(8192, premium["mya"]) == 2048
    with pytest.raises(ValueError, match="'fra' is none of the texts: eng, mya"):
        relative(sizes, "fra")


def test_gini() -> None:
    assert gini({"a": 2.0, "b": 2.0}) == 0
    assert gini({"a": 1.0, "b": 3.0}) == pytest.approx(0.25)  # |1 - 3| twice, over 2 * 2 * 4
