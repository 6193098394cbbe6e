"""Documents, their division and their digest."""

import gzip
import json
import os
from pathlib import Path
from random import Random
from threading import Thread

import pyarrow
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from leadline.experiments.data.text.corpus import Document, corpus_digest, split, stdlib_documents, text_documents
from leadline.experiments.runtime.errors import UserError

DOCUMENTS = [Document(str(i), f"document {i}".encode()) for i in range(400)]


def test_the_standard_library_has_sources_and_topics_without_tests_and_packages() -> None:
    stdlib = list(stdlib_documents())
    names = [document.name for document in stdlib]
    sources = [name for name in names if name.endswith(".py")]
    assert {"argparse.py", "json/decoder.py", "unittest/case.py"} <= set(sources)
    assert sources == sorted(sources)
    assert "pydoc_data/topics/lambda" in names
    assert len(set(names)) == len(names)
    assert sum(len(document.text) for document in stdlib) > 5_000_000
    assert all(document.text.decode("utf-8") for document in stdlib)
    parts = {part for name in names for part in name.split("/")[:-1]}
    assert not parts & {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    assert "pydoc_data/topics.py" not in names
    assert not any("_sysconfigdata" in name for name in names)


def test_files_folders_and_jsonl(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "b").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "x.txt").write_text("hidden")
    (folder / "b" / "z.md").write_text("md")
    (folder / "c.py").write_text("py")
    (folder / "empty.py").write_text("")
    (folder / "image.png").write_bytes(b"\x89PNG")
    (folder / "a.jsonl").write_text('{"text": "one", "id": 1}\n\n{"text": "zwei \\u00e9"}\n', encoding="utf-8")
    named = tmp_path / "any.log"
    named.write_bytes("é\r\n".encode())
    texts = [document.text for document in text_documents([named, str(folder)])]
    assert texts == ["é\r\n".encode(), b"one", "zwei é".encode(), b"md", b"py"]


def test_a_folder_gives_packed_files_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one"))
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(b"no text"))
    (tmp_path / "c.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(b'{"text": "two"}\n{"text": "three"}'))
    parquet.write_table(pyarrow.table({"text": ["four", "five"]}), tmp_path / "d.parquet")
    (tmp_path / "e.gz").write_bytes(b"no text")
    assert [document.text for document in text_documents([tmp_path])] == [b"one", b"two", b"three", b"four", b"five"]


@pytest.mark.parametrize("offset", [0, 5, 1000])
def test_a_file_that_is_not_utf8_names_the_byte(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"a" * offset + "é".encode("latin-1") + b"tail")
    with pytest.raises(UserError, match=rf"latin\.txt: not UTF-8 at byte {offset} \(0xe9\)"):
        list(text_documents([path]))
    with pytest.raises(UserError, match=rf"latin\.txt: not UTF-8 at byte {offset} "):
        list(text_documents([tmp_path]))


def test_what_has_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no text in this folder"):
        text_documents([tmp_path])
    with pytest.raises(UserError, match=r"nowhere\.txt: no such file or folder"):
        text_documents([tmp_path / "nowhere.txt"])
    with pytest.raises(UserError, match="no text was named"):
        text_documents([])
    (tmp_path / "none.txt").touch()
    with pytest.raises(UserError, match=r"none\.txt: the file is empty \(0 bytes.* byte 0"):
        list(text_documents([tmp_path / "none.txt"]))
    (tmp_path / "data.jsonl").write_text("\n \n")
    with pytest.raises(UserError, match=r"data\.jsonl: no line holds a document"):
        list(text_documents([tmp_path / "data.jsonl"]))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{'text': 1}", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"body": "x"}', 'no "text"'),
        ('{"text": ""}', 'no "text"'),
        ('{"text": 3}', 'no "text"'),
        ('["text"]', 'no "text"'),
        ('{"text": "a\\ud800"}', "character 1 .* lone surrogate"),
    ],
)
def test_a_bad_line_of_jsonl_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"text": "good"}) + f"\n\n{line}\n")
    with pytest.raises(UserError, match=rf"data\.jsonl, line 3: {complaint}"):
        list(text_documents([path]))


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(b"abcdefgh",))
    writer.start()
    documents = text_documents([tmp_path / "pipe"])
    writer.join()
    divided = split(documents, 0.25)
    assert [document.text for side in (divided.train, divided.held_out) for document in side] == [b"abcdef", b"gh"]


