"""Learning BPE and WordPiece step by step: by hand, and by counting everything again."""

import gc
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from fractions import Fraction
from itertools import pairwise
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tokenization.bpe.training import BYTE_ORDER, alphabet_of, merge_steps, train_merges
from leadline.tokenization.wordpiece import training as wordpiece
from leadline.tokenization.wordpiece.tokenizer import continues
from leadline.tokenization.wordpiece.training import Criterion, MergeStep, joined, spelled, train_wordpiece
from tests.refused import refused

Row = list[str]
HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
TEXTS = [" ".join([word] * count) for word, count in HUGS.items()]
CRITERIA: list[Criterion] = ["frequency", "ratio", "likelihood_gain"]


def merged(row: Row, pair: tuple[str, str], piece: str) -> Row:
    symbols, at = [], 0
    while at < len(row):
        together = tuple(row[at : at + 2]) == pair
        symbols.append(piece if together else row[at])
        at += 1 + together
    return symbols


def pair_counts(rows: Mapping[str, Row], words: Mapping[str, int]) -> Counter[tuple[str, str]]:
    return Counter(pair for word, row in rows.items() for pair in list(pairwise(row)) * words[word])


def test_the_words_of_sennrich() -> None:
    """The dictionary of section 3.2 of the paper: low 5 times, lower 2, newest 6, widest 3.

    es, st and t</w> occur 9 times. The paper merges e+s, es+t, est+</w>, as a dictionary breaks its ties; here e 1 is the
    smallest left id, then t 8 is smaller than es 11. Of lo, ow and we, 7 or 8 times, we is left twice: newest has est</w>.
    """
    steps = train_merges({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 16, "characters")
    merges = [("+".join(map(str, step.parts)), step.count) for step in steps]
    assert merges == [("e+s", 9), ("t+</w>", 9), ("es+t</w>", 9), ("l+o", 7), ("lo+w", 7)]


@settings(max_examples=50)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=12), st.integers(1, 9), min_size=1, max_size=8))
def test_each_step_of_bpe_is_that_of_counting_everything_again(words: dict[str, int]) -> None:
    rows = {word: [*word, "</w>"] for word in words}
    order = [str(symbol) for symbol in alphabet_of(words, "characters")]
    for step in merge_steps(words, "characters"):
        counts = pair_counts(rows, words)
        best = min(counts, key=lambda pair: (-counts[pair], order.index(pair[0]), order.index(pair[1])))
        assert (step.parts, step.count) == (best, counts[best])
        assert step.pair == tuple(map(order.index, best))
        order.append("".join(best))
        rows = {word: merged(row, best, order[-1]) for word, row in rows.items()}
        assert step.tokens == sum(len(row) * words[word] for word, row in rows.items())
        assert step.tokens_per_word == step.tokens / sum(words.values())
    assert all(len(row) == 1 for row in rows.values())


def test_alphabets() -> None:
    """Bytes in the order of the characters of GPT-2; characters in that of code points, and the end last."""
    assert sorted(BYTE_ORDER) == list(range(256))
    assert [BYTE_ORDER[i] for i in (0, 93, 94, 188, 220, 255)] == [ord("!"), ord("~"), 0xA1, 0x00, ord(" "), 0xAD]
    assert alphabet_of(["é😀", "za"], "characters") == ("a", "z", "é", "😀", "</w>")


def test_text_that_looks_like_the_end_is_another_symbol() -> None:
    """Ids: / 0, < 1, > 2, w 3, the end 4. All pairs occur once, so the left ids decide: / 0 before < 1 before > 2."""
    assert [step.pair for step in merge_steps({"</w>": 1}, "characters")] == [(0, 3), (1, 5), (2, 4), (6, 7)]


test_sizes_that_cannot_be = refused(
    (lambda: train_merges({"abc": 1}, 255, "bytes"), "255 pieces do not hold the alphabet of 256 bytes"),
    (lambda: train_merges({"abc": 1}, 259, "bytes"), r"has 258 pieces .* not 259: .* at most 258"),
)


class Watched(dict):
    """Counts of words that note whether the collector of cycles is on when they are read."""

    collecting: bool | None = None

    def values(self):
        self.collecting = gc.isenabled()
        return super().values()


