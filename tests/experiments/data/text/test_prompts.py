"""Prompts in words: how long they are, what they ask for, and where its answer stands."""

from collections.abc import Sequence

import numpy as np
import pytest

from leadline.experiments.config.measure import Prompt
from leadline.experiments.data.text.prompts import QUESTIONS, prompt_ids, prompts
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.tokenizer import Tokenizer

BPE = train_bpe(["The number of the red lamp is 12345. The pass key is 1."], 285)
TOKENIZERS: Sequence[Tokenizer] = (ByteTokenizer(), BPE)
NONE = np.empty(0, np.int32)


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda tokenizer: tokenizer.name)
@pytest.mark.parametrize("task", QUESTIONS)
def test_prompts_have_their_length_and_the_needle_at_its_depth(tokenizer: Tokenizer, task: Prompt) -> None:
    places = []
    for depth in (0.0, 0.25, 0.5, 0.75, 1.0):
        question = QUESTIONS[task](3)
        prompt, answer = prompt_ids(tokenizer, question, 1000, depth)
        text = tokenizer.decode(prompt).decode()
        assert len(prompt) == 1000
        assert text.count(question.needle) == 1
        assert text.endswith(f"\n{question.question}")
        assert tokenizer.decode(answer).decode() == question.answer
        assert question.answer.strip() in question.needle
        places.append(len(tokenizer.encode(text[: text.index(question.needle)])) / 1000)
    np.testing.assert_allclose(places, np.linspace(0, 1, 5) * (1 - len(tokenizer.encode(text[-120:])) / 1000), atol=0.15)
    assert places == sorted(places)


@pytest.mark.parametrize("task", QUESTIONS)
def test_a_short_haystack_is_repeated_and_never_says_the_answer(task: Prompt) -> None:
    question = QUESTIONS[task](5)
    assert question.answer.strip() not in "".join(question.lines)
    prompt, _ = prompt_ids(ByteTokenizer(), question, 40_000, 0.5)
    assert len(prompt) == 40_000


def test_rows_are_different_questions_at_each_depth_after_the_first_token() -> None:
    drawn = prompts(ByteTokenizer(), np.array([257], np.int32), ("passkey", "key_value"), 300, 2, 3)
    assert drawn.tokens.shape == (12, 300 + drawn.answers.shape[1])
    assert (drawn.tokens[:, 0] == 257).all()
    assert len(np.unique(drawn.tokens[:, 300:], axis=0)) == 12
    assert drawn.answers.all()


def test_shorter_answers_are_filled_up_and_marked() -> None:
    drawn = prompts(BPE, NONE, ("passkey",), 300, 2, 4)
    assert len(set(drawn.answers.sum(axis=1))) > 1
    for row, answer in zip(drawn.tokens[:, 300:], drawn.answers, strict=True):
        assert len(BPE.decode(row[answer])) == len(" 12345")
        assert not row[~answer].any()


def test_a_prompt_without_room_is_refused() -> None:
    with pytest.raises(UserError, match="a prompt of 50 tokens has no room for the 96 of its needle and question; take more"):
        prompt_ids(ByteTokenizer(), QUESTIONS["passkey"](0), 50, 0.5)
