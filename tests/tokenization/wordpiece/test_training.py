"""Training WordPiece."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tokenization.wordpiece.tokenizer import continues
from leadline.tokenization.wordpiece.training import Criterion, MergeStep, joined, merge_steps, spelled, train_wordpiece

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
TEXTS = [" ".join([word] * count) for word, count in HUGS.items()]
CRITERIA: list[Criterion] = ["frequency", "ratio", "likelihood_gain"]


def naive(counts: Mapping[str, int], criterion: Criterion, minimum_count: int) -> list[MergeStep]:
    """All steps, with everything counted again for each."""
    words, steps = [(spelled(word), count) for word, count in counts.items()], []
    while True:
        pieces, pairs = Counter(), Counter()
        for word, count in words:
            pieces.update({piece: count * n for piece, n in Counter(word).items()})
            pairs.update({pair: count * n for pair, n in Counter(pairwise(word)).items()})
        scores = {
            (a, b): score(criterion, n, pieces[a], pieces[b], pieces.total())
            for (a, b), n in pairs.items()
            if n >= minimum_count and continues(joined((a, b))) == continues(a)
        }
        if not scores:
            return steps
        best = min(scores, key=lambda pair: (-scores[pair], pair))
        steps.append(MergeStep(*best, joined(best), pairs[best], scores[best]))
        words = [(merged(word, best), count) for word, count in words]


def score(criterion: Criterion, n: int, a: int, b: int, total: int) -> Fraction | float:
    """Of a pair that occurs n times, of pieces that occur a and b times among all."""
    match criterion:
        case "frequency":
            return Fraction(n)
        case "ratio":
            return Fraction(n, a * b)
        case "likelihood_gain":  # by logarithms of integers, as the last digits decide between equal scores
            return n * (log(n * total) - log(a * b))


def merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    if len(word) < 2:
        return word
    size = 2 if (word[0], word[1]) == pair else 1
    return [joined(pair) if size == 2 else word[0], *merged(word[size:], pair)]


@pytest.mark.parametrize(
    ("criterion", "first"),
    [
        ("ratio", MergeStep("##g", "##s", "##gs", 5, Fraction(1, 20))),
        ("frequency", MergeStep("##u", "##g", "##ug", 20, Fraction(20))),
    ],
)
def test_the_first_step_of_a_worked_example(criterion: Criterion, first: MergeStep) -> None:
    assert next(merge_steps(HUGS, criterion)) == first


def test_the_gain_is_the_rise_in_log_likelihood() -> None:
    """Of independent pieces, whose text is scored once as characters and once with each ##u, ##g as one."""
    step = next(merge_steps(HUGS, "likelihood_gain"))
    pieces = Counter(piece for word, count in HUGS.items() for piece in spelled(word) * count)
    before = sum(n * log(n / pieces.total()) for n in pieces.values())
    counts = pieces | {"##ug": 20}
    after = sum(
        count * log(counts[piece] / pieces.total())
        for word, count in HUGS.items()
        for piece in merged(spelled(word), ("##u", "##g"))
    )
    assert (step.left, step.right, step.count) == ("##u", "##g", 20)
    assert step.score == pytest.approx(after - before)


def test_a_frequent_pair_of_frequent_pieces_gains_more_than_a_rare_pair_of_rare_ones() -> None:
    """The ratio prefers x, y: 1 / 1 to 50 / 2,550; the gain a, b: 50 log(50 · 103 / 2550) = 35 nats to log(103) = 4.6."""
    counts = {"ab": 50, "xy": 1, "a": 1}
    assert next(merge_steps(counts, "ratio")).piece == "xy"
    assert next(merge_steps(counts, "likelihood_gain")).piece == "ab"


@pytest.mark.parametrize("criterion", CRITERIA)
@settings(max_examples=30)
@given(
    counts=st.dictionaries(st.text(alphabet="ab#é", min_size=1, max_size=9), st.integers(1, 4), max_size=8),
    minimum=st.integers(1, 3),
)
def test_steps_are_those_of_counting_everything_again(criterion: Criterion, counts: dict[str, int], minimum: int) -> None:
    assert list(merge_steps(counts, criterion, minimum_count=minimum)) == naive(counts, criterion, minimum)


def test_scores_are_compared_exactly() -> None:
    """1 / 10^17 and 1 / (10^17 + 1) are the same float64, in which the pair of a would come first."""
    counts = {"ab": 10**17 + 1, "cd": 10**17}
    assert [step.piece for step in merge_steps(counts, "ratio")] == ["cd", "ab"]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_training_serves_every_smaller_vocabulary(criterion: Criterion) -> None:
    """Specials, h p b ##u ##g ##n ##s, then one piece a step."""
    whole = train_wordpiece(TEXTS, 18, criterion)
    assert whole.alphabet == ("b", "h", "p", "##g", "##n", "##s", "##u")
    for size in (13, 15, 18):
        assert whole.tokenizer(size) == train_wordpiece(TEXTS, size, criterion).tokenizer()


def test_what_is_trained_on() -> None:
    """Until no pair is left; not rare pairs, and not longer words, if so asked."""
    assert train_wordpiece(["ab ab"], 1000, "frequency").tokenizer().pieces == ("a", "##b", "ab")
    assert train_wordpiece(["ab ab cd"], 1000, "ratio", minimum_count=2).merges[-1].piece == "ab"
    assert train_wordpiece(["abc de"], 1000, "frequency", longest_word=2).alphabet == ("d", "##e")


@pytest.mark.parametrize("size", [12, 17])
def test_a_size_that_was_not_trained_is_refused(size: int) -> None:
    training = train_wordpiece(TEXTS, 16, "frequency")
    with pytest.raises(ValueError, match=f"13 .*to 16 ids, not {size}"):
        training.tokenizer(size)
