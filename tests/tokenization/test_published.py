"""Published rank vocabularies by file, and what is wrong with some."""

import base64
import json
from pathlib import Path

import pytest

from tokenization.published import load_ranks, named_ranks

REAL = Path(__file__).parents[3] / "shared/data/tiktoken"


def _written(folder: Path, settings: object) -> Path:
    lines = [f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256)]
    (folder / "toy.tiktoken").write_text("".join(lines))
    (folder / "toy.json").write_text(json.dumps(settings))
    return folder / "toy.tiktoken"


def test_a_file_with_its_pattern(tmp_path: Path) -> None:
    found = load_ranks(_written(tmp_path, {"pat_str": r"\s+|\S+", "special_tokens": {"<|endoftext|>": 300}}))
    assert (found.name, found.vocabulary_size, found.specials.eos) == ("toy", 301, 300)
    assert found.encode("ab").tolist() == [97, 98]


@pytest.mark.parametrize("missing", ["toy.tiktoken", "toy.json"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    path = _written(tmp_path, {"pat_str": ".", "special_tokens": {}})
    (tmp_path / missing).unlink()
    with pytest.raises(ValueError, match=f"{missing}: there is no such file"):
        load_ranks(path)


@pytest.mark.parametrize("settings", [[], {}, {"pat_str": "."}])
def test_settings_that_are_none(tmp_path: Path, settings: object) -> None:
    with pytest.raises(ValueError, match=r"toy\.json: not"):
        load_ranks(_written(tmp_path, settings))


def test_an_unknown_name_is_told_from_the_known() -> None:
    with pytest.raises(ValueError, match="'gpt5' is no vocabulary of tiktoken that is known here; there are gpt2,"):
        named_ranks("gpt5")


@pytest.mark.skipif(not REAL.is_dir(), reason="the real vocabularies are not here")
@pytest.mark.parametrize(("name", "pattern", "ids"), [("gpt2", "gpt2", [15496, 995]), ("cl100k_base", "gpt4", [9906, 1917])])
def test_hello_world(name: str, pattern: str, ids: list[int]) -> None:
    found = load_ranks(REAL / f"{name}.tiktoken")
    assert found.pattern == pattern
    assert found.encode("Hello world").tolist() == ids
