"""Rank vocabularies: their ids, their files, and what is wrong with some."""

import base64
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.tokenization.formats.rank_files import PATTERN_OF, load_ranks, named_ranks, read_ranks
from leadline.tokenization.formats.rank_words import RankWords
from leadline.tokenization.formats.tiktoken import RankTokenizer, rank_ids
from leadline.tokenization.pretokenization import COVERING

SINGLE = {bytes([byte]): byte for byte in range(256)}
RANKS = SINGLE | {b"bc": 256, b"ab": 257, b"abc": 258, b"  ": 259}
TOY = RankTokenizer("toy", "gpt2", RANKS, {"<|endoftext|>": 262, "<|more|>": 264})
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from("abc "), max_size=60)
PUBLISHED = Path(__file__).parents[4] / "shared/data/tiktoken"  # belongs to no checkout, but lies beside it


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


# What odd texts are made of: marks without a letter, joined emoji, flags, a replaced surrogate, signs of direction, rare white
# space and controls, digits of many scripts, contractions in all cases, and code points of new Unicode versions.
ODD = st.one_of(
    st.sampled_from(
        ["\u0301", "\u20e3", "👩\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "🇩🇪", "\ufffd", "\u202e", "אב", "ع\u064e", "ก็"]
    ),
    st.sampled_from("\u00a0\u1680\u180e\u2003\u2028\u3000\u200b\x85\x1c\x1f\x00\x7f\x0b\r\n\t 1½Ⅷ٣\U0001d7d8\uac00\u1161"),
    st.sampled_from(
        ["'s", "'S", "'\u017f", "'LL", "'", "a", "12345", "<|endoftext|>", "\U0001e6c0", "\u0378", "\ue000", "\U0010ffff"]
    ),
    st.characters(exclude_categories=["Cs"]),
    st.characters(categories=["Cn"]),  # what Python's version of Unicode lacks
    st.builds(str.__mul__, st.sampled_from(["a", " ", "\u0301", "\u200d", "1", "!\n"]), st.integers(50, 500)),
)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"published rank files are not in {PUBLISHED}")
@pytest.mark.parametrize("name", ["gpt2", "cl100k_base"])
def test_odd_unicode_has_the_ids_of_the_library(name: str) -> None:
    tokenizer = load_ranks(PUBLISHED / f"{name}.tiktoken")

    @settings(max_examples=100)
    @given(st.lists(ODD, max_size=12).map("".join))
    def same(text: str) -> None:
        np.testing.assert_array_equal(tokenizer.encode_in_python(text), tokenizer.encode(text))

    same()


