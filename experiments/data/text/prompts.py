"""Prompts in words that ask for what stands at some depth of them, with an exact number of tokens."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, cycle, islice, takewhile
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int32, UInt64

from leadline.experiments.config.measure import Prompt
from leadline.experiments.data.permutation import keyed, permute
from leadline.experiments.data.sample import HELD_OUT_SEED
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.tokenizer import Tokenizer

FILLER = (
    "The morning was cool, and the road to the village lay empty.",
    "A boat crossed the river while two gulls circled above it.",
    "The baker opened his shop and put the first loaves in the window.",
    "Behind the mill a path leads up to the old chapel on the hill.",
    "In the afternoon the wind turned, and clouds came in from the sea.",
    "Children played in the square until the lamps were lit.",
    "The carpenter swept his floor and hung his tools on the wall.",
    "At night the stars stood over the fields, and nothing moved.",
)
ADJECTIVES = tuple(
    "amber black blue brown copper gold green grey ivory orange pink purple red silver white yellow".split()  # noqa: SIM905
)
NOUNS = tuple(
    "anchor basket bell bicycle blanket bottle bucket cabinet candle carpet chair clock coat compass cup curtain "  # noqa: SIM905
    "drum fence guitar hammer kettle ladder lamp mirror piano pillow plate rope stove table violin wagon".split()
)
# Numbers of five digits, the first of which is not 0.
LEAST, NUMBERS = 10_000, 90_000


class Question(NamedTuple):
    """What a prompt is made of: a line for the needle, the lines around it, and the question with its answer."""

    lines: tuple[str, ...]  # repeated as often as a prompt needs them
    needle: str
    question: str  # up to where the answer begins
    answer: str


class Prompts(NamedTuple):
    """R prompts of T tokens with their answers of at most A tokens."""

    tokens: Int32[np.ndarray, "R T_and_A"]  # a prompt, its answer, and 0 where an answer is shorter than the longest
    answers: Bool[np.ndarray, "R A"]  # whether each token after the prompt belongs to the answer


def passkey(item: int) -> Question:
    """A number among sentences about something else (Mohtashami and Jaggi 2023, arXiv:2305.16300)."""
    (number,), start = _numbers(np.array([item])), item % len(FILLER)
    return Question(
        FILLER[start:] + FILLER[:start],
        f"The pass key is {number}. Remember it: {number} is the pass key.",
        "What is the pass key? The pass key is",
        f" {number}",
    )


def key_value(item: int) -> Question:
    """One of many numbered things (Liu et al. 2024, arXiv:2307.03172, in words)."""
    things = [f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS]
    order = permute(np.arange(len(things)), len(things), keyed(HELD_OUT_SEED, np.array([item])))
    numbers = _numbers(item * len(things) + np.arange(len(things)))
    needle, *lines = (f"The number of the {things[i]} is {numbers[i]}." for i in order)
    thing, number = things[order[0]], numbers[order[0]]
    return Question(tuple(lines), needle, f"What is the number of the {thing}? The number of the {thing} is", f" {number}")


QUESTIONS: Mapping[Prompt, Callable[[int], Question]] = {"passkey": passkey, "key_value": key_value}


def prompts(
    tokenizer: Tokenizer, first: Int32[np.ndarray, "first"], tasks: Sequence[Prompt], length: int, depths: int, rows: int
) -> Prompts:
    """`rows` prompts of `length` tokens for each task and each of `depths` depths of the needle, in this order.

    Args:
        tokenizer: of the model.
        first: the token that each prompt begins with; none where it is empty.
        tasks: what is asked.
        length: of a prompt in tokens, `first` included.
        depths: of the needle: an even grid from 0, the beginning, to 1.
        rows: prompts of a depth.

    Raises:
        UserError: where a needle and its question are longer than the prompt.
    """
    drawn = [
        prompt_ids(tokenizer, QUESTIONS[task](number), length - len(first), depth)
        for task in tasks
        for number, depth in enumerate(np.repeat(np.linspace(0, 1, depths), rows).tolist())
    ]
    sizes = np.array([len(answer) for _, answer in drawn])
    padded = [np.concatenate([first, prompt, np.pad(answer, (0, sizes.max() - len(answer)))]) for prompt, answer in drawn]
    return Prompts(np.stack(padded).astype(np.int32), np.arange(sizes.max())[None] < sizes[:, None])


def prompt_ids(
    tokenizer: Tokenizer, question: Question, length: int, depth: float
) -> tuple[Int[np.ndarray, "{length}"], Int[np.ndarray, " A"]]:
    """A prompt of exactly `length` tokens and the tokens of its answer.

    After the needle are as many whole lines as the depth asks for, at most; before it the rest, whose first line is cut. The
    tokens of the answer are those in which the text with it differs from the text without it.

    Raises:
        UserError: where the needle and the question are longer.
    """
    lines = [f"{line}\n" for line in question.lines]
    costs = [len(ids) for ids in tokenizer.encode_batch(lines)]
    room = length - len(tokenizer.encode(f"{question.needle}\n{question.question}"))
    after = sum(1 for _ in takewhile(lambda total: total <= (1 - depth) * room, accumulate(cycle(costs))))
    text = "".join([f"{question.needle}\n", *islice(cycle(lines), after), question.question])
    bare, whole = tokenizer.encode(text), tokenizer.encode(text + question.answer)
    same = bare[: len(whole)] == whole[: len(bare)]
    shared = int(np.argmin(np.append(same, False)))
    before = length - shared
    if before < 0:
        raise UserError(f"a prompt of {length} tokens has no room for the {shared} of its needle and question; take more")
    several = 1 + sum(1 for _ in takewhile(lambda total: total < 2 * before, accumulate(cycle(costs))))
    ahead = tokenizer.encode("".join(islice(cycle(lines), after, after + several)))
    return np.concatenate([ahead[len(ahead) - before :], whole[:shared]]), whole[shared:]


def _numbers(counters: Int[np.ndarray, " N"]) -> UInt64[np.ndarray, " N"]:
    """A number of five digits for each counter."""
    return LEAST + keyed(HELD_OUT_SEED, counters) % NUMBERS
