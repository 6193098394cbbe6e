"""The unigram tokenizer."""

from math import exp, inf, log, nan

import numpy as np
import pytest

from leadline.tokenization.tokenizer import Specials
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer

PIECES = {"▁": -3.0, "▁a": -2.0, "a": -1.5, "b": -2.5, "ab": -3.5, "é": -4.0, "c": -5.0}


def small(byte_fallback: bool = False, escape: bool = True, dummy_prefix: bool = True, **fields) -> UnigramTokenizer:
    names = tuple(piece if escape else piece.replace("▁", " ") for piece in PIECES)
    return UnigramTokenizer(names, tuple(PIECES.values()), byte_fallback, escape, dummy_prefix, **fields)


def test_ids_follow_the_specials() -> None:
    """▁a, b, ab has -8 nats; ▁a, b, a, b has -8.5 and ▁, ab, ab -10."""
    tokenizer = small()
    assert [tokenizer.token_bytes(i).decode() for i in range(11)] == ["", "", "", "", " ", " a", "a", "b", "ab", "é", "c"]
    assert tokenizer.encode("abab").tolist() == [5, 7, 8]


def test_a_run_of_unknown_characters_is_one_unknown() -> None:
    assert small().encode("a??b?").tolist() == [5, 1, 7, 1]


def test_unknown_characters_become_bytes() -> None:
    tokenizer = small(byte_fallback=True)
    assert tokenizer.vocabulary_size == 4 + 256 + 7
    ids, offsets = tokenizer.encode_with_offsets("a€b")
    assert ids.tolist() == [4 + 256 + 1, 4 + 0xE2, 4 + 0x82, 4 + 0xAC, 4 + 256 + 3]
    assert offsets.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    assert tokenizer.decode(ids).decode() == "a€b"


def test_offsets_of_bytes_behind_a_dummy_prefix() -> None:
    ids, offsets = small(byte_fallback=True).encode_with_offsets("ñ")
    assert ids.tolist() == [260, 4 + 0xC3, 4 + 0xB1]
    assert offsets.tolist() == [[0, 0], [0, 1], [1, 2]]


@pytest.mark.parametrize(
    "fields", [{"escape": True}, {"byte_fallback": False}, {"pattern": "words"}, {"normalization": ("nfc",)}]
)
def test_what_loses_text(fields: dict) -> None:
    assert not small(**{"byte_fallback": True, "escape": False} | fields).lossless


def test_an_escaped_space_that_is_no_piece_becomes_three_bytes_at_its_place() -> None:
    """▁ is E2 96 81."""
    tokenizer = UnigramTokenizer(("a",), (-1.0,), byte_fallback=True, escape=True)
    ids, offsets = tokenizer.encode_with_offsets(" a▁")
    assert ids.tolist() == [4 + 0xE2, 4 + 0x96, 4 + 0x81, 260, 4 + 0xE2, 4 + 0x96, 4 + 0x81]
    assert offsets.tolist() == [[0, 1], [1, 1], [1, 1], [1, 2], [2, 3], [3, 4], [4, 5]]


def test_an_escaped_space_and_the_sign_itself_are_one() -> None:
    tokenizer = small()
    assert tokenizer.decode(tokenizer.encode(" a▁a")) == b" a a"


def test_no_piece_crosses_what_the_pattern_cuts() -> None:
    assert small(dummy_prefix=False, pattern="a|b").encode("bab").tolist() == [7, 6, 7]
    assert small(dummy_prefix=False).encode("bab").tolist() == [7, 8]


def test_the_best_and_the_second_best() -> None:
    best = small().n_best("ab?", 3)
    assert [ids.tolist() for ids, _ in best] == [[5, 7, 1], [4, 8, 1], [4, 6, 7, 1]]
    np.testing.assert_allclose([score for _, score in best], [-4.5 - 15, -6.5 - 15, -7 - 15])


def test_the_best_comes_first_where_words_are_cut() -> None:
    tokenizer = small(pattern=r"\?|[^?]+")
    assert tokenizer.n_best("a??b", 1)[0][0].tolist() == tokenizer.encode("a??b").tolist() == [5, 1, 1, 7]


def test_log_likelihood_is_the_sum_over_segmentations() -> None:
    assert small().log_likelihood("ab") == pytest.approx(log(exp(-4.5) + exp(-6.5) + exp(-7)))
    assert small(pattern=" ?a|b").log_likelihood("ab") == pytest.approx(log(exp(-2) + exp(-4.5)) - 2.5)
    assert small().log_likelihood("") == 0


def test_log_probability_of_a_segmentation() -> None:
    assert small().log_probability(["▁a", "b", "?"]) == -2.0 - 2.5 - 15.0
    with pytest.raises(ValueError, match="'ba' is not a piece"):
        small().log_probability(["ba"])


def test_samples_depend_on_the_generator_alone() -> None:
    tokenizer = small(pattern="gpt2")
    rows, same, others = (
        [tokenizer.sample("ab ab ab?", np.random.default_rng([seed, i]), 0.1).tolist() for i in range(20)] for seed in (1, 1, 2)
    )
    assert rows == same != others
    assert {tokenizer.decode(ids) for ids in rows} == {b"ab ab ab"}


def test_samples_at_great_alpha_are_the_best() -> None:
    tokenizer = small()
    assert tokenizer.sample("abab", np.random.default_rng(0), 1e4).tolist() == tokenizer.encode("abab").tolist()


@pytest.mark.parametrize("alpha", [-0.1, inf, nan])
def test_a_bad_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha is"):
        small().sample("a", np.random.default_rng(0), alpha)


def test_an_empty_text_has_one_empty_segmentation() -> None:
    assert small().sample("", np.random.default_rng(0)).shape == (0,)
    assert [ids.tolist() for ids, _ in small().n_best("", 2)] == [[]]
    with pytest.raises(ValueError, match="n is 0"):
        small().n_best("", 0)


def test_a_very_long_word_takes_time_linear_in_its_length() -> None:
    assert len(UnigramTokenizer(("a", "aa"), (-1.0, -1.5)).encode("a" * 10**5)) == 50_000


def test_specials_may_stand_in_another_order() -> None:
    tokenizer = UnigramTokenizer(("a",), (-1.0,), special_names=("unk", "bos", "eos"))
    assert tokenizer.specials == Specials(unk=0, bos=1, eos=2)
    assert tokenizer.encode("a?").tolist() == [3, 0]


@pytest.mark.parametrize(
    ("pieces", "scores", "specials", "message"),
    [
        (("a",), (), ("unk",), "1 pieces have 0 scores"),
        (("a", "b"), (-1.0, -inf), ("unk",), "score of piece 'b' is -inf"),
        (("a", "a"), (-1.0, -1.0), ("unk",), "'a' twice"),
        (("a",), (-1.0,), ("pad",), "needs an UNK"),
    ],
)
def test_a_bad_vocabulary_is_refused(pieces: tuple, scores: tuple, specials: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UnigramTokenizer(pieces, scores, special_names=specials)
