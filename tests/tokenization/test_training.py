"""What every training guarantees, on one or more of each kind."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.bpe.training import Unit
from leadline.tokenization.character import train_characters
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.training import train_unigram
from leadline.tokenization.word import train_words
from leadline.tokenization.wordpiece.training import Criterion, train_wordpiece

TEXTS = ["the cat sat on the mat, the dog sat on the log", "A cat and a dog and another Cat 12", "that mat, that log, the rest"]


def wordpiece(texts: list[str], size: int, *, criterion: Criterion, **fields) -> Tokenizer:
    return train_wordpiece(texts, size, criterion, **fields).tokenizer()


def unigram(texts: list[str], size: int, **fields) -> Tokenizer:
    return train_unigram(texts, size, **fields)


class Training(NamedTuple):
    """A training, a number of ids that the texts can fill, one that is too small for their characters, and whether a smaller
    vocabulary is a prefix of a larger one; otherwise it is a subset."""

    train: Callable[..., Tokenizer]
    size: int
    too_small: int
    prefix: bool


TRAININGS = {
    "character": Training(train_characters, 12, 4, False),
    "character, bytes": Training(partial(train_characters, byte_fallback=True), 268, 260, False),
    "word": Training(train_words, 12, 4, True),
    "bpe": Training(train_bpe, 280, 258, True),
    "character-bpe": Training(partial(train_bpe, unit="characters", pattern="words"), 45, 10, True),
    "wordpiece, frequency": Training(partial(wordpiece, criterion="frequency"), 50, 20, True),
    "wordpiece, ratio": Training(partial(wordpiece, criterion="ratio"), 50, 20, True),
    "wordpiece, likelihood gain": Training(partial(wordpiece, criterion="likelihood_gain"), 50, 20, True),
    "wordpiece, bytes": Training(partial(wordpiece, criterion="frequency", byte_fallback=True), 306, 276, True),
    "unigram": Training(unigram, 40, 10, False),
    "unigram, bytes": Training(partial(unigram, byte_fallback=True), 300, 265, False),
}
EACH = pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS)
WITH_PATTERN = pytest.mark.parametrize("training", list(TRAININGS.values())[2:], ids=list(TRAININGS)[2:])


@EACH
def test_the_order_of_texts_does_not_matter(training: Training) -> None:
    assert training.train(TEXTS[::-1], training.size) == training.train(TEXTS, training.size)


@EACH
def test_the_vocabulary_has_the_size_and_a_smaller_one_is_part_of_a_larger_one(training: Training) -> None:
    small, large = (
        [tokenizer.token_bytes(token) for token in range(tokenizer.vocabulary_size)]
        for tokenizer in (training.train(TEXTS, training.size - 3), training.train(TEXTS, training.size))
    )
    assert (len(small), len(large)) == (training.size - 3, training.size)
    assert small == large[: training.size - 3] if training.prefix else set(small) <= set(large)


@EACH
def test_a_size_without_room_for_the_characters_is_refused(training: Training) -> None:
    with pytest.raises(ValueError, match=r"no room|do not hold the alphabet"):
        training.train(TEXTS, training.too_small)


@EACH
def test_texts_are_normalized(training: Training) -> None:
    lower = training.train(TEXTS, training.size - 3, normalization=["lower"])
    plain = training.train([text.lower() for text in TEXTS], training.size - 3)
    assert lower.definition() | {"normalization": []} == plain.definition()
    assert lower.encode("The CAT").tolist() == lower.encode("the cat").tolist()


NO_TEXTS = {
    "not one text": TEXTS[0],
    "not UTF-8 at byte 2": [*TEXTS, b"ab\xff"],
    r"character 2 .* U\+D800": [*TEXTS, "ab\ud800"],
}


@EACH
@pytest.mark.parametrize("message", NO_TEXTS)
def test_what_is_no_text_is_named(training: Training, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        training.train(NO_TEXTS[message], training.size)


@WITH_PATTERN
def test_a_bad_pattern_is_refused(training: Training) -> None:
    with pytest.raises(ValueError, match="expand to more than"):
        training.train(TEXTS, training.size, pattern="x{99999999}")


@pytest.mark.parametrize("unit", ["bytes", "characters"])
def test_single_digits_stand_alone(unit: Unit) -> None:
    tokenizer = train_bpe([*TEXTS, "12 " * 99], 280 if unit == "bytes" else 45, unit=unit, single_digits=True)
    assert len(tokenizer.encode("1212")) >= 4