def test_a_file_that_changes_between_two_passes_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(100)))
    train = split(text_documents([path])).train
    assert len(list(train)) == len(train)
    path.write_text(path.read_text().replace(next(iter(train)).text.decode(), "another"))
    with pytest.raises(UserError, match="a file of the corpus changed while it was read"):
        list(train)


@given(st.randoms(use_true_random=False), st.integers(300, 400))
@settings(max_examples=5)
def test_a_side_depends_on_the_text_alone(random: Random, kept: int) -> None:
    held_out = {document.text for document in split(DOCUMENTS).held_out}
    chosen = random.sample(DOCUMENTS, kept)
    divided = split([Document("other name", document.text) for document in chosen])
    assert {document.text for document in divided.held_out} == held_out & {document.text for document in chosen}
    assert len(divided.train) + len(divided.held_out) == kept


def test_the_order_of_the_corpus_is_kept() -> None:
    divided = split(DOCUMENTS, 0.3)
    for side in (divided.train, divided.held_out):
        assert [int(document.name) for document in side] == sorted(int(document.name) for document in side)


def test_the_share_holds_on_average_and_copies_stay_together() -> None:
    documents = [Document("", str(i).encode()) for i in range(1000)] * 2
    divided = split(documents, 0.05)
    # Standard deviation 0.007.
    assert abs(len(divided.held_out) / 2000 - 0.05) < 0.035
    assert not set(divided.train) & set(divided.held_out)
    assert set(divided.held_out) < set(split(documents, 0.2).held_out)  # a larger share only adds


@given(st.text(alphabet="aé€😀", min_size=2, max_size=200), st.floats(0.01, 0.5))
def test_one_document_is_divided_between_characters(text: str, share: float) -> None:
    raw = text.encode()
    try:
        divided = split([Document("only", raw)], share)
    except UserError:
        # Only when the share is less than the last character.
        assert len(raw) * share < len(text[-1].encode())
        return
    (train,), (held_out,) = divided.train, divided.held_out
    assert train.text + held_out.text == raw
    assert train.text.decode() + held_out.text.decode() == text
    assert abs(len(held_out.text) - max(1, len(raw) * share)) < 4


@pytest.mark.parametrize("share", [1e-6, 1 - 1e-6])
def test_an_empty_side_names_a_share_that_would_do(share: float) -> None:
    documents = DOCUMENTS[:8]
    with pytest.raises(UserError, match="text is empty: none of the 8 documents") as caught:
        split(documents, share)
    remedy = float(str(caught.value).split("share of ")[-1].split()[0])
    divided = split(documents, remedy)
    assert min(len(divided.train), len(divided.held_out)) == 1


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(UserError, match="must lie between 0 and 1"):
        split(DOCUMENTS, share)


def test_what_cannot_be_divided_is_said() -> None:
    with pytest.raises(UserError, match="no documents"):
        split([])
    with pytest.raises(UserError, match="join them into one file"):
        split([DOCUMENTS[0]] * 3, 0.5)


def test_the_digest_covers_texts_and_their_order_and_bounds() -> None:
    a, b = Document("a", b"one"), Document("b", b"two")
    assert corpus_digest([a, b]) == corpus_digest([Document("x", b"one"), Document("y", b"two")])
    assert corpus_digest([a, b]) != corpus_digest([b, a])
    assert corpus_digest([a, b]) != corpus_digest([Document("", b"onetwo")])
    assert corpus_digest([a, b]) != corpus_digest([Document("", b"onet"), Document("", b"wo")])
