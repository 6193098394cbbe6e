"""Training WordPiece."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.wordpiece import continues
from tokenization.wordpiece_training import Criterion, Merge, joined, merges, spelled, train_wordpiece

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
TEXTS = [" ".join([word] * count) for word, count in HUGS.items()]
CRITERIA: list[Criterion] = ["likelihood", "frequency"]


def naive(counts: Mapping[str, int], criterion: Criterion, minimum_count: int) -> list[Merge]:
    """All steps, with everything counted anew for each."""
    words, found = [(spelled(word), count) for word, count in counts.items()], []
    while True:
        pieces, pairs = Counter(), Counter()
        for word, count in words:
            pieces.update({piece: count * n for piece, n in Counter(word).items()})
            pairs.update({pair: count * n for pair, n in Counter(pairwise(word)).items()})
        scores = {
            (a, b): Fraction(n, 1 if criterion == "frequency" else pieces[a] * pieces[b])
            for (a, b), n in pairs.items()
            if n >= minimum_count and continues(joined((a, b))) == continues(a)
        }
        if not scores:
            return found
        best = min(scores, key=lambda pair: (-scores[pair], pair))
        found.append(Merge(*best, joined(best), pairs[best], scores[best]))
        words = [(replaced(word, best), count) for word, count in words]


def replaced(word: list[str], pair: tuple[str, str]) -> list[str]:
    if len(word) < 2:
        return word
    if (word[0], word[1]) == pair:
        return [joined(pair), *replaced(word[2:], pair)]
    return [word[0], *replaced(word[1:], pair)]


@pytest.mark.parametrize(
    ("criterion", "first"),
    [
        ("likelihood", Merge("##g", "##s", "##gs", 5, Fraction(1, 20))),
        ("frequency", Merge("##u", "##g", "##ug", 20, Fraction(20))),
    ],
)
def test_a_worked_example(criterion: Criterion, first: Merge) -> None:
    assert next(merges(HUGS, criterion)) == first


def test_frequency_goes_on() -> None:
    assert [step.piece for step in islice(merges(HUGS, "frequency"), 4)] == ["##ug", "##un", "hug", "pun"]


@given(
    st.dictionaries(st.text(alphabet="ab#é", min_size=1, max_size=9), st.integers(1, 4), max_size=8),
    st.sampled_from(CRITERIA),
    st.integers(1, 3),
)
def test_steps_are_those_of_counting_everything_anew(counts: dict[str, int], criterion: Criterion, minimum: int) -> None:
    assert list(merges(counts, criterion, minimum_count=minimum)) == naive(counts, criterion, minimum)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_order_of_words_does_not_matter(criterion: Criterion) -> None:
    assert list(merges(HUGS, criterion)) == list(merges(dict(reversed(HUGS.items())), criterion))


def test_scores_are_compared_exactly() -> None:
    """1 / 10^17 and 1 / (10^17 + 1) are the same float64, in which the pair of a would come first."""
    counts = {"ab": 10**17 + 1, "cd": 10**17}
    assert [step.piece for step in merges(counts, "likelihood")] == ["cd", "ab"]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_training_serves_every_smaller_vocabulary(criterion: Criterion) -> None:
    """Specials, h p b ##u ##g ##n ##s, then one piece a step."""
    whole = train_wordpiece(TEXTS, 18, criterion)
    assert whole.alphabet == ("b", "h", "p", "##g", "##n", "##s", "##u")
    assert [whole.tokenizer(size) for size in (13, 15, 18)] == [
        train_wordpiece(TEXTS, size, criterion).tokenizer() for size in (13, 15, 18)
    ]


def test_training_stops_when_no_pair_is_left() -> None:
    tokenizer = train_wordpiece(["ab ab"], 1000, "frequency").tokenizer()
    assert tokenizer.pieces == ("a", "##b", "ab")


def test_rare_pairs_are_left_apart() -> None:
    assert train_wordpiece(["ab ab cd"], 1000, "likelihood", minimum_count=2).merges[-1].piece == "ab"


def test_longer_words_are_not_trained_on() -> None:
    assert train_wordpiece(["abc de"], 1000, "frequency", longest_word=2).alphabet == ("d", "##e")


def test_words_are_cut_and_normalised_as_when_encoding() -> None:
    tokenizer = train_wordpiece(["A-1 b22"], 1000, "frequency", normalization=["lower"], single_digits=True).tokenizer()
    assert set(tokenizer.pieces) == {"a", "-", "1", "b", "2"}
    assert tokenizer.decode(tokenizer.encode("A-1 b22")) == b"a - 1 b 2 2"


def test_a_size_without_room_for_the_characters_is_refused() -> None:
    with pytest.raises(ValueError, match=r"12 has no room .* needs 13"):
        train_wordpiece(TEXTS, 12, "frequency")


@pytest.mark.parametrize("size", [12, 17])
def test_a_size_that_was_not_trained_is_refused(size: int) -> None:
    training = train_wordpiece(TEXTS, 16, "frequency")
    with pytest.raises(ValueError, match=f"13 .*to 16, not {size}"):
        training.tokenizer(size)


def test_no_text_gives_a_tokenizer_that_knows_nothing() -> None:
    assert train_wordpiece([], 10, "likelihood").tokenizer().encode("a").tolist() == [1]
