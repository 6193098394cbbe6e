"""Training a unigram model."""

from itertools import pairwise

import numpy as np
import pytest

from leadline.tokenization.unigram.training import train_unigram, training_rounds

TEXTS = ["the cat sat on the mat, the dog sat on the log", "a cat and a dog and another cat", "that mat, that log, the others"]
COUNTS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def test_characters_stay_and_others_go_by_rounds() -> None:
    rounds = list(training_rounds(COUNTS, 10, seed_size=30, shrinking_factor=0.8))
    assert [len(step.pieces) for step in rounds] == [19, 15, 12, 10]
    assert all(set("hugpnbs") <= set(step.pieces) for step in rounds)
    assert all(set(later.pieces) <= set(earlier.pieces) for earlier, later in pairwise(rounds))


def test_the_frequent_words_are_what_is_left() -> None:
    assert {piece for piece in list(training_rounds(COUNTS, 10))[-1].pieces if len(piece) > 1} == {"hug", "pug", "pun"}


def test_probabilities_descend_and_sum_to_one() -> None:
    tokenizer = train_unigram(TEXTS, 40, m_step="likelihood").tokenizer
    assert list(tokenizer.scores) == sorted(tokenizer.scores, reverse=True)
    assert np.exp(tokenizer.scores).sum() == pytest.approx(1)


def test_pieces_are_written_as_sentencepiece_does() -> None:
    tokenizer = train_unigram(TEXTS, 60, escape=True, dummy_prefix=True, normalization=["lower"]).tokenizer
    assert "▁the" in tokenizer.pieces
    assert not any(" " in piece for piece in tokenizer.pieces)
    assert tokenizer.decode(tokenizer.encode("The cat")) == b"the cat"


def test_pieces_are_no_longer_than_asked_for() -> None:
    assert max(map(len, train_unigram(TEXTS, 60, longest_piece=2).tokenizer.pieces)) == 2


def test_texts_with_few_substrings_give_a_smaller_vocabulary() -> None:
    assert train_unigram(["ab ab"], 1000, pattern="whitespace").tokenizer.pieces == ("ab", "a", "b")


def test_a_very_long_word_does_not_take_a_step_a_character() -> None:
    """Within a second; uncut, a pass over 200,000 characters is as many operations on arrays of one entry."""
    tokenizer = train_unigram(["a" * 200_000], 100).tokenizer
    assert set(tokenizer.pieces) == {"a" * n for n in range(1, 17)}


def test_no_word_is_refused() -> None:
    with pytest.raises(ValueError, match="no word to train on"):
        train_unigram([""], 100)


@pytest.mark.parametrize("fields", [{"shrinking_factor": 1.0}, {"shrinking_factor": 0.0}, {"sub_iterations": 0}])
def test_what_is_no_round_is_refused(fields: dict) -> None:
    with pytest.raises(ValueError, match="a round keeps"):
        train_unigram(TEXTS, 100, **fields)