@pytest.mark.parametrize("pieces", [257, 300], ids=["enough text", "too little text"])
def test_the_collector_of_cycles_is_paused_while_training_and_runs_again(pieces: int) -> None:
    words = Watched({"ab": 1})
    with pytest.raises(ValueError, match="has 257") if pieces > 257 else nullcontext():
        train_merges(words, pieces, "bytes")
    assert words.collecting is False
    assert gc.isenabled()


def score(criterion: Criterion, n: int, a: int, b: int, total: int) -> Fraction | float:
    """Of a pair that occurs n times, of pieces that occur a and b times among all."""
    match criterion:
        case "frequency":
            return Fraction(n)
        case "ratio":
            return Fraction(n, a * b)
        case "likelihood_gain":  # by logarithms of integers, as the last digits decide between equal scores
            return n * (log(n * total) - log(a * b))


@pytest.mark.parametrize("criterion", CRITERIA)
@settings(max_examples=30)
@given(
    words=st.dictionaries(st.text(alphabet="ab#é", min_size=1, max_size=9), st.integers(1, 4), max_size=8),
    minimum=st.integers(1, 3),
)
def test_each_step_of_wordpiece_is_that_of_counting_everything_again(
    criterion: Criterion, words: dict[str, int], minimum: int
) -> None:
    rows = {word: list(spelled(word)) for word in words}
    for step in [*wordpiece.merge_steps(words, criterion, minimum_count=minimum), None]:
        pairs = pair_counts(rows, words)
        pieces = Counter(piece for word, row in rows.items() for piece in row * words[word])
        scores = {
            (a, b): score(criterion, n, pieces[a], pieces[b], pieces.total())
            for (a, b), n in pairs.items()
            if n >= minimum and continues(joined((a, b))) == continues(a)
        }
        best = min(scores, key=lambda pair: (-scores[pair], pair), default=None)
        assert step == (best and MergeStep(*best, joined(best), pairs[best], scores[best]))
        if best is not None:
            rows = {word: merged(row, best, joined(best)) for word, row in rows.items()}


def test_the_gain_is_the_rise_in_log_likelihood() -> None:
    """Of independent pieces, whose text is scored once as characters and once with each ##u, ##g as one."""
    step = next(wordpiece.merge_steps(HUGS, "likelihood_gain"))
    pieces = Counter(piece for word, count in HUGS.items() for piece in list(spelled(word)) * count)
    before = sum(n * log(n / pieces.total()) for n in pieces.values())
    counts = pieces | {"##ug": 20}
    after = sum(
        count * log(counts[piece] / pieces.total())
        for word, count in HUGS.items()
        for piece in merged(list(spelled(word)), ("##u", "##g"), "##ug")
    )
    assert (step.left, step.right, step.count) == ("##u", "##g", 20)
    assert step.score == pytest.approx(after - before)


def test_scores_are_compared_exactly() -> None:
    """1 / 10^17 and 1 / (10^17 + 1) are the same float64, in which the pair of a would come first."""
    counts = {"ab": 10**17 + 1, "cd": 10**17}
    assert [step.piece for step in wordpiece.merge_steps(counts, "ratio")] == ["cd", "ab"]


def test_one_training_of_wordpiece_serves_every_smaller_vocabulary_that_holds_the_characters() -> None:
    """Specials, h p b ##u ##g ##n ##s, then one piece a step."""
    whole = train_wordpiece(TEXTS, 16, "frequency")
    assert whole.alphabet == ("b", "h", "p", "##g", "##n", "##s", "##u")
    assert whole.tokenizer(14) == train_wordpiece(TEXTS, 14, "frequency").tokenizer()
    for size in (12, 17):
        with pytest.raises(ValueError, match=f"13 .*to 16 ids, not {size}"):
            whole.tokenizer(size)


def test_what_wordpiece_is_trained_on() -> None:
    """Until no pair is left; not rare pairs, if so asked, and not words that are UNK."""
    assert train_wordpiece(["ab ab"], 1000, "frequency").tokenizer().pieces == ("a", "##b", "ab")
    assert train_wordpiece(["ab ab cd"], 1000, "ratio", minimum_count=2).merges[-1].piece == "ab"
    assert train_wordpiece(["a" * 101 + " de"], 1000, "frequency").alphabet == ("d", "##e")
