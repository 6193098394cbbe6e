"""Rank files and their ids."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.ranks import RankTokenizer, rank_ids, read_ranks, write_ranks
from tokenization.tokenizer import Specials, Tokenizer

SINGLE = {bytes([byte]): byte for byte in range(256)}
# bc 256, ab 257, abc 258, and "  " 259.
RANKS = SINGLE | {b"bc": 256, b"ab": 257, b"abc": 258, b"  ": 259}
TOY = RankTokenizer("toy", "gpt2", RANKS, {"<|endoftext|>": 262, "<|more|>": 264})
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from("abc "), max_size=60)


@pytest.fixture(params=["gpt2", "cl100k_base"])
def published(request: pytest.FixtureRequest) -> RankTokenizer:
    """Files that belong to no checkout: they are looked for beside it."""
    folder = Path(__file__).parents[3] / "shared/data/tiktoken"
    if not folder.is_dir():
        pytest.skip(f"published rank files are not in {folder}")
    about = json.loads((folder / f"{request.param}.json").read_text())
    ranks = read_ranks(folder / f"{request.param}.tiktoken")
    return RankTokenizer(request.param, about["pat_str"], ranks, about["special_tokens"])


def test_hello_world(published: RankTokenizer) -> None:
    expected = {"gpt2": [15496, 995], "cl100k_base": [9906, 1917]}[published.name]
    assert published.encode("Hello world").tolist() == expected


def test_published_specials_and_holes(published: RankTokenizer) -> None:
    size, end, holes = {"gpt2": (50257, 50256, 0), "cl100k_base": (100277, 100257, 16)}[published.name]
    assert (published.vocabulary_size, published.specials.eos) == (size, end)
    assert published.pieces.count(None) == holes
    assert published.lossless


def test_it_is_a_tokenizer() -> None:
    tokenizer: Tokenizer = TOY
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.specials == Specials(bos=262, eos=262)
    assert RankTokenizer("toy", "gpt2", RANKS).specials == Specials()


def test_the_least_rank_of_a_concatenation_comes_first() -> None:
    """bc 256 before ab 257 makes ab|c impossible; but a|bc together are abc, which a list of merges had from ab and c only."""
    assert rank_ids(b"xabc", RANKS) == [ord("x"), 258]
    assert rank_ids(b"abb", RANKS) == [257, ord("b")]
    assert rank_ids(b"bcbc", RANKS) == [256, 256]
    assert rank_ids(b"", RANKS) == []


def test_a_piece_with_a_rank_is_itself() -> None:
    """No merges lead to xyz, as neither xy nor yz has a rank."""
    ranks = SINGLE | {b"xyz": 256}
    assert rank_ids(b"xyz", ranks) == [256]
    assert rank_ids(b"xyza", ranks) == list(b"xyza")


@given(TEXT)
def test_the_shown_algorithm_is_the_one_in_use(text: str) -> None:
    """One piece, since the engines that cut know different versions of Unicode."""
    assert RankTokenizer("toy", "(?s:.+)", RANKS).encode(text).tolist() == rank_ids(text.encode(), RANKS)


@given(TEXT)
def test_offsets_are_those_of_the_pieces(text: str) -> None:
    ids, places = TOY.encode_with_offsets(text)
    assert ids.tolist() == TOY.encode(text).tolist() == TOY.encode_batch([text])[0].tolist()
    assert [text.encode()[start:end] for start, end in places] == [TOY.token_bytes(i) for i in ids.tolist()]


def test_what_a_pattern_leaves_out_has_no_place() -> None:
    tokenizer = RankTokenizer("toy", r"\d+", RANKS)
    assert not tokenizer.lossless
    assert tokenizer.encode_with_offsets("12")[1].tolist() == [[0, 1], [1, 2]]
    with pytest.raises(ValueError, match="leaves out some of the 2 bytes"):
        tokenizer.encode_with_offsets("a1")


@given(TEXT)
def test_every_text_comes_back(text: str) -> None:
    assert TOY.decode(TOY.encode(text)).decode("utf-8") == text


def test_names_of_specials_are_ordinary_text() -> None:
    assert TOY.encode("<|endoftext|>").max() < 262
    assert TOY.decode([262, ord("a"), 264]) == b"a"
    assert TOY.token_bytes(262) == b""


@pytest.mark.parametrize(
    ("i", "message"), [(260, "id 260 at position 1 is no token"), (265, "id 265 at position 1"), (-1, "id -1")]
)
def test_an_unknown_id_is_named(i: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TOY.decode([97, i])


@pytest.mark.parametrize(("text", "message"), [(b"ab\xff", "byte 2"), ("ab\ud800", r"character 2 .* U\+D800")])
def test_what_is_no_text_is_named(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TOY.encode(text)


@pytest.mark.parametrize("letter", ["a", " "])
def test_one_piece_of_many_letters(letter: str) -> None:
    """Of a million spaces the library itself says nothing but that its stack is full; from 100,000 on it is not asked."""
    n = 2**17
    ids = TOY.encode(letter * n)
    assert np.array_equal(ids, np.full(n, ord("a")) if letter == "a" else np.full(n // 2, 259))


def test_the_empty_text() -> None:
    assert TOY.encode("").tolist() == []
    assert TOY.encode_with_offsets(b"")[1].shape == (0, 2)
    assert TOY.encode("\x00").tolist() == [0]


def test_a_definition_is_json_and_gives_the_tokenizer_back() -> None:
    definition = json.loads(json.dumps(TOY.definition()))
    assert RankTokenizer.from_definition(definition) == TOY
    assert RankTokenizer.from_definition(definition).digest() == TOY.digest()


def test_another_definition_is_refused() -> None:
    with pytest.raises(ValueError, match="of kind ranks has"):
        RankTokenizer.from_definition({"kind": "bpe"})


@pytest.mark.parametrize(
    ("ranks", "published", "message"),
    [
        (SINGLE | {b"ab": 257}, {}, "257 pieces have the ranks 0 to 256"),
        ({b"ab": 0}, {}, "256 of the 256 bytes are no piece, the first of them 0x00"),
        (SINGLE, {"<|a|>": 255}, "an id of its own from 256 on"),
        (SINGLE, {"<|a|>": 256, "<|b|>": 256}, "an id of its own from 256 on"),
    ],
)
def test_what_is_no_tokenizer(ranks: dict[bytes, int], published: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RankTokenizer("toy", "gpt2", ranks, published)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "toy.tiktoken"
    write_ranks(path, dict(reversed(RANKS.items())))
    assert list(read_ranks(path).items()) == list(RANKS.items())
    assert path.read_bytes().splitlines()[97] == b"YQ== 97"


def lines(ranks: dict[bytes, int]) -> list[bytes]:
    return [base64.b64encode(piece) + b" %d" % rank for piece, rank in ranks.items()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([*lines(SINGLE), b"YWI="], r":257: b'YWI=' is not a piece in base 64, a space and a rank"),
        ([*lines(SINGLE), b"YWI= -1"], r":257: .* is not a piece in base 64"),
        ([*lines(SINGLE), b"YW= 256"], r":257: b'YW=' is not base 64"),
        ([*lines(SINGLE), b"", b"Y$I= 256"], r":258: .* is not base 64"),
        ([*lines(SINGLE), b"= 256"], r":257: .* is not base 64|:257: the piece is empty"),
        ([*lines(SINGLE), b"YQ== 256"], r":257: b'a' stands on line 98 already"),
        ([*lines(SINGLE), b"YWI= 97"], r":257: rank 97 stands on line 98 already"),
        ([*lines(SINGLE), b"YWI= 257"], r"no line has rank 256, but there are 257 pieces"),
        (lines({bytes([byte]): byte for byte in range(255)}), "1 of the 256 bytes are no piece, the first of them 0xff"),
        ([], "256 of the 256 bytes are no piece"),
    ],
)
def test_what_is_no_rank_file(text: list[bytes], message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tiktoken"
    path.write_bytes(b"\n".join(text))
    with pytest.raises(ValueError, match=message):
        read_ranks(path)
