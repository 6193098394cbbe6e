"""The ids of rank vocabularies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tokenization.formats.tiktoken import LARGEST_SPECIAL, RankTokenizer, rank_ids
from leadline.tokenization.tokenizer import Specials

SINGLE = {bytes([byte]): byte for byte in range(256)}
RANKS = SINGLE | {b"bc": 256, b"ab": 257, b"abc": 258, b"  ": 259}
TOY = RankTokenizer("toy", "gpt2", RANKS, {"<|endoftext|>": 262, "<|more|>": 264})
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from("abc "), max_size=60)


def test_the_end_of_a_text_is_bos_and_eos() -> None:
    assert TOY.specials == Specials(bos=262, eos=262)
    assert RankTokenizer("toy", "gpt2", RANKS).specials == Specials()


@pytest.mark.parametrize(
    ("ranks", "word", "ids"),
    [
        (RANKS, b"xabc", [ord("x"), 258]),  # a|bc have a rank together, which a list of merges would have from ab and c only
        (RANKS, b"abb", [257, ord("b")]),
        (RANKS, b"bcbc", [256, 256]),
        (RANKS, b"", []),
        (SINGLE | {b"xyz": 256}, b"xyz", [256]),  # though neither xy nor yz has a rank
        (SINGLE | {b"xyz": 256}, b"xyza", list(b"xyza")),
    ],
)
def test_the_least_rank_of_a_concatenation_is_merged_first(ranks: dict[bytes, int], word: bytes, ids: list[int]) -> None:
    assert rank_ids(word, ranks) == ids


@settings(max_examples=50)
@given(TEXT)
def test_our_algorithm_is_that_of_the_library(text: str) -> None:
    """On one word, since the engines that cut have different versions of Unicode."""
    assert RankTokenizer("toy", "(?s:.+)", RANKS).encode(text).tolist() == rank_ids(text.encode(), RANKS)


def test_what_a_pattern_leaves_out_has_no_offset() -> None:
    tokenizer = RankTokenizer("toy", r"\d+", RANKS)
    assert not tokenizer.lossless
    assert tokenizer.encode_with_offsets("12")[1].tolist() == [[0, 1], [1, 2]]
    with pytest.raises(ValueError, match="leaves out some of the 2 bytes"):
        tokenizer.encode_with_offsets("a1")


def test_an_unused_id_is_named() -> None:
    assert TOY.decode([262, ord("a"), 264]) == b"a"
    with pytest.raises(ValueError, match="id 260 at position 1 is not used"):
        TOY.decode([97, 260])


@pytest.mark.slow
def test_a_long_run_of_spaces() -> None:
    """The library fails on a million spaces; from 100,000 on we encode."""
    ids = TOY.encode(" " * 100_002)
    assert np.array_equal(ids, np.full(50_001, 259))


def test_another_definition_is_refused() -> None:
    with pytest.raises(ValueError, match="of the kind ranks has"):
        RankTokenizer.from_definition({"kind": "bpe"})


@pytest.mark.parametrize(
    ("ranks", "special_ids", "message"),
    [
        (SINGLE | {b"ab": 257}, {}, "the ranks of 257 pieces are 0 to 256"),
        ({b"ab": 0}, {}, "256 of the 256 bytes are not pieces, first 0x00"),
        (SINGLE, {"<|a|>": 255}, r"the special '<\|a\|>' is 255, not an integer from 256"),
        (SINGLE, {"<|a|>": LARGEST_SPECIAL}, f"to {LARGEST_SPECIAL - 1}"),
        (SINGLE, {"<|a|>": 256, "<|b|>": 256}, "two specials have one id"),
    ],
)
def test_what_is_no_vocabulary(ranks: dict[bytes, int], special_ids: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RankTokenizer("toy", "gpt2", ranks, special_ids)
