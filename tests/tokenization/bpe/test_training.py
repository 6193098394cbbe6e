"""Learning merges, by hand on small corpora and by counting again."""

import gc
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tokenization.bpe.training import BYTE_ORDER, MergeStep, alphabet_of, merge_steps, train_merges
from leadline.tokenization.words import word_counts


def merges(steps: list[MergeStep]) -> list[tuple[str, int]]:
    """The parts of each merge, and how often the pair occurred."""
    return [("+".join(map(str, step.parts)), step.count) for step in steps]


def test_low_lower_lowest() -> None:
    """Ids: e 0, l 1, o 2, r 3, s 4, t 5, w 6, </w> 7, then the merges from 8 on.

    l o w </w>   l o w e r </w>   l o w e s t </w>: lo and ow occur 3 times, we twice, the other pairs once. l is the smaller
    left id of the first two. lo makes (lo, w), 3 times; low makes (low, e), twice. All others then occur once: r 3 is the
    smallest left id, then s 4, then low 9, then lowe 10 with r</w> 11 before st 12, then lowest 15.
    """
    steps = list(merge_steps(word_counts(["low lower lowest"], "whitespace"), "characters"))
    assert merges(steps[:3]) == [("l+o", 3), ("lo+w", 3), ("low+e", 2)]
    once = ["r+</w>", "s+t", "low+</w>", "lowe+r</w>", "lowe+st", "lowest+</w>"]
    assert merges(steps[3:]) == [(parts, 1) for parts in once]
    assert [step.pair for step in steps[:4]] == [(1, 2), (8, 6), (9, 0), (3, 7)]
    assert [step.tokens for step in steps] == [14, 11, 9, 8, 7, 6, 5, 4, 3]
    assert steps[0].tokens_per_word == 14 / 3


def test_the_words_of_sennrich() -> None:
    """The dictionary of section 3.2 of the paper: low 5 times, lower 2, newest 6, widest 3.

    es, st and t</w> occur 9 times. The paper merges e+s, es+t, est+</w>, as a dictionary breaks its ties; here e 1 is the
    smallest left id, then t 8 is smaller than es 11. Of lo, ow and we, 7 or 8 times, we is left twice: newest has est</w>.
    """
    steps = train_merges({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 16, "characters")
    assert merges(steps) == [("e+s", 9), ("t+</w>", 9), ("es+t</w>", 9), ("l+o", 7), ("lo+w", 7)]


def merged(row: list[str], pair: tuple[str, str]) -> list[str]:
    symbols, at = [], 0
    while at < len(row):
        size = 2 if tuple(row[at : at + 2]) == pair else 1
        symbols.append("".join(row[at : at + size]))
        at += size
    return symbols


@settings(max_examples=50)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=12), st.integers(1, 9), min_size=1, max_size=8))
def test_each_step_is_that_of_counting_everything_again(words: dict[str, int]) -> None:
    rows = {word: [*word, "</w>"] for word in words}
    order = list(alphabet_of(words, "characters"))
    for step in merge_steps(words, "characters"):
        counts = Counter()
        for word, row in rows.items():
            for pair in pairwise(row):
                counts[pair] += words[word]
        best = min(counts, key=lambda pair: (-counts[pair], order.index(pair[0]), order.index(pair[1])))
        assert (step.parts, step.count) == (best, counts[best])
        order.append("".join(best))
        rows = {word: merged(row, best) for word, row in rows.items()}
        assert step.tokens == sum(len(row) * words[word] for word, row in rows.items())
    assert all(len(row) == 1 for row in rows.values())


def test_alphabets() -> None:
    """Bytes in the order of the characters of GPT-2; characters in that of code points, and the end last."""
    assert sorted(BYTE_ORDER) == list(range(256))
    assert [BYTE_ORDER[i] for i in (0, 93, 94, 188, 220, 255)] == [ord("!"), ord("~"), 0xA1, 0x00, ord(" "), 0xAD]
    assert alphabet_of(["é😀", "za"], "characters") == ("a", "z", "é", "😀", "</w>")


def test_text_that_looks_like_the_end_is_another_symbol() -> None:
    """Ids: / 0, < 1, > 2, w 3, the end 4. All pairs occur once, so the left ids decide: / 0 before < 1 before > 2."""
    assert [step.pair for step in merge_steps({"</w>": 1}, "characters")] == [(0, 3), (1, 5), (2, 4), (6, 7)]


@pytest.mark.parametrize(
    ("pieces", "message"),
    [(255, "255 pieces do not hold the alphabet of 256 bytes"), (259, r"has 258 pieces .* not 259: .* at most 258")],
)
def test_sizes_that_cannot_be(pieces: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_merges({"abc": 1}, pieces, "bytes")


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