@pytest.mark.parametrize(("expression", "pattern"), [pair for pair in PATTERN_OF.items() if pair[1] in COVERING])
def test_words_are_cut_as_the_library_does(expression: str, pattern: str) -> None:
    """In ids of a vocabulary where each of a few pairs is one token unless a word ends inside it."""
    pairs = [b"'s", b" '", b"11", b"\n\n", b"\n ", b"  ", b"\x80'", b"1\xf0", b"aa"]
    ranks = SINGLE | {pair: 256 + i for i, pair in enumerate(pairs)}
    tokenizer = RankTokenizer("pairs", pattern, ranks)
    library = tiktoken.Encoding("pairs", pat_str=expression, mergeable_ranks=ranks, special_tokens={})

    @given(st.lists(ODD, max_size=12).map("".join))
    @example("a\n  ")
    def same(text: str) -> None:
        assert tokenizer.encode_in_python(text).tolist() == tokenizer.encode(text).tolist() == library.encode_ordinary(text)

    same()


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library reads in place of a download."""
    place = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    (tmp_path / hashlib.sha1(place.encode()).hexdigest()).symlink_to(PUBLISHED / "cl100k_base.tiktoken")


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"published rank files are not in {PUBLISHED}")
@pytest.mark.usefixtures("cached")
def test_a_vocabulary_by_its_name_has_the_ids_of_the_library() -> None:
    tokenizer = named_ranks("cl100k_base")
    library = tiktoken.get_encoding("cl100k_base")
    assert (tokenizer.pattern, tokenizer.lossless) == ("cl100k", True)

    @settings(max_examples=200)
    @given(st.one_of(st.lists(ODD, max_size=12).map("".join), st.text(" \n\r\t\u3000\x85\x1ca1'", max_size=12)))
    @example("a\n  ")
    def same(text: str) -> None:
        assert tokenizer.encode_in_python(text).tolist() == tokenizer.encode(text).tolist() == library.encode_ordinary(text)

    same()


def test_new_characters_have_the_classes_that_they_have_for_the_library() -> None:
    """Whatever the versions of Unicode, nothing is left to replace in a text whose characters are replaced."""
    every = "".join(chr(i) for i in range(0x33500) if not 0xD800 <= i < 0xE000)
    words = RankWords("gpt4")
    replaced = every.translate(words.replacements(set(every)))
    assert words.replacements(set(replaced)) == {}
    assert "".join(words.cut(every)) == every


def test_what_has_no_offset_and_what_no_bytes() -> None:
    tokenizer = RankTokenizer("toy", r"\d+", RANKS)
    assert not tokenizer.lossless
    with pytest.raises(ValueError, match="leaves out some of the 2 bytes"):
        tokenizer.encode_with_offsets("a1")
    with pytest.raises(ValueError, match="id 260 at position 1 is not used"):
        TOY.decode([97, 260])


@pytest.mark.slow
def test_a_long_run_of_spaces() -> None:
    """The library fails on a million spaces; from 100,000 on we encode."""
    np.testing.assert_array_equal(TOY.encode(" " * 100_002), np.full(50_001, 259))


def lines(ranks: dict[bytes, int]) -> list[bytes]:
    return [base64.b64encode(piece) + b" %d" % rank for piece, rank in ranks.items()]


def written(folder: Path, settings: str) -> Path:
    (folder / "toy.tiktoken").write_bytes(b"\n".join(lines(SINGLE)))
    (folder / "toy.json").write_text(settings)
    return folder / "toy.tiktoken"


def test_a_vocabulary_with_its_pattern(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"pat_str": r"\s+|\S+", "special_tokens": {"<|endoftext|>": 300}}))
    tokenizer = load_ranks(path)
    assert (tokenizer.name, tokenizer.vocabulary_size, tokenizer.specials.eos) == ("toy", 301, 300)
    assert tokenizer.encode("ab").tolist() == [97, 98]
    for missing in ("toy.json", "toy.tiktoken"):
        (tmp_path / missing).unlink()
        with pytest.raises(ValueError, match=f"{missing}: there is no such file"):
            load_ranks(path)


ODD_IDS = ["256.0", '"256"', "true", "null", "[256]", "1e308", "-1", "97", "9" * 8, "1" + "0" * 30]


NO_SETTINGS = {
    "expected": ["[]", "{}", '{"pat_str": "."}', '{"pat_str": 5, "special_tokens": {}}'],
    "not JSON": ["{", "[" * 10**5],
    ".*regular expression": ['{"pat_str": "(", "special_tokens": {}}'],
    ".*expand": ['{"pat_str": "x{99999999}", "special_tokens": {}}'],
    "toy: the id of the special '<a>' is .*, not an integer": [
        f'{{"pat_str": ".", "special_tokens": {{"<a>": {token}}}}}' for token in ODD_IDS
    ],
}


@pytest.mark.parametrize(
    ("settings", "message"),
    [(text, message) for message, texts in NO_SETTINGS.items() for text in texts],
    ids=lambda value: value[:60],
)
def test_settings_that_are_none(tmp_path: Path, settings: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"toy\.json: {message}"):
        load_ranks(written(tmp_path, settings))


def test_an_unknown_name_is_told_from_the_known() -> None:
    with pytest.raises(ValueError, match="'gpt5' is no vocabulary of tiktoken that can be loaded; these are gpt2,"):
        named_ranks("gpt5")


@pytest.mark.parametrize("name", ["p50k_base", "p50k_edit"])
def test_a_vocabulary_with_a_special_amid_its_pieces_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is no vocabulary of tiktoken that can be loaded"):
        named_ranks(name)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"published rank files are not in {PUBLISHED}")
@pytest.mark.parametrize(
    ("name", "pattern", "ids", "size", "end", "unused"),
    [
        ("gpt2", "gpt2", [15496, 995], 50257, 50256, 0),
        pytest.param("cl100k_base", "gpt4", [9906, 1917], 100277, 100257, 16, marks=pytest.mark.slow),
    ],
)
def test_published_vocabularies(name: str, pattern: str, ids: list[int], size: int, end: int, unused: int) -> None:
    tokenizer = load_ranks(PUBLISHED / f"{name}.tiktoken")
    assert tokenizer.encode("Hello world").tolist() == ids
    assert (tokenizer.pattern, tokenizer.lossless) == (pattern, True)
    assert (tokenizer.vocabulary_size, tokenizer.specials.eos, tokenizer.table.count(None)) == (size, end, unused)


def test_pieces_come_in_the_order_of_their_ranks(tmp_path: Path) -> None:
    path, ranks = tmp_path / "toy.tiktoken", SINGLE | {b"bc": 256, b"ab": 257}
    path.write_bytes(b"\n".join(reversed(lines(ranks))))
    assert list(read_ranks(path).items()) == list(ranks.items())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (None, "1 of the 256 .* first 0xff"),
        ([b"YWI="], r":257: b'YWI=' is not a piece in base 64, a space and a rank"),
        ([b"YWI= -1"], r":257: .* is not a piece in base 64"),
        ([b"YWI= " + b"9" * 5000], r":257: .* is not a piece in base 64"),
        ([b"YW= 256"], r":257: b'YW=' is not base 64"),
        ([b"", b"Y$I= 256"], r":258: .* is not base 64"),
        ([b"= 256"], r":257: .* is not base 64|:257: the piece is empty"),
        ([b"YQ== 256"], r":257: b'a' is on line 98 already"),
        ([b"YWI= 97"], r":257: rank 97 is on line 98 already"),
        ([b"YWI= 257"], r"rank 256 is missing, but there are 257 pieces"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_rank_file(more: list[bytes] | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tiktoken"
    path.write_bytes(b"\n".join(lines(SINGLE)[:255] if more is None else [*lines(SINGLE), *more]))
    with pytest.raises(ValueError, match=message):
        read_ranks(path)
