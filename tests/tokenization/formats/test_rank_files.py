"""Rank vocabularies in files, and what is wrong with some."""

import base64
import json
from pathlib import Path

import pytest

from leadline.tokenization.formats.rank_files import load_ranks, named_ranks, read_ranks, write_ranks

SINGLE = {bytes([byte]): byte for byte in range(256)}
PUBLISHED = Path(__file__).parents[4] / "shared/data/tiktoken"  # belongs to no checkout, but lies beside it


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


@pytest.mark.parametrize("missing", ["toy.tiktoken", "toy.json"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    path = written(tmp_path, "{}")
    (tmp_path / missing).unlink()
    with pytest.raises(ValueError, match=f"{missing}: there is no such file"):
        load_ranks(path)


@pytest.mark.parametrize("settings", ["[]", "{}", '{"pat_str": "."}', '{"pat_str": 5, "special_tokens": {}}', "{", "[" * 10**5])
def test_settings_that_are_none(tmp_path: Path, settings: str) -> None:
    with pytest.raises(ValueError, match=r"toy\.json: (expected|not JSON)"):
        load_ranks(written(tmp_path, settings))


@pytest.mark.parametrize("token", ["256.0", '"256"', "true", "null", "[256]", "1e308", "-1", "97", "9" * 8, "1" + "0" * 30])
def test_a_special_with_an_odd_id_is_named(tmp_path: Path, token: str) -> None:
    with pytest.raises(ValueError, match=r"toy\.json: toy: the id of the special '<a>' is .*, not an integer from 256"):
        load_ranks(written(tmp_path, f'{{"pat_str": ".", "special_tokens": {{"<a>": {token}}}}}'))


@pytest.mark.parametrize("pattern", ["(", "x{99999999}"])
def test_a_bad_pattern_is_named(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ValueError, match=r"toy\.json: .*(regular expression|expand)"):
        load_ranks(written(tmp_path, json.dumps({"pat_str": pattern, "special_tokens": {}})))


def test_an_unknown_name_is_told_from_the_known() -> None:
    with pytest.raises(ValueError, match="'gpt5' is not a known vocabulary of tiktoken; these are gpt2,"):
        named_ranks("gpt5")


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"published rank files are not in {PUBLISHED}")
@pytest.mark.parametrize(
    ("name", "pattern", "ids", "size", "end", "unused"),
    [
        ("gpt2", "gpt2", [15496, 995], 50257, 50256, 0),
        pytest.param("cl100k_base", "gpt4", [9906, 1917], 100277, 100257, 16, marks=pytest.mark.slow),
    ],
    ids=["gpt2", "cl100k_base"],
)
def test_published_vocabularies(name: str, pattern: str, ids: list[int], size: int, end: int, unused: int) -> None:
    tokenizer = load_ranks(PUBLISHED / f"{name}.tiktoken")
    assert tokenizer.encode("Hello world").tolist() == ids
    assert (tokenizer.pattern, tokenizer.lossless) == (pattern, True)
    assert (tokenizer.vocabulary_size, tokenizer.specials.eos, tokenizer.table.count(None)) == (size, end, unused)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, ranks = tmp_path / "toy.tiktoken", SINGLE | {b"bc": 256, b"ab": 257}
    write_ranks(path, dict(reversed(ranks.items())))
    assert list(read_ranks(path).items()) == list(ranks.items())
    assert path.read_bytes().splitlines()[97] == b"YQ== 97"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([*lines(SINGLE), b"YWI="], r":257: b'YWI=' is not a piece in base 64, a space and a rank"),
        ([*lines(SINGLE), b"YWI= -1"], r":257: .* is not a piece in base 64"),
        ([*lines(SINGLE), b"YWI= " + b"9" * 5000], r":257: .* is not a piece in base 64"),
        ([*lines(SINGLE), b"YW= 256"], r":257: b'YW=' is not base 64"),
        ([*lines(SINGLE), b"", b"Y$I= 256"], r":258: .* is not base 64"),
        ([*lines(SINGLE), b"= 256"], r":257: .* is not base 64|:257: the piece is empty"),
        ([*lines(SINGLE), b"YQ== 256"], r":257: b'a' is on line 98 already"),
        ([*lines(SINGLE), b"YWI= 97"], r":257: rank 97 is on line 98 already"),
        ([*lines(SINGLE), b"YWI= 257"], r"rank 256 is missing, but there are 257 pieces"),
        (lines({bytes([byte]): byte for byte in range(255)}), "1 of the 256 bytes are not pieces, first 0xff"),
        ([], "256 of the 256 bytes are not pieces"),
    ],
)
def test_what_is_no_rank_file(text: list[bytes], message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tiktoken"
    path.write_bytes(b"\n".join(text))
    with pytest.raises(ValueError, match=message):
        read_ranks(path)
