"""Tokenizers of a configuration, trained once."""

from pathlib import Path

import pytest

from leadline.experiments.config.tokenizer import Bpe, Characters, TokenizerConfig, Unigram, WordPiece, Words
from leadline.experiments.data.text.corpus import Document
from leadline.experiments.data.text.training import train_tokenizer, trained_tokenizer
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.formats.fast import FastTokenizer
from leadline.tokenization.formats.saving import DEFINITION, load

TEXT = "the cat sat on the mat; the dog sat on the log. " * 4
DOCUMENTS = [Document("a", TEXT.encode())]


@pytest.mark.parametrize(
    ("cfg", "name", "size"),
    [
        (Bpe(vocabulary=270), "bpe", 270),
        (Bpe(vocabulary=30, alphabet="characters", pattern="words"), "character-bpe", 30),
        (WordPiece(vocabulary=30), "wordpiece", 30),
        (WordPiece(vocabulary=30, criterion="frequency"), "wordpiece", 30),
        (Words(vocabulary=10), "word", 10),
        (Characters(vocabulary=12), "character", 12),
        (Unigram(vocabulary=290), "unigram", 290),
    ],
)
def test_every_kind_is_trained_to_its_size(cfg: TokenizerConfig, name: str, size: int) -> None:
    tokenizer = train_tokenizer(cfg, [TEXT])
    assert (tokenizer.name, tokenizer.vocabulary_size) == (name, size)
    assert tokenizer.specials.pad == 0
    assert tokenizer.specials.eos is not None


def test_the_cache_is_used_and_mended(tmp_path: Path) -> None:
    cfg = Bpe(vocabulary=270)
    first = trained_tokenizer(cfg, [DOCUMENTS], tmp_path)
    (folder,) = tmp_path.iterdir()
    assert load(folder).definition() == first.definition()
    for damaged in ("{}", "[" * 100_000):
        (folder / DEFINITION).write_text(damaged)
        assert trained_tokenizer(cfg, [DOCUMENTS], tmp_path) == first
        assert load(folder).digest() == first.digest()


@pytest.mark.parametrize("cfg", [Bpe(vocabulary=270), WordPiece(vocabulary=30), Words(vocabulary=10), Unigram(vocabulary=290)])
def test_the_library_encodes_and_what_is_kept_does_not_know(cfg: TokenizerConfig, tmp_path: Path) -> None:
    found = trained_tokenizer(cfg, [DOCUMENTS], tmp_path)
    kept = load(next(tmp_path.iterdir()))
    assert isinstance(found, FastTokenizer)
    assert found.wrapped == kept == train_tokenizer(cfg, [TEXT])
    assert found.encode(TEXT + "dragons!").tolist() == kept.encode(TEXT + "dragons!").tolist()


def test_another_text_is_another_tokenizer(tmp_path: Path) -> None:
    cfg = Bpe(vocabulary=270)
    trained_tokenizer(cfg, [DOCUMENTS], tmp_path)
    trained_tokenizer(cfg, [[Document("b", b"another text, another text")]], tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_too_little_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.tokenizer: the corpus has"):
        trained_tokenizer(Bpe(vocabulary=5000), [DOCUMENTS], tmp_path)
