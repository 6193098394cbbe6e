"""Tokenizers of a configuration, trained once."""

import os
import time
from pathlib import Path

import pytest

from leadline.experiments.config.data import TextData
from leadline.experiments.config.tokenizer import Bpe, Characters, TrainedConfig, Unigram, WordPiece, Words
from leadline.experiments.data.source import document_end
from leadline.experiments.data.text import tokenizers
from leadline.experiments.data.text.corpus import Document
from leadline.experiments.data.text.tokenizers import (
    configured,
    open_tokenizer,
    settings_of,
    train_and_save,
    train_tokenizer,
    trained_tokenizer,
)
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.formats.fast import FastTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.saving import DEFINITION, MANIFEST, load, save
from leadline.tokenization.tokenizer import Tokenizer

TEXT = "the cat sat on the mat; the dog sat on the log. " * 4
DOCUMENTS = [Document("a", TEXT.encode())]


@pytest.mark.parametrize(
    ("cfg", "name"),
    [
        (Bpe(vocabulary=270), "bpe"),
        (Bpe(vocabulary=30, alphabet="characters", pattern="words"), "character-bpe"),
        (WordPiece(vocabulary=30), "wordpiece"),
        (WordPiece(vocabulary=30, criterion="frequency"), "wordpiece"),
        (Words(vocabulary=10), "word"),
        (Characters(vocabulary=12), "character"),
        (Unigram(vocabulary=290), "unigram"),
        (WordPiece(vocabulary=286, byte_fallback=True), "wordpiece"),
        (Characters(vocabulary=270, byte_fallback=True), "character"),
    ],
)
def test_every_kind_is_trained_to_its_size_and_kept(cfg: TrainedConfig, name: str, tmp_path: Path) -> None:
    """The library encodes where it gives the same ids, and what is kept does not know of it."""
    opened, trained = trained_tokenizer(cfg, [DOCUMENTS], tmp_path), train_tokenizer(cfg, [TEXT])
    assert (trained.name, trained.vocabulary_size, trained.specials.pad) == (name, cfg.vocabulary, 0)
    assert trained.specials.eos == document_end(TextData(length=8, tokenizer=cfg)) is not None
    (folder,) = tmp_path.iterdir()
    assert load(folder) == trained == (opened.wrapped if isinstance(opened, FastTokenizer) else opened)
    assert isinstance(opened, FastTokenizer) == (name != "character" and not (isinstance(cfg, WordPiece) and cfg.byte_fallback))
    assert opened.encode(TEXT + "dragons!").tolist() == trained.encode(TEXT + "dragons!").tolist()
    for damaged in ("{}", "[" * 100_000):
        (folder / DEFINITION).write_text(damaged)
        assert trained_tokenizer(cfg, [DOCUMENTS], tmp_path) == opened
        assert load(folder) == trained


def test_another_text_is_another_tokenizer(tmp_path: Path) -> None:
    cfg = Bpe(vocabulary=270)
    trained_tokenizer(cfg, [DOCUMENTS], tmp_path)
    trained_tokenizer(cfg, [[Document("b", b"another text, another text")]], tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_too_little_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.tokenizer: the corpus has"):
        trained_tokenizer(Bpe(vocabulary=5000), [DOCUMENTS], tmp_path)


def test_a_tokenizer_json_is_opened_by_its_path_or_its_folder(tmp_path: Path) -> None:
    trained = train_tokenizer(Bpe(vocabulary=270), [TEXT])
    (tmp_path / "tokenizer.json").write_text(to_huggingface(trained).to_str())
    for spec in (tmp_path, tmp_path / "tokenizer.json"):
        opened = open_tokenizer(str(spec))
        assert (opened.name, opened.specials) == ("published", trained.specials)
        assert opened.encode(TEXT).tolist() == trained.encode(TEXT).tolist()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer\.json: not a tokenizer\.json"):
        open_tokenizer(str(tmp_path))


@pytest.mark.parametrize(("age", "left"), [(3600, []), (0, [f".{DEFINITION}.4711.part"])], ids=["was killed", "writes now"])
def test_what_a_killed_process_left_of_a_tokenizer_is_removed(age: float, left: list[str], tmp_path: Path) -> None:
    temporary, written = tmp_path / f".{DEFINITION}.4711.part", time.time() - age
    temporary.write_bytes(b"half")
    os.utime(temporary, (written, written))
    save(train_tokenizer(Bpe(vocabulary=270), [TEXT]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*left, DEFINITION, MANIFEST]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["kind=word"], "--set kind: give --kind instead"),
        (["pattern=gpt2", "vocabulary=300"], "--set vocabulary: give --vocabulary instead"),
        (["pattern"], "'pattern': an override is key=value, as in pattern=gpt2"),
        (["=3"], "'=3': an override is key=value"),
    ],
)
def test_words_that_are_no_settings_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        settings_of(words)


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("bpe", {"encodings": 3, "dropout": 0.5}, "settings of encoding, .* leave out dropout, encodings"),
        ("unigram", {"sampling": 0.5}, "settings of encoding, .* leave out sampling"),
    ],
)
def test_what_training_does_not_read_is_refused(kind: str, settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        configured(kind, 300, settings)


@pytest.mark.parametrize("name", [DEFINITION, MANIFEST, "tokenizer.json"])
def test_a_tokenizer_is_not_trained_over_another(name: str, tmp_path: Path) -> None:
    text, folder = tmp_path / "text.txt", tmp_path / "folder"
    text.write_text(TEXT, encoding="utf-8")
    folder.mkdir()
    (folder / name).write_text("{}")
    with pytest.raises(UserError, match=f"{folder}: this folder holds a tokenizer; choose another folder"):
        train_and_save(folder, [text], "bpe", 270, [])
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, "{}")]


def test_a_tokenizer_that_another_process_has_kept_meanwhile_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def removed(tokenizer: Tokenizer, folder: Path) -> None:
        save(tokenizer, folder)
        raise FileNotFoundError(2, "No such file")

    documents = [[Document("a", TEXT.encode())]]
    with monkeypatch.context() as patch:
        patch.setattr(tokenizers, "save", removed)
        trained = trained_tokenizer(Bpe(vocabulary=270), documents, tmp_path)
    assert trained.digest() == trained_tokenizer(Bpe(vocabulary=270), documents, tmp_path).digest()
