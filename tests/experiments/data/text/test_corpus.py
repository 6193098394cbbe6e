"""Documents, their division and their digest, and what is said of entries that cannot be read."""

import errno
import gzip
import inspect
import json
import os
import sys
from pathlib import Path
from threading import Thread

import pyarrow
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from leadline.experiments.data.text import formats
from leadline.experiments.data.text.corpus import Document, docstring_documents, stdlib_documents, text_documents
from leadline.experiments.data.text.split import corpus_digest, split
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
    assert sum(len(document.text.decode("utf-8")) for document in stdlib) > 5_000_000
    parts = {part for name in names for part in name.split("/")[:-1]}
    assert not parts & {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    assert "pydoc_data/topics.py" not in names
    assert not any("_sysconfigdata" in name for name in names)


def test_docstrings_are_those_that_python_knows() -> None:
    documents = list(docstring_documents())
    texts = {document.text.decode() for document in documents}
    assert {inspect.getdoc(thing) for thing in (json, json.JSONDecoder, json.dumps)} < texts
    assert "" not in texts
    assert len({document.name for document in documents}) == len(documents) > 5000


def test_files_and_folders(tmp_path: Path) -> None:
    """Packed ones too; hidden and empty files, other suffixes and packed files without a suffix inside are left out."""
    folder = tmp_path / "folder"
    contents = {
        ".git/x.txt": b"hidden",
        "a.jsonl": b'{"text": "one", "id": 1}\n\n{"text": "zwei \\u00e9"}\n',
        "b/z.md": b"md",
        "c.py": b"py",
        "d.txt.gz": gzip.compress(b"packed"),
        "e.jsonl.zst": zstandard.ZstdCompressor().compress(b'{"text": "two"}\n{"text": "three"}'),
        "empty.py": b"",
        "g.tar.gz": gzip.compress(b"no text"),
        "h.gz": b"no text",
        "image.png": b"\x89PNG",
    }
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    parquet.write_table(pyarrow.table({"text": ["four", "five"]}), folder / "f.parquet")
    (tmp_path / "any.log").write_bytes("é\r\n".encode())
    texts = [document.text for document in text_documents([tmp_path / "any.log", str(folder)])]
    expected = ["é\r\n", "one", "zwei é", "md", "py", "packed", "two", "three", "four", "five"]
    assert texts == [text.encode() for text in expected]


@pytest.mark.parametrize(
    ("entries", "count", "complaint"),
    [
        ([""], 3, "no text in this folder"),
        (["nowhere.txt"], 3, r"nowhere\.txt: no such file or folder"),
        (["a" * 5000], 3, r"aaa: cannot be read \(File name too long\); mend or remove it"),
        ([], 3, "no text was named"),
        *(([entry], 3, f"'{entry}': a data set is hub:NAME, hub:NAME:CON") for entry in ("hub:", "hub::train", "hub:a:b:c:d")),
        (["hub:name"], 3, r"hub:name needs the package datasets .*pip install -e '\.\[corpora\]'"),
        (["hub:name"], None, r"hub:name: .* say in data.hub_documents how many to read"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[str], count: int | None, complaint: str
) -> None:
    """tests/oracles/test_hub.py reads data sets; here their package is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=complaint):
        text_documents(entries, count)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(b"abcdefgh",))
    writer.start()
    documents = text_documents([tmp_path / "pipe"])
    writer.join()
    divided = split(documents, 0.25)
    assert [document.text for side in (divided.train, divided.held_out) for document in side] == [b"abcdef", b"gh"]


def test_a_pipe_without_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "LARGEST_KEPT", 1000)
    os.mkfifo(tmp_path / "pipe.jsonl")
    writer = Thread(target=lambda: (tmp_path / "pipe.jsonl").write_bytes(b'{"text": "some"}\n' * 300), daemon=True)
    writer.start()
    with pytest.raises(UserError, match=r"pipe\.jsonl:251: more than 1000 bytes of text that can be read only once"):
        text_documents([tmp_path / "pipe.jsonl"])
    writer.join()


@pytest.mark.parametrize("target", ["a.txt", "nowhere"])
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, target: str) -> None:
    (tmp_path / "a.txt").symlink_to(tmp_path / target)
    with pytest.raises(UserError, match=r"a\.txt: cannot be read .*; mend or remove it"):
        text_documents([tmp_path])


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions would not stop a test that runs as root."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.txt").write_text("open")
    scan = os.scandir

    def refused(path: str) -> object:
        if Path(path).name == "closed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(UserError, match=r"closed: cannot be read \(Permission denied\); mend or remove it"):
        text_documents([tmp_path])


def test_a_side_depends_on_the_text_alone() -> None:
    held_out = {document.text for document in split(DOCUMENTS).held_out}
    chosen = [document.text for document in DOCUMENTS[:20:-1]]
    divided = split([Document("other name", text) for text in chosen])
    assert {document.text for document in divided.held_out} == held_out & set(chosen)
    assert len(divided.train) + len(divided.held_out) == len(chosen)


def test_the_share_holds_on_average_and_order_and_copies_stay() -> None:
    documents = [Document(str(i), str(i % 600).encode()) for i in range(1200)]
    divided = split(documents, 0.1)
    # Standard deviation 0.012.
    assert abs(len(divided.held_out) / 1200 - 0.1) < 0.06
    for side in (divided.train, divided.held_out):
        assert [int(document.name) for document in side] == sorted(int(document.name) for document in side)
    train, held_out = ({document.text for document in side} for side in (divided.train, divided.held_out))
    assert not train & held_out
    assert held_out < {document.text for document in split(documents, 0.2).held_out}  # a larger share only adds


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


def test_the_digest_covers_texts_and_their_order_and_bounds() -> None:
    texts = [[b"one", b"two"], [b"two", b"one"], [b"onetwo"], [b"onet", b"wo"], [b"one", b"two"]]
    digests = [corpus_digest([Document(str(number), text) for text in chosen]) for number, chosen in enumerate(texts)]
    assert len(set(digests)) == 4
    assert digests[0] == digests[4]
